//! Gates: what needs a person's yes, the question that is put, and the answer.
//!
//! A gate can only hold a run back. Whether one is open follows from the plan, the answers and the
//! evidence alone; `decide` asks here, `fold` takes answers in.

use crate::domain::evidence::{Decision, Evidence, Halt};
use crate::domain::hex;
use crate::domain::history::History;
use crate::domain::observation::{PatchSize, TreeId};
use crate::domain::plan::{Limits, Plan};
use crate::domain::reason::HaltReason;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The detail of a halt after a person said no.
pub const DECLINED: &str = "declined";

/// What needs a person's yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// What a pull request changes of the check, the guards or the isolation.
    ProtectedChange,
    /// That a green result is handed over whose patch is larger than the loop allows. A yes is all that
    /// `Deliver` asks for too.
    LargePatch,
    /// That a green result is handed over.
    Deliver,
}

impl Gate {
    /// Every gate.
    pub const ALL: [Self; 3] = [Self::ProtectedChange, Self::LargePatch, Self::Deliver];

    /// Returns the word: in `human.approve`, as a halt's detail, in `ack --gate`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ProtectedChange => "protected_change",
            Self::LargePatch => "large_patch",
            Self::Deliver => "deliver",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|gate| gate.word() == word)
    }
}

/// A change of the protected sections that a person has to agree to before anything runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedChange {
    /// The digest of the sections as they were and as they are.
    pub digest: String,
    /// The dotted keys that differ.
    pub keys: Vec<String>,
    /// Why a person is asked, as the end of a sentence.
    pub why: String,
}

/// A patch that is larger than the loop allows: its size and the caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Large {
    /// The size; none where nothing measured it.
    pub size: Option<PatchSize>,
    /// Files at the most.
    pub files: Option<u64>,
    /// Lines at the most.
    pub lines: Option<u64>,
}

impl Large {
    /// Holds a patch to the caps of a loop; one whose size is not known is over each of them.
    pub fn of(limits: &Limits, size: Option<PatchSize>) -> Option<Self> {
        let (files, lines) = (limits.patch_files, limits.patch_lines);
        let over = |cap: Option<u64>, part: fn(PatchSize) -> u64| {
            cap.is_some_and(|cap| size.is_none_or(|size| part(size) > cap))
        };
        (over(files, |size| size.files) || over(lines, |size| size.lines)).then_some(Self {
            size,
            files,
            lines,
        })
    }
}

/// Says how large, and what the loop allows: the end of a sentence.
impl fmt::Display for Large {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        match self.size {
            Some(PatchSize { files, lines }) => write!(
                f,
                "the patch changes {} and {}",
                count(files, "file"),
                count(lines, "line")
            )?,
            None => f.write_str("nothing says how much the patch changes")?,
        }
        let caps = [("limits.patch_files", self.files), ("limits.patch_lines", self.lines)];
        let caps: Vec<String> =
            caps.iter().filter_map(|(key, cap)| Some(format!("{key}: {}", (*cap)?))).collect();
        write!(f, ", and the loop has {}", caps.join(" and "))
    }
}

/// A question that a run waits with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The gate.
    pub gate: Gate,
    /// The digest of what is asked about; an answer names it.
    pub subject: String,
    /// The iteration, 0 before the baseline.
    pub iteration: u32,
    /// What was carried; empty before the baseline.
    pub carried: TreeId,
    /// The snapshot at t0; empty before the baseline.
    pub t0: TreeId,
    /// The snapshot that would be handed over; empty before the baseline.
    pub tree: TreeId,
    /// How large the patch is, where it is larger than the loop allows.
    pub large: Option<Large>,
}

/// How a question was put: a fact of the step that asks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The gate.
    pub gate: Gate,
    /// The digest of what is asked about.
    pub subject: String,
    /// The channel: `file` or `stdout`.
    pub channel: String,
    /// Whether the channel took it.
    pub delivered: bool,
    /// Where it is, or why it could not be put there.
    pub place: String,
}

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The gate opens.
    Yes,
    /// It stays closed for good.
    No,
}

impl Reply {
    /// Returns the word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
        }
    }
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The gate it opens or closes.
    pub gate: Gate,
    /// What was said.
    pub reply: Reply,
    /// Who said it, as they named themselves; empty: nobody said.
    pub by: String,
    /// What they said beside it.
    pub note: String,
    /// When, RFC 3339.
    pub time: String,
    /// The sha256 of the final event of the run that asked.
    pub head: String,
    /// The digest of what was asked about.
    pub subject: String,
}

/// Returns the digest that an answer about a result names: the gate, the result, and what it is laid upon.
fn result_subject(gate: Gate, carried: &str, t0: &str, tree: &str) -> String {
    let text = format!("loopexec.gate.v1\n{}\n{carried}\n{t0}\n{tree}\n", gate.word());
    hex::sha256(text.as_bytes())
}

