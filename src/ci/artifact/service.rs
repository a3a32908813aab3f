//! Where artifacts are kept, and as whom: read from the job's environment.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use std::fmt;

/// The scope of a runtime token that allows artifacts.
const SCOPE: &str = "Actions.Results";

/// The service that keeps the artifacts of a job.
#[derive(Clone)]
pub struct ResultsService {
    /// Scheme, host and port.
    pub(super) origin: String,
    /// What requests are authorized by.
    pub(super) token: String,
    /// The workflow run, as the service calls it.
    pub(super) run: String,
    /// The job, as the service calls it.
    pub(super) job: String,
    /// The page of the run, with a `/` at its end.
    pub(super) page: Option<String>,
}

/// Why a job has no such service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAvailable {
    /// One sentence.
    pub why: String,
}

impl fmt::Debug for ResultsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is left out.
        f.debug_struct("ResultsService").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl ResultsService {
    /// Reads the service from `ACTIONS_RESULTS_URL` and `ACTIONS_RUNTIME_TOKEN`.
    ///
    /// Whether it is GitHub does not matter: where both are there and the token allows artifacts, it
    /// is worth trying.
    ///
    /// # Errors
    /// Says why there is none, for people.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, NotAvailable> {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let none = |why: &str| NotAvailable { why: why.to_owned() };
        let Some(token) = get("ACTIONS_RUNTIME_TOKEN") else {
            return Err(none(
                "no artifact was uploaded, because only a step with `uses:` is given the right to: this one has no ACTIONS_RUNTIME_TOKEN; put actions/upload-artifact behind it",
            ));
        };
        let Some(url) = get("ACTIONS_RESULTS_URL") else {
            return Err(none(
                "no artifact was uploaded, because this server names no ACTIONS_RESULTS_URL; it does not know artifacts of version 4",
            ));
        };
        let origin = reqwest::Url::parse(&url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
            .map(|url| url.origin().ascii_serialization())
            .ok_or_else(|| {
                none("no artifact was uploaded, because ACTIONS_RESULTS_URL is no address")
            })?;
        let Some((run, job)) = scope_of(&token) else {
            return Err(none(
                "no artifact was uploaded, because the job's token does not allow artifacts of version 4; older GitHub Enterprise servers are like that: put actions/upload-artifact@v3 behind it",
            ));
        };
        let page = get("GITHUB_SERVER_URL")
            .zip(get("GITHUB_REPOSITORY"))
            .zip(get("GITHUB_RUN_ID"))
            .filter(|(_, run)| run.bytes().all(|b| b.is_ascii_digit()))
            .map(|((server, repository), run)| {
                format!("{}/{repository}/actions/runs/{run}/", server.trim_end_matches('/'))
            });
        Ok(Self { origin, token, run, job, page })
    }
}

/// Returns the two ids that a runtime token's scope names: run and job.
fn scope_of(token: &str) -> Option<(String, String)> {
    // Tokens use the alphabet for addresses without padding; some servers the other one.
    let payload =
        token.split('.').nth(1)?.trim_end_matches('=').replace('+', "-").replace('/', "_");
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    let scope = claims
        .get("scp")?
        .as_str()?
        .split(' ')
        .find(|scope| scope.split(':').next() == Some(SCOPE))?;
    let parts: Vec<&str> = scope.split(':').collect();
    match parts[..] {
        [_, run, job] if !run.is_empty() && !job.is_empty() => {
            Some((run.to_owned(), job.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        let payload = BASE64_URL_SAFE_NO_PAD.encode(claims);
        format!("e30.{payload}.c2ln")
    }

    fn service(variables: &[(&str, &str)]) -> Result<ResultsService, NotAvailable> {
        ResultsService::from_env(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn the_scope_names_run_and_job_and_only_the_origin_is_used() {
        let token = token(r#"{"scp":"Actions.GenericRead:x Actions.Results:run-1:job-2 é"}"#);
        let found = service(&[
            ("ACTIONS_RUNTIME_TOKEN", &token),
            ("ACTIONS_RESULTS_URL", "https://results.example:8443/some/path/?x=1"),
            ("GITHUB_SERVER_URL", "https://github.example/"),
            ("GITHUB_REPOSITORY", "o/r"),
            ("GITHUB_RUN_ID", "77"),
        ])
        .unwrap();
        assert_eq!((&*found.run, &*found.job), ("run-1", "job-2"));
        assert_eq!(found.origin, "https://results.example:8443");
        assert_eq!(found.page.as_deref(), Some("https://github.example/o/r/actions/runs/77/"));
        assert!(!format!("{found:?}").contains(&token));
    }

    #[test]
    fn what_lacks_is_said_and_never_the_token() {
        let good = token(r#"{"scp":"Actions.Results:a:b"}"#);
        let url = ("ACTIONS_RESULTS_URL", "https://results.example");
        assert!(service(&[url]).unwrap_err().why.contains("ACTIONS_RUNTIME_TOKEN"));
        let no_url = service(&[("ACTIONS_RUNTIME_TOKEN", &good)]).unwrap_err();
        assert!(no_url.why.contains("ACTIONS_RESULTS_URL"));
        for claims in [
            "{}",
            r#"{"scp":"Actions.Results:a"}"#,
            r#"{"scp":"Actions.Results:a:b:c"}"#,
            r#"{"scp":"Actions.Results::b"}"#,
            r#"{"scp":"Actions.ResultsX:a:b"}"#,
            r#"{"scp":7}"#,
        ] {
            let bad = token(claims);
            let refused = service(&[("ACTIONS_RUNTIME_TOKEN", &bad), url]).unwrap_err();
            assert!(refused.why.contains("token") && !refused.why.contains(&bad), "{claims}");
        }
        for bad in ["", ".", "no token", "a.%%%.b"] {
            assert!(service(&[("ACTIONS_RUNTIME_TOKEN", bad), url]).is_err(), "{bad:?}");
        }
        for url in ["file:///etc", "results.example", "https://"] {
            let refused =
                service(&[("ACTIONS_RUNTIME_TOKEN", &good), ("ACTIONS_RESULTS_URL", url)]);
            assert!(refused.is_err(), "{url}");
        }
    }
}
