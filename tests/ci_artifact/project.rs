//! A project whose runs are bundled, and what is done with a bundle.

use crate::bench::{Bench, Ran};
use loopexec::receipt::bundle::{Contents, Facts, write};
use loopexec::receipt::redact::Redactor;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A project whose check is a shell script with two tests in TAP.
pub(crate) fn project(more: &str) -> Bench {
    let bench = Bench::new();
    fill(&bench, more);
    bench
}

/// Puts the same project into another tree, as a checkout on another machine.
pub(crate) fn fill(bench: &Bench, more: &str) {
    bench.write("a", "0\n");
    bench.write("b", "1\n");
    bench.write(".gitignore", "marker\n");
    bench.script(
        "tests.sh",
        "echo 1..2\nn=0\nfor t in a b; do n=$((n + 1)); if grep -q 1 $t; then echo \"ok $n - $t\"; else echo \"not ok $n - $t\"; bad=1; fi; done\nexit ${bad:-0}",
    );
    bench.loop_file(&format!("check: {{run: ./tests.sh, runner: tap}}\n{more}"));
    bench.commit();
}

/// Returns a redactor that knows these variables.
pub(crate) fn redactor(variables: &[(&str, &str)]) -> Redactor {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    Redactor::new(loopexec::receipt::secrets::DEFAULT_NAMES, variables).unwrap()
}

/// Bundles the latest run of a tree without any secret in mind.
pub(crate) fn bundle(bench: &Bench, what: Contents) -> (PathBuf, Facts) {
    let run = bench.runs().pop().unwrap();
    let to = bench.beside("bundle.zip");
    let state = bench.path(".loop_state.json");
    let facts = write(run.path(), Some(&state), &to, what, &redactor(&[])).unwrap();
    (to, facts)
}

/// Returns the files of a zip by name.
pub(crate) fn contents(zip: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(zip).unwrap()).unwrap();
    (0..archive.len())
        .map(|index| {
            let mut entry = archive.by_index(index).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.name().unwrap().into_owned(), bytes)
        })
        .collect()
}

/// Writes a zip of these files.
pub(crate) fn zip_of<'a>(to: &Path, files: impl IntoIterator<Item = (&'a str, &'a [u8])>) {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::fs::File::create(to).unwrap());
    for (name, bytes) in files {
        zip.start_file(name, zip::write::SimpleFileOptions::DEFAULT).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

/// Returns the first sentence of what went wrong.
pub(crate) fn wrong(ran: &Ran) -> String {
    ran.json()["errors"][0]["what"].as_str().unwrap_or_default().to_owned()
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
