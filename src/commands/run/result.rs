//! The result object of a run, and the same for people.

use super::closing::Delivery;
use super::memory::Last;
use super::opening::{Opened, relative};
use super::recorder::decimal_usd;
use crate::commands::outcome::{Outcome, describe, talk};
use crate::config::spec::Escalate;
use crate::domain::evidence::{Halt, Verdict, name_some};
use crate::domain::fold::Position;
use crate::domain::history::History;
use crate::domain::plan::Metering;
use crate::domain::reason::HaltReason;
use crate::engine::iterate::fault_of;
use crate::error::Error;
use crate::exit::ExitClass;
use crate::receipt::question::read_question;
use crate::receipt::record::{End, Folded, Start};
use crate::receipt::rundir::RunDir;
use crate::report::text::{clean, duration, one_line};
use serde_json::{Value, json};
use std::path::Path;

/// Returns the outcome of a run that could not start.
pub fn refused(error: Error, run_id: &str) -> Outcome {
    let fault = fault_of(&error);
    talk(&format!("error: {}", describe(&error)));
    let class = fault.reason.class();
    let text = format!(
        "halted: {} (exit {}, {}); nothing was run; the error is on stderr\n",
        fault.reason,
        class.code(),
        class.name()
    );
    let mut outcome = Outcome::text("run", text).class(fault.reason.class());
    outcome
        .object
        .error(&error)
        .set("run_id", run_id)
        .set("halt_reason", fault.reason)
        .set("iterations", 0)
        .set("converged", false)
        .set("changed", false)
        .set("why", &fault.what)
        .set("next", fault.hints.first());
    outcome
}

/// Returns the outcome of a run that still waits for a person: nothing was run and nothing written.
///
/// `why` says why the answer that is there counts for nothing.
pub fn waits(run: &RunDir, root: &Path, folded: &Folded, why: Option<&str>) -> Outcome {
    let Position::Halted(history, halt) = &folded.position else {
        return Outcome::text("run", String::new());
    };
    let class = halt.reason.class();
    let receipt = relative(root, &run.receipt()).to_string_lossy().into_owned();
    let mut text = format!(
        "halted: {} (exit {}, {}); run {} still waits for its answer, nothing was run\n  why      {}\n",
        halt.reason,
        class.code(),
        class.name(),
        run.id(),
        clean(&halt.why)
    );
    if let Some(why) = why {
        let note = format!("an answer is there and counts for nothing: {why}");
        talk(&format!("warning: {}", clean(&note)));
        text.push_str(&format!("  answer   {}\n", clean(&note)));
    }
    for hint in &halt.hints {
        text.push_str(&format!("  next     {}\n", clean(hint)));
    }
    text.push_str(&format!("  receipt  {receipt}\n"));
    Outcome::text("run", text)
        .class(class)
        .with("status", "halted")
        .with("run_id", run.id())
        .with("mode", "check_fixpoint")
        .with("loop_digest", &folded.start.loop_digest)
        .with("halt_reason", halt.reason)
        .with("detail", &halt.detail)
        .with("iterations", history.iterations)
        .with("changed", folded.end.as_ref().is_some_and(|end| end.changed))
        .with("converged", false)
        .with("receipt", &receipt)
        .with("head", &folded.head.sha256)
        .with("question", read_question(run.path()))
        .with("answer", why.map(|why| json!({"taken": false, "why": why})))
        .with("why", &halt.why)
        .with("next", halt.hints.first())
        .with("elapsed_ms", folded.elapsed_ms)
}

/// Returns what the result says of isolation: none where the run did not come so far.
fn isolation_of(start: &Start) -> Value {
    let said = |key: &str| start.isolation.get(key).cloned();
    json!({
        "backend": said("backend").unwrap_or_else(|| "none".into()),
        "degraded": said("degraded").unwrap_or(Value::Bool(true)),
    })
}

