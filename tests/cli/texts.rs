//! Schema, completions, manual and help as text.

use crate::bench::Bench;

#[test]
fn the_schema_is_the_one_that_is_kept() {
    let kept =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/dist/loop.schema.json"));
    assert_eq!(Bench::plain().run(&["schema"]).stdout, kept.unwrap());
}

#[test]
fn completions_and_manual_know_every_command() {
    let bench = Bench::plain();
    let bash = bench.run(&["completions", "bash"]).stdout;
    let man = bench.run(&["man"]).stdout;
    let help = bench.run(&["--help"]).stdout;
    let listed = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() >= 10, "{help}");
    let dir = bench.beside("man");
    let ran = bench.run(&["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    for name in names.iter().filter(|name| **name != "help") {
        assert!(bash.contains(&format!("loopexec,{name}")), "{name}");
        assert!(man.contains(&name.replace('-', "\\-")), "{name}: {man}");
        let page = std::fs::read_to_string(dir.join(format!("loopexec-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(bench.run(&["completions", shell]).stdout.len() > 500, "{shell}");
    }
}

#[test]
fn each_line_of_help_is_one_short_sentence_without_its_period() {
    let help = Bench::plain().run(&["--help"]).stdout;
    let listed = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    for line in listed.lines().filter(|line| !line.trim().is_empty()) {
        assert!(!line.trim_end().ends_with('.'), "{line}");
        assert!(line.starts_with("  ") && !line.starts_with("     "), "it is broken: {line}");
    }
}
