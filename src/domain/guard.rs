//! Guards that can only veto: blocked paths and control files; `weakening` has those of the test surface.
//!
//! Which digests are compared is measured by `workspace`; here they are only judged.

use crate::domain::evidence::Breach;
use crate::domain::observation::{Observation, PathChange};
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;
use crate::domain::weakening;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// The blocked patterns, ready to match.
#[derive(Debug)]
pub struct BlockedPaths(Gitignore);

impl BlockedPaths {
    /// Compiles patterns in gitignore syntax; a pattern that cannot be compiled is left out.
    ///
    /// `config` refuses such a pattern with its line before a run starts.
    pub fn new(patterns: &[String]) -> Self {
        let mut builder = GitignoreBuilder::new("/");
        for pattern in patterns {
            // `config` has refused what does not compile; nothing is left to report here.
            let _ = builder.add_line(None, pattern);
        }
        Self(builder.build().unwrap_or_else(|_| Gitignore::empty()))
    }

    /// Returns the pattern that blocks a path, if one does.
    pub fn blocks(&self, path: &str) -> Option<&str> {
        let path = std::path::Path::new("/").join(path);
        match self.0.matched_path_or_any_parents(path, false) {
            ignore::Match::Ignore(glob) => Some(glob.original()),
            _ => None,
        }
    }
}

/// Returns the compiled patterns of a plan.
///
/// A run and a fold judge one plan thousands of times, and compiling takes longer than all the rest
/// of a step, so the last ones are kept.
fn compiled(patterns: &[String]) -> Arc<BlockedPaths> {
    static LAST: Mutex<Option<(Vec<String>, Arc<BlockedPaths>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((of, blocked)) if of == patterns => blocked.clone(),
        _ => {
            let blocked = Arc::new(BlockedPaths::new(patterns));
            *last = Some((patterns.to_vec(), blocked.clone()));
            blocked
        }
    }
}

/// Judges paths and control keys against t0.
pub fn judge(plan: &Plan, check_writes: &[String], observation: &Observation) -> Vec<Breach> {
    let blocked = compiled(&plan.blocked_paths);
    let by_exec = observation.changes.iter().map(|change| (change, "exec"));
    let by_check = observation
        .check_changes
        .iter()
        .filter(|change| !check_writes.contains(&change.path))
        .map(|change| (change, "the check"));
    let mut breaches: Vec<Breach> = by_exec
        .chain(by_check)
        .filter_map(|(change, who)| {
            let pattern = blocked.blocks(&change.path)?;
            Some(breach(
                "blocked_paths",
                change,
                format!(
                    "blocked path {} {} by {who} (pattern `{pattern}`)",
                    change.path,
                    done(&change.kind)
                ),
            ))
        })
        .collect();
    // What lies outside of the workspace is told at a would-be green: `weakening` does that.
    let inside = observation.control_changes.iter().filter(|change| !is_outside(&change.path));
    breaches.extend(inside.map(|change| {
        if !is_control(&change.path) && blocked.blocks(&change.path).is_none() {
            // A setting that git ignores.
            return weakening::hidden_setting(&change.path, &done(&change.kind));
        }
        breach(
            "control_files",
            change,
            format!("protected file {} {}", change.path, done(&change.kind)),
        )
    }));
    breaches.extend(weakening::settings(observation));
    breaches
}

/// Says whether a key is of git's own folder or of loopexec's state: no loop file gives these away.
pub fn is_control(key: &str) -> bool {
    key.split('/').any(|part| matches!(part, ".git" | ".loopexec" | ".loop_state.json"))
}

/// Says whether a key is a file outside of the workspace that the check uses.
pub fn is_outside(key: &str) -> bool {
    key.starts_with('/')
}

/// Returns what was done to a path, as a clause.
fn done(kind: &str) -> String {
    match kind {
        "mode" => "got another mode".to_owned(),
        "type" => "was replaced by a link, or by a file where a link was".to_owned(),
        other => format!("was {other}"),
    }
}

fn breach(guard: &str, change: &PathChange, what: String) -> Breach {
    Breach {
        guard: guard.to_owned(),
        reason: HaltReason::BlockedPathModified,
        path: change.path.clone(),
        line: None,
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_follow_gitignore_with_negation() {
        let patterns: Vec<String> =
            [".env*", "!.env.example", "infra/**", "/loop.yml"].map(String::from).to_vec();
        let blocked = BlockedPaths::new(&patterns);
        assert_eq!(blocked.blocks(".env"), Some(".env*"));
        assert_eq!(blocked.blocks("sub/.env.local"), Some(".env*"));
        assert_eq!(blocked.blocks(".env.example"), None);
        assert_eq!(blocked.blocks("infra/a/b.tf"), Some("infra/**"));
        assert_eq!(blocked.blocks("loop.yml"), Some("/loop.yml"));
        assert_eq!(blocked.blocks("sub/loop.yml"), None);
        assert_eq!(blocked.blocks("src/lib.rs"), None);
    }

    #[test]
    fn other_patterns_are_never_answered_with_the_last_ones() {
        let (env, keys) = (["*.env".to_owned()], ["*.key".to_owned()]);
        for _ in 0..2 {
            assert_eq!(compiled(&env).blocks("a.env"), Some("*.env"));
            assert_eq!(compiled(&env).blocks("a.key"), None);
            assert_eq!(compiled(&keys).blocks("a.key"), Some("*.key"));
            assert_eq!(compiled(&keys).blocks("a.env"), None);
        }
    }
}
