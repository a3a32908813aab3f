//! What a finding is called across runs, and the file it is shown at.

use super::legal;
use crate::ci::finding::Finding;
use crate::ci::subject::{Key, Subject};
use crate::domain::hex;
use crate::domain::reason::HaltReason;
use std::collections::BTreeMap;
use std::path::Path;

/// Where a loop file is looked for; a finding without a file of its own is shown there.
const LOOP_FILES: [&str; 4] = ["loop.yml", "loop.yaml", ".loopexec.yml", ".github/loop.yml"];

/// Returns the digest of a key: 16 hexadecimal digits, equal for equal keys alone.
pub fn key_digest(key: &Key) -> String {
    digest(&[&key.workflow, &key.job, &key.matrix, &key.name])
}

/// Returns a digest of a few texts that differs wherever one of them does.
fn digest(parts: &[&str]) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        // The length keeps `a, bc` from `ab, c`.
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    let mut text = hex::sha256(&bytes);
    text.truncate(16);
    text
}

/// Returns a fingerprint for every finding, in their order; no two are equal.
///
/// It hangs on the key, the rule, the file and the title, which names the test or the guard; not on
/// the line and the message, which change from run to run. The title of a halt reason has such
/// things in it too, and the reason comes once a run.
pub fn fingerprints(subject: &Subject) -> Vec<String> {
    let key = key_digest(&subject.key);
    let mut seen = BTreeMap::new();
    let print = |finding: &Finding| {
        let title = match HaltReason::from_name(&finding.rule) {
            Some(_) => "",
            None => finding.title.as_str(),
        };
        let file = finding.file.as_deref().unwrap_or("");
        let first = digest(&[&key, &finding.rule, file, title]);
        let times = seen.entry(first.clone()).or_insert(0_u32);
        *times += 1;
        match *times {
            1 => first,
            n => digest(&[&first, &n.to_string()]),
        }
    };
    subject.findings.iter().map(print).collect()
}

/// Returns the rule as a slug.
pub fn rule(finding: &Finding) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let slug: String = finding.rule.chars().filter(|c| fits(*c)).take(64).collect();
    if slug.is_empty() { "finding".to_owned() } else { slug }
}

/// Returns the path where it leads to a place inside the tree: relative, `/` between parts, no part
/// that leads elsewhere.
pub fn file(path: Option<&str>) -> Option<String> {
    let path = path?;
    let path = path.strip_prefix("./").unwrap_or(path);
    let inside = !path.starts_with('/')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && path.len() <= 1024
        && legal::line(path, usize::MAX) == path;
    inside.then(|| path.to_owned())
}

/// Returns the file that stands for the whole loop, for formats that take nothing without one.
pub fn fallback_file(subject: &Subject) -> String {
    let workflow = subject.key.workflow.as_str();
    let known = std::iter::once(workflow).chain(LOOP_FILES);
    let mut inside = known.filter_map(|path| file(Some(path)));
    inside.find(|path| is_regular(&subject.root.join(path))).unwrap_or(LOOP_FILES[0].to_owned())
}

fn is_regular(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::finding::Level;

    fn finding(rule: &str) -> Finding {
        Finding {
            level: Level::Error,
            rule: rule.into(),
            title: "t::a".into(),
            message: "m".into(),
            file: None,
            line: Some(3),
        }
    }

    #[test]
    fn only_paths_inside_the_tree_are_shown() {
        for (given, shown) in [
            (Some("./src/a b.rs"), Some("src/a b.rs")),
            (Some("/etc/passwd"), None),
            (Some("a/../../b"), None),
            (Some("a\nb"), None),
            (Some(""), None),
            (None, None),
        ] {
            assert_eq!(file(given).as_deref(), shown, "{given:?}");
        }
    }

    #[test]
    fn a_digest_keeps_its_parts_apart() {
        assert_ne!(digest(&["a", "bc"]), digest(&["ab", "c"]));
        assert_ne!(digest(&["a"]), digest(&["a", ""]));
        assert_eq!(key_digest(&Key::default()).len(), 16);
    }

    #[test]
    fn a_rule_is_a_slug() {
        assert_eq!(rule(&finding("a;b\n]c")), "abc");
        assert_eq!(rule(&finding("…")), "finding");
    }
}
