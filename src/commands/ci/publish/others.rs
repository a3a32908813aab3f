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
use crate::commands::outcome::{talk, talk_raw};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Tells what the platform can show.
pub fn publish(telling: &mut Telling, job: &Job, published: &mut Published) {
    if telling.settings.annotations && !telling.ledger.annotations {
        others::lines(job.platform, &telling.subject).iter().for_each(|line| talk_raw(line));
        telling.ledger.annotations = true;
    }
    let files: Vec<PathBuf> = published
        .files
        .iter()
        .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        .collect();
    others::uploads(job.platform, &telling.subject, &files).iter().for_each(|line| talk_raw(line));
    match job.platform {
        Platform::Buildkite => {
            if telling.settings.summary {
                let body = markdown::summary(&telling.subject);
                call(&buildkite::annotate(&telling.subject, &body), published);
            }
            if let Some(upload) = buildkite::upload(&files) {
                call(&upload, published);
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

fn call(invocation: &buildkite::Invocation, published: &mut Published) {
    let Some((program, arguments)) = invocation.argv.split_first() else { return };
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let ended = child.and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // An agent that does not read it says so by its exit code.
            let _ = stdin.write_all(invocation.stdin.as_bytes());
        }
        child.wait()
    });
    let what = invocation.argv.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
    match ended {
        Ok(status) if status.success() => {}
        Ok(status) => published.warn(format!("`{what}` did not take the result ({status})")),
        Err(error) => published.warn(format!("`{what}` could not be started: {error}")),
    }
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
