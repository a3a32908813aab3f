//! What the tests of the loop file share: loops to start from, and readers that fail loudly.

pub(crate) use loopexec::config::{Inputs, Resolved, load, parse_str, render_plan};
pub(crate) use loopexec::error::{Error, Kind};
pub(crate) use std::ffi::OsString;

pub(crate) const BASE: &str =
    "version: 1\nmodel: none\nexec: ./fix-once.sh\ncheck: python -m pytest -q\n";

/// A loop that names a key in its own words; `exec`, `check` and `model` stand in the base already.
pub(crate) fn with(key: &str, value: &str) -> String {
    let (group, name) = key.split_once('.').unwrap_or(("", key));
    let mut base = BASE.to_owned();
    let line = match (group, name) {
        ("check" | "guards", name) if name.contains('.') => {
            // A command below a group.
            let (command, name) = name.split_once('.').unwrap();
            let fields = match name {
                "run" => format!("run: {value}"),
                name => format!("run: ./it.sh, {name}: {value}"),
            };
            let own = if group == "check" { "run: ./it.sh, " } else { "" };
            format!("{group}: {{{own}{command}: {{{fields}}}}}\n")
        }
        ("exec" | "check", "run") => format!("{group}: {{run: {value}}}\n"),
        ("exec" | "check", name) => format!("{group}: {{run: ./it.sh, {name}: {value}}}\n"),
        ("setup", "run") => format!("setup: {{run: {value}}}\n"),
        ("setup", name) => format!("setup: {{run: make deps, {name}: {value}}}\n"),
        ("model", name) if name.starts_with("sampling.") => {
            format!(
                "model: {{provider: openai, id: i, metering: file, sampling: {{{}: {value}}}}}\n",
                &name[9..]
            )
        }
        ("model", "provider") => {
            format!(
                "model: {{provider: {value}, id: i, metering: file, sampling: {{seed: 1}}}}\nisolation: {{egress: []}}\n"
            )
        }
        ("model", "id") => {
            format!(
                "model: {{provider: openai, id: {value}, metering: file, sampling: {{seed: 1}}}}\n"
            )
        }
        ("model", "metering") => {
            format!(
                "model: {{provider: openai, id: i, metering: {value}}}\nreceipt: {{unpinned: [cost, sampling]}}\n"
            )
        }
        ("model", name) => {
            format!(
                "model: {{provider: openai, id: i, metering: file, sampling: {{seed: 1}}, {name}: {value}}}\n"
            )
        }
        ("limits", "usd" | "tokens" | "calls") => {
            format!(
                "model: {{provider: openai, id: i, metering: file, sampling: {{seed: 1}}}}\nlimits: {{{name}: {value}}}\n"
            )
        }
        ("", name) => format!("{name}: {value}\n"),
        (group, name) => format!("{group}: {{{name}: {value}}}\n"),
    };
    let top = if group.is_empty() { name } else { group };
    base = base
        .lines()
        .filter(|known| !known.starts_with(&format!("{top}:")))
        .map(|l| format!("{l}\n"))
        .collect();
    if line.starts_with("model:") {
        base = base.replace("model: none\n", "");
    }
    base + &line
}

pub(crate) fn read(text: &str) -> Resolved {
    match parse_str(text, "loop.yml") {
        Ok(resolved) => resolved,
        Err(error) => panic!("{}\n{:?}\n{text}", error.what, error.hints),
    }
}

pub(crate) fn refused(text: &str) -> Error {
    match parse_str(text, "loop.yml") {
        Ok(resolved) => panic!("accepted:\n{text}\n{}", render_plan(&resolved)),
        Err(error) => {
            assert_eq!(error.kind, Kind::ConfigInvalid, "{}", error.what);
            error
        }
    }
}

pub(crate) fn said(text: &str) -> String {
    let error = refused(text);
    let hints: String = error.hints.iter().map(|hint| format!("\n  = {hint}")).collect();
    format!("{}{hints}", error.what)
}

pub(crate) fn loads(inputs: &Inputs) -> Resolved {
    load(inputs).unwrap_or_else(|error| panic!("{}\n{:?}", error.what, error.hints))
}

pub(crate) fn fails(inputs: &Inputs) -> String {
    let error = load(inputs).expect_err("accepted");
    assert_eq!(error.kind, Kind::ConfigInvalid, "{}", error.what);
    format!("{}\n{}", error.what, error.hints.join("\n"))
}

pub(crate) fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Inputs) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let start = folder.path().to_path_buf();
    (folder, Inputs { start, ..Inputs::default() })
}

pub(crate) fn flag(key: &str, value: &str, typed: &str) -> (String, String, String) {
    (key.to_owned(), value.to_owned(), typed.to_owned())
}

pub(crate) fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}
