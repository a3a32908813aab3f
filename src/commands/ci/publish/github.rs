//! GitHub's surfaces: outputs, annotations, summary, artifact, comment, check run.

use super::{Published, remotely, time_for};
use crate::ci::artifact::{self, Request, ResultsService};
use crate::ci::finding::{Finding, Level};
use crate::ci::github::api::{Api, Cause, NO_TOKEN, Trouble};
use crate::ci::github::event::Event;
use crate::ci::github::{check_run, commands, comment, files, pull};
use crate::ci::http::{self, Policy};
use crate::ci::markdown;
use crate::ci::platform::Platform;
use crate::ci::subject::{Links, Subject};
use crate::commands::ci::inputs::Inputs;
use crate::commands::ci::job::Job;
use crate::commands::ci::ledger::Artifact;
use crate::commands::ci::telling::Telling;
use crate::commands::ci::variable;
use crate::commands::outcome::{talk, talk_raw};
use crate::commands::run::Known;
use crate::config::spec::Comment;
use crate::receipt::bundle::{self, Contents};
use crate::receipt::redact::Redactor;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long showing that a run goes on may hold it up.
const ANNOUNCE: Duration = Duration::from_secs(5);

/// How long an upload may take, and how long where the job was cancelled.
const UPLOAD: Duration = Duration::from_secs(120);
const UPLOAD_HURRIED: Duration = Duration::from_secs(3);

/// Says one warning where the platform shows it.
pub fn warn(platform: Platform, sentence: &str) {
    match platform {
        Platform::GitHub | Platform::Gitea => {
            let finding = Finding::new(Level::Warning, "ci", "loopexec", sentence);
            talk_raw(&commands::annotation(&finding));
        }
        _ => talk(&format!("warning: {sentence}")),
    }
}

/// Tells all that is not told yet.
pub fn publish(telling: &mut Telling, inputs: &Inputs, job: &Job, published: &mut Published) {
    for warning in job.event.iter().flat_map(|event| &event.warnings) {
        published.warn(warning);
    }
    if telling.settings.annotations && !telling.ledger.annotations {
        for finding in commands::select(&telling.subject.findings) {
            talk_raw(&commands::annotation(&finding));
        }
        telling.ledger.annotations = true;
    }
    if !telling.ledger.outputs {
        telling.ledger.outputs = append_outputs(&telling.outputs, published);
    }
    // What was told so far stays told if the next steps are cut off.
    if let Some(dir) = &telling.subject.run_dir {
        let _ = telling.ledger.write(dir);
    }
    let bundle = prepare_bundle(telling, published);
    let zip = bundle.as_ref().map(|(_, zip)| zip.as_path());
    // Outside of the work: what was told before it was cut off is known.
    let remote = RefCell::new(Remote::default());
    let cut_off = remotely(
        time_for(telling),
        async {
            tell_remotely(telling, inputs, job, zip, &remote).await;
            None
        },
        Some,
    );
    let remote = remote.into_inner();
    published.warnings.extend(remote.warnings);
    if let Some(why) = cut_off {
        published.warn(format!(
            "not everything was told to GitHub: {why}; the step's post phase goes on where it can"
        ));
    }
    if let Some(artifact) = remote.artifact {
        append_outputs(
            &[
                ("artifact-id".to_owned(), artifact.id.clone()),
                ("artifact-url".to_owned(), artifact.url.clone()),
            ],
            published,
        );
        telling.ledger.artifact = Some(artifact);
    }
    telling.ledger.comment |= remote.comment;
    telling.ledger.check_run |= remote.check_run;
    published.artifact.clone_from(&telling.ledger.artifact);
    telling.subject.links.artifact = artifact_page(telling.ledger.artifact.as_ref());
    if telling.settings.summary && !telling.ledger.summary {
        append_summary(telling, published);
    }
}

