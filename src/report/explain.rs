//! What every halt reason means, whether another run is worth it, and what to do.
//!
//! What one run showed stands in its receipt; `case` puts the two together.

use crate::domain::reason::HaltReason;
use Advice::{DoNotRetry, Done, FixWhat, RaiseTheLimit, Resume};
use HaltReason as R;
use serde::{Serialize, Serializer};

/// What to do after a halt, in one word for machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: the loop did what it was for.
    Done,
    /// Go on with the same run.
    Resume,
    /// More of the same may do.
    RaiseTheLimit,
    /// The same run again ends the same way.
    DoNotRetry,
    /// Mend what is named first.
    FixWhat,
}

impl Advice {
    /// Returns the stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Resume => "resume",
            Self::RaiseTheLimit => "raise-the-limit",
            Self::DoNotRetry => "do-not-retry",
            Self::FixWhat => "fix-what",
        }
    }
}

impl Serialize for Advice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// The general explanation of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What happened, in one paragraph.
    pub what: &'static str,
    /// Whether another run is worth it.
    pub advice: Advice,
    /// What to change.
    pub mend: &'static str,
    /// The next command; `ID` stands for the run's id.
    pub next: &'static str,
}

/// Returns the explanation of a reason.
pub fn explain(reason: HaltReason) -> Explanation {
    // The order of the table is that of the reasons; a test holds it to that.
    TABLE
        .iter()
        .find(|(listed, _)| *listed == reason)
        .map_or(UNLISTED, |(_, explanation)| *explanation)
}

const UNLISTED: Explanation =
    row("The run halted.", FixWhat, "Read the report.", "loopexec report --run-id ID");

const fn row(
    what: &'static str,
    advice: Advice,
    mend: &'static str,
    next: &'static str,
) -> Explanation {
    Explanation { what, advice, mend, next }
}

const REPORT: &str = "loopexec report --run-id ID";
const RUN: &str = "loopexec run";
const RESUME: &str = "loopexec run --resume ID";
const DOCTOR: &str = "loopexec doctor";

