//! `resume: latest` on a fresh machine: the newest bundle of the same loop and branch, and the answers
//! that people with write access gave as comments.
//!
//! What a bundle holds is verified before it counts; who may answer is asked, never read from the event.

use super::inputs::Inputs;
use super::job::Job;
use super::ledger;
use super::publish::github::connect;
use crate::ci::artifact::{Latest, Listed, Origin, Shelf, Wanted, base_name, fetch_latest};
use crate::ci::github::api::{self, Api, Named, Need};
use crate::ci::github::event::{Event, Repository};
use crate::ci::github::{pull, trust};
use crate::ci::http::{Failed, Policy};
use crate::commands::ack::{Said, answer_run};
use crate::commands::outcome::talk;
use crate::commands::run;
use crate::domain::gate::Gate;
use crate::error::{Error, Kind, Result};
use crate::receipt::bundle::MAX_BUNDLE;
use crate::receipt::question::answer_name;
use crate::receipt::record::{Compare, fold};
use crate::receipt::rundir::{Home, LATEST, RunDir};
use crate::workspace::caller::{Caller, CallerKind};
use serde_json::Value;
use std::path::Path;

/// Pages of comments that are looked through for an answer.
const PAGES: u32 = 10;

/// Turns `latest` into the run it stands for where the machine has none yet; without one a new run
/// starts.
///
/// # Errors
/// `workspace_invalid` when the bundles cannot be listed or fetched, what importing one refuses.
pub fn choose(options: &mut run::Args, inputs: &Inputs, job: &Job, caller: &Caller) -> Result<()> {
    if options.resume.is_none() {
        return Ok(());
    }
    let resolved = run::source::resolve(options, caller)?;
    let dir = Path::new(&resolved.spec.receipt.dir);
    refuse_tracked(caller, dir)?;
    let Some(event) = job.event.as_ref().filter(|_| options.resume.as_deref() == Some(LATEST))
    else {
        return Ok(());
    };
    // Where a stranger's code may have run in this job already, what lies here is nobody's word.
    let own = event.payload().get("pull_request").is_none();
    if own
        && let Some(home) = Home::find(&caller.root, dir)?
        && !home.read_runs()?.is_empty()
    {
        // A machine that keeps its workspace has the run itself.
        return Ok(());
    }
    let (Some(repository), Some(origin)) = (&event.repository, origin_of(event)) else {
        talk("note: this event names no branch whose last run could be resumed: a new run starts");
        options.resume = None;
        return Ok(());
    };
    let home = Home::create(&caller.root, dir)?;
    let name = match inputs.over(Some(&resolved.spec)).artifact_name {
        Some(name) => name,
        None => base_name(&job.key(&resolved.spec.name, inputs)),
    };
    let wanted = Wanted { name, attempt: job.turn().attempt, origin };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| {
        Error::io(Kind::WorkspaceInvalid, "no network could be set up to find the last run", e)
    })?;
    options.resume = runtime.block_on(async {
        let api = connect(event, inputs, &Policy::default()).await.map_err(|why| {
            Error::new(Kind::WorkspaceInvalid, format!("the last run cannot be looked for: {why}"))
        })?;
        let api = api.ok_or_else(|| {
            Error::new(Kind::WorkspaceInvalid, "the last run cannot be looked for without a token")
                .hint("give the action a github-token with `actions: read`")
        })?;
        let shelf = Store { api: &api, repository };
        Ok::<_, Error>(match fetch_latest(&shelf, &wanted, &home).await? {
            Latest::None => {
                talk("note: there is no earlier run of this loop and branch: a new run starts");
                None
            }
            Latest::Ended { run_id, reason } => {
                talk(&format!("note: run {run_id} has ended ({reason}): a new run starts"));
                None
            }
            Latest::Resumable { run, created_at } => {
                // What an artifact says of an answer is nobody's word: whoever ran the job wrote it.
                for gate in Gate::ALL {
                    let _ = std::fs::remove_file(run.path().join(answer_name(gate)));
                }
                let _ = std::fs::remove_file(run.path().join(ledger::FILE));
                answer_by_comment(&api, repository, event, inputs, &run, &created_at).await?;
                Some(run.id().to_owned())
            }
        })
    })?;
    Ok(())
}

/// Refuses runs that came with the checkout: whoever wrote the commit wrote them, answers included.
fn refuse_tracked(caller: &Caller, dir: &Path) -> Result<()> {
    if caller.kind == CallerKind::Plain {
        return Ok(());
    }
    let dir = dir.to_string_lossy();
    // The folder is a path, whatever it looks like.
    let git = caller.git().variable("GIT_LITERAL_PATHSPECS", "1");
    let arguments = ["ls-files", "-z", "--cached", "--", &dir, crate::receipt::state::FILE];
    let tracked = git.run(arguments, b"", &|| false)?;
    if tracked.code == 0 && tracked.stdout.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        Kind::ConfigInvalid,
        format!(
            "{dir} or {} is part of the commit, so it is no evidence of a run",
            crate::receipt::state::FILE
        ),
    )
    .detail("untrusted_checkout")
    .hint("remove it from the repository (git rm -r --cached), and let a new run start"))
}

/// Returns the branch that the event is about, and the repository it is in.
fn origin_of(event: &Event) -> Option<Origin> {
    // With secrets nothing of a stranger's branch is gone on with: the event's own branch counts.
    if !trust::is_privileged(&event.name)
        && let Some(branch) = event.text("/pull_request/head/ref")
    {
        let repository = event.number_at("/pull_request/head/repo/id")?;
        return Some(Origin { branch: branch.to_owned(), repository });
    }
    let branch = event.reference.as_deref()?.strip_prefix("refs/heads/")?;
    Some(Origin { branch: branch.to_owned(), repository: event.number_at("/repository/id")? })
}

