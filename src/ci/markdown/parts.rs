//! The parts of a text about one run, in the order people need them.

use super::chart::course;
use super::escape::{cell, code, fenced, link, prose};
use crate::ci::finding::{BREACH, CHECK_UNTRUSTED, Finding, failing, has_tests};
use crate::ci::subject::Subject;
use crate::domain::evidence::{Decision, From};
use crate::domain::gate::Gate;
use crate::domain::reason::HaltReason;
use crate::report::explain::{afterwards, explain, next_command};
use crate::report::model::{HaltView, IterationView, Report, SpendView, Standing};
use crate::report::render;
use crate::report::text::{count, duration};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the table of iterations.
const ITERATIONS: usize = 50;
/// Characters of one id, path or line of output.
const CHARS: usize = 300;
/// Characters of one sentence.
const SENTENCE: usize = 1_500;

/// How much of what is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Failing tests that are named.
    pub(super) tests: usize,
    /// Lines of each message.
    pub(super) lines: usize,
    /// Breaches and other findings.
    pub(super) changes: usize,
}

/// Returns all but the links.
pub(super) fn body(subject: &Subject, room: &Room) -> String {
    let mut parts = vec![heading(subject)];
    match &subject.halt {
        Some(halt) => parts.push(reason(subject, halt)),
        None => parts.push(unended(subject)),
    }
    parts.push(facts(subject));
    if let Some(report) = &subject.report {
        parts.push(picture(report));
        parts.push(iterations(report));
        parts.push(vetoes(subject, room));
        parts.push(tests(report, room));
        parts.push(delivery(report));
        parts.push(again(subject));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Returns the last line: where readers can go.
pub(super) fn foot(subject: &Subject) -> String {
    let links = &subject.links;
    let known = [("The receipt as an artifact", &links.artifact), ("the job", &links.job)];
    let known = known.iter().filter_map(|(label, address)| link(label, address.as_deref()?));
    let known: Vec<String> = known.collect();
    match known.is_empty() {
        true => String::new(),
        false => format!("{}\n", known.join(" · ")),
    }
}

fn heading(subject: &Subject) -> String {
    let name = match &subject.report {
        Some(report) if !report.name.is_empty() => &report.name,
        _ => &subject.key.name,
    };
    let name = if name.is_empty() { String::new() } else { format!(" {}", code(name, 60)) };
    let standing = subject.report.as_ref().map(|report| report.standing);
    let state = match (&subject.halt, standing) {
        (Some(halt), _) if halt.reason == HaltReason::SuccessConditionMet => "converged".to_owned(),
        (Some(halt), _) => {
            format!("halted, `{}` (exit {}, {})", halt.reason, halt.exit_code, halt.exit_class)
        }
        (None, Some(Standing::Incomplete)) => "incomplete".to_owned(),
        (None, _) => "running".to_owned(),
    };
    let mut place = subject.key.job.clone();
    if !subject.key.matrix.is_empty() {
        place = format!("{place} {}", subject.key.matrix);
    }
    let place = match place.trim() {
        "" => String::new(),
        place => format!(" in {}", code(place, 120)),
    };
    format!("## loopexec{name}{place}: {state}\n")
}

/// Says why it halted and what to do.
fn reason(subject: &Subject, halt: &HaltView) -> String {
    let (first, rest) = halt.why.split_once('\n').unwrap_or((&halt.why, ""));
    let detail = match &halt.detail {
        Some(detail) => format!(" ({})", code(detail, 60)),
        None => String::new(),
    };
    let mut text = format!("**Why:** {}{detail}\n", prose(first, SENTENCE));
    if !rest.trim().is_empty() {
        text.push_str(&format!("\n{}", fenced(rest, 20, CHARS)));
    }
    let explanation = explain(halt.reason);
    if halt.reason == HaltReason::SuccessConditionMet {
        return text;
    }
    text.push_str("\n**What next:**\n\n");
    if let Some(gate) = halt.detail.as_deref().and_then(Gate::from_word) {
        // The machine that ran it may be gone: the bundle holds all it takes.
        let answer = format!("loopexec ack --bundle FILE.zip --gate {} --yes", gate.word());
        let comment = format!("/loopexec ack {} yes", gate.word());
        text.push_str(&format!(
            "- Download the bundle of this run; {} answers it ({} declines) and prints the command that goes on.\n- On a pull request in GitHub the comment {} of somebody who may write answers too; the next job with {} takes it up.\n",
            code(&answer, CHARS),
            code("--no", CHARS),
            code(&comment, CHARS),
            code("resume: latest", CHARS),
        ));
        return text;
    }
    match halt.next.is_empty() {
        true => text.push_str(&format!("- {}\n", prose(explanation.mend, SENTENCE))),
        false => {
            for next in halt.next.iter().take(10) {
                text.push_str(&format!("- {}\n", prose(next, SENTENCE)));
            }
        }
    }
    let run = subject.report.as_ref().map(|report| (&*report.run_id, &*report.resume));
    let command = code(&next_command(&explanation, run), CHARS);
    match afterwards(explanation.advice) {
        Some(then) => text.push_str(&format!("- {command}, then {}\n", code(then, CHARS))),
        None => text.push_str(&format!("- {command}\n")),
    }
    text
}

fn unended(subject: &Subject) -> String {
    match subject.report.as_ref().map(|report| report.standing) {
        Some(Standing::Incomplete) => format!(
            "The run has no end and nobody works on it. Take it up: {}\n",
            code(subject.report.as_ref().map_or("", |report| &report.resume), CHARS)
        ),
        _ => "The loop runs; this text is replaced when it ends.\n".to_owned(),
    }
}

fn facts(subject: &Subject) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    if let Some(report) = &subject.report {
        rows.push(("iterations", report.iterations.len().to_string()));
        rows.push(("failing", from_to(report)));
        rows.push(("changed", changed(report)));
        rows.push(("time", duration(report.elapsed_ms)));
        rows.push(("spend", spend(&report.spend)));
        rows.push(("flip rate", prose(&render::bound(&report.bound), CHARS)));
        rows.push(("isolation", prose(&render::isolation(&report.isolation), CHARS)));
        rows.push(("model", code(&render::model(&report.pins.model), CHARS)));
        if !report.pins.unpinned.is_empty() {
            rows.push(("unpinned", code(&report.pins.unpinned.join(", "), CHARS)));
        }
        if let Some(base) = &report.base {
            rows.push(("base", prose(&render::held_to(base), SENTENCE)));
        }
        for answer in report.answers.iter().take(10) {
            rows.push(("answer", prose(&render::answered(answer), SENTENCE)));
        }
        if !report.quarantine.is_empty() {
            rows.push(("quarantine", code(&report.quarantine.join(", "), CHARS)));
        }
    }
    if subject.halt.is_some() {
        let fails = if subject.fails { "fails by it" } else { "does not fail by it" };
        rows.push(("job", format!("{fails}, exit code {}", subject.process_exit)));
    }
    if !subject.run_id.is_empty() {
        rows.push(("run", code(&subject.run_id, CHARS)));
    }
    if let Some(report) = &subject.report {
        rows.push(("loop digest", code(&report.loop_digest, CHARS)));
        rows.push(("receipt head", code(&report.head, CHARS)));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut text = "| | |\n|---|---|\n".to_owned();
    for (name, value) in rows {
        text.push_str(&format!("| {name} | {} |\n", cell(&value)));
    }
    text
}

/// Says how many tests failed at the start and how many do now.
fn from_to(report: &Report) -> String {
    let first = report.baseline.as_ref().filter(|baseline| baseline.measured);
    let first = first.map_or("?".to_owned(), |baseline| baseline.failing.len().to_string());
    let measured = report.iterations.iter().rev().find(|iteration| iteration.measured);
    match (measured, report.iterations.last()) {
        (_, None) => format!("{first} at the start"),
        (None, Some(_)) => format!("{first} at the start → ?"),
        (Some(seen), Some(last)) if seen.iteration == last.iteration => {
            format!("{first} at the start → {} now", seen.failing.len())
        }
        (Some(seen), Some(_)) => format!(
            "{first} at the start → {} in iteration {}, the last measured",
            seen.failing.len(),
            seen.iteration
        ),
    }
}

fn changed(report: &Report) -> String {
    let patch = report.delivery.as_ref().and_then(|delivery| delivery.get("patch"));
    let number = |key: &str| patch.and_then(|patch| patch.get(key)).and_then(|n| n.as_u64());
    if let (Some(files), Some(added), Some(removed)) =
        (number("files"), number("added"), number("removed"))
    {
        return format!("{}, {added} lines added, {removed} removed", count(files, "file"));
    }
    let files = report.iterations.last().map_or(0, |iteration| iteration.changes.len());
    count(files as u64, "file")
}

fn spend(spend: &SpendView) -> String {
    match (&spend.usd, spend.tokens, spend.calls) {
        (Some(usd), Some(tokens), Some(calls)) => {
            prose(&format!("{usd} USD, {tokens} tokens, {calls} calls"), CHARS)
        }
        _ => "not known".to_owned(),
    }
}

/// Shows how the failing set went.
fn picture(report: &Report) -> String {
    if report.iterations.is_empty() {
        return String::new();
    }
    let first = report.baseline.as_ref().filter(|baseline| baseline.measured);
    let first = std::iter::once(first.map(|baseline| baseline.failing.len()));
    let later = report.iterations.iter();
    let later = later.map(|iteration| iteration.measured.then_some(iteration.failing.len()));
    let course = course(&first.chain(later).collect::<Vec<_>>());
    match course.is_empty() {
        true => String::new(),
        false => format!("### Failing by iteration\n\n```text\n{course}```\n"),
    }
}

fn iterations(report: &Report) -> String {
    let all = &report.iterations;
    if all.is_empty() {
        return String::new();
    }
    let shown = &all[all.len().saturating_sub(ITERATIONS)..];
    let mut text = "### Iterations\n\n".to_owned();
    if shown.len() < all.len() {
        text.push_str(&format!("The last {} of {}.\n\n", shown.len(), all.len()));
    }
    text.push_str("| # | exec | files | check | failing | fixed | broke | ratchet | then |\n");
    text.push_str("|--:|---|--:|---|--:|--:|--:|---|---|\n");
    for iteration in shown {
        text.push_str(&format!("| {} |\n", iteration_row(iteration).join(" | ")));
    }
    if shown.iter().any(|iteration| !iteration.measured) {
        text.push_str("\n?: not measured (build or collection failed, no answer, or no check).\n");
    }
    text
}

fn iteration_row(iteration: &IterationView) -> Vec<String> {
    let exec = match &iteration.exec {
        Some(exec) => {
            let took = duration(iteration.exec_ms.unwrap_or(0));
            format!("{}, {took}", cell(&prose(exec, 60)))
        }
        None => "–".to_owned(),
    };
    let check = match (&iteration.check, iteration.verdict) {
        (Some(check), Some(verdict)) => {
            format!("{}, {}", verdict.as_str(), duration(check.wall_ms))
        }
        _ => "–".to_owned(),
    };
    let failing = match iteration.measured {
        true => iteration.failing.len().to_string(),
        false => "?".to_owned(),
    };
    let then = match &iteration.decision {
        Decision::Continue { from: From::Tip } => "continue".to_owned(),
        Decision::Continue { from: From::Accepted } => "revert, continue".to_owned(),
        Decision::Halt(halt) => format!("`{}`", halt.reason),
    };
    vec![
        iteration.iteration.to_string(),
        exec,
        iteration.changes.len().to_string(),
        check,
        failing,
        iteration.fixed.len().to_string(),
        iteration.broke.len().to_string(),
        render::ratchet(&iteration.ratchet).to_owned(),
        then,
    ]
}

/// Lists the guards that do not hold and what was found against the check.
fn vetoes(subject: &Subject, room: &Room) -> String {
    let of = |rule: &str| -> Vec<&Finding> {
        subject.findings.iter().filter(|finding| finding.rule == rule).collect()
    };
    let mut text = String::new();
    for (title, findings) in [("Breaches", of(BREACH)), ("The check", of(CHECK_UNTRUSTED))] {
        if findings.is_empty() {
            continue;
        }
        let space = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{space}### {title}\n\n"));
        for finding in findings.iter().take(room.changes) {
            let at = finding.file.as_deref().map(|file| format!("{}: ", code(file, CHARS)));
            let what = prose(&finding.message, SENTENCE);
            text.push_str(&format!("- {}{what}\n", at.unwrap_or_default()));
        }
        if findings.len() > room.changes {
            text.push_str(&format!("- and {} more\n", findings.len() - room.changes));
        }
    }
    text
}

/// Lists the tests that fail in the last state, then their messages.
fn tests(report: &Report, room: &Room) -> String {
    let known: BTreeMap<&str, _> =
        report.failures.iter().rev().map(|failure| (failure.id.as_ref(), failure)).collect();
    let with_message = report.failures.iter().map(|failure| failure.id.as_ref());
    let mut seen = BTreeSet::new();
    let ids = with_message.chain(failing(report).iter().map(String::as_str));
    let ids: Vec<&str> = ids.filter(|id| seen.insert(*id)).collect();
    // A check without tests fails as a whole: the reason says so already.
    if ids.is_empty() || !has_tests(report) {
        return String::new();
    }
    let mut text = format!("### Failing tests ({})\n\n", ids.len());
    let mut messages = String::new();
    for id in ids.iter().take(room.tests) {
        let failure = known.get(id);
        let file = failure.and_then(|failure| failure.file.as_deref());
        let place = match (file, failure.and_then(|failure| failure.line)) {
            (Some(file), Some(line)) => format!(" at {}", code(&format!("{file}:{line}"), CHARS)),
            (Some(file), None) => format!(" in {}", code(file, CHARS)),
            (None, _) => String::new(),
        };
        text.push_str(&format!("- {}{place}\n", code(id, CHARS)));
        if let Some(failure) = failure.filter(|failure| !failure.message.trim().is_empty()) {
            let block = fenced(&failure.message, room.lines, CHARS);
            messages.push_str(&format!("\n{}\n\n{block}", code(id, CHARS)));
        }
    }
    if ids.len() > room.tests {
        text.push_str(&format!("- and {} more\n", ids.len() - room.tests));
    }
    if !messages.is_empty() {
        text.push_str(&format!(
            "\n<details>\n<summary>What they say</summary>\n{messages}\n</details>\n"
        ));
    }
    text
}

fn delivery(report: &Report) -> String {
    let Some(delivery) = &report.delivery else { return String::new() };
    format!("### Delivery\n\n{}\n", prose(&render::delivered(delivery), SENTENCE))
}

/// Says how anyone finds the same again.
fn again(subject: &Subject) -> String {
    if subject.halt.is_none() || subject.run_id.is_empty() {
        return String::new();
    }
    let id = &subject.run_id;
    let commands = format!("loopexec verify --run-id {id}\nloopexec replay --run-id {id}");
    format!(
        "### Reproduce\n\nWith the artifact unpacked, its folder may stand for the run's id.\n\n{}",
        fenced(&commands, 2, CHARS)
    )
}
