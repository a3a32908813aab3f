//! Which job of which platform this is: the key its texts are kept under, which run of the workflow
//! it is, where its page is.

use super::inputs::Inputs;
use super::{publish, trusting};
use crate::ci::github::event::{Event, read_event_file};
use crate::ci::github::files;
use crate::ci::github::trust::{self, Facts, HeadCheckout, Trust};
use crate::ci::gitlab::job as gitlab;
use crate::ci::platform::Platform;
use crate::ci::subject::{Key, Turn};
use crate::commands::outcome::talk;
use crate::commands::run::Known;
use crate::error::Result;
use crate::workspace::caller::Caller;
use std::path::PathBuf;

/// A job.
pub struct Job {
    /// Its platform.
    pub platform: Platform,
    /// What started it, on GitHub.
    pub event: Option<Event>,
    workflow: String,
    name: String,
    matrix: String,
    turn: Turn,
    link: Option<String>,
}

impl Job {
    /// Reads what the platform says of the job.
    pub fn read(
        platform: Platform,
        inputs: Option<&Inputs>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        let number = |name: &str| text(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        let event = matches!(platform, Platform::GitHub | Platform::Gitea)
            .then(|| Event::read(&variable, read_event_file));
        let given = inputs.map(|inputs| inputs.matrix.clone()).unwrap_or_default();
        let (workflow, name, matrix, turn, link) = match platform {
            Platform::GitHub | Platform::Gitea => {
                let event = event.as_ref();
                (
                    event.and_then(|event| event.workflow.clone()),
                    event.and_then(|event| event.job.clone()),
                    given,
                    event.map(Event::turn).unwrap_or_default(),
                    event.and_then(Event::run_page),
                )
            }
            Platform::GitLab => {
                let job = gitlab::Job::read(&variable);
                let key = job.key("");
                (Some(key.workflow), Some(key.job), key.matrix, job.turn(), job.url)
            }
            Platform::Buildkite => (
                text("BUILDKITE_PIPELINE_SLUG"),
                text("BUILDKITE_STEP_KEY").or(text("BUILDKITE_LABEL")),
                text("BUILDKITE_PARALLEL_JOB").unwrap_or_default(),
                Turn {
                    run: number("BUILDKITE_BUILD_NUMBER"),
                    attempt: number("BUILDKITE_RETRY_COUNT") + 1,
                },
                text("BUILDKITE_BUILD_URL"),
            ),
            Platform::Azure => (
                text("BUILD_DEFINITIONNAME"),
                text("SYSTEM_JOBNAME"),
                text("SYSTEM_JOBIDENTIFIER").unwrap_or_default(),
                Turn { run: number("BUILD_BUILDID"), attempt: number("SYSTEM_JOBATTEMPT") },
                None,
            ),
            Platform::Bitbucket => (
                Some("bitbucket-pipelines.yml".to_owned()),
                text("BITBUCKET_STEP_UUID").and(text("BITBUCKET_PARALLEL_STEP")),
                String::new(),
                Turn { run: number("BITBUCKET_BUILD_NUMBER"), attempt: 1 },
                None,
            ),
            Platform::CircleCi => (
                text("CIRCLE_PROJECT_REPONAME"),
                text("CIRCLE_JOB"),
                text("CIRCLE_NODE_INDEX").unwrap_or_default(),
                Turn { run: number("CIRCLE_BUILD_NUM"), attempt: 1 },
                text("CIRCLE_BUILD_URL"),
            ),
            Platform::Jenkins => (
                text("JOB_NAME"),
                text("STAGE_NAME"),
                String::new(),
                Turn { run: number("BUILD_NUMBER"), attempt: 1 },
                text("BUILD_URL"),
            ),
            Platform::TeamCity => (
                text("TEAMCITY_PROJECT_NAME"),
                text("TEAMCITY_BUILDCONF_NAME"),
                String::new(),
                Turn { run: number("BUILD_NUMBER"), attempt: 1 },
                None,
            ),
            Platform::None => (None, None, String::new(), Turn::default(), None),
        };
        Self {
            platform,
            event,
            workflow: workflow.unwrap_or_default(),
            name: name.unwrap_or_default(),
            matrix,
            turn,
            link: link.filter(|link| link.starts_with("https://") || link.starts_with("http://")),
        }
    }

    /// Returns the key of a loop in this job.
    pub fn key(&self, name: &str, inputs: &Inputs) -> Key {
        let matrix = match inputs.matrix.is_empty() {
            true => self.matrix.clone(),
            false => inputs.matrix.clone(),
        };
        Key {
            workflow: self.workflow.clone(),
            job: self.name.clone(),
            matrix,
            name: name.to_owned(),
        }
    }

    /// Returns the job's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the workflow: its path where the platform tells it, else its name.
    pub fn workflow(&self) -> &str {
        &self.workflow
    }

    /// Returns which run of the workflow it is.
    pub fn turn(&self) -> Turn {
        self.turn
    }

    /// Returns the page of the job or the run.
    pub fn link(&self) -> Option<String> {
        self.link.clone()
    }

    /// Says whether a loop may run on what started the job, and under which rules.
    ///
    /// # Errors
    /// `config_invalid` for events that hand a stranger's code a token that writes.
    pub fn may_run(&self, inputs: &Inputs, caller: &Caller) -> Result<Trust> {
        let Some(event) = &self.event else { return Ok(Trust::Own) };
        let head = trusting::read_head(caller)?;
        trust::may_run(&Facts {
            event: &event.name,
            payload: event.payload(),
            sha: event.sha.as_deref().unwrap_or_default(),
            head: head.as_deref(),
            allow: match inputs.allow_pull_request_target {
                true => HeadCheckout::AllowWithBaseLoop,
                false => HeadCheckout::Refuse,
            },
        })
    }

    /// Notes for the post step which run this is, and shows on the pull request that it runs.
    pub fn note_run(&self, known: &Known, inputs: &Inputs) {
        let Some(dir) = &known.run_dir else { return };
        if let Some(state) = std::env::var_os("GITHUB_STATE").filter(|path| !path.is_empty()) {
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            let values = [("loopexec_run_dir".to_owned(), dir.to_string_lossy().into_owned())];
            if let Err(error) = files::append_values(&PathBuf::from(state), &values) {
                talk(&format!(
                    "warning: the post step cannot finish this run if it is killed: {error}"
                ));
            }
        }
        publish::announce(known, inputs, self);
    }
}
