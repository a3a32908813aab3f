//! A run as text.
//!
//! The data is `model`'s. Everything that came from an agent, a check or a repository goes through
//! `text::clean` or `text::one_line`.

use super::model::{BaselineView, BoundView, CheckView, IterationView, Report, Standing};
use super::text::{clean, count, duration, one_line, table};
use crate::domain::evidence::{Confirmation, Decision, From, Ratchet};
use crate::domain::observation::Place;
use serde_json::Value;

/// Lines of output that are shown.
const TAIL_LINES: usize = 20;

/// Ids or paths that are named one by one.
const NAMED: usize = 5;

/// Returns a run as text.
pub fn text(report: &Report) -> String {
    let mut out = head(report);
    if let Some(baseline) = &report.baseline {
        baseline_part(&mut out, baseline);
    }
    if !report.iterations.is_empty() {
        iterations_part(&mut out, &report.iterations);
    }
    facts_part(&mut out, report);
    tail_part(&mut out, "exec", &report.exec_output);
    tail_part(&mut out, "the check", &report.check_output);
    out
}

fn head(report: &Report) -> String {
    let standing = match (&report.halt, report.standing) {
        (Some(halt), _) => {
            format!("{} (exit {}, {})", halt.reason, halt.exit_code, halt.exit_class)
        }
        (None, Standing::Running) => "running".to_owned(),
        (None, _) => "incomplete: the run has no end and nobody works on it".to_owned(),
    };
    let mut rows = vec![
        row("run", &report.run_id),
        row("loop", &format!("{} · {}", one_line(&report.name, 60), report.loop_digest)),
        row("state", &standing),
    ];
    if let Some(halt) = &report.halt {
        if let Some(detail) = &halt.detail {
            rows.push(row("detail", detail));
        }
        rows.push(row("why", &halt.why));
        rows.extend(halt.next.iter().map(|next| row("next", next)));
    } else if report.standing == Standing::Incomplete {
        rows.push(row("next", &report.resume));
    }
    if let Some(started) = &report.started {
        rows.push(row("started", started));
    }
    let resumed = match report.resumed {
        0 => String::new(),
        n => format!(", taken up {n} time(s)"),
    };
    rows.push(row("time", &format!("{}{resumed}", duration(report.elapsed_ms))));
    table(&rows)
}

/// Makes a row of a name and a value that may have come from outside.
fn row(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), one_line(value, 600)]
}

fn baseline_part(out: &mut String, baseline: &BaselineView) {
    out.push_str(&format!("\nBaseline: {}\n", one_line(&baseline.summary(), 400)));
    for run in baseline.runs.iter().chain(&baseline.diagnosis) {
        out.push_str(&format!("  {}\n", check_line(run)));
    }
    if baseline.measured {
        named(out, "fails", &baseline.failing);
    }
    named(out, "unstable", &baseline.unstable);
    for note in &baseline.notes {
        out.push_str(&format!("  note: {}\n", one_line(note, 400)));
    }
}

fn check_line(run: &CheckView) -> String {
    let results = match run.has_tests {
        true => format!(", {} failed of {}", run.failed, run.collected),
        false => String::new(),
    };
    let ended = one_line(&run.ended, 120);
    format!("check in {}: {ended}{results} ({})", place(run.place), duration(run.wall_ms))
}

/// Says where a run of the check took place.
pub const fn place(place: Place) -> &'static str {
    match place {
        Place::Workspace => "workspace",
        Place::Copy => "fresh copy",
        Place::RealCopy => "fresh copy, byte by byte",
        Place::CallerNetwork => "fresh copy, your network",
        Place::CallerEnvironment => "fresh copy, your environment",
        Place::Canary => "fresh copy that has to be red",
        Place::CallerHome => "fresh copy, your environment and HOME",
    }
}

fn named(out: &mut String, what: &str, names: &[String]) {
    for name in names.iter().take(NAMED) {
        out.push_str(&format!("  {what}: {}\n", one_line(name, 200)));
    }
    if names.len() > NAMED {
        out.push_str(&format!("  {what}: and {} more\n", names.len() - NAMED));
    }
}

