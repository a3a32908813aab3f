//! Which credentials exec is given: into the agent zone goes one at the most.
//!
//! A zone keeps out what lies in the caller's HOME and environment; what the loop passes by name is the loop's
//! to answer for, and an agent that holds two keys can use one to carry out what it reads with the other.

use crate::config::spec::LoopSpec;
use crate::error::{Error, Kind, Result};
use crate::process::environment::Variables;
use crate::receipt::secrets::{DEFAULT_NAMES, name_matches};
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// Refuses a loop that gives exec more than one credential where it runs in a zone.
///
/// # Errors
/// `credential_scope_invalid`, naming the variables and never a value.
pub fn check(spec: &LoopSpec, caller: &Variables) -> Result<()> {
    if !spec.isolation.backend.isolates() {
        return Ok(());
    }
    let exec = &spec.exec.command;
    let is_set = |name: &&String| caller.get(OsStr::new(name)).is_some_and(|v| !v.is_empty());
    let passed = exec.pass_env.iter().filter(is_set);
    let written = exec.env.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name);
    let patterns = spec.receipt.redact.as_deref();
    let is_secret = |name: &&String| {
        let fits = |pattern: &str| name_matches(pattern, OsStr::new(name));
        let named = patterns.is_some_and(|own| own.iter().any(|pattern| fits(pattern)));
        named || DEFAULT_NAMES.iter().any(|pattern| fits(pattern))
    };
    let found: BTreeSet<&str> =
        passed.chain(written).filter(is_secret).map(String::as_str).collect();
    if found.len() < 2 {
        return Ok(());
    }
    let names: Vec<&str> = found.into_iter().collect();
    let what = format!("exec is given {} credentials: {}", names.len(), names.join(", "));
    Err(Error::new(Kind::CredentialScopeInvalid, what).hint(format!(
        "leave one in exec.pass_env ({}, say); what only the check needs belongs into check.pass_env",
        names[0]
    )))
}
