//! From the resolved loop to the plan that `judge` and `decide` hold a run to.

use crate::config::Resolved;
use crate::config::spec::{self, LoopSpec};
use crate::domain::plan::{
    Assertions, GuardRules, Hermeticity, Limits, Metering, OnBreach, OnRegression, Plan,
};
use crate::workspace::carry::Carry;
use crate::workspace::paths::pattern;
use serde_json::Value;

/// Returns the plan of a loop.
///
/// `prefix` is the folder that the run was started in, relative to the root of the tree, with `/`
/// at its end unless it is empty: the loop file and the check's scripts are named from there.
pub fn plan_of(loop_spec: &LoopSpec, prefix: &str) -> Plan {
    let limits = &loop_spec.limits;
    let check = &loop_spec.check;
    let mut blocked_paths = loop_spec.guards.blocked_paths.clone();
    blocked_paths.extend(
        loop_spec
            .guards
            .blocked_files
            .iter()
            .map(|file| format!("/{prefix}{}", pattern(file.trim_start_matches("./")))),
    );
    Plan {
        limits: Limits {
            iterations: limits.iterations,
            time_ms: u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX),
            no_progress: limits.no_progress,
            same_failure: limits.same_failure,
            usd_micro: limits.usd.map(|usd| usd.0),
            tokens: limits.tokens,
            calls: limits.calls,
            patch_files: limits.patch_files,
            patch_lines: limits.patch_lines,
        },
        exec_max_failures: loop_spec.exec.max_failures,
        success_exit_code: check.success_exit_code,
        baseline_runs: check.baseline_runs,
        confirm: check.confirm,
        targets: check.targets.clone().unwrap_or_default(),
        quarantine: check.quarantine.clone(),
        require_red: check.require_red,
        max_flake_ppm: check.max_flake_rate.map(ppm),
        on_regression: match loop_spec.ratchet.on_regression {
            spec::OnRegression::Revert => OnRegression::Revert,
            spec::OnRegression::Halt => OnRegression::Halt,
        },
        max_regressions: loop_spec.ratchet.max_regressions,
        blocked_paths,
        guards: GuardRules {
            assertions: match loop_spec.guards.assertions {
                spec::Assertions::Strict => Assertions::Strict,
                spec::Assertions::Report => Assertions::Report,
                spec::Assertions::Off => Assertions::Off,
            },
            on_breach: match loop_spec.guards.on_breach {
                spec::OnBreach::Halt => OnBreach::Halt,
                spec::OnBreach::Revert => OnBreach::Revert,
            },
            max_reverts: loop_spec.guards.max_reverts,
            hermeticity: match loop_spec.guards.hermeticity {
                spec::Hermeticity::Note => Hermeticity::Note,
                spec::Hermeticity::Strict => Hermeticity::Strict,
            },
            // Percentage points, as parts per million.
            coverage_tolerance_ppm: ppm(loop_spec.guards.coverage_tolerance / 100.0),
        },
        metering: match loop_spec.model.metering() {
            spec::Metering::None if loop_spec.model == spec::ModelSpec::None => Metering::NoModel,
            spec::Metering::File => Metering::File,
            spec::Metering::None | spec::Metering::Unknown => Metering::Unknown,
        },
        gates: loop_spec.human.approve.clone(),
        protected: None,
    }
}

/// Returns the plan of a resolved loop, with what a person has to agree to before anything runs.
pub fn plan_for(resolved: &Resolved, prefix: &str) -> Plan {
    Plan { protected: resolved.protected.clone(), ..plan_of(&resolved.spec, prefix) }
}

/// Returns the choice of ignored paths as the workspace layer takes it.
pub fn carry_of(carry: &spec::Carry) -> Carry {
    match carry {
        spec::Carry::Auto => Carry::Auto,
        spec::Carry::None => Carry::None,
        spec::Carry::Paths(paths) => Carry::List(paths.clone()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the loop file holds a rate between 0 and 1"
)]
fn ppm(rate: f64) -> u32 {
    (rate * 1e6).round() as u32
}

/// Turns numbers that are not whole into text: a receipt holds no binary fractions.
pub fn without_fractions(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => *value = Value::String(number.to_string()),
        Value::Array(list) => list.iter_mut().for_each(without_fractions),
        Value::Object(map) => map.values_mut().for_each(without_fractions),
        _ => {}
    }
}