fn iterations_part(out: &mut String, iterations: &[IterationView]) {
    let headings = ["#", "exec", "files", "check", "failing", "fixed", "broke", "ratchet", "then"];
    let mut rows: Vec<Vec<String>> = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(iterations.iter().map(iteration_row));
    out.push_str("\nIterations\n");
    for line in table(&rows).lines() {
        out.push_str(&format!("  {line}\n"));
    }
    if iterations.iter().any(|iteration| !iteration.measured) {
        out.push_str("  ?: not measured (build or collection failed, no answer, or no check)\n");
    }
    for iteration in iterations {
        iteration_details(out, iteration);
    }
}

fn iteration_row(iteration: &IterationView) -> Vec<String> {
    let timed = |what: &str, ms: u64| format!("{} {}", one_line(what, 40), duration(ms));
    let exec = iteration
        .exec
        .as_deref()
        .map_or("-".to_owned(), |exec| timed(exec, iteration.exec_ms.unwrap_or(0)));
    let check = match (&iteration.check, iteration.verdict) {
        (Some(check), Some(verdict)) => timed(verdict.as_str(), check.wall_ms),
        _ => "-".to_owned(),
    };
    let failing = match iteration.measured {
        true => iteration.failing.len().to_string(),
        false => "?".to_owned(),
    };
    let then = match &iteration.decision {
        Decision::Continue { from: From::Tip } => "continue".to_owned(),
        Decision::Continue { from: From::Accepted } => "revert, continue".to_owned(),
        Decision::Halt(halt) => halt.reason.to_string(),
    };
    vec![
        iteration.iteration.to_string(),
        exec,
        iteration.changes.len().to_string(),
        check,
        failing,
        iteration.fixed.len().to_string(),
        iteration.broke.len().to_string(),
        ratchet(&iteration.ratchet).to_owned(),
        then,
    ]
}

/// Says in a word or two what the ratchet says.
pub const fn ratchet(ratchet: &Ratchet) -> &'static str {
    match ratchet {
        Ratchet::Unmeasured => "-",
        Ratchet::Accepted => "accepted",
        Ratchet::Kept => "kept",
        Ratchet::Regressed { .. } => "regressed",
        Ratchet::BrokenTwice => "broken twice",
    }
}

fn iteration_details(out: &mut String, iteration: &IterationView) {
    let mut part = String::new();
    if !iteration.moved {
        part.push_str("  exec changed nothing\n");
    }
    let changes: Vec<String> =
        iteration.changes.iter().map(|c| format!("{} {}", c.kind, c.path)).collect();
    named(&mut part, "changed", &changes);
    named(&mut part, "fixed", &iteration.fixed);
    named(&mut part, "broke", &iteration.broke);
    if let Ratchet::Regressed { ids } = &iteration.ratchet {
        let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
        named(&mut part, "regressed", &ids);
    }
    let confirmation = match iteration.confirmation {
        Confirmation::NotTried => "",
        Confirmation::Confirmed => " (confirmed)",
        Confirmation::Refuted => " (refuted)",
    };
    for run in &iteration.confirmations {
        part.push_str(&format!("  confirmation: {}{confirmation}\n", check_line(run)));
    }
    for breach in &iteration.breaches {
        part.push_str(&format!("  breach: {}\n", one_line(&breach.what, 400)));
    }
    if let Some(found) = &iteration.oracle {
        part.push_str(&format!("  check: {}\n", one_line(&found.what, 400)));
    }
    for survivor in &iteration.survivors {
        part.push_str(&format!(
            "  survivor: {} ({}) was killed: {}\n",
            one_line(&survivor.name, 60),
            survivor.pid,
            one_line(&survivor.command, 160)
        ));
    }
    for note in &iteration.notes {
        part.push_str(&format!("  note: {}\n", one_line(note, 400)));
    }
    if !part.is_empty() {
        out.push_str(&format!("\nIteration {}\n{part}", iteration.iteration));
    }
}