#[rustfmt::skip]
const TABLE: [(HaltReason, Explanation); 40] = [
    (R::InternalError, row(
        "loopexec itself failed. That is a defect, not a verdict on the agent or the check; everything up to it is in the receipt.",
        FixWhat, "Report it with the error's text and the receipt; then run again.", REPORT)),
    (R::StorageExhausted, row(
        "A disk was full, or a piece of evidence could not be made durable. A run that cannot write its receipt stops, because what is not recorded cannot be verified.",
        FixWhat, "Free space where the path in the message lies (the state folder or the cache), or move the cache with LOOPEXEC_CACHE.", DOCTOR)),
    (R::Interrupted, row(
        "A signal (Ctrl-C, a cancelled job, a shutdown) asked the run to stop. All its processes are dead and nothing was delivered.",
        Resume, "Nothing: the run can be taken up where it stood, inside its original limits.", RESUME)),
    (R::ConfigInvalid, row(
        "The loop file, a flag or an environment override is not valid, so nothing was run.",
        FixWhat, "Mend the line that the message names.", "loopexec run --dry-run")),
    (R::WorkspaceInvalid, row(
        "The tree, the workspace, the lock or `setup` was not in order: another run holds the tree, setup failed, uncommitted changes are refused, or a needed file cannot be read. Nothing was spent on the agent because of it.",
        FixWhat, "Do what the message says; the detail names the case.", DOCTOR)),
    (R::IsolationUnsatisfiable, row(
        "There is no place on this machine to run commands that meets what the loop asks for.",
        FixWhat, "Run where the wanted backend works; `isolation: {accept: [none]}` runs without one where none does, and the receipt says so.", DOCTOR)),
    (R::InvariantFailed, row(
        "Something that must always hold of the recorded state does not: state and receipt contradict each other, or a SMALL invariant is broken.",
        FixWhat, "Compare state and receipt, and restore what was edited by hand.", "loopexec verify --run-id ID")),
    (R::CredentialScopeInvalid, row(
        "A credential in reach of the agent is wider than the loop allows, or there is more than one.",
        FixWhat, "Take the surplus variable out of the job, or mint a narrower token.", DOCTOR)),
    (R::BlockedPathModified, row(
        "A path that no agent may touch was changed: git's own configuration and hooks, environment files, CI definitions, the loop file, the check's own script, or one of loopexec's control files. This outranks a green check.",
        DoNotRetry, "Read the named change. If it is wanted, make it yourself or take the path out of `guards.blocked_paths`; if not, tell the agent in `goal`.", REPORT)),
    (R::MetricIntegrityViolation, row(
        "What decides whether the tests pass is weaker than at the start: tests lost, skipped or emptied, a runner's configuration changed, or results forged or missing.",
        DoNotRetry, "Read the named change. If the task is meant to change it, list the path in `guards.mutable`.", REPORT)),
    (R::ObjectiveUnverified, row(
        "Recorded evidence does not hold: a receipt is altered, or a verdict does not reproduce in an equal environment.",
        DoNotRetry, "Do not trust the result. Compare the receipt with the copy that CI kept; then start a new run.", "loopexec verify --run-id ID")),
    (R::MeteringLost, row(
        "A budget or a pin needs to know what was used, and that can no longer be known. Unknown is never counted as zero.",
        FixWhat, "Make exec write its usage to $LOOPEXEC_USAGE_FILE, or do without by name: `receipt: {unpinned: [cost]}` and no money cap.", REPORT)),
    (R::BudgetExceeded, row(
        "The run used what it may use of money, tokens or calls, or more. A result that overspent is not a success, even if it is green.",
        RaiseTheLimit, "Raise `limits.usd`, `limits.tokens` or `limits.calls` if the failing set was still shrinking.", REPORT)),
    (R::CostAnomaly, row(
        "One iteration cost far more than those before it, as a run-away agent does.",
        FixWhat, "Read what exec did in that iteration before anything is spent again.", REPORT)),
    (R::ModelDriftDetected, row(
        "Another model, version or sampling answered than the loop pins, or which one it was could not be seen.",
        FixWhat, "Pin what the provider serves now, or relax by name with `receipt: {unpinned: [identity]}`.", REPORT)),
    (R::HeartbeatStale, row(
        "The run showed no life for longer than `human.stall`: its supervisor died or hangs.",
        Resume, "See that the process is gone, then take the run up.", RESUME)),
    (R::CheckFlaky, row(
        "The same snapshot gave two verdicts in fresh copies. No agent can converge on a check that answers by chance, and a green from it would prove nothing.",
        FixWhat, "Mend the named tests (time, order, shared state, randomness), or list them in `check.quarantine`: they then no longer decide.", REPORT)),
    (R::CheckHasSideEffects, row(
        "The check passes in a clean copy and fails when it runs again in the same place: it leaves something behind that its next run trips over.",
        FixWhat, "Make the check clean up, or start it with a line that does.", REPORT)),
    (R::CheckNotHermetic, row(
        "The verdict depends on something outside the snapshot: a variable, the HOME, the network, a path, the clock, or files that are not carried. The agent would be asked to mend what is not in the code.",
        FixWhat, "Add the line that the message names (`setup`, `pass_env`, `env`, `workspace.carry`).", DOCTOR)),
    (R::HermeticityViolation, row(
        "The check tried what its zone forbids, and the loop says that this ends the run (`guards.hermeticity: strict`).",
        FixWhat, "Take the access out of the check, or set `guards.hermeticity: note`.", REPORT)),
    (R::CheckUnrunnable, row(
        "The check gave no answer: it does not exist, could not be started, timed out or was killed - on the baseline, or three times in a row later. That is neither red nor green.",
        FixWhat, "Run the check by hand in a fresh clone; install what it needs in `setup`, or raise `check.timeout`.", DOCTOR)),
    (R::CheckInadequate, row(
        "The check cannot tell right from wrong here: it was green although it had to be red, or stays green when the changed code is broken on purpose.",
        FixWhat, "Write the test that fails without the change, or drop `check.require_red`.", REPORT)),
    (R::ExecutionFailure, row(
        "exec ended with an error `exec.max_failures` times in a row, so no work was done.",
        FixWhat, "Read what exec printed: a missing program, key or network is the usual cause.", REPORT)),
    (R::RateLimited, row(
        "The provider refuses more calls for now, so the agent cannot work.",
        Resume, "Wait for the reset that the message names, or set `exec.on_rate_limit: wait`.", RESUME)),
    (R::ContextBudgetUnsatisfiable, row(
        "Not even the goal and one failing test fit into `context.tokens`.",
        FixWhat, "Raise `context.tokens` or shorten `goal`.", "loopexec build-context")),
    (R::ComprehensionDebtExceeded, row(
        "More iterations were accepted than anyone has looked at, and the loop says how many may be.",
        Resume, "Read the accepted changes and acknowledge them.", REPORT)),
    (R::EscalationPending, row(
        "A gate asks for a person; the question was delivered and waits for its answer.",
        Resume, "Answer the question, then take the run up.", RESUME)),
    (R::HumanRequired, row(
        "A gate asks for a person, and no channel could deliver the question; or the person said no.",
        FixWhat, "Read the question in the report; set `human.escalate` to a channel that works here. After a no, start a new run.", REPORT)),
    (R::RewardHackingDetected, row(
        "A judge found the green bought, not earned: it satisfies the check without doing the task.",
        DoNotRetry, "Read the judge's sentence and the patch; then sharpen the check or the goal.", REPORT)),
    (R::ReviewerRejected, row(
        "The check was green and a reviewer vetoed it with a reason.",
        FixWhat, "Read the reason; put what it asks for into `goal` or into the check.", REPORT)),
    (R::SuccessConditionMet, row(
        "The check passed, fresh copies confirmed it, and every guard held.",
        Done, "Nothing.", "loopexec verify --run-id ID")),
    (R::UnsatisfiableConstraints, row(
        "Fixing one of two tests broke the other, at least twice, and in no state seen did both pass. The tests may contradict each other, or the attempts did not find a design that satisfies both.",
        DoNotRetry, "Compare the two named tests: they may ask for things that exclude each other.", REPORT)),
    (R::OscillationDetected, row(
        "The tree or the failing set came back to an earlier value twice: the agent goes in circles.",
        DoNotRetry, "Put into `goal` what the attempts have in common, or try another model or a smaller task.", REPORT)),
    (R::SameTestRegressed, row(
        "Tests that had passed were broken again, and the ratchet may not revert any more.",
        DoNotRetry, "Name the regressed tests in `goal`, or raise `ratchet.max_regressions` if each attempt came closer.", REPORT)),
    (R::SameFailureRepeated, row(
        "The same tests failed with the same messages although the code changed every time: what the agent changes is not what fails.",
        DoNotRetry, "Read the repeated message; give the agent the file it needs with `context.files`, or say it in `goal`.", REPORT)),
    (R::InfeasibleSuspected, row(
        "The code changed again and again, and wherever the failing set was measured it was that of the baseline: the task may not be solvable as it stands.",
        DoNotRetry, "Check by hand that the failing tests can pass at all; narrow with `check.targets`.", REPORT)),
    (R::NoProgressDetected, row(
        "The failing set had no new smallest size for `limits.no_progress` iterations. An agent that claims to be done and changes nothing ends here.",
        DoNotRetry, "Read the last outputs of exec: it may have done nothing, or lack something. Another goal, model or context is worth more than another run.", REPORT)),
    (R::NoActionableTasks, row(
        "There is no task left that could be worked on.",
        FixWhat, "Look at what blocks the open tasks of the plan.", REPORT)),
    (R::MaxIterationsReached, row(
        "The last allowed iteration ended without success, and nothing better explains it.",
        RaiseTheLimit, "Raise `limits.iterations` (or --max-iterations) if the failing set was still shrinking.", REPORT)),
    (R::TimeLimitReached, row(
        "The time limit passed without success, and nothing better explains it.",
        RaiseTheLimit, "Raise `limits.time` (or --timeout) if the failing set was still shrinking; a slow check can be narrowed with `check.targets`.", REPORT)),
];

