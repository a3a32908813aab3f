//! Odd encodings, bombs, and any text at all.

use crate::support::*;
use loopexec::config::plan_json;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn odd_encodings_are_read_or_refused() {
    let plain = read(BASE);
    assert_eq!(read(&format!("\u{feff}{BASE}")).digest, plain.digest);
    let script = |text: &str| plan_json(&read(text))["keys"]["setup.run"]["value"].clone();
    let unix = format!("{BASE}setup: |\n  one\n  two\n");
    assert_eq!(script(&unix.replace('\n', "\r\n")), script(&unix));
    let load_bytes = |bytes: &[u8]| {
        let (folder, inputs) = folder(&[]);
        std::fs::write(folder.path().join("loop.yml"), bytes).unwrap();
        fails(&inputs)
    };
    assert!(load_bytes(b"\xff\xfev\0").contains("UTF-16"));
    let latin = load_bytes(b"version: 1\ngoal: caf\xe9 x\n");
    assert!(latin.starts_with("loop.yml:2:10: this byte is not UTF-8\n"), "{latin}");
    assert!(load_bytes(&b"# x\n".repeat(300_000)).contains("larger than 1 MiB"));
    assert!(
        load_bytes(b"version: 1\0\n").contains("loop.yml:1:"),
        "{}",
        load_bytes(b"version: 1\0\n")
    );
    assert!(load_bytes(b"").contains("the loop file is empty"));
}

#[test]
fn one_document_may_be_marked_as_one() {
    let plain = read(BASE).digest;
    for text in [
        format!("---\n{BASE}"),
        format!("%YAML 1.2\n---\n{BASE}...\n"),
        format!("\n\n# x\n{BASE}\n\n"),
    ] {
        assert_eq!(read(&text).digest, plain, "{text}");
    }
    assert!(said(&format!("{BASE}? [a]\n: b\n")).contains("loop.yml:5:"));
    assert!(said(&format!("{BASE}goal: !secret x\n")).contains("unsupported tag"));
    assert!(
        said(&format!("{BASE}limits: &l {{time: 5m}}\nratchet: {{<<: *l}}\n"))
            .contains("merge key")
    );
    assert!(said("*x").contains("loop.yml:1:1"), "{}", said("*x"));
}

#[test]
fn anchors_are_read_and_bombs_are_not() {
    let text = format!("{BASE}setup: {{run: make, env: &e {{A: x}}}}\n")
        .replace("exec: ./fix-once.sh\n", "")
        .to_owned()
        + "exec: {run: ./fix-once.sh, env: *e}\n";
    assert_eq!(plan_json(&read(&text))["keys"]["exec.env"]["value"], json!({"A": "x"}));
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let row = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{row}]\n"));
    }
    for text in [
        bomb,
        format!("a: {}", "[".repeat(100_000)),
        format!("a: {}", "{a: ".repeat(1000)),
        "- ".repeat(5000),
    ] {
        let start = std::time::Instant::now();
        assert!(said(&text).contains("too large or too deep"), "{}", said(&text));
        assert!(start.elapsed().as_secs() < 5);
    }
}

/// The order of the bytes of a loop that every mutation starts from.
const RICH: &str = "version: 1\nname: a-b\nmodel: {provider: openai, id: i, metering: file, sampling: {temperature: 0.5}}\n\
    goal: |\n  fix\n  it\nexec: {run: ./a.sh, env: &e {K: \"v\\n\"}, timeout: 5m}\ncheck:\n  run: [a, 'b']\n  env: *e\n\
    limits: {usd: 1.50, time: 1h30m}\nguards:\n  blocked_paths:\n    add: [x/**]\n# end\n";

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = parse_str(&text, "loop.yml");
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(text in "[-a-z0-9:{}\\[\\],&*!|>'\"#%@`? \\n\\t\\r<~.]{0,120}") {
        let _ = parse_str(&text, "loop.yml");
    }

    #[test]
    fn no_change_of_a_good_file_makes_it_panic_or_point_outside(
        edits in proptest::collection::vec((0_usize..400, 0_usize..6, any::<char>()), 1..6)
    ) {
        let mut chars: Vec<char> = RICH.chars().collect();
        for (at, cut, new) in edits {
            let at = at % chars.len().max(1);
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, [new]);
        }
        let text: String = chars.into_iter().collect();
        if let Err(error) = parse_str(&text, "loop.yml") {
            prop_assert_eq!(error.kind, Kind::ConfigInvalid, "{}", error.what);
            let place: Vec<&str> = error.what.splitn(4, ':').collect();
            let line: usize = place.get(1).and_then(|line| line.parse().ok()).unwrap_or(0);
            prop_assert!((1..=text.split('\n').count()).contains(&line), "{}", error.what);
            prop_assert!(error.what.contains('^'), "{}", error.what);
        }
    }
}

#[test]
fn the_rich_loop_is_good() {
    read(RICH);
}