fn file_of(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Sets outputs of the step, and says whether nothing is left to do.
fn append_outputs(values: &[(String, String)], published: &mut Published) -> bool {
    let Some(path) = file_of("GITHUB_OUTPUT") else { return true };
    match files::append_values(&path, values) {
        Ok(()) => true,
        Err(error) => {
            published.warn(format!("the outputs of the step are not set: {error}"));
            false
        }
    }
}

fn append_summary(telling: &mut Telling, published: &mut Published) {
    let Some(path) = file_of("GITHUB_STEP_SUMMARY") else { return };
    match files::append_summary(&path, &markdown::summary(&telling.subject)) {
        Ok(files::Appended::Nothing) => {
            published.warn("the job summary has no room left; the report is in the receipt");
        }
        Ok(_) => telling.ledger.summary = true,
        Err(error) => published.warn(format!("there is no job summary: {error}")),
    }
}

fn artifact_page(artifact: Option<&Artifact>) -> Option<String> {
    artifact.map(|artifact| artifact.url.clone()).filter(|url| !url.is_empty())
}

/// Writes the zip of the run where it is to be uploaded and was not.
fn prepare_bundle(
    telling: &Telling,
    published: &mut Published,
) -> Option<(tempfile::TempDir, PathBuf)> {
    let run_dir = telling.subject.run_dir.as_ref()?;
    if !telling.settings.artifact || telling.ledger.artifact.is_some() {
        return None;
    }
    let folder = file_of("RUNNER_TEMP").filter(|folder| folder.is_dir());
    let made = match folder {
        Some(folder) => tempfile::Builder::new().prefix("loopexec-").tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            published.warn(format!("no artifact was uploaded: {error}"));
            return None;
        }
    };
    let zip = made.path().join("bundle.zip");
    pack(telling, run_dir, &zip, "no artifact was uploaded", published).then_some((made, zip))
}

/// Writes the bundle to a file beside the reports, for platforms that keep files themselves.
pub fn write_bundle(telling: &Telling, to: &Path, published: &mut Published) {
    let Some(run_dir) = telling.subject.run_dir.as_ref().filter(|_| telling.settings.artifact)
    else {
        return;
    };
    if pack(telling, run_dir, to, "no bundle was written", published) {
        published.files.push(to.to_owned());
    }
}

/// Packs a run; what keeps it from being packed is one warning.
fn pack(
    telling: &Telling,
    run_dir: &Path,
    zip: &Path,
    otherwise: &str,
    published: &mut Published,
) -> bool {
    let state = telling.subject.root.join(crate::receipt::state::FILE);
    let written = Redactor::new(&telling.secret, std::env::vars_os()).and_then(|redactor| {
        let state = state.is_file().then_some(state.as_path());
        bundle::write(run_dir, state, zip, Contents::Evidence, &redactor)
    });
    match written {
        Ok(facts) => {
            facts.warnings.iter().for_each(|warning| published.warn(warning));
            true
        }
        Err(error) => {
            published.warn(format!("{otherwise}: {error}"));
            false
        }
    }
}

/// What was told over the network.
#[derive(Debug, Default)]
struct Remote {
    artifact: Option<Artifact>,
    comment: bool,
    check_run: bool,
    warnings: Vec<String>,
}

async fn tell_remotely(
    telling: &Telling,
    inputs: &Inputs,
    job: &Job,
    zip: Option<&Path>,
    remote: &RefCell<Remote>,
) {
    let warn = |warning: String| remote.borrow_mut().warnings.push(warning);
    if let Some(zip) = zip {
        match upload(telling, zip, &warn).await {
            Ok(artifact) => remote.borrow_mut().artifact = artifact,
            Err(warning) => warn(warning),
        }
    }
    // Bad arguments are no halt: there is no run that a comment could be about.
    let has_end = telling.subject.halt.is_some();
    let wants_comment =
        has_end && telling.settings.comment == Comment::Sticky && !telling.ledger.comment;
    let wants_check = has_end && telling.settings.check_run && !telling.ledger.check_run;
    if job.platform != Platform::GitHub || !(wants_comment || wants_check) {
        return;
    }
    let Some(event) = &job.event else { return };
    let mut subject = telling.subject.clone();
    let uploaded = remote.borrow().artifact.clone().or_else(|| telling.ledger.artifact.clone());
    subject.links.artifact = artifact_page(uploaded.as_ref());
    let api = match connect(event, inputs, &telling_policy(telling)).await {
        Ok(Some(api)) => api,
        Ok(None) => return talk(&format!("note: {NO_TOKEN}")),
        Err(warning) => return warn(warning),
    };
    if wants_comment {
        let kept = keep_comment(&api, event, inputs, &subject).await;
        remote.borrow_mut().comment = is_told(&kept);
        kept.unwrap_or_else(|trouble| warn(trouble.to_string()));
    }
    if wants_check {
        let made = make_check_run(&api, event, inputs, &subject).await;
        remote.borrow_mut().check_run = is_told(&made);
        made.unwrap_or_else(|trouble| warn(trouble.to_string()));
    }
}

