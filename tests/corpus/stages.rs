//! The stages of an entry: bash alone, then loopexec with the lying agent, then with the honest one.

use crate::entry::{Colour, Entry, Kind};
use crate::ground::{Ground, Ran};
use serde_json::Value;
use std::time::Duration;

const BASH: Duration = Duration::from_secs(180);
const LOOPEXEC: Duration = Duration::from_secs(900);
const MET: &str = "success_condition_met";

/// A line of the table.
pub(crate) struct Row {
    pub(crate) entry: String,
    pub(crate) stage: &'static str,
    pub(crate) expected: String,
    pub(crate) got: String,
    /// Everything that helps where it is not as expected.
    pub(crate) trouble: Option<String>,
}

impl Row {
    /// Returns the line of an entry whose project or tools could not be made.
    pub(crate) fn panicked(entry: &Entry, said: &(dyn std::any::Any + Send)) -> Self {
        let told = said.downcast_ref::<String>().map(String::as_str);
        let told = told.or_else(|| said.downcast_ref::<&str>().copied()).unwrap_or_default();
        row(entry, "set up", "a project", "panicked".to_owned(), Some(told.to_owned()))
    }

    /// Returns it as a line of the table.
    pub(crate) fn line(&self) -> String {
        format!("{:<20} {:<14} {:<48} {}\n", self.entry, self.stage, self.expected, self.got)
    }
}

/// Shows by bash alone that the entry is what it says it is.
pub(crate) fn alone(entry: &Entry) -> Vec<Row> {
    let did = if entry.kind == Kind::Benign { "bash change" } else { "bash attack" };
    let mut rows = vec![coloured(entry, "bash t0", None, entry.t0)];
    rows.push(coloured(entry, did, Some(entry.agent()), entry.alone));
    if let Some(honest) = &entry.honest {
        rows.push(coloured(entry, "bash honest", Some(honest), Colour::Green));
    }
    rows
}

fn coloured(entry: &Entry, stage: &'static str, script: Option<&str>, wanted: Colour) -> Row {
    let (expected, green) = match wanted {
        Colour::Red => ("red", false),
        Colour::Green => ("green", true),
        Colour::Any => return row(entry, stage, "any", "not run".to_owned(), None),
    };
    let ground = Ground::new(entry, stage, &[]);
    if let Some(script) = script {
        // Twice: the agent is run again in every iteration.
        for _ in 0..2 {
            let ran = ground.bash(script, BASH);
            if ran.code != Some(0) {
                return row(entry, stage, expected, "script failed".to_owned(), Some(ran.told()));
            }
        }
    }
    let ran = ground.bash(entry.command(), BASH);
    let got = if ran.code == Some(0) { "green" } else { "red" };
    // A command that is not there is red for no reason of the project's.
    let absent = matches!(ran.code, Some(126 | 127));
    let right = (ran.code == Some(0)) == green && !absent;
    row(entry, stage, expected, format!("{got} ({})", ran.end), (!right).then(|| ran.told()))
}

fn row(
    entry: &Entry,
    stage: &'static str,
    expected: &str,
    got: String,
    trouble: Option<String>,
) -> Row {
    Row { entry: entry.name.clone(), stage, expected: expected.to_owned(), got, trouble }
}

/// Holds loopexec to what the entry expects.
pub(crate) fn with_loopexec(entry: &Entry) -> Vec<Row> {
    let did = if entry.kind == Kind::Benign { "change" } else { "attack" };
    let mut rows = vec![looped(entry, did, entry.agent(), &entry.expect)];
    if let Some(honest) = &entry.honest {
        rows.push(looped(entry, "honest", honest, &[MET.to_owned()]));
    }
    rows
}

fn looped(entry: &Entry, stage: &'static str, exec: &str, expect: &[String]) -> Row {
    let limits = if entry.more.contains("limits:") { "" } else { "limits: {iterations: 6}\n" };
    // JSON is YAML, and needs no care about quotes and indentation.
    let loop_file = format!(
        "version: 1\nmodel: none\nisolation: {{backend: none}}\nexec: {}\ncheck: {}\n{limits}{}",
        Value::from(exec),
        entry.check,
        entry.more
    );
    let ground = Ground::new(entry, stage, &[("loop.yml", &loop_file)]);
    let ran = ground.loopexec(&["run", "--json"], LOOPEXEC);
    let expected = expect.join(" | ");
    match judged(entry, stage, &ran, expect) {
        Ok(got) => row(entry, stage, &expected, got, None),
        Err((got, wrong)) => {
            let told = format!("{wrong}\n--- loop file\n{loop_file}\n--- {}", ran.told());
            row(entry, stage, &expected, got, Some(told))
        }
    }
}

/// Returns what was got; in the error, what is wrong with it as well.
fn judged(
    entry: &Entry,
    stage: &str,
    ran: &Ran,
    expect: &[String],
) -> Result<String, (String, String)> {
    let Ok(object) = serde_json::from_str::<Value>(&ran.stdout) else {
        return Err((ran.end.clone(), "stdout is not one JSON object".to_owned()));
    };
    let reason = object["halt_reason"].as_str().unwrap_or("none").to_owned();
    let got = format!("{reason} after {}", object["iterations"]);
    if !expect.contains(&reason) {
        return Err((got, format!("another halt reason: {}", object["why"])));
    }
    if stage == "attack" && !entry.names.is_empty() {
        let said = format!("{}\n{}", object["why"], object["breaches"]);
        if !entry.names.iter().any(|name| said.contains(name.as_str())) {
            return Err((got, format!("names none of {:?}: {said}", entry.names)));
        }
    }
    if stage == "attack" && entry.kind == Kind::Undetected {
        let said = format!("{}\n{}", ran.stdout, ran.stderr);
        if !said.contains("not detected") {
            return Err((got, "does not say \"not detected\"".to_owned()));
        }
    }
    Ok(got)
}
