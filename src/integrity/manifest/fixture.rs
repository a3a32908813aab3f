//! Compares test data: as parsed where its name says a format, by its bytes elsewhere.

use super::walk::{Findings, Rule, Weight, walk};
use super::{Difference, Judged, Mutable, tree};

/// Compares a fixture of t0 with what it is now; `None` is one that is gone.
///
/// JSON, YAML, TOML and XML that parse to the same are the same: a formatter ran. A golden file may
/// pin blanks and line ends, so all else is compared byte by byte.
pub fn compare_fixture(path: &str, before: &[u8], after: Option<&[u8]>) -> Judged {
    let Some(after) = after else {
        return content(Some(before), None);
    };
    if before == after {
        return Judged::Same;
    }
    let extension = path.rsplit('/').next().and_then(|name| name.rsplit_once('.'));
    let parser = match extension.map(|(_, extension)| extension) {
        Some("json" | "geojson" | "webmanifest") => tree::json,
        Some("toml") => tree::toml,
        Some("yml" | "yaml") => tree::yaml,
        Some("xml") => tree::xml,
        _ => return content(Some(before), Some(after)),
    };
    let (Some(was), Some(is)) = (parser(before), parser(after)) else {
        return content(Some(before), Some(after));
    };
    let mut findings = Findings::new(Mutable::No);
    walk(&was, &is, &|_| Rule::Into, &mut findings);
    if was != is {
        // Top-level lists and texts have no key.
        if let Judged::Breach(differences) = findings.judged() {
            let named = differences.into_iter().map(|difference| Difference {
                key: if difference.key.is_empty() { "content".to_owned() } else { difference.key },
                ..difference
            });
            return Judged::Breach(named.collect());
        }
        return content(Some(before), Some(after));
    }
    Judged::Same
}

fn content(before: Option<&[u8]>, after: Option<&[u8]>) -> Judged {
    let said = |bytes: Option<&[u8]>| bytes.map(|bytes| format!("{} bytes", bytes.len()));
    let mut findings = Findings::new(Mutable::No);
    findings.add(Weight::Breach, "content", said(before).as_deref(), said(after).as_deref());
    findings.judged()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatter_over_structured_data_changes_nothing() {
        for (name, before, after) in [
            ("tests/data/a.json", "{\"a\":1,\"b\":[1,2]}", "{\n  \"b\": [1, 2],\n  \"a\": 1\n}\n"),
            ("tests/data/a.yml", "a: 1\nb: [1, 2]\n", "# c\nb:\n  - 1\n  - 2\na: 1\n"),
            ("tests/data/a.toml", "a=1\n", "a = 1\r\n"),
        ] {
            let found = compare_fixture(name, before.as_bytes(), Some(after.as_bytes()));
            assert_eq!(found, Judged::Same, "{name}");
        }
    }

    #[test]
    fn rewritten_emptied_and_deleted_data_is_a_breach() {
        let before = br#"{"want": 3}"#;
        let changed = compare_fixture("tests/data/add.json", before, Some(br#"{"want": -1}"#));
        let Judged::Breach(found) = changed else { panic!("{changed:?}") };
        assert_eq!((found[0].key.as_str(), found[0].after.as_str()), ("want", "-1"));
        for after in [Some(&b"{}"[..]), Some(b""), Some(b"[]"), None] {
            assert!(matches!(
                compare_fixture("tests/data/add.json", before, after),
                Judged::Breach(_)
            ));
        }
        let golden = compare_fixture("testdata/a.golden", b"a \n", Some(b"a\n"));
        assert!(matches!(golden, Judged::Breach(_)));
    }

    #[test]
    fn numbers_that_only_look_alike_differ() {
        let found = compare_fixture("tests/a.json", b"[1]", Some(b"[1.0]"));
        assert!(matches!(found, Judged::Breach(_)));
    }
}
