//! What a CI platform is told, and which exit code a job ends with: `ci`, `exit_codes`, `fail_on`.
//!
//! Applying them to an outcome is the duty of `commands::ci`.

use super::kind::Val;
use super::spec::{CiSpec, Comment};
use super::take::Builder;
use crate::config::diagnostic::{nearest, quote};
use crate::domain::reason::HaltReason;
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of classes that no loop file may turn into success.
const NEVER_ZERO: [u8; 6] = [13, 14, 15, 30, 40, 50];

/// Says whether the class of a name always fails a job.
pub fn always_fails(class: &str) -> bool {
    HaltReason::ALL
        .iter()
        .map(|reason| reason.class())
        .any(|known| known.name() == class && NEVER_ZERO.contains(&known.code()))
}

/// Returns the names of the classes a run can end with.
fn classes() -> BTreeSet<&'static str> {
    HaltReason::ALL.iter().map(|reason| reason.class().name()).collect()
}

impl Builder<'_> {
    /// Reads the exit codes of classes.
    pub(super) fn exit_codes(&self) -> Result<BTreeMap<String, u8>> {
        let Some(Val::Ints(codes)) = self.val("exit_codes") else { return Ok(BTreeMap::new()) };
        let at = self.at("exit_codes").unwrap_or_default();
        let known = classes();
        let mut read = BTreeMap::new();
        for (name, code) in codes {
            if !known.contains(name.as_str()) {
                let sentence = format!("there is no exit class {}", quote(name));
                let error = self.sources.error(at, &sentence);
                return Err(match nearest(name, known.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => error.hint(format!("a class is one of {}", list(&known))),
                });
            }
            if *code == 0 && always_fails(name) {
                let sentence = format!("`exit_codes.{name}` cannot be 0: such a halt always fails");
                return Err(self.sources.error(at, &sentence).hint("give it another number"));
            }
            read.insert(name.clone(), u8::try_from(*code).unwrap_or(u8::MAX));
        }
        Ok(read)
    }

    /// Reads what fails a job.
    pub(super) fn fail_on(&self) -> Result<Option<Vec<String>>> {
        let Some(names) = self.opt_texts("fail_on") else { return Ok(None) };
        let at = self.at("fail_on").unwrap_or_default();
        check_fail_on(&names).map_err(|(sentence, hint)| {
            let error = self.sources.error(at, &sentence);
            if hint.is_empty() { error } else { error.hint(hint) }
        })?;
        Ok(Some(names))
    }

    /// Reads what a platform is told.
    pub(super) fn ci(&self) -> Result<CiSpec> {
        let is = |key: &str| matches!(self.val(key), Some(Val::Bool(true)));
        Ok(CiSpec {
            annotations: is("ci.annotations"),
            comment: self.choice("ci.comment", Comment::from_word)?,
            check_run: is("ci.check_run"),
            summary: is("ci.summary"),
            artifact: is("ci.artifact"),
            artifact_name: self.opt_text("ci.artifact_name"),
            retention_days: self
                .opt_int("ci.retention_days")
                .map(|days| u32::try_from(days).unwrap_or(u32::MAX)),
        })
    }
}

/// Checks the names of classes and reasons that fail a job; an error is a sentence and what to do.
pub fn check_fail_on(names: &[String]) -> Result<(), (String, String)> {
    let mut known = classes();
    known.extend(HaltReason::ALL.iter().map(|reason| reason.as_str()));
    for name in names {
        if !known.contains(name.as_str()) {
            let sentence = format!("`fail_on` cannot name {}: no class or reason", quote(name));
            let hint = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "the README has the table of reasons and classes".to_owned(),
            };
            return Err((sentence, hint));
        }
    }
    Ok(())
}

fn list(names: &BTreeSet<&str>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