/// Returns the outcome of a run that ended.
pub fn ended(
    opened: &Opened,
    start: &Start,
    history: Option<&History>,
    end: &End,
    delivery: &Delivery,
) -> Outcome {
    let halt = &end.halt;
    let converged = halt.reason == HaltReason::SuccessConditionMet;
    let root = &opened.site.caller.root;
    let receipt = relative(root, &opened.run.receipt()).to_string_lossy().into_owned();
    let patch = relative(root, &opened.run.patch()).to_string_lossy().into_owned();
    let mut outcome =
        Outcome::text("run", render(opened, history, end, delivery, &receipt, &patch))
            .class(halt.reason.class());
    let object = &mut outcome.object;
    let applied = matches!(delivery.state.as_str(), "applied" | "branched" | "in_place");
    // The loop came to its end all the same, so this is no other reason.
    let detail = match (converged, delivery.state.as_str()) {
        (true, "refused") => Some("not_delivered"),
        _ => (!halt.detail.is_empty()).then_some(halt.detail.as_str()),
    };
    let command = (!delivery.command.is_empty()).then_some(&delivery.command);
    object
        .set("status", if converged { "converged" } else { "halted" })
        .set("run_id", opened.run.id())
        .set("mode", "check_fixpoint")
        .set("loop_digest", &start.loop_digest)
        .set("halt_reason", halt.reason)
        .set("detail", detail)
        .set("iterations", end.iterations)
        .set("changed", end.changed)
        .set("converged", converged)
        .set("receipt", &receipt)
        .set("head", opened.recorder.head())
        .set("patch", (delivery.patch.files > 0).then_some(&patch))
        .set("delivery", json!({"mode": delivery.mode, "state": delivery.state, "of": delivery.of, "what": delivery.what, "applied": applied, "conflicts": delivery.conflicts, "command": command}))
        .set("isolation", isolation_of(start))
        .set("why", &halt.why)
        .set("next", halt.hints.first().or(command))
        .set("elapsed_ms", end.elapsed_ms);
    if waits_for_a_person(halt) {
        object.set("question", &opened.site.question);
    }
    let Some(history) = history else { return outcome };
    let bound =
        crate::domain::flake::anytime_upper(history.reruns, history.flips, super::recorder::ALPHA);
    let measured = history.measured.as_ref();
    let spent = &history.spent;
    let known = match opened.plan.metering {
        Metering::NoModel => true,
        Metering::File => halt.reason != HaltReason::MeteringLost,
        Metering::Unknown => false,
    };
    object
        .set(
            "baseline",
            json!({
                "failing": history.failing_first(),
                "collected": history.collected_first,
            }),
        )
        .set(
            "final",
            json!({
                "failing": measured.map(|state| state.failing.len()),
                "collected": measured.map(|_| history.collected_last),
            }),
        )
        .set("breaches", &history.breaches)
        .set(
            "check",
            json!({
                "verdict": history.last_verdict,
                "bound": format!("{bound:.6}"),
                "confirmations": if converged { opened.plan.confirm } else { 0 },
            }),
        )
        .set(
            "spend",
            json!({
                "usd": known.then(|| decimal_usd(spent.usd_micro)),
                "tokens": known.then_some(spent.tokens),
                "calls": known.then_some(spent.calls),
                "known": known,
            }),
        );
    outcome
}

