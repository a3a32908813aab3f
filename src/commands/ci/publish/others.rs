//! The surfaces of the other platforms: lines in the log, calls of an agent, a reports API.

use super::{Published, remotely, time_for};
use crate::ci::http::Policy;
use crate::ci::markdown;
use crate::ci::others::bitbucket::{self, Place, Proxy};
use crate::ci::others::{self, buildkite};
use crate::ci::platform::Platform;
use crate::commands::ci::job::Job;
use crate::commands::ci::telling::Telling;
use crate::commands::ci::variable;
use crate::commands::outcome::talk;
use crate::commands::voice;
use crate::workspace::programs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Tells what the platform can show.
pub fn publish(telling: &mut Telling, job: &Job, published: &mut Published) {
    if telling.settings.annotations && !telling.ledger.annotations {
        others::lines(job.platform, &telling.subject).iter().for_each(|line| voice::command(line));
        telling.ledger.annotations = true;
    }
    let files: Vec<PathBuf> = published
        .files
        .iter()
        .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        .collect();
    others::uploads(job.platform, &telling.subject, &files)
        .iter()
        .for_each(|line| voice::command(line));
    match job.platform {
        Platform::Buildkite => {
            if telling.settings.summary {
                let body = markdown::summary(&telling.subject);
                call(&buildkite::annotate(&telling.subject, &body), telling, published);
            }
            if let Some(upload) = buildkite::upload(&files) {
                call(&upload, telling, published);
            }
        }
        Platform::Bitbucket if telling.settings.annotations => {
            send_to_bitbucket(telling, published);
        }
        _ => {}
    }
    if let Some(advice) = others::advice(job.platform).filter(|_| telling.subject.fails) {
        talk(&format!("note: {advice}"));
    }
}

fn call(invocation: &buildkite::Invocation, telling: &Telling, published: &mut Published) {
    let what = invocation.argv.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
    let called = remotely(time_for(telling), run(invocation, &telling.subject.root), |why| {
        Err(why.to_owned())
    });
    if let Err(why) = called {
        published.warn(format!("`{what}` did not take the result: {why}"));
    }
}

/// Runs a program of the platform; it ends with the future.
async fn run(invocation: &buildkite::Invocation, root: &Path) -> Result<(), String> {
    let Some((program, arguments)) = invocation.argv.split_first() else { return Ok(()) };
    let command = programs::command_for(program, root).map_err(|error| error.to_string())?;
    let mut child = Command::from(command)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // An agent that does not read it says so by its exit code.
        let _ = stdin.write_all(invocation.stdin.as_bytes()).await;
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

fn send_to_bitbucket(telling: &Telling, published: &mut Published) {
    let Some(place) = Place::read(variable) else {
        return published.warn("the environment names no commit of Bitbucket to report on");
    };
    let sent = remotely(
        time_for(telling),
        async {
            let proxy = Proxy::new().map_err(|error| error.to_string())?;
            bitbucket::send(&proxy, &Policy::default(), &place, &telling.subject).await
        },
        |why| Err(format!("Bitbucket was not told the result: {why}")),
    );
    if let Err(warning) = sent {
        published.warn(warning);
    }
}