/// Returns what was answered last about a subject.
pub fn reply_to(answers: &[Answer], gate: Gate, subject: &str) -> Option<Reply> {
    let about = |answer: &&Answer| answer.gate == gate && answer.subject == subject;
    answers.iter().rev().find(about).map(|answer| answer.reply)
}

/// Returns the question about a protected change that nobody has said yes to.
pub fn protected(plan: &Plan, answers: &[Answer]) -> Option<Question> {
    let subject = &plan.protected.as_ref()?.digest;
    let gate = Gate::ProtectedChange;
    (reply_to(answers, gate, subject) != Some(Reply::Yes)).then(|| Question {
        gate,
        subject: subject.clone(),
        iteration: 0,
        carried: TreeId::new(),
        t0: TreeId::new(),
        tree: TreeId::new(),
        large: None,
    })
}

/// Returns the first gate that is closed after a step; the history already holds its evidence.
pub fn closed(plan: &Plan, history: &History, evidence: &Evidence) -> Option<Question> {
    if let Some(question) = protected(plan, &history.answers) {
        return Some(question);
    }
    // What was green before any exec hands nothing over.
    if evidence.iteration == 0 || !evidence.is_confirmed_green() {
        return None;
    }
    // One question for one result: the one about its size says that it is handed over, so that a yes to
    // it is a yes to both, and one to `deliver` alone is never one to the size.
    let large = Large::of(&plan.limits, evidence.patch);
    let gate = match large {
        Some(_) => Gate::LargePatch,
        None if plan.gates.contains(&Gate::Deliver) => Gate::Deliver,
        None => return None,
    };
    let t0 = history.baseline.as_ref().map(|state| state.tree.clone()).unwrap_or_default();
    let subject = result_subject(gate, &history.carried, &t0, &evidence.tree);
    let reply = reply_to(&history.answers, gate, &subject);
    (reply != Some(Reply::Yes)).then(|| Question {
        gate,
        subject,
        iteration: evidence.iteration,
        carried: history.carried.clone(),
        t0,
        tree: evidence.tree.clone(),
        large,
    })
}

/// Returns the halt of the first closed gate.
pub fn halt(plan: &Plan, history: &History, evidence: &Evidence) -> Option<Halt> {
    let question = closed(plan, history, evidence)?;
    let over = question.large.map(|large| format!("; {large}")).unwrap_or_default();
    let what = match (question.gate, &plan.protected) {
        (Gate::ProtectedChange, Some(change)) => {
            format!(
                "a person has to agree to what the check, the guards and the isolation are: {}",
                change.why
            )
        }
        _ => format!(
            "the check passed in iteration {} and was confirmed{over}; a person has to agree before the result is handed over",
            question.iteration
        ),
    };
    let answer = history
        .answers
        .iter()
        .rev()
        .find(|answer| answer.gate == question.gate && answer.subject == question.subject);
    if answer.is_some() {
        return Some(Halt {
            reason: HaltReason::HumanRequired,
            detail: DECLINED.to_owned(),
            why: format!("{what}; the answer was no ({}).", question.gate.word()),
            hints: vec![
                "Read the note beside the answer (loopexec verify shows it); then start a new run."
                    .to_owned(),
            ],
        });
    }
    let asked = evidence
        .asked
        .as_ref()
        .filter(|asked| asked.gate == question.gate && asked.subject == question.subject);
    let how = format!(
        "loopexec ack --gate {} --yes (or --no), then loopexec run --resume with the options of this run",
        question.gate.word()
    );
    let (reason, why) = match asked {
        Some(asked) if asked.delivered => {
            (HaltReason::EscalationPending, format!("{what}; the question is in {}.", asked.place))
        }
        Some(asked) => (
            HaltReason::HumanRequired,
            format!("{what}; the question could not be put: {}.", asked.place),
        ),
        None => (HaltReason::HumanRequired, format!("{what}; the question was not put.")),
    };
    Some(Halt { reason, detail: question.gate.word().to_owned(), why, hints: vec![how] })
}

/// Returns the question that a halted run waits with; none where no answer would change a thing.
pub fn waits(plan: &Plan, history: &History, halt: &Halt) -> Option<Question> {
    let asks = matches!(halt.reason, HaltReason::EscalationPending | HaltReason::HumanRequired);
    let evidence = history.waiting.as_deref().filter(|_| asks)?;
    closed(plan, history, evidence).filter(|question| question.gate.word() == halt.detail)
}

/// Returns the question that a decision halts with.
pub fn question_of(
    plan: &Plan,
    history: &History,
    evidence: &Evidence,
    decision: &Decision,
) -> Option<Question> {
    let Decision::Halt(halt) = decision else { return None };
    closed(plan, history, evidence).filter(|question| question.gate.word() == halt.detail)
}
