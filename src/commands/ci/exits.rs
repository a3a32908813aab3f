//! Which code a job ends with: converged is 0, all else the number of its class, as the loop file says.

use crate::commands::outcome::Outcome;
use crate::config::always_fails;
use crate::config::spec::LoopSpec;
use crate::domain::reason::HaltReason;
use crate::exit::ExitClass;
use std::collections::BTreeMap;

/// What a loop says of exit codes.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Codes by class, where they are not the class's own.
    pub codes: BTreeMap<String, u8>,
    /// Names of classes and reasons that fail a job; none is all but converged.
    pub fail_on: Option<Vec<String>>,
}

impl Rules {
    /// Takes the rules of a loop.
    pub fn of(spec: &LoopSpec) -> Self {
        Self { codes: spec.exit_codes.clone(), fail_on: spec.fail_on.clone() }
    }

    /// Says whether a halt fails the job.
    ///
    /// A breach, a check that cannot be trusted and a broken place always do: no list leaves them out.
    pub fn fails(&self, class: ExitClass, reason: Option<HaltReason>) -> bool {
        match class {
            ExitClass::Nominal | ExitClass::Converged => false,
            // Bad arguments are no halt that a list could name.
            _ if reason.is_none() || always_fails(class.name()) => true,
            _ if self.codes.get(class.name()) == Some(&0) => false,
            _ => self.fail_on.as_ref().is_none_or(|names| {
                names.iter().any(|name| {
                    name == class.name() || reason.is_some_and(|reason| name == reason.as_str())
                })
            }),
        }
    }

    /// Returns the code that the process ends with.
    pub fn code(&self, class: ExitClass, reason: Option<HaltReason>) -> u8 {
        let own = self.codes.get(class.name()).copied();
        match class {
            ExitClass::Nominal => ExitClass::Nominal.code(),
            ExitClass::Converged => own.unwrap_or(ExitClass::Nominal.code()),
            _ if !self.fails(class, reason) => ExitClass::Nominal.code(),
            _ => own.unwrap_or(class.code()),
        }
    }
}

/// Sets the code that the process ends with.
pub fn apply(outcome: &mut Outcome, rules: &Rules) {
    let reason = outcome.object.get("halt_reason").and_then(|name| name.as_str());
    let reason = reason.and_then(HaltReason::from_name);
    outcome.process_exit = Some(rules.code(outcome.class, reason));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_leaves_out_what_it_does_not_name_but_never_a_breach() {
        let rules = Rules { fail_on: Some(vec!["cap".into()]), ..Rules::default() };
        let code = |reason: HaltReason| rules.code(reason.class(), Some(reason));
        assert_eq!(code(HaltReason::SuccessConditionMet), 0);
        assert_eq!(code(HaltReason::MaxIterationsReached), 12);
        assert_eq!(code(HaltReason::NoProgressDetected), 0);
        for reason in HaltReason::ALL.iter().copied() {
            if [13, 14, 15, 30, 40, 50].contains(&reason.class().code()) {
                assert_eq!(code(reason), reason.class().code(), "{reason}");
            }
        }
        assert_eq!(rules.code(ExitClass::Usage, None), ExitClass::Usage.code());
    }

    #[test]
    fn a_reason_can_be_named_alone_and_a_class_has_its_own_code() {
        let rules = Rules {
            fail_on: Some(vec!["no_progress_detected".into()]),
            codes: BTreeMap::from([("no-convergence".into(), 3), ("converged".into(), 7)]),
        };
        let code = |reason: HaltReason| rules.code(reason.class(), Some(reason));
        assert_eq!(code(HaltReason::NoProgressDetected), 3);
        assert_eq!(code(HaltReason::OscillationDetected), 0);
        assert_eq!(code(HaltReason::SuccessConditionMet), 7);
        let all = Rules::default();
        assert_eq!(all.code(ExitClass::Budget, Some(HaltReason::BudgetExceeded)), 18);
    }
}
