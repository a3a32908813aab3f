//! What a run may do and what it must hold to: everything `judge` and `decide` need to know.
//!
//! The plan is recorded in the receipt's first event, so that anyone can fold the observations
//! again. It is made from the loop file by `commands`.

use crate::domain::gate::{Gate, ProtectedChange};
use serde::{Deserialize, Serialize};

/// Caps and patience of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Iterations at the most.
    pub iterations: u32,
    /// Wall-clock time at the most, in milliseconds.
    pub time_ms: u64,
    /// Iterations without a new smallest failing set.
    pub no_progress: u32,
    /// Iterations with the same failure although the tree changed.
    pub same_failure: u32,
    /// Money at the most, in micro-dollars.
    pub usd_micro: Option<i64>,
    /// Tokens at the most.
    pub tokens: Option<u64>,
    /// Model calls at the most.
    pub calls: Option<u64>,
    /// Changed files above which a person has to agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_files: Option<u64>,
    /// Added and removed lines above which a person has to agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_lines: Option<u64>,
}

impl Limits {
    /// Says whether the size of the patch has to be known.
    pub const fn caps_patch(&self) -> bool {
        self.patch_files.is_some() || self.patch_lines.is_some()
    }
}

/// What the ratchet does with a test of the accepted state that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRegression {
    /// The next iteration starts from the accepted snapshot.
    Revert,
    /// The run halts.
    Halt,
}

/// How usage becomes known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metering {
    /// No model runs: nothing is spent.
    NoModel,
    /// The exec step writes a usage file.
    File,
    /// Usage is not known and the loop said that it does without.
    Unknown,
}

/// What fewer assertions do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Assertions {
    /// They are a breach.
    #[default]
    Strict,
    /// They are told.
    Report,
    /// Nothing.
    Off,
}

/// What a breach does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBreach {
    /// The run halts.
    #[default]
    Halt,
    /// The next iteration starts from the accepted snapshot, so often.
    Revert,
}

/// What an attempt of the check to reach what its zone does not have does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hermeticity {
    /// It is noted.
    #[default]
    Note,
    /// The run halts.
    Strict,
}

impl Hermeticity {
    /// Says whether it is the default, which no plan says.
    fn is_note(&self) -> bool {
        *self == Self::Note
    }
}

/// How the guards of the test surface judge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRules {
    /// What fewer assertions do.
    #[serde(default)]
    pub assertions: Assertions,
    /// What a breach does.
    #[serde(default)]
    pub on_breach: OnBreach,
    /// Reverted breaches before one halts.
    #[serde(default)]
    pub max_reverts: u32,
    /// Parts per million by which coverage may fall.
    #[serde(default)]
    pub coverage_tolerance_ppm: u32,
    /// What a forbidden attempt of the check does.
    #[serde(default, skip_serializing_if = "Hermeticity::is_note")]
    pub hermeticity: Hermeticity,
}

/// What a run may do and what it must hold to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Caps and patience.
    pub limits: Limits,
    /// Failed execs in a row before the run halts.
    pub exec_max_failures: u32,
    /// The exit code of the check that means green.
    pub success_exit_code: i32,
    /// Runs of the check on the baseline.
    pub baseline_runs: u32,
    /// Runs in fresh copies that must be green before the loop ends.
    pub confirm: u32,
    /// Ids that decide green; empty: all.
    pub targets: Vec<String>,
    /// Known flaky ids.
    pub quarantine: Vec<String>,
    /// A green baseline is `check_inadequate`.
    pub require_red: bool,
    /// The wanted bound on the flip rate, in parts per million.
    pub max_flake_ppm: Option<u32>,
    /// What the ratchet does with a regression.
    pub on_regression: OnRegression,
    /// Reverts before a regression halts.
    pub max_regressions: u32,
    /// Blocked paths, gitignore syntax from the root.
    pub blocked_paths: Vec<String>,
    /// How the guards of the test surface judge.
    #[serde(default)]
    pub guards: GuardRules,
    /// How usage becomes known.
    pub metering: Metering,
    /// What needs a person's yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gate>,
    /// What a pull request changes of the protected sections, where a person has to agree to it
    /// before anything runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<ProtectedChange>,
}

impl Plan {
    /// Says whether there is anything that a person may have to agree to.
    pub const fn may_ask(&self) -> bool {
        !self.gates.is_empty() || self.protected.is_some() || self.limits.caps_patch()
    }

    /// Says whether an id is in a list that names ids, or base ids of parametrised tests.
    pub fn names(list: &[String], id: &str) -> bool {
        list.iter().any(|name| {
            id == name
                || id
                    .strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.starts_with('[') || rest.starts_with('#'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn a_base_id_names_its_parametrised_cases_and_no_neighbour() {
        let list = vec!["t.py::test_a".to_owned()];
        assert!(Plan::names(&list, "t.py::test_a"));
        assert!(Plan::names(&list, "t.py::test_a[1-2]"));
        assert!(!Plan::names(&list, "t.py::test_ab"));
    }
}