fn render(
    opened: &Opened,
    history: Option<&History>,
    end: &End,
    delivery: &Delivery,
    receipt: &str,
    patch: &str,
) -> String {
    let halt = &end.halt;
    let class = halt.reason.class();
    let head = match halt.reason {
        HaltReason::SuccessConditionMet => format!("converged: {} (exit 10)", halt.reason),
        reason => format!("halted: {reason} (exit {}, {})", class.code(), class.name()),
    };
    let mut text = format!(
        "{head} after {} iteration{} in {}\n",
        end.iterations,
        if end.iterations == 1 { "" } else { "s" },
        duration(end.elapsed_ms)
    );
    if delivery.state == "refused" {
        text.push_str(&format!("  result   NOT in your tree: {}\n", clean(&delivery.what)));
        if !delivery.command.is_empty() {
            let command = clean(&delivery.command);
            text.push_str(&format!("  take it  {command}\n"));
            let merge = command.replacen("git apply", "git apply --3way", 1);
            text.push_str(&format!(
                "           {merge} (merges, once those files are committed)\n"
            ));
        }
    }
    text.push_str(&format!("  why      {}\n", clean(&halt.why).replace('\n', "\n           ")));
    for hint in &halt.hints {
        text.push_str(&format!("  next     {}\n", clean(hint)));
    }
    if let Some(history) = history {
        text.push_str(&format!("  failing  {}\n", course(history, end.iterations)));
        if let Some(first) = history.collected_first.filter(|n| *n > history.collected_last) {
            let now = history.collected_last;
            text.push_str(&format!("  tests    {first} at the start, {now} now\n"));
        }
    }
    if halt.reason != HaltReason::SuccessConditionMet {
        let memory = opened.site.memory.borrow();
        said_last(&mut text, "exec", memory.failed_exec.as_ref());
        let passed = history.is_some_and(|history| history.last_verdict == Some(Verdict::Pass));
        if !passed || halt.reason.class() == ExitClass::OracleUntrusted {
            said_last(&mut text, "check", memory.last_check.as_ref());
        }
    }
    if let Some(question) = opened.site.question.as_ref().filter(|_| waits_for_a_person(halt))
        && opened.site.spec.human.escalate == Escalate::Stdout
    {
        for line in question.markdown().lines() {
            text.push_str(&format!("  | {}\n", clean(line)));
        }
    }
    let patch_size = format!(
        "{} file{}, +{} -{}",
        delivery.patch.files,
        if delivery.patch.files == 1 { "" } else { "s" },
        delivery.patch.added,
        delivery.patch.removed
    );
    match delivery.state.as_str() {
        "applied" => text.push_str(&format!("  result   applied to your tree ({patch_size})\n")),
        "branched" => text.push_str(&format!(
            "  result   on branch {} ({patch_size}), not in your tree\n  take it  {}\n",
            clean(&delivery.what),
            clean(&delivery.command)
        )),
        "in_place" => text.push_str(&format!(
            "  result   in your tree ({patch_size}, the {} state); {}\n",
            delivery.of,
            clean(&delivery.what)
        )),
        "patched" => text.push_str(&format!(
            "  patch    {patch} ({patch_size}, the {} state; not applied)\n",
            delivery.of
        )),
        "nothing" => {
            text.push_str("  result   nothing to deliver: no file differs from the start\n")
        }
        _ => {}
    }
    text.push_str(&format!("  receipt  {receipt}\n"));
    let id = opened.run.id();
    text.push_str(&match halt.reason {
        HaltReason::SuccessConditionMet => format!("  more     loopexec report --run-id {id}\n"),
        _ => format!("  more     loopexec explain-halt --run-id {id}\n"),
    });
    // Once exec has run, what the baseline was like is the report's.
    let known = history.filter(|_| end.iterations == 0);
    let known = known.map(|history| history.notes.as_slice()).unwrap_or_default();
    for note in known.iter().chain(&opened.site.notes).take(10) {
        text.push_str(&format!("  note     {}\n", clean(note)));
    }
    text
}

/// Says whether a run ended with a question.
fn waits_for_a_person(halt: &Halt) -> bool {
    matches!(halt.reason, HaltReason::EscalationPending | HaltReason::HumanRequired)
}

/// Returns how the failing set went, and what fails in the last state that was measured.
fn course(history: &History, iterations: u32) -> String {
    let number = |n: Option<usize>| n.map_or("?".to_owned(), |n| n.to_string());
    let start = number(history.failing_first());
    let Some(last) = &history.measured else {
        return format!("{start} at the start, ? now: the check gave no result that counts");
    };
    let names = match last.failing.is_empty() {
        true => String::new(),
        false => format!(" ({})", one_line(&name_some(&last.failing), 200)),
    };
    let which = match last.iteration {
        n if n == iterations => "in the last state".to_owned(),
        0 => "in the last state measured (the start)".to_owned(),
        n => format!("in the last state measured (iteration {n})"),
    };
    format!("{start} at the start, {} {which}{names}", last.failing.len())
}

/// Says how a command ended and what it printed last, set off so that no line of it is one of ours.
fn said_last(text: &mut String, what: &str, last: Option<&Last>) {
    let Some(last) = last else { return };
    let colon = match last.lines.is_empty() {
        true => String::new(),
        false => format!("; {}:", last.what),
    };
    text.push_str(&format!("  {what:<8} {}{colon}\n", clean(&last.ended).replace('\n', " ")));
    for line in &last.lines {
        text.push_str(&format!("           | {line}\n"));
    }
}