/// Says in a few words what is known of the check's flip rate.
pub fn bound(bound: &BoundView) -> String {
    let wanted = match &bound.max_flake_rate {
        Some(rate) => format!("wanted {rate}"),
        None => "no check.max_flake_rate is set".to_owned(),
    };
    let status = match bound.status {
        crate::domain::flake::Status::Refuted => "refuted",
        crate::domain::flake::Status::Bounded => "bounded",
        crate::domain::flake::Status::Unproven => "unproven",
    };
    format!(
        "{status}: {} in {}, at most {} (95 %, anytime; {wanted})",
        count(bound.flips, "flip"),
        count(bound.reruns, "rerun"),
        bound.flip_rate_upper95_anytime
    )
}

/// Says which base revision a run was held to, and what came of it.
pub fn held_to(base: &Value) -> String {
    let text = |key: &str| base.get(key).and_then(Value::as_str).unwrap_or("?");
    let keys = base.get("differs").and_then(Value::as_array);
    let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
    let what = match text("held") {
        "same" => "the loop's check, guards and isolation are its own".to_owned(),
        "replaced" => format!("its own were used instead of what differed ({})", keys.join(", ")),
        _ => format!("a person had to agree to what differs ({})", keys.join(", ")),
    };
    format!("{}: {what}", text("revision"))
}

/// Says what a person answered.
pub fn answered(answer: &Value) -> String {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
    let note = match text("note") {
        "" => String::new(),
        note => format!(" ({note})"),
    };
    format!("{} to {} by {}, {}{note}", text("reply"), text("gate"), text("by"), text("time"))
}

fn facts_part(out: &mut String, report: &Report) {
    let mut rows = vec![row("flip rate", &bound(&report.bound))];
    let list = |ids: &[String]| if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
    rows.push(row("quarantine", &list(&report.quarantine)));
    if !report.targets.is_empty() {
        rows.push(row("targets", &list(&report.targets)));
    }
    rows.push(row("isolation", &isolation(&report.isolation)));
    rows.push(row("model", &model(&report.pins.model)));
    rows.push(row("unpinned", &list(&report.pins.unpinned)));
    let spend = &report.spend;
    let spent = match (&spend.usd, spend.tokens, spend.calls) {
        (Some(usd), Some(tokens), Some(calls)) => {
            format!("${usd}, {tokens} tokens, {calls} calls")
        }
        _ => "not known".to_owned(),
    };
    rows.push(row("spend", &spent));
    if let Some(base) = &report.base {
        rows.push(row("base", &held_to(base)));
    }
    for answer in &report.answers {
        rows.push(row("answer", &answered(answer)));
    }
    for hit in &report.limits_hit {
        let of = |key: &str| hit.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
        rows.push(row("limit hit", &format!("{} of {}", of("limit"), of("step"))));
    }
    if let Some(delivery) = &report.delivery {
        rows.push(row("delivery", &delivered(delivery)));
    }
    rows.push(row("receipt", &format!("{} ({})", report.receipt, count(report.events, "event"))));
    rows.push(row("head", &report.head));
    out.push('\n');
    out.push_str(&table(&rows));
}