/// Returns the command with the run's id, or what starts a new run where there is none; of a run its id and
/// the command that takes it up are known.
pub fn next_command(explanation: &Explanation, run: Option<(&str, &str)>) -> String {
    match run {
        Some((_, resume)) if explanation.next == RESUME => resume.to_owned(),
        Some((id, _)) => explanation.next.replace("ID", id),
        None if explanation.next.contains("ID") => {
            explanation.next.replace(" --run-id ID", "").replace(" ID", "")
        }
        None => explanation.next.to_owned(),
    }
}

/// Returns what starts again once the named thing is mended.
pub const fn afterwards(advice: Advice) -> Option<&'static str> {
    match advice {
        RaiseTheLimit | FixWhat => Some(RUN),
        Done | Resume | DoNotRetry => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_explained_in_its_order() {
        let listed: Vec<HaltReason> = TABLE.iter().map(|(reason, _)| *reason).collect();
        assert_eq!(listed, HaltReason::ALL);
        for reason in HaltReason::ALL {
            let found = explain(*reason);
            assert_ne!(found, UNLISTED, "{reason}");
            assert!(found.what.len() > 40 && found.what.ends_with('.'), "{reason}");
            assert!(found.mend.ends_with('.'), "{reason}");
            assert!(found.next.starts_with("loopexec "), "{reason}");
        }
    }

    #[test]
    fn success_is_done_and_nothing_else_is() {
        for reason in HaltReason::ALL {
            let done = explain(*reason).advice == Done;
            assert_eq!(done, *reason == HaltReason::SuccessConditionMet, "{reason}");
        }
    }

    #[test]
    fn the_next_command_names_the_run_or_the_latest() {
        let found = explain(HaltReason::Interrupted);
        assert_eq!(
            next_command(&found, Some(("R1", "loopexec run --base main --resume R1"))),
            "loopexec run --base main --resume R1"
        );
        assert_eq!(next_command(&found, None), "loopexec run --resume");
        let found = explain(HaltReason::NoProgressDetected);
        assert_eq!(next_command(&found, None), "loopexec report");
    }
}
