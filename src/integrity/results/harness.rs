//! Finds the test targets of a Cargo workspace that bring a harness of their own.
//!
//! Their binaries print no block, so which heading belongs to which block cannot be told by number.

use super::reports::read_bounded;
use ignore::WalkBuilder;
use std::collections::BTreeSet;
use std::path::Path;

/// The most manifests that are read.
const MAX_MANIFESTS: usize = 2_000;
/// The deepest folder that is searched.
const MAX_DEPTH: usize = 6;
/// The largest manifest that is read.
const MAX_MANIFEST: u64 = 1 << 20;

/// Returns the crate names of targets with `harness = false` in the manifests below `root`.
pub(super) fn read_own_harness(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let walk = WalkBuilder::new(root)
        .standard_filters(false)
        .follow_links(false)
        .max_depth(Some(MAX_DEPTH))
        .filter_entry(|entry| {
            let name = entry.file_name();
            name != "target" && name != ".git" && name != "node_modules"
        })
        .build();
    let manifests = walk.flatten().filter(|entry| entry.file_name() == "Cargo.toml");
    for manifest in manifests.take(MAX_MANIFESTS) {
        if let Ok(bytes) = read_bounded(manifest.path(), MAX_MANIFEST) {
            names.extend(own_harness(&String::from_utf8_lossy(&bytes)));
        }
    }
    names
}

/// Returns the names of the targets of one manifest that have `harness = false`.
fn own_harness(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut name, mut own) = (None, false);
    // A line that opens a table ends the one before; one more closes the last.
    for line in manifest.lines().chain(["["]) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            if own && let Some(name) = name.take() {
                names.push(name);
            }
            (name, own) = (None, false);
        } else if let Some((key, value)) = line.split_once('=') {
            match (key.trim(), value.trim()) {
                ("name", value) => name = Some(value.trim_matches(['"', '\'']).replace('-', "_")),
                ("harness", "false") => own = true,
                _ => {}
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_targets_that_say_so() {
        let manifest = "[package]\nname = \"p\"\n[[test]]\nname = \"own-one\"\nharness = false # why\n[[test]]\nname = \"two\"\n[[bench]]\nharness=false\nname='three'\n";
        assert_eq!(super::own_harness(manifest), ["own_one", "three"]);
    }
}
