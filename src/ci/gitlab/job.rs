//! What the environment says of the job and its merge request.
//!
//! Source: GitLab's page "Predefined CI/CD variables".

use crate::ci::subject::{Key, Links, Turn};

/// The variable with the token that may write notes.
pub const TOKEN: &str = "LOOPEXEC_GITLAB_TOKEN";

/// Whether a merge request comes from the project it goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It does.
    Same,
    /// It comes from a fork.
    Fork,
    /// The environment does not say.
    Unknown,
}

/// A merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The project it goes to: its number or its whole path.
    pub project: String,
    /// Its number in the project.
    pub iid: u64,
}

/// The job that loopexec runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The root of the REST API, without a slash at its end.
    pub api: Option<String>,
    /// The job's number in the whole of GitLab; a retry has a larger one.
    pub id: u64,
    /// The pipeline's number in the whole of GitLab; they grow.
    pub pipeline: u64,
    /// The job's name, with the values of its matrix.
    pub name: String,
    /// The path of the CI configuration.
    pub configuration: String,
    /// The job's page.
    pub url: Option<String>,
    /// The merge request it runs for.
    pub request: Option<Request>,
    /// Where that comes from.
    pub origin: Origin,
    /// The commit on the source branch.
    pub head: String,
    /// The commit before the changes, where GitLab names it.
    pub base: Option<String>,
    /// What started the pipeline, as GitLab words it.
    pub source: String,
}

impl Job {
    /// Reads the job from the environment; what is missing or is not what it should be is left out.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let number = |name: &str| get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let web = |name: &str| get(name).and_then(|url| web_address(&url));
        let target = number("CI_MERGE_REQUEST_PROJECT_ID");
        let origin = match (target, number("CI_MERGE_REQUEST_SOURCE_PROJECT_ID")) {
            (Some(target), Some(source)) if target == source => Origin::Same,
            (Some(_), Some(_)) => Origin::Fork,
            _ => Origin::Unknown,
        };
        let own = target.or(number("CI_PROJECT_ID")).map(|id| id.to_string());
        let request = match (number("CI_MERGE_REQUEST_IID"), own) {
            (Some(iid), Some(project)) => Some(Request { project, iid }),
            _ => get("CI_OPEN_MERGE_REQUESTS")
                .and_then(|listed| open_request(&listed, get("CI_PROJECT_PATH").as_deref())),
        };
        let sha = |name: &str| get(name).filter(|text| is_sha(text));
        Self {
            api: web("CI_API_V4_URL"),
            id: number("CI_JOB_ID").unwrap_or(0),
            pipeline: number("CI_PIPELINE_ID").unwrap_or(0),
            name: get("CI_JOB_NAME").unwrap_or_default(),
            configuration: get("CI_CONFIG_PATH").unwrap_or_else(|| ".gitlab-ci.yml".to_owned()),
            url: web("CI_JOB_URL"),
            request,
            origin,
            // The commit of a pipeline for merged results is one that no branch has.
            head: sha("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")
                .or(sha("CI_COMMIT_SHA"))
                .unwrap_or_default(),
            base: sha("CI_MERGE_REQUEST_DIFF_BASE_SHA"),
            source: get("CI_PIPELINE_SOURCE").unwrap_or_default(),
        }
    }

    /// Returns the key of a loop in this job. The name of a job already has the values of its matrix.
    pub fn key(&self, loop_name: &str) -> Key {
        Key {
            workflow: self.configuration.clone(),
            job: self.name.clone(),
            matrix: String::new(),
            name: loop_name.to_owned(),
        }
    }

    /// Returns the turn of this job. GitLab does not count attempts, but a retried job has a new and
    /// larger number, which orders the attempts of a pipeline as well.
    pub const fn turn(&self) -> Turn {
        Turn { run: self.pipeline, attempt: self.id }
    }

    /// Returns the pages of this job.
    pub fn links(&self) -> Links {
        let artifact = self.url.as_ref().map(|url| format!("{url}/artifacts/browse"));
        Links { job: self.url.clone(), artifact }
    }
}

/// Reads `group/project!333,other/project!4`: the first request of the own project, else the first.
fn open_request(listed: &str, own: Option<&str>) -> Option<Request> {
    let requests: Vec<Request> = listed
        .split(',')
        .filter_map(|reference| {
            let (project, iid) = reference.trim().rsplit_once('!')?;
            let is_path = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            let good = !project.is_empty() && project.chars().all(is_path);
            let request = Request { project: project.to_owned(), iid: iid.parse().ok()? };
            good.then_some(request)
        })
        .collect();
    let of_own = requests.iter().find(|request| Some(request.project.as_str()) == own);
    of_own.or(requests.first()).cloned()
}

fn web_address(url: &str) -> Option<String> {
    let url = url.trim().trim_end_matches('/');
    crate::ci::formats::annotations::web_url(url).map(str::to_owned)
}

/// Tells whether a text is the name of a commit.
pub fn is_sha(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Job {
        Job::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_pipeline_of_a_merge_request_knows_it() {
        let job = read(&[
            ("CI_API_V4_URL", "https://gitlab.example/api/v4/"),
            ("CI_PROJECT_ID", "9"),
            ("CI_MERGE_REQUEST_IID", "7"),
            ("CI_MERGE_REQUEST_PROJECT_ID", "5"),
            ("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "9"),
            ("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "0123456789abcdef0123456789abcdef01234567"),
            ("CI_COMMIT_SHA", "ffffffffffffffffffffffffffffffffffffffff"),
            ("CI_JOB_ID", "70"),
            ("CI_PIPELINE_ID", "60"),
            ("CI_JOB_URL", "https://gitlab.example/g/p/-/jobs/70"),
        ]);
        assert_eq!(job.api.as_deref(), Some("https://gitlab.example/api/v4"));
        assert_eq!(job.request, Some(Request { project: "5".into(), iid: 7 }));
        assert_eq!(job.origin, Origin::Fork);
        assert!(job.head.starts_with("0123"));
        assert_eq!(job.turn(), Turn { run: 60, attempt: 70 });
        let artifact = "https://gitlab.example/g/p/-/jobs/70/artifacts/browse";
        assert_eq!(job.links().artifact.as_deref(), Some(artifact));
    }

    #[test]
    fn a_pipeline_of_a_branch_finds_the_open_request_of_its_project() {
        let listed = ("CI_OPEN_MERGE_REQUESTS", "fork/p!3,g/sub/p!333");
        let job = read(&[listed, ("CI_PROJECT_PATH", "g/sub/p")]);
        assert_eq!(job.request, Some(Request { project: "g/sub/p".into(), iid: 333 }));
        let job = read(&[listed]);
        assert_eq!(job.request, Some(Request { project: "fork/p".into(), iid: 3 }));
        assert_eq!(job.origin, Origin::Unknown);
    }

    #[test]
    fn what_is_not_what_it_should_be_is_left_out() {
        let job = read(&[
            ("CI_OPEN_MERGE_REQUESTS", "g/p?x=y!3,!4,g/p!x"),
            ("CI_API_V4_URL", "file:///etc"),
            ("CI_JOB_URL", "javascript:alert(1)"),
            ("CI_COMMIT_SHA", "-->"),
            ("CI_JOB_ID", "1; rm"),
        ]);
        assert_eq!((job.request, job.api, job.url), (None, None, None));
        assert_eq!((job.head.as_str(), job.id), ("", 0));
    }
}