/// The artifacts of a repository, through the API.
struct Store<'a> {
    api: &'a Api,
    repository: &'a Repository,
}

impl Shelf for Store<'_> {
    async fn artifacts_named(&self, name: &str) -> std::result::Result<Vec<Listed>, Failed> {
        let listed = api::artifacts_named(self.api, self.repository, Named::Exactly(name)).await;
        let listed = listed.map_err(|trouble| Failed::new(trouble.to_string()))?;
        Ok(listed
            .into_iter()
            .map(|one| Listed {
                id: one.id,
                name: one.name,
                size: one.size,
                created_at: one.created_at,
                digest: one.digest,
                head_branch: one.head_branch,
                head_repository: one.head_repository,
            })
            .collect())
    }

    async fn download_artifact(&self, id: u64, to: &Path) -> std::result::Result<(), Failed> {
        api::download_artifact(self.api, self.repository, id, to, MAX_BUNDLE)
            .await
            .map(|_| ())
            .map_err(|trouble| Failed::new(trouble.to_string()))
    }
}

/// Takes the newest answer that a person with write access gave on the pull request since the bundle with
/// the question was uploaded, at `asked`.
async fn answer_by_comment(
    api: &Api,
    repository: &Repository,
    event: &Event,
    inputs: &Inputs,
    run: &RunDir,
    asked: &str,
) -> Result<()> {
    let folded = fold(run, Compare::Strict, &mut |_| Ok(()))?;
    let Some(waiting) = folded.waiting else { return Ok(()) };
    let Some(found) = pull::from_event(inputs.pr_number, event) else { return Ok(()) };
    let failed = |what: String| {
        Error::new(Kind::WorkspaceInvalid, format!("the answers cannot be read: {what}"))
            .hint("loopexec ack --bundle FILE answers without them")
    };
    let need = Need { doing: "read the comments", permission: "pull-requests: read" };
    let mut answers = Vec::new();
    for page in 1..=PAGES {
        let path = format!(
            "/repos/{repository}/issues/{}/comments?since={asked}&per_page=100&page={page}",
            found.number
        );
        let listed = api.read(need, &path).await.map_err(|e| failed(e.to_string()))?;
        let comments = listed.as_array().map_or(&[][..], Vec::as_slice);
        answers.extend(comments.iter().filter_map(|comment| answer_in(comment, asked)));
        if comments.len() < 100 {
            break;
        }
    }
    for answer in answers.iter().rev().filter(|answer| answer.ack.gate == waiting.question.gate) {
        let permission = api::permission_of(api, repository, &answer.login)
            .await
            .map_err(|e| failed(e.to_string()))?;
        if !permission.may_write() {
            talk(&format!(
                "note: {} has no write access: that comment answers nothing",
                answer.login
            ));
            continue;
        }
        let said = Said {
            gate: answer.ack.gate,
            reply: answer.ack.reply,
            by: answer.login.clone(),
            note: answer.url.clone(),
        };
        answer_run(run, &said)?;
        talk(&format!("note: {} answered {}", answer.login, answer.ack.gate.word()));
        break;
    }
    Ok(())
}

/// An answer in a comment.
struct Answered {
    ack: trust::Ack,
    login: String,
    url: String,
}

/// Reads the answer of a comment that came after the question and was not edited: whoever may edit it
/// need not be who wrote it.
fn answer_in(comment: &Value, asked: &str) -> Option<Answered> {
    let text = |pointer: &str| comment.pointer(pointer).and_then(Value::as_str);
    let created = text("/created_at")?;
    if created <= asked || text("/updated_at")? != created || text("/user/type")? != "User" {
        return None;
    }
    Some(Answered {
        ack: trust::parse_ack_comment(text("/body")?)?,
        login: text("/user/login")?.to_owned(),
        url: text("/html_url").unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_later_unedited_comment_of_a_person_answers() {
        let asked = "2026-01-02T03:04:05Z";
        let comment = |created: &str, updated: &str, kind: &str, body: &str| {
            json!({"created_at": created, "updated_at": updated, "body": body,
                   "user": {"login": "ann", "type": kind}, "html_url": "https://x/1"})
        };
        let later = "2026-01-02T03:05:00Z";
        let yes = "/loopexec ack deliver yes";
        assert!(answer_in(&comment(later, later, "User", yes), asked).is_some());
        for bad in [
            comment("2026-01-02T03:04:00Z", "2026-01-02T03:04:00Z", "User", yes),
            comment(later, "2026-01-02T03:06:00Z", "User", yes),
            comment(later, later, "Bot", yes),
            comment(later, later, "User", "please /loopexec ack deliver yes"),
        ] {
            assert!(answer_in(&bad, asked).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_branch_is_the_heads_of_a_pull_request() {
        let payload = json!({"pull_request": {"head": {"ref": "topic", "repo": {"id": 7}}}});
        let origin = origin_of(&Event::of("pull_request", payload)).unwrap();
        assert_eq!((origin.branch.as_str(), origin.repository), ("topic", 7));
        let mut push = Event::of("push", json!({"repository": {"id": 9}}));
        push.reference = Some("refs/heads/main".into());
        assert_eq!(origin_of(&push).unwrap().repository, 9);
        let payload = json!({"repository": {"id": 9}, "pull_request": {"head": {"ref": "evil", "repo": {"id": 7}}}});
        let mut target = Event::of("pull_request_target", payload);
        target.reference = Some("refs/heads/main".into());
        let origin = origin_of(&target).unwrap();
        assert_eq!((origin.branch.as_str(), origin.repository), ("main", 9));
        push.reference = Some("refs/tags/v1".into());
        assert!(origin_of(&push).is_none());
    }
}
