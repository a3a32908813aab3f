//! What a pull request's loop is held to: its base revision, read from the checkout or, where that is
//! shallow, from GitHub's API.

use super::inputs::Inputs;
use super::job::Job;
use super::publish::github::connect;
use crate::ci::github::api::{Api, Cause, Need, Trouble};
use crate::ci::github::event::{Event, Repository};
use crate::ci::github::trust::Trust;
use crate::ci::http::Policy;
use crate::commands::Global;
use crate::commands::run::{self, based};
use crate::config::workflow::{self, Choice};
use crate::config::{self, Inline};
use crate::error::Result;
use crate::workspace::base::{BaseFile, read_base_file};
use crate::workspace::caller::{Caller, CallerKind};
use crate::workspace::places::Surroundings;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// The largest workflow that is looked through for the places of its loop, in bytes.
const MAX_WORKFLOW: u64 = 1 << 20;

/// How long the API may take to tell the base's file.
const ASK: Duration = Duration::from_secs(20);

/// Reads the commit that is checked out; none in a plain folder and before the first commit.
///
/// # Errors
/// `workspace_invalid` when the git program cannot be run.
pub fn read_head(caller: &Caller) -> Result<Option<String>> {
    if caller.kind == CallerKind::Plain {
        return Ok(None);
    }
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}"];
    let found = caller.git().run(arguments, b"", &|| false)?;
    let head = String::from_utf8_lossy(found.line()).into_owned();
    Ok((found.code == 0 && !head.is_empty()).then_some(head))
}

/// Finds the tree that the loop runs in.
///
/// # Errors
/// `workspace_invalid` when there is no such folder or no git program.
pub fn discover(global: &Global) -> Result<Caller> {
    let start = global.workdir.clone().unwrap_or_else(|| PathBuf::from("."));
    let surroundings = Surroundings::read(|name| std::env::var_os(name));
    Caller::discover(&start, &surroundings, &|| false)
}

/// Holds the options of a run to what the job may be trusted with.
///
/// # Errors
/// `workspace_invalid` when the tree cannot be read.
pub fn hold(
    options: &mut run::Args,
    trust: Trust,
    inputs: &Inputs,
    job: &Job,
    caller: &Caller,
) -> Result<()> {
    match trust {
        Trust::Own => {}
        Trust::LoopFrom(base) => {
            // What the workflow says inline is the workflow's own, and that is the base's.
            options.loop_from = options.inline.is_none().then_some(base);
        }
        Trust::HeldTo(bases) => {
            if let Some(event) = &job.event {
                options.base_file = base_file(options, &bases, inputs, event, caller)?;
            }
            options.base = bases;
        }
    }
    Ok(())
}

/// Reads the base's loop where git alone does not find it: inline in its workflow, or not fetched.
fn base_file(
    options: &run::Args,
    bases: &[String],
    inputs: &Inputs,
    event: &Event,
    caller: &Caller,
) -> Result<Option<BaseFile>> {
    let inline = options.inline.is_some();
    let path = match inline {
        true => event.workflow.clone(),
        false => loop_path(options, caller),
    };
    let Some(path) = path else {
        let unknown = inline.then(|| BaseFile::Unavailable {
            why: "the platform does not say which workflow file this job comes from (GITHUB_WORKFLOW_REF is not set)"
                .to_owned(),
            hint: "keep the loop in a file of its own, which is found without that".to_owned(),
        });
        return Ok(unknown);
    };
    let found = match read_base_file(caller, bases, &path, &|| false)? {
        BaseFile::Unavailable { why, hint } => {
            fetch(&path, inputs, event).unwrap_or(BaseFile::Unavailable { why, hint })
        }
        found => found,
    };
    Ok(Some(match (inline, found) {
        (true, BaseFile::Bytes(bytes)) => loop_in(&path, &bytes, inputs, event),
        (_, found) => found,
    }))
}

/// Returns the loop file from the root of the tree: the one that is named, else the one that is there.
fn loop_path(options: &run::Args, caller: &Caller) -> Option<String> {
    let start = caller.start();
    let named = run::source::named(options);
    let name = match named {
        Some(named) => named,
        None => config::NAMES.iter().map(PathBuf::from).find(|name| start.join(name).is_file())?,
    };
    based::from_root(caller, &name)
}

/// Finds the loop of this job's step in the base's workflow.
fn loop_in(path: &str, bytes: &[u8], inputs: &Inputs, event: &Event) -> BaseFile {
    // A step without an id is called after its action, which tells it from no other.
    let step = std::env::var("GITHUB_ACTION").ok().filter(|step| !step.starts_with("__"));
    let sets = matrix_of(bytes, &inputs.matrix, event.job.as_deref().unwrap_or_default());
    let choice = Choice { job: event.job.clone(), step, sets };
    based::loop_in(path, bytes, &choice)
}

