//! The requests that a sticky note takes, with the token.
//!
//! Source: GitLab's pages "Notes API" and "Users API". What is asked when is `note`'s.

use super::job::{Job, TOKEN};
use crate::ci::formats::sarif::uri_path;
use crate::ci::http::{self, Answer, Failed, Policy};
use crate::error::{Error, Kind, Result};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// The notes of a page; the most that GitLab gives.
const PER_PAGE: usize = 100;
/// The most pages that are read.
const MAX_PAGES: usize = 50;

/// A token; nothing prints it.
#[derive(Clone)]
pub struct Token(HeaderValue);

impl Token {
    /// Reads the token from the environment; none where there is none or it cannot be sent.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let text = variable(TOKEN)?;
        let mut value = HeaderValue::from_str(text.trim()).ok()?;
        value.set_sensitive(true);
        (!value.is_empty()).then_some(Self(value))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A note, as the API gives it; of its fields only those that are needed.
#[derive(Debug, Clone, Deserialize)]
pub struct Given {
    /// Its number; they grow.
    pub id: u64,
    /// Its text.
    #[serde(default)]
    pub body: String,
    /// Whether GitLab itself wrote it.
    #[serde(default)]
    pub system: bool,
    /// Who wrote it.
    pub author: Author,
}

/// Who wrote a note.
#[derive(Debug, Clone, Deserialize)]
pub struct Author {
    /// The number of the user.
    pub id: u64,
}

/// Why a request did not do what it should; one clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What happened.
    pub what: String,
    /// The status, where the server answered.
    pub status: Option<u16>,
}

/// Whether a note that was to be written over was still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stood {
    /// It was.
    There,
    /// Another job or a person had deleted it.
    Gone,
}

/// The notes of one merge request.
#[derive(Debug, Clone)]
pub struct Api {
    client: reqwest::Client,
    policy: Policy,
    token: Token,
    root: String,
    notes: String,
}

impl Api {
    /// Makes the way to the notes of the job's merge request; none where the job has none, or does
    /// not know where the API is.
    ///
    /// # Errors
    /// `workspace_invalid` when no client can be made.
    pub fn new(job: &Job, token: Token, policy: Policy) -> Result<Option<Self>> {
        let (Some(root), Some(request)) = (&job.api, &job.request) else { return Ok(None) };
        let project = uri_path(&request.project).replace('/', "%2F");
        let notes = format!("{root}/projects/{project}/merge_requests/{}/notes", request.iid);
        Ok(Some(Self { client: client()?, policy, token, root: root.clone(), notes }))
    }

    /// Asks who the token belongs to.
    ///
    /// # Errors
    /// When GitLab does not say.
    pub async fn fetch_user(&self) -> Result<u64, Refused> {
        let url = format!("{}/user", self.root);
        let answer = http::send(&self.policy, || self.request(reqwest::Method::GET, &url)).await;
        let author: Author = parse(ok(answer)?)?;
        Ok(author.id)
    }

    /// Reads all notes of the merge request, oldest first.
    ///
    /// # Errors
    /// When GitLab does not give them.
    pub async fn fetch_notes(&self) -> Result<Vec<Given>, Refused> {
        let mut notes = Vec::new();
        for page in 1..=MAX_PAGES {
            let url = format!(
                "{}?per_page={PER_PAGE}&page={page}&sort=asc&order_by=created_at",
                self.notes
            );
            let answer =
                http::send(&self.policy, || self.request(reqwest::Method::GET, &url)).await;
            let given: Vec<Given> = parse(ok(answer)?)?;
            let count = given.len();
            notes.extend(given);
            if count < PER_PAGE {
                break;
            }
        }
        Ok(notes)
    }

    /// Reads one note; none where it is gone.
    ///
    /// # Errors
    /// When GitLab does not give it.
    pub async fn fetch_note(&self, id: u64) -> Result<Option<Given>, Refused> {
        let url = format!("{}/{id}", self.notes);
        let answer = http::send(&self.policy, || self.request(reqwest::Method::GET, &url)).await;
        match ok(answer) {
            Err(Refused { status: Some(404), .. }) => Ok(None),
            other => parse(other?).map(Some),
        }
    }

    /// Writes a new note and returns its number.
    ///
    /// # Errors
    /// When GitLab does not take it.
    pub async fn post_note(&self, body: &str) -> Result<u64, Refused> {
        let request = || self.with_body(reqwest::Method::POST, &self.notes, body);
        // A second one would be a duplicate; if the first was lost the list will show it.
        let given: Given = parse(ok(http::send_once(&self.policy, request).await)?)?;
        Ok(given.id)
    }

    /// Writes over a note and tells whether it was still there.
    ///
    /// # Errors
    /// When GitLab does not take it.
    pub async fn put_note(&self, id: u64, body: &str) -> Result<Stood, Refused> {
        let url = format!("{}/{id}", self.notes);
        let request = || self.with_body(reqwest::Method::PUT, &url, body);
        match ok(http::send(&self.policy, request).await) {
            Err(Refused { status: Some(404), .. }) => Ok(Stood::Gone),
            other => other.map(|_| Stood::There),
        }
    }

    /// Deletes a note; one that is gone is no error.
    ///
    /// # Errors
    /// When GitLab does not do it.
    pub async fn delete_note(&self, id: u64) -> Result<(), Refused> {
        let url = format!("{}/{id}", self.notes);
        let answer = http::send(&self.policy, || self.request(reqwest::Method::DELETE, &url)).await;
        match ok(answer) {
            Err(Refused { status: Some(404), .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    fn request(&self, method: reqwest::Method, url: &str) -> reqwest::RequestBuilder {
        self.client.request(method, url).header("PRIVATE-TOKEN", self.token.0.clone())
    }

    fn with_body(&self, method: reqwest::Method, url: &str, body: &str) -> reqwest::RequestBuilder {
        let body = serde_json::json!({"body": body}).to_string();
        self.request(method, url).header(CONTENT_TYPE, "application/json").body(body)
    }
}

/// Makes a client that follows no redirect: the header with the token is not one of those that a
/// client takes off on the way to another host.
fn client() -> Result<reqwest::Client> {
    // Makes sure that there is a provider of cryptography, without which no client is built.
    drop(http::client()?);
    reqwest::Client::builder()
        .user_agent(concat!("loopexec/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .build()
        .map_err(|error| {
            Error::new(Kind::WorkspaceInvalid, "no HTTPS client can be made on this machine")
                .hint("install the system's certificates (package ca-certificates)")
                .because(error.without_url())
        })
}

fn ok(answer: Result<Answer, Failed>) -> Result<Answer, Refused> {
    match answer {
        Ok(answer) if answer.is_ok() => Ok(answer),
        Ok(answer) => {
            let what = format!("GitLab answered with status {}", answer.status);
            Err(Refused { what, status: Some(answer.status) })
        }
        Err(failed) => Err(Refused { what: failed.what, status: failed.status }),
    }
}

fn parse<T: serde::de::DeserializeOwned>(answer: Answer) -> Result<T, Refused> {
    serde_json::from_slice(&answer.body).map_err(|_| Refused {
        what: "GitLab's answer is not what its API describes".to_owned(),
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_printed() {
        let token = Token::read(|_| Some(" glpat-secret\n".to_owned())).unwrap();
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert!(Token::read(|_| Some("  ".to_owned())).is_none());
        assert!(Token::read(|_| Some("a\nb".to_owned())).is_none());
    }
}