/// Says whether a surface need not be tried again: a token that may not write will not later.
fn is_told(outcome: &Result<(), Trouble>) -> bool {
    matches!(outcome, Ok(()) | Err(Trouble { cause: Cause::Denied(_) | Cause::BadToken(_), .. }))
}

fn telling_policy(telling: &Telling) -> Policy {
    match telling.hurried {
        true => Policy { attempts: 2, total: UPLOAD_HURRIED, ..Policy::default() },
        false => Policy::default(),
    }
}

/// Uploads the bundle; without a service for it the bundle stays on disk.
async fn upload(
    telling: &Telling,
    zip: &Path,
    warn: &impl Fn(String),
) -> Result<Option<Artifact>, String> {
    let service = match ResultsService::from_env(variable) {
        Ok(service) => service,
        Err(none) => {
            talk(&format!("note: {}", none.why));
            return Ok(None);
        }
    };
    let subject = &telling.subject;
    let name = match &telling.settings.artifact_name {
        Some(name) => name.clone(),
        None => artifact::default_name(&subject.key, subject.turn.attempt),
    };
    let limit = variable("GITHUB_RETENTION_DAYS");
    let (retention_days, clamped) =
        artifact::retention(telling.settings.retention_days, limit.as_deref());
    clamped.into_iter().for_each(warn);
    let time = if telling.hurried { UPLOAD_HURRIED } else { UPLOAD };
    let request = Request { name: &name, zip, retention_days, deadline: Instant::now() + time };
    let client = http::client().map_err(|error| format!("no artifact was uploaded: {error}"))?;
    let mut mask = |secret: &str| commands::mask(secret).iter().for_each(|line| talk_raw(line));
    let uploaded = artifact::upload(&client, &service, &request, &mut mask)
        .await
        .map_err(|error| error.to_string())?;
    Ok(Some(Artifact {
        id: uploaded.id,
        name: uploaded.name,
        url: uploaded.url.unwrap_or_default(),
        digest: uploaded.digest,
    }))
}

/// Connects to the API with the token at hand.
///
/// # Errors
/// Says in one sentence why there is no client.
pub async fn connect(
    event: &Event,
    inputs: &Inputs,
    policy: &Policy,
) -> Result<Option<Api>, String> {
    let token =
        inputs.token.clone().or_else(|| variable("GITHUB_TOKEN")).or_else(|| variable("GH_TOKEN"));
    let Some(token) = token.filter(|token| !token.trim().is_empty()) else { return Ok(None) };
    let api = Api::connect(&event.api_url, &token, *policy).await;
    api.map(Some).map_err(|failed| format!("nothing is told to GitHub's API: {failed}"))
}

async fn keep_comment(
    api: &Api,
    event: &Event,
    inputs: &Inputs,
    subject: &Subject,
) -> Result<(), Trouble> {
    let found = pull::find(inputs.pr_number, event, Some(api)).await?;
    let (Some(found), Some(repository)) = (found, event.repository.as_ref()) else {
        return Ok(());
    };
    let head = head_of(api, event, &found).await;
    let body = markdown::comment_body(subject);
    let state =
        if subject.halt.is_some() { comment::State::Final } else { comment::State::Running };
    let head_sha = (!head.is_empty()).then_some(head.as_str());
    let text =
        comment::Note { key: &subject.key, turn: subject.turn, head_sha, state, body: &body };
    let published = comment::publish(api, repository, found.number, &text).await?;
    if published.outcome == comment::Outcome::Stale {
        talk("note: the comment on the pull request is a newer run's and stays as it is");
    }
    Ok(())
}

