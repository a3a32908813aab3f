//! The inputs of the action, as the runner hands them over in `INPUT_…` variables.
//!
//! The names and meanings are those of `action.yml`; an empty input means: as the loop file says.

use crate::config::check_fail_on;
use crate::config::spec::{CiSpec, Comment, LoopSpec};
use crate::error::{Error, Kind, Result};
use std::path::PathBuf;

/// What the action was given.
#[derive(Clone, Default)]
pub struct Inputs {
    /// The loop file's text.
    pub text: Option<String>,
    /// The path of a loop file.
    pub config: Option<PathBuf>,
    /// The folder to work in.
    pub working_directory: Option<PathBuf>,
    /// The token for the platform's API.
    pub token: Option<String>,
    /// Overrides `ci.annotations`.
    pub annotations: Option<bool>,
    /// Overrides `ci.comment`.
    pub comment: Option<Comment>,
    /// Overrides `ci.check_run`.
    pub check_run: Option<bool>,
    /// Overrides `ci.summary`.
    pub summary: Option<bool>,
    /// Overrides `ci.artifact`.
    pub artifact: Option<bool>,
    /// Overrides `ci.artifact_name`.
    pub artifact_name: Option<String>,
    /// Overrides `ci.retention_days`.
    pub retention_days: Option<u32>,
    /// Overrides `fail_on`.
    pub fail_on: Option<Vec<String>>,
    /// Overrides `isolation.accept`.
    pub accept_isolation: Vec<String>,
    /// Which run is taken up.
    pub resume: Option<String>,
    /// The pull request to comment on.
    pub pr_number: Option<u64>,
    /// Whether `pull_request_target` and its like may run a loop of the base revision.
    pub allow_pull_request_target: bool,
    /// The job's matrix as JSON.
    pub matrix: String,
}

impl std::fmt::Debug for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is a secret, and the text may hold what only its owner should read.
        f.debug_struct("Inputs").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Inputs {
    /// Reads the inputs by their names in `action.yml`.
    ///
    /// # Errors
    /// `config_invalid` names the input and what it may be.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let raw = |name: &str| {
            let value = variable(&format!("INPUT_{}", name.to_uppercase()))?;
            (!value.trim().is_empty()).then_some(value)
        };
        let word = |name: &str| raw(name).map(|value| value.trim().to_owned());
        let inputs = Self {
            text: raw("loop"),
            config: word("config").map(PathBuf::from),
            working_directory: word("working-directory").map(PathBuf::from),
            token: word("github-token"),
            annotations: flag("annotations", word("annotations"))?,
            comment: comment(word("comment"))?,
            check_run: flag("check-run", word("check-run"))?,
            summary: flag("summary", word("summary"))?,
            artifact: flag("artifact", word("artifact"))?,
            artifact_name: word("artifact-name"),
            retention_days: number("retention-days", word("retention-days"), 400)?
                .map(|days| u32::try_from(days).unwrap_or(400)),
            fail_on: word("fail-on").map(|text| list(&text)),
            accept_isolation: word("accept-isolation").map(|text| list(&text)).unwrap_or_default(),
            resume: word("resume"),
            pr_number: number("pr-number", word("pr-number"), u64::from(u32::MAX))?,
            allow_pull_request_target: flag(
                "allow-pull-request-target",
                word("allow-pull-request-target"),
            )?
            .unwrap_or(false),
            // What a job without a matrix has there.
            matrix: word("matrix")
                .map(|text| compact(&text))
                .filter(|text| text != "null" && text != "{}")
                .unwrap_or_default(),
        };
        if inputs.text.is_some() && inputs.config.is_some() {
            return Err(wrong("loop", "stands beside `config`", "give one of the two"));
        }
        if let Some(names) = &inputs.fail_on {
            check_fail_on(names).map_err(|(sentence, hint)| {
                Error::new(Kind::ConfigInvalid, format!("the input `fail-on`: {sentence}"))
                    .hint(hint)
            })?;
        }
        Ok(inputs)
    }

    /// Returns what the platform is told: the loop's own settings under the action's.
    pub fn over(&self, spec: Option<&LoopSpec>) -> CiSpec {
        let own = spec.map(|spec| spec.ci.clone()).unwrap_or(CiSpec {
            annotations: true,
            comment: Comment::Sticky,
            check_run: false,
            summary: true,
            artifact: true,
            artifact_name: None,
            retention_days: None,
        });
        CiSpec {
            annotations: self.annotations.unwrap_or(own.annotations),
            comment: self.comment.unwrap_or(own.comment),
            check_run: self.check_run.unwrap_or(own.check_run),
            summary: self.summary.unwrap_or(own.summary),
            artifact: self.artifact.unwrap_or(own.artifact),
            artifact_name: self.artifact_name.clone().or(own.artifact_name),
            retention_days: self.retention_days.or(own.retention_days),
        }
    }
}