/// Says where processes ran, and how far that held them.
pub fn isolation(value: &Value) -> String {
    let Some(backend) = value.get("backend").and_then(Value::as_str) else {
        return "nothing was run".to_owned();
    };
    let flag = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or(false);
    let mut text = backend.to_owned();
    if flag("degraded") {
        text.push_str(", degraded");
    }
    if flag("namespaces") && backend == "none" {
        text.push_str("; processes in namespaces, no security claim");
    }
    if let Some(copies) = value.get("copies").and_then(Value::as_str) {
        text.push_str(&format!("; {copies} copies"));
    }
    if let Some(why) = value.get("stepped_down").and_then(Value::as_str) {
        text.push_str(&format!("; accepted, for {why}"));
    }
    let zones = value.get("zones");
    let said = |key: &str| zones.and_then(|zones| zones.get(key)).and_then(Value::as_str);
    if let (Some(engine), Some(version), Some(image)) =
        (said("engine"), said("engine_version"), said("image"))
    {
        text.push_str(&format!("; image {image} by {engine} {version}"));
    }
    if let Some(proof) = zones.and_then(|zones| zones.get("proof")).and_then(Value::as_object) {
        let held: u64 = proof.values().filter_map(Value::as_u64).sum();
        text.push_str(&format!("; {held} attempts from inside held"));
    }
    let reached = zones.and_then(|zones| zones.get("egress")).and_then(Value::as_array);
    if let Some(reached) = reached {
        let names: Vec<&str> = reached.iter().filter_map(Value::as_str).collect();
        match names.is_empty() {
            true => text.push_str("; exec reaches nothing"),
            false => text.push_str(&format!("; exec reaches {}", names.join(", "))),
        }
    }
    let doors = zones.and_then(|zones| zones.get("doors")).and_then(Value::as_array);
    if let Some(doors) = doors.filter(|doors| !doors.is_empty()) {
        let ports: Vec<String> = doors.iter().map(Value::to_string).collect();
        text.push_str(&format!("; the check reaches {} on this machine", ports.join(", ")));
    }
    if flag("in_place") {
        text.push_str("; worked in your own tree");
    }
    text
}

/// Says which model the loop declares.
pub fn model(value: &Value) -> String {
    let word = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    match value {
        Value::String(name) => name.clone(),
        Value::Object(_) => {
            format!("{}/{} {} (declared)", word("provider"), word("id"), word("version"))
        }
        _ => "not known".to_owned(),
    }
}

/// Says what became of the result.
pub fn delivered(delivery: &Value) -> String {
    let word = |key: &str| delivery.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let number =
        |key: &str| delivery.pointer(&format!("/patch/{key}")).and_then(Value::as_u64).unwrap_or(0);
    let path = delivery.pointer("/patch/path").and_then(Value::as_str).unwrap_or("");
    let size =
        format!("{}, +{} -{}", count(number("files"), "file"), number("added"), number("removed"));
    match word("state").as_str() {
        "nothing" => format!("nothing to deliver ({} state equals the start)", word("of")),
        "applied" => format!("applied to your tree ({size}); patch {path}"),
        "branched" => {
            format!("on branch {} ({size}); take it over: {}", word("what"), word("command"))
        }
        "refused" => format!("not applied: {}", word("what")),
        _ => format!("patch of the {} state: {path} ({size})", word("of")),
    }
}

fn tail_part(out: &mut String, of: &str, output: &str) {
    let output = clean(output);
    let lines: Vec<&str> = output.trim_end().lines().collect();
    if lines.is_empty() {
        return;
    }
    out.push_str(&format!("\nLast output of {of}\n"));
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        // Set off, so that no line of it reads as one of ours or as a command to a CI.
        out.push_str(&format!("  | {}\n", one_line(line, 400)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_set_off_and_harmless() {
        let mut out = String::new();
        tail_part(&mut out, "exec", "ok\n::error::forged\n\x1b[2Jgone\n");
        assert!(out.lines().skip(2).all(|line| line.starts_with("  | ")), "{out}");
        assert!(!out.contains('\x1b'));
        let mut none = String::new();
        tail_part(&mut none, "exec", "  \n");
        assert_eq!(none, "");
    }

    #[test]
    fn many_names_are_cut_and_counted() {
        let names: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
        let mut out = String::new();
        named(&mut out, "fails", &names);
        assert_eq!(out.lines().count(), 6);
        assert!(out.ends_with("and 3 more\n"));
    }

    #[test]
    fn delivery_says_what_became_of_the_result() {
        let text = delivered(&serde_json::json!({"state": "refused", "what": "a.py changed"}));
        assert_eq!(text, "not applied: a.py changed");
    }
}
