//! Why one run halted: the general explanation with the evidence of this run.

use super::explain::{Explanation, explain, next_command};
use super::model::{HaltView, Report};
use super::text::{clean, duration, one_line};
use serde::Serialize;

/// Ids or paths that are named one by one.
const NAMED: usize = 10;

/// What a size that is not known means.
const UNKNOWN: &str = " (?: not measured)";

/// A halted run, explained.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    /// What happened, with this run's numbers.
    pub happened: String,
    /// Ids, paths and numbers, one a line.
    pub evidence: Vec<String>,
    /// The general explanation.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// What to do in this case, one line each.
    pub mends: Vec<String>,
    /// The next command, with the run's id.
    pub next: String,
}

/// Explains a halt of a run.
pub fn explain_run(report: &Report, halt: &HaltView) -> Case {
    let explanation = explain(halt.reason);
    let mut mends = halt.next.clone();
    if mends.is_empty() {
        mends.push(explanation.mend.to_owned());
    }
    Case {
        happened: halt.why.clone(),
        evidence: evidence(report),
        explanation,
        mends,
        next: next_command(&explanation, Some((&report.run_id, &report.resume))),
    }
}

fn evidence(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(baseline) = &report.baseline {
        lines.push(format!("baseline: {}", baseline.summary()));
        lines.extend(baseline.notes.iter().map(|note| format!("baseline: {note}")));
        name(&mut lines, "unstable", &baseline.unstable);
    }
    if !report.iterations.is_empty() {
        let sizes: Vec<String> = report.iterations.iter().map(size).collect();
        let from = sizes.len().saturating_sub(20);
        let cut = if from > 0 { "… " } else { "" };
        let unknown = if sizes.iter().any(|size| size == "?") { UNKNOWN } else { "" };
        lines.push(format!("failing by iteration: {cut}{}{unknown}", sizes[from..].join(" ")));
    }
    if let Some(last) = report.iterations.last() {
        for breach in last.breaches.iter().take(NAMED) {
            lines.push(format!("breach of {}: {}", breach.guard, breach.what));
        }
        if let Some(found) = &last.oracle {
            lines.push(format!("the check: {}", found.what));
        }
        let n = last.iteration;
        if let Some(exec) = &last.exec {
            let time = duration(last.exec_ms.unwrap_or(0));
            let moved = if last.moved { "changed the tree" } else { "changed nothing" };
            lines.push(format!("iteration {n}: exec {exec} in {time}, {moved}"));
        }
        let paths: Vec<String> = last.changes.iter().map(|change| change.path.clone()).collect();
        name(&mut lines, "differs from the start", &paths);
        let measured = report.iterations.iter().rev().find(|iteration| iteration.measured);
        match (measured, &report.baseline) {
            (Some(seen), _) if seen.iteration == n => name(&mut lines, "fails", &seen.failing),
            (Some(seen), _) => {
                let what = format!("fails in iteration {}, the last measured", seen.iteration);
                name(&mut lines, &what, &seen.failing);
            }
            (None, Some(baseline)) if baseline.measured => {
                name(&mut lines, "fails at the start, the last measured", &baseline.failing);
            }
            _ => {}
        }
        name(&mut lines, "fixed by the last iteration", &last.fixed);
        name(&mut lines, "broken by the last iteration", &last.broke);
    } else if let Some(baseline) = report.baseline.as_ref().filter(|baseline| baseline.measured) {
        name(&mut lines, "fails", &baseline.failing);
    }
    if report.bound.flips > 0 {
        lines.push(format!(
            "{} of {} reruns in fresh copies flipped",
            report.bound.flips, report.bound.reruns
        ));
    }
    for hit in report.limits_hit.iter().rev().take(3) {
        let word = |key: &str| hit.get(key).and_then(|value| value.as_str()).unwrap_or("?");
        lines.push(format!("limit hit: {} of {}", word("limit"), word("step")));
    }
    lines.push(format!("time used: {}", duration(report.elapsed_ms)));
    lines.iter().map(|line| one_line(line, 400)).collect()
}

fn size(iteration: &super::model::IterationView) -> String {
    match iteration.measured {
        true => iteration.failing.len().to_string(),
        false => "?".to_owned(),
    }
}

fn name(lines: &mut Vec<String>, what: &str, names: &[String]) {
    lines.extend(names.iter().take(NAMED).map(|name| format!("{what}: {name}")));
    if names.len() > NAMED {
        lines.push(format!("{what}: and {} more", names.len() - NAMED));
    }
}

/// Returns a case as people read it.
pub fn render(report: &Report, halt: &HaltView, case: &Case) -> String {
    let mut text = format!(
        "{} (exit {}, {}) · run {}\n\n{}\n\n",
        halt.reason,
        halt.exit_code,
        halt.exit_class,
        report.run_id,
        clean(&case.happened)
    );
    text.push_str("What it means\n");
    text.push_str(&format!("  {}\n\nEvidence\n", case.explanation.what));
    for line in &case.evidence {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("\nWhat to do: {}\n", case.explanation.advice.word()));
    for mend in &case.mends {
        text.push_str(&format!("  {}\n", clean(mend).replace('\n', "\n  ")));
    }
    text.push_str(&format!("\nNext: {}\n", case.next));
    if let Some(then) = super::explain::afterwards(case.explanation.advice) {
        text.push_str(&format!("Then: {then}\n"));
    }
    text
}
