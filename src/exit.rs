//! The only place where exit numbers are written.
//!
//! Numbers are frozen: adding one is a minor change, changing one a breaking change. Which halt
//! reason belongs to which class stands in `domain::reason`.

/// The coarse class of an outcome; its number is the process exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitClass {
    /// The command did its job and there was no loop to halt.
    Nominal,
    /// Bad flags or arguments.
    Usage,
    /// The check passed and every guard held.
    Converged,
    /// Nothing left to do, or a person is needed.
    TerminalBlocked,
    /// A cap on iterations or time.
    Cap,
    /// A guard was breached, or evidence does not reproduce.
    Integrity,
    /// The check cannot be trusted.
    OracleUntrusted,
    /// The check does not test enough.
    CheckInadequate,
    /// A judgement that can be answered and resumed.
    ResumableJudgment,
    /// The loop does not converge.
    NoConvergence,
    /// Money, tokens or calls.
    Budget,
    /// Liveness or drift.
    Liveness,
    /// An invariant of the state failed.
    Invariant,
    /// A signal.
    Interrupted,
    /// The workspace, the loop file or the place to run in.
    Workspace,
    /// The exec step failed.
    Execution,
    /// A defect of loopexec itself.
    Internal,
}

impl ExitClass {
    /// Every class, in the order of the numbers.
    pub const ALL: [Self; 17] = [
        Self::Nominal,
        Self::Usage,
        Self::Converged,
        Self::TerminalBlocked,
        Self::Cap,
        Self::Integrity,
        Self::OracleUntrusted,
        Self::CheckInadequate,
        Self::ResumableJudgment,
        Self::NoConvergence,
        Self::Budget,
        Self::Liveness,
        Self::Invariant,
        Self::Interrupted,
        Self::Workspace,
        Self::Execution,
        Self::Internal,
    ];

    /// Returns the frozen number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Nominal => 0,
            Self::Usage => 2,
            Self::Converged => 10,
            Self::TerminalBlocked => 11,
            Self::Cap => 12,
            Self::Integrity => 13,
            Self::OracleUntrusted => 14,
            Self::CheckInadequate => 15,
            Self::ResumableJudgment => 16,
            Self::NoConvergence => 17,
            Self::Budget => 18,
            Self::Liveness => 19,
            Self::Invariant => 20,
            Self::Interrupted => 21,
            Self::Workspace => 30,
            Self::Execution => 40,
            Self::Internal => 50,
        }
    }

    /// Returns the name of the class as it stands in `exit_class`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nominal => "nominal",
            Self::Usage => "usage",
            Self::Converged => "converged",
            Self::TerminalBlocked => "terminal-blocked",
            Self::Cap => "cap",
            Self::Integrity => "integrity",
            Self::OracleUntrusted => "oracle-untrusted",
            Self::CheckInadequate => "check-inadequate",
            Self::ResumableJudgment => "resumable-judgment",
            Self::NoConvergence => "no-convergence",
            Self::Budget => "budget",
            Self::Liveness => "liveness/drift",
            Self::Invariant => "invariant",
            Self::Interrupted => "interrupted",
            Self::Workspace => "workspace",
            Self::Execution => "execution",
            Self::Internal => "internal",
        }
    }
}