fn wrong(name: &str, what: &str, hint: &str) -> Error {
    Error::new(Kind::ConfigInvalid, format!("the input `{name}` {what}")).hint(hint)
}

fn flag(name: &str, value: Option<String>) -> Result<Option<bool>> {
    match value.as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(wrong(
            name,
            "is neither `true` nor `false`",
            "leave it out to do as the loop file says",
        )),
    }
}

fn comment(value: Option<String>) -> Result<Option<Comment>> {
    match value.as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(Comment::Sticky)),
        Some("false") => Ok(Some(Comment::Off)),
        Some(word) => match Comment::from_word(word) {
            Some(comment) => Ok(Some(comment)),
            None => Err(wrong(
                "comment",
                "is neither `sticky` nor `off`",
                "leave it out to do as the loop file says",
            )),
        },
    }
}

fn number(name: &str, value: Option<String>, most: u64) -> Result<Option<u64>> {
    let Some(value) = value else { return Ok(None) };
    match value.parse::<u64>() {
        Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
        _ => Err(wrong(
            name,
            &format!("is no whole number from 1 to {most}"),
            "give a number, or leave it out",
        )),
    }
}

/// Splits a list at commas and line ends.
fn list(text: &str) -> Vec<String> {
    let parts = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.trim_start_matches("- ").to_owned()).collect()
}

/// Returns JSON without blanks; what is none stays as it is.
fn compact(text: &str) -> String {
    serde_json::from_str::<serde_json::Value>(text)
        .map_or_else(|_| text.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<Inputs> {
        Inputs::read(|name| {
            let known = given.iter().find(|(known, _)| format!("INPUT_{known}") == name);
            known.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn empty_means_as_the_loop_file_says() {
        let inputs = read(&[("LOOP", ""), ("COMMENT", ""), ("MATRIX", "null")]).unwrap();
        assert!(inputs.text.is_none() && inputs.comment.is_none() && inputs.matrix.is_empty());
        assert!(inputs.over(None).annotations && !inputs.over(None).check_run);
    }

    #[test]
    fn what_is_given_wins() {
        let given =
            [("CHECK-RUN", "true"), ("COMMENT", "off"), ("FAIL-ON", "cap, budget\nno-convergence")];
        let inputs = read(&given).unwrap();
        assert!(inputs.over(None).check_run);
        assert_eq!(inputs.over(None).comment, Comment::Off);
        assert_eq!(inputs.fail_on.unwrap(), ["cap", "budget", "no-convergence"]);
    }

    #[test]
    fn a_bad_input_is_named_and_not_repeated() {
        for (name, value) in [
            ("ANNOTATIONS", "yes"),
            ("COMMENT", "loud"),
            ("RETENTION-DAYS", "0"),
            ("PR-NUMBER", "1; rm"),
            ("FAIL-ON", "everything"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert_eq!(error.kind, Kind::ConfigInvalid);
            assert!(error.what.contains(&name.to_lowercase()), "{}", error.what);
        }
        assert!(read(&[("LOOP", "a"), ("CONFIG", "b")]).is_err());
    }
}