/// Returns the commit a text is about: what a comment's event does not tell, the API does.
async fn head_of(api: &Api, event: &Event, found: &pull::Found) -> String {
    if let Some(head) = event.head_sha() {
        return head.to_owned();
    }
    match &event.repository {
        Some(repository) => pull::read(api, repository, found.number)
            .await
            .map(|pull| pull.head_sha)
            .unwrap_or_default(),
        None => String::new(),
    }
}

async fn make_check_run(
    api: &Api,
    event: &Event,
    inputs: &Inputs,
    subject: &Subject,
) -> Result<(), Trouble> {
    let Some(repository) = &event.repository else { return Ok(()) };
    let head = match event.head_sha() {
        Some(head) => head.to_owned(),
        None => match pull::from_event(inputs.pr_number, event) {
            Some(found) => head_of(api, event, &found).await,
            None => String::new(),
        },
    };
    if head.is_empty() {
        return Err(check_run::NEED.failed("the event names no commit"));
    }
    let name = check_run::name_of(&subject.key);
    let title = match &subject.halt {
        Some(halt) => halt.reason.to_string(),
        None => "running".to_owned(),
    };
    let run = check_run::CheckRun {
        name: &name,
        head_sha: &head,
        external_id: &subject.run_id,
        details_url: subject.links.job.as_deref(),
        conclusion: check_run::Conclusion::of(subject),
        title: &title,
        summary: &markdown::comment_body(subject),
        findings: &subject.findings,
    };
    match check_run::publish(api, repository, &run).await {
        // The first request has the conclusion: annotations that did not follow are in the summary.
        Ok(written) => {
            if let Some(trouble) = written.trouble {
                talk(&format!("note: not all annotations are on the check run: {trouble}"));
            }
            Ok(())
        }
        // Only apps make check runs; the token of a person can set a status in its place.
        Err(denied @ Trouble { cause: Cause::Denied(_), .. }) => {
            let standing = match subject.fails {
                true => check_run::Standing::Failure,
                false => check_run::Standing::Success,
            };
            let status = check_run::Status {
                sha: &head,
                standing,
                context: &name,
                description: &title,
                page: subject.links.job.as_deref(),
            };
            check_run::post_status(api, repository, &status).await.map_err(|_| denied)
        }
        Err(trouble) => Err(trouble),
    }
}

/// Shows on the pull request that a run goes on.
pub fn announce(known: &Known, inputs: &Inputs, job: &Job) {
    let settings = inputs.over(known.spec.as_deref());
    let (Some(event), Some(spec)) = (&job.event, &known.spec) else { return };
    // Only where no question has to be asked first: a push may belong to no pull request at all.
    if settings.comment != Comment::Sticky || pull::from_event(inputs.pr_number, event).is_none() {
        return;
    }
    let run_id = known.run_dir.as_deref().and_then(|dir| dir.file_name());
    let subject = Subject {
        key: job.key(&spec.name, inputs),
        turn: job.turn(),
        run_id: run_id.map(|id| id.to_string_lossy().into_owned()).unwrap_or_default(),
        halt: None,
        fails: false,
        process_exit: 0,
        report: None,
        findings: Vec::new(),
        links: Links { job: job.link(), artifact: None },
        run_dir: known.run_dir.clone(),
        root: known.root.clone(),
    };
    let policy = Policy { attempts: 2, total: ANNOUNCE, ..Policy::default() };
    // The end tells what a token may not do; here it would only be told twice.
    let told = remotely(
        ANNOUNCE,
        async {
            let Ok(Some(api)) = connect(event, inputs, &policy).await else { return true };
            keep_comment(&api, event, inputs, &subject).await.is_ok()
        },
        |_| false,
    );
    if !told {
        tracing::debug!("the pull request does not show that the run goes on");
    }
}