/// Returns the values of this job's matrix that the base's workflow has in the matrix of the same job, as
/// `matrix.K=V`: any other is the pull request's word, and would stand in the base's loop.
fn matrix_of(workflow: &[u8], matrix: &str, job: &str) -> Vec<String> {
    let Ok(Value::Object(values)) = serde_json::from_str(matrix) else { return Vec::new() };
    let workflow = String::from_utf8_lossy(workflow);
    let Ok(workflow) = serde_yaml::from_str::<Value>(&workflow) else { return Vec::new() };
    let declared = &workflow["jobs"][job]["strategy"]["matrix"];
    let has = |list: &Value, key: &str, value: &Value| {
        list.as_array().is_some_and(|all| {
            all.iter().any(|one| one == value || one.get(key).is_some_and(|one| one == value))
        })
    };
    let own = values.iter().filter(|(key, value)| {
        has(&declared[key.as_str()], key, value) || has(&declared["include"], key, value)
    });
    own.filter_map(|(key, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some(format!("matrix.{key}={text}"))
    })
    .collect()
}

/// Asks GitHub for a file of the base revision; none where nobody can be asked.
fn fetch(path: &str, inputs: &Inputs, event: &Event) -> Option<BaseFile> {
    let (repository, base) = (event.repository.as_ref()?, event.base_sha()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let policy = Policy { attempts: 3, total: ASK, ..Policy::default() };
        let api = connect(event, inputs, &policy).await.ok()??;
        contents(&api, repository, path, base).await
    })
}

async fn contents(api: &Api, repository: &Repository, path: &str, base: &str) -> Option<BaseFile> {
    let need = Need { doing: "read the base's loop file", permission: "contents: read" };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !path.chars().all(plain) {
        return None;
    }
    match api.read(need, &format!("/repos/{repository}/contents/{path}?ref={base}")).await {
        Ok(answer) => {
            let text = answer.get("content").and_then(Value::as_str)?;
            let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let is_file = answer.get("type").and_then(Value::as_str) == Some("file");
            is_file.then(|| BASE64_STANDARD.decode(packed).ok()).flatten().map(BaseFile::Bytes)
        }
        Err(Trouble { cause: Cause::Missing, .. }) => Some(BaseFile::Absent),
        Err(_) => None,
    }
}

/// Returns the loop whose text came alone, with its places in the workflow where it stands there as it is.
pub fn inline_of(source: &str, text: &str, job: &Job, caller: &Caller) -> Inline {
    let step = match &job.event {
        Some(_) => std::env::var("GITHUB_ACTION").unwrap_or_default(),
        None => job.name().to_owned(),
    };
    let name = if step.starts_with("__") || step.is_empty() { "loop" } else { &step };
    standing(text, name, job, caller).unwrap_or_else(|| Inline::new(source, text, name))
}

fn standing(text: &str, name: &str, job: &Job, caller: &Caller) -> Option<Inline> {
    let path =
        Some(job.workflow()).filter(|path| path.ends_with(".yml") || path.ends_with(".yaml"))?;
    let file = caller.root.join(path);
    let fits = std::fs::symlink_metadata(&file).ok()?;
    if !fits.is_file() || fits.len() > MAX_WORKFLOW {
        return None;
    }
    let workflow = std::fs::read_to_string(&file).ok()?;
    let mut inline = workflow::standing(path, &workflow, text, name)?;
    inline.file = Some(file);
    Some(inline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const WORKFLOW: &str = "on: pull_request\njobs:\n  mend:\n    runs-on: x\n    steps:\n      - uses: acme/loopexec@v1\n        with:\n          loop: |\n            version: 1\n            model: none\n            exec: ./a\n            check: ./b\n";

    fn event(job: &str) -> Event {
        let mut event = Event::of("pull_request", json!({}));
        event.job = Some(job.to_owned());
        event
    }

    #[test]
    fn the_loop_of_the_bases_workflow_is_that_of_the_same_job() {
        let found = loop_in(
            ".github/workflows/a.yml",
            WORKFLOW.as_bytes(),
            &Inputs::default(),
            &event("mend"),
        );
        let BaseFile::Bytes(bytes) = found else { panic!("{found:?}") };
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "version: 1\nmodel: none\nexec: ./a\ncheck: ./b\n"
        );
    }

    #[test]
    fn another_job_or_no_workflow_asks_a_person() {
        for (text, job) in [(WORKFLOW, "other"), ("a: [", "mend"), ("", "mend")] {
            let found = loop_in(
                ".github/workflows/a.yml",
                text.as_bytes(),
                &Inputs::default(),
                &event(job),
            );
            assert!(!matches!(found, BaseFile::Bytes(_)), "{found:?}");
        }
    }

    #[test]
    fn only_what_the_bases_matrix_has_stands_in_the_bases_loop() {
        let workflow = b"jobs:\n  a:\n    strategy:\n      matrix:\n        os: [linux, mac]\n        n: [1, true]\n        include:\n          - {extra: x y}\n";
        let of = |matrix: &str, job: &str| matrix_of(workflow, matrix, job);
        let all = r#"{"os": "mac", "n": 1, "extra": "x y"}"#;
        assert_eq!(of(all, "a"), ["matrix.os=mac", "matrix.n=1", "matrix.extra=x y"]);
        assert!(of(all, "b").is_empty());
        for foreign in [
            r#"{"os": "mac\ncheck: true"}"#,
            r#"{"n": "1"}"#,
            r#"{"os": ["mac"]}"#,
            r#"{"other": "mac"}"#,
            "null",
            "",
        ] {
            assert!(of(foreign, "a").is_empty(), "{foreign}");
        }
    }
}
