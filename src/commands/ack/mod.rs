//! `loopexec ack`: answers the question that a run waits with.
//!
//! The answer is a file beside the receipt and names the run, the end that asks, the gate and what is
//! asked about; it counts once `run --resume` has taken it into the receipt. `bundle` does the same for
//! a zip that CI kept.

mod bundle;

use super::Global;
use super::outcome::Outcome;
use super::recorded::{self, Which};
use crate::domain::gate::{Answer, Gate, Reply};
use crate::error::{Error, Kind, Result};
use crate::receipt::bundle::is_bundle_name;
use crate::receipt::format::timestamp;
use crate::receipt::question::{read_answer, resume_command, write_answer};
use crate::receipt::rundir::RunDir;
use crate::report::text::one_line;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::SystemTime;

/// Options of `ack`.
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("reply").required(true).args(["yes", "no"])))]
pub struct Args {
    /// Which run.
    #[command(flatten)]
    pub which: Which,
    /// A bundle from CI instead of a run; a new one with the answer is written beside it
    #[arg(long, value_name = "FILE.zip", conflicts_with = "run_id")]
    pub bundle: Option<PathBuf>,
    /// The gate: deliver or protected_change
    #[arg(long, value_name = "GATE")]
    pub gate: String,
    /// Open the gate
    #[arg(long)]
    pub yes: bool,
    /// Close it for good
    #[arg(long)]
    pub no: bool,
    /// Who answers; $USER when left out
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// What is said beside the answer
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// What a person says, before it is bound to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The gate.
    pub gate: Gate,
    /// Yes or no.
    pub reply: Reply,
    /// Who.
    pub by: String,
    /// What is said beside it.
    pub note: String,
}

/// Answers.
///
/// # Errors
/// `workspace_invalid` when the run waits for no such answer, `objective_unverified` when its receipt
/// does not hold, `usage` for an unknown gate.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let gate = Gate::from_word(&args.gate).ok_or_else(|| {
        let words: Vec<&str> = Gate::ALL.iter().map(|gate| gate.word()).collect();
        let what = format!("there is no gate `{}`", one_line(&args.gate, 60));
        Error::new(Kind::Usage, what).hint(format!("the gates are: {}", words.join(", ")))
    })?;
    let by = args.by.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    let reply = if args.yes { Reply::Yes } else { Reply::No };
    let said = Said { gate, reply, by, note: args.note.clone().unwrap_or_default() };
    match &args.bundle {
        Some(file) => {
            let (id, answered, fresh) = bundle::answer(file, &said)?;
            Ok(outcome(&id, &answered, &fresh.to_string_lossy(), true))
        }
        None => {
            if let Some(zip) = args.which.run_id.as_deref().filter(|id| is_bundle_name(id)) {
                let what =
                    format!("{} is a bundle, which takes no answer in place", one_line(zip, 200));
                return Err(Error::new(Kind::Usage, what).hint(
                    "loopexec ack --bundle FILE.zip writes a new one with the answer beside it",
                ));
            }
            let run = recorded::open_waiting(&args.which, global)?;
            let answered = answer_run(&run, &said)?;
            // A folder of elsewhere stays what has to be named.
            let which = args.which.run_id.as_deref().filter(|which| which.contains('/'));
            Ok(outcome(run.id(), &answered, which.unwrap_or(run.id()), false))
        }
    }
}

/// Binds an answer to what a run waits with, and writes it into the run's folder.
///
/// # Errors
/// As [`run`].
pub fn answer_run(run: &RunDir, said: &Said) -> Result<Answered> {
    let folded = recorded::verify(run, &mut |_| {})?.folded;
    let waiting = folded.waiting.as_ref().ok_or_else(|| {
        Error::new(Kind::WorkspaceInvalid, format!("run {} waits for no answer", run.id()))
            .detail("not_asked")
            .hint(format!("loopexec explain-halt --run-id {} says how it ended", run.id()))
    })?;
    let asked = waiting.question.gate;
    if asked != said.gate {
        let what = format!(
            "run {} waits for an answer to {}, not to {}",
            run.id(),
            asked.word(),
            said.gate.word()
        );
        return Err(Error::new(Kind::WorkspaceInvalid, what)
            .detail("not_asked")
            .hint(format!("loopexec escalate --run-id {} shows the question", run.id())));
    }
    let answer = Answer {
        gate: said.gate,
        reply: said.reply,
        by: said.by.clone(),
        note: said.note.clone(),
        time: timestamp(SystemTime::now()),
        head: waiting.head.clone(),
        subject: waiting.question.subject.clone(),
    };
    let earlier = read_answer(run.path(), run.id(), waiting).ok().flatten();
    write_answer(run.path(), run.id(), &answer)?;
    Ok(Answered { answer, earlier, caller: folded.start.caller })
}

/// An answer that was written.
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// The one it took the place of.
    pub earlier: Option<Answer>,
    /// What the run recorded of the tree.
    pub caller: Value,
}

fn outcome(run_id: &str, answered: &Answered, which: &str, is_bundle: bool) -> Outcome {
    let Answered { answer, earlier, caller } = answered;
    let next = resume_command(which, caller);
    let bundle = is_bundle.then_some(which);
    let mut text = format!(
        "answered: {} to {} of run {run_id}\n  by       {}\n  subject  {}\n  head     {}\n",
        answer.reply.word(),
        answer.gate.word(),
        one_line(&answer.by, 200),
        answer.subject,
        answer.head
    );
    if let Some(bundle) = bundle {
        text.push_str(&format!("  bundle   {}\n", one_line(bundle, 4096)));
    }
    if let Some(earlier) = earlier {
        text.push_str(&format!(
            "  instead  of the {} by {}\n",
            earlier.reply.word(),
            one_line(&earlier.by, 200)
        ));
    }
    text.push_str(&format!("  next     {}\n", one_line(&next, 4096)));
    Outcome::text("ack", text)
        .with("run_id", run_id)
        .with("answer", json!(answer))
        .with("bundle", bundle)
        .with("next", next)
}
