//! How a result reaches a CI platform.
//!
//! | file | duty |
//! |---|---|
//! | `platform` | which platform this is, from the environment |
//! | `subject` | what is told about one run, the same to every platform |
//! | `finding` | what hurts, most important first, with file and line |
//! | `markdown` | the job summary and the body of a comment |
//! | `http` | one client: proxies, retries that honour what the server says, a total cap |
//! | `github` | workflow commands and files, events, pull requests, comments, check runs |
//! | `artifact` | the receipt bundle as an artifact of a GitHub run |
//! | `gitlab` | notes, reports and log sections |
//! | `formats` | files any platform reads: JUnit, SARIF, Code Quality, dotenv |
//! | `others` | Buildkite, Azure, TeamCity, Jenkins, CircleCI, Bitbucket |
//!
//! Everything here reads what was recorded; nothing here can change a verdict. Wiring is the duty of
//! `commands::ci`.

pub mod artifact;
pub mod finding;
pub mod formats;
pub mod github;
pub mod gitlab;
pub mod http;
pub mod markdown;
pub mod others;
pub mod platform;
pub mod subject;
