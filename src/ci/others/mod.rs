//! Buildkite, Azure, TeamCity, Jenkins, CircleCI, Bitbucket.
//!
//! | file | duty |
//! |---|---|
//! | `azure` | lines that Azure Pipelines takes as logging commands |
//! | `teamcity` | lines that TeamCity takes as service messages |
//! | `buildkite` | calls of `buildkite-agent` |
//! | `bitbucket` | reports and annotations of Bitbucket's Code Insights |
//! | `inert` | foreign text that none of them takes for a command |
//!
//! Jenkins and CircleCI read the files of `formats`; what to do with these is one line of advice.

pub mod azure;
pub mod bitbucket;
pub mod buildkite;
pub mod inert;
pub mod teamcity;

use super::formats::legal;
use super::platform::Platform;
use super::subject::Subject;
use std::path::PathBuf;

/// Returns the lines that tell a result to a platform that reads logs, to be printed as they are;
/// none for all others.
pub fn lines(platform: Platform, subject: &Subject) -> Vec<String> {
    match platform {
        Platform::Azure => azure::lines(subject),
        Platform::TeamCity => teamcity::lines(subject),
        Platform::Buildkite => buildkite::lines(subject),
        _ => Vec::new(),
    }
}

/// Returns the lines that make a platform that reads logs take up files; none for all others.
///
/// `files` are absolute paths of what [`super::formats::write_all`] wrote and of the bundle.
pub fn uploads(platform: Platform, subject: &Subject, files: &[PathBuf]) -> Vec<String> {
    match platform {
        Platform::Azure => azure::uploads(files),
        Platform::TeamCity => teamcity::uploads(subject, files),
        _ => Vec::new(),
    }
}

/// Returns what to write into the platform's own configuration so that it takes up the files.
pub const fn advice(platform: Platform) -> Option<&'static str> {
    match platform {
        Platform::Jenkins => Some(
            "Jenkins: `junit 'loopexec-junit.xml'`, `recordIssues tool: sarif(pattern: 'loopexec.sarif')` and `archiveArtifacts 'loopexec*'` in `post { always { … } }`; `sh(returnStatus: true, …)` gives the exit code.",
        ),
        Platform::CircleCi => Some(
            "CircleCI: `store_test_results` with the path of loopexec-junit.xml and `store_artifacts` for the rest, both after the step that runs loopexec.",
        ),
        Platform::Buildkite => Some(
            "Buildkite: a step goes on after a halt with `soft_fail: [{exit_status: 17}]`, by the number of the exit class.",
        ),
        Platform::GitLab => Some(
            "GitLab: a job warns instead of failing with `allow_failure: {exit_codes: [17]}`, by the number of the exit class.",
        ),
        _ => None,
    }
}

/// What a finding is, in one line: its place, its title.
fn headline(finding: &super::finding::Finding, most: usize) -> String {
    let file = super::formats::identity::file(finding.file.as_deref());
    let place = match (file, finding.line) {
        (Some(file), Some(line)) => format!("{file}:{line}: "),
        (Some(file), None) => format!("{file}: "),
        (None, _) => String::new(),
    };
    legal::line(&format!("{place}{}", finding.title), most)
}

/// Returns the result in one line.
fn result_line(subject: &Subject) -> String {
    let text = match &subject.halt {
        None => "loopexec: the run has no end".to_owned(),
        Some(halt) => {
            format!("loopexec: {} (exit class {}): {}", halt.reason, halt.exit_class, halt.why)
        }
    };
    legal::line(&text, 1_000)
}
