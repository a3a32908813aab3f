//! The loop digest: equal where two loops do the same, and only there.

use crate::good::GOOD;
use crate::support::*;
use loopexec::config::plan_json;
use std::path::PathBuf;

fn digest(text: &str) -> String {
    read(text).digest
}

#[test]
fn writing_the_same_loop_differently_changes_nothing() {
    let base = digest(BASE);
    assert!(base.len() == 71 && base.starts_with("sha256:"), "{base}");
    for text in [
        format!("# a comment\n{BASE}limits: {{iterations: 10, time: 1h}}\n"),
        "check: python -m pytest -q\nexec: {run: ./fix-once.sh}\nmodel: none\nversion: 1\n"
            .to_owned(),
        BASE.replace('\n', "\r\n"),
        format!("{BASE}name: other\nreceipt: {{dir: out}}\nisolation: {{accept: [none]}}\n"),
        format!("{BASE}ci: {{comment: off}}\nfail_on: [cap]\nexit_codes: {{cap: 3}}\n"),
    ] {
        assert_eq!(digest(&text), base, "{text}");
    }
    let (_folder, inputs) = folder(&[("other-name.yml", BASE)]);
    let named = Inputs { file: Some(PathBuf::from("other-name.yml")), ..inputs };
    assert_eq!(loads(&named).digest, base);
}

#[test]
fn every_value_that_changes_what_the_loop_does_changes_the_digest() {
    let mut compared = 0;
    for (key, written, _) in GOOD {
        let outside = ["name", "receipt.dir", "isolation.accept", "exit_codes", "fail_on"];
        // What a platform is told is not what the loop does.
        if outside.contains(key) || key.starts_with("ci.") {
            continue;
        }
        let text = with(key, written);
        let without = match *key {
            "exec.run" | "check.run" | "setup.run" | "version" => BASE.to_owned(),
            key if key.starts_with("model.") => with("model.sampling.seed", "1"),
            "limits.usd" | "limits.tokens" | "limits.calls" => with("model.sampling.seed", "1"),
            key if key.starts_with("exec.") => with("exec.run", "./it.sh"),
            key if key.starts_with("check.") => with("check.run", "./it.sh"),
            key if key.starts_with("setup.") => with("setup.run", "make deps"),
            _ => BASE.to_owned(),
        };
        let value = |text: &str| plan_json(&read(text))["loop"].to_string();
        assert_eq!(
            digest(&text) == digest(&without),
            value(&text) == value(&without),
            "{key}: {written}"
        );
        compared += usize::from(value(&text) != value(&without));
    }
    assert!(compared > 60, "{compared}");
}

#[test]
fn the_digest_of_the_smallest_loop_is_kept() {
    insta::assert_snapshot!(digest(BASE), @"sha256:4fd0799686de96b89d5d6185e87f102cae7f61211e778c8b7d67421e9eb885b5");
}
