//! The loops of a GitHub workflow or of an action made of steps: every step that uses the action.

use super::candidate::{Around, Candidate, LoopText, Step};
use super::document::{Document, Kind, entries, get, input, items, word};
use super::expression::Syntax;
use super::variables::Scope;
use crate::config::diagnostic::{printable, quote};
use crate::config::tree::{MapKey, Node, Value};
use crate::error::Result;

/// The name that makes a step ours.
const ACTION: &str = "loopexec";

/// The action's inputs; a step that uses the repository's own action is ours when it gives no other.
const INPUTS: [&str; 21] = [
    "loop",
    "config",
    "working-directory",
    "github-token",
    "annotations",
    "comment",
    "check-run",
    "summary",
    "artifact",
    "artifact-name",
    "retention-days",
    "fail-on",
    "accept-isolation",
    "resume",
    "pr-number",
    "allow-pull-request-target",
    "version",
    "binary-path",
    "matrix",
    "args",
    "token",
];

/// Finds the loops of a file.
///
/// # Errors
/// `config_invalid` for a step of ours that GitHub would refuse, or that says two loops.
pub(crate) fn candidates(document: &Document) -> Result<Vec<Candidate<'_>>> {
    let mut all = Vec::new();
    if document.kind == Kind::Composite {
        if let Some(steps) = get(&document.root, "runs").and_then(|runs| get(runs, "steps")) {
            let mut base = Candidate::at(steps.at);
            base.around = Around::Steps { steps, job: None };
            add_steps(document, steps, &base, &mut all)?;
        }
        return Ok(all);
    }
    for (id, job) in jobs(document) {
        let Some(steps) = get(job, "steps") else { continue };
        let mut base = Candidate::at(id.at);
        base.job = Some(id.text.clone());
        base.job_name = word(job, "name");
        base.scopes =
            [document.top("env"), get(job, "env")].into_iter().flatten().map(Scope::Env).collect();
        base.around = Around::Steps { steps, job: Some(job) };
        add_steps(document, steps, &base, &mut all)?;
    }
    Ok(all)
}

fn add_steps<'a>(
    document: &Document,
    steps: &'a Node,
    base: &Candidate<'a>,
    all: &mut Vec<Candidate<'a>>,
) -> Result<()> {
    for (index, step) in items(steps).iter().enumerate() {
        if get(step, "uses").is_some_and(|uses| is_ours(uses, get(step, "with"))) {
            all.push(candidate_of(document, step, index + 1, base.clone())?);
        }
    }
    Ok(())
}

/// Says what a runner does before a step, and a laptop does not.
pub(super) fn not_run(steps: &Node, job: Option<&Node>, number: usize) -> Vec<String> {
    let mut all = job.map(services).unwrap_or_default();
    let earlier = items(steps).iter().take(number.saturating_sub(1)).enumerate();
    all.extend(earlier.map(|(index, step)| step_label(index + 1, step)));
    all
}

/// Says where a default folder does not reach.
pub(super) fn folder_note(document: &Document, job: Option<&Node>) -> Option<String> {
    let folder = job.and_then(default_folder).or_else(|| default_folder(&document.root))?;
    Some(format!(
        "`defaults.run.working-directory: {}` is for `run` steps, on the platform too: a loop's folder is the input `working-directory`",
        printable(&folder)
    ))
}

fn candidate_of<'a>(
    document: &Document,
    step: &'a Node,
    number: usize,
    mut candidate: Candidate<'a>,
) -> Result<Candidate<'a>> {
    if let Some((key, _)) = entries(step).iter().find(|(key, _)| key.text == "working-directory") {
        let sentence = "a step that uses an action takes no `working-directory`";
        return Err(document
            .error(key.at, sentence)
            .hint("write it below `with`: it is an input of the action"));
    }
    let (id, name) = (word(step, "id"), word(step, "name"));
    candidate.line = step.at.line;
    candidate.title = id
        .clone()
        .or_else(|| name.clone().filter(|name| !name.contains("${{")))
        .or_else(|| candidate.job.clone());
    candidate.step = Some(Step { id, name, number });
    candidate.scopes.extend(get(step, "env").map(Scope::Env));
    let Some(with) = get(step, "with") else { return Ok(candidate) };
    let given = |key: &str| -> Result<Option<super::document::Scalar>> {
        match input(with, key) {
            Some(node) => {
                document.scalar(key, node).map(|s| Some(s).filter(|s| !s.text.trim().is_empty()))
            }
            None => Ok(None),
        }
    };
    let text = given("loop")?;
    candidate.config = given("config")?;
    candidate.folder = given("working-directory")?;
    if let (Some(_), Some(config)) = (&text, &candidate.config) {
        let sentence =
            "the step gives both `loop` and `config`: two loops, of which one would not run";
        return Err(document.error(config.at, sentence).hint("keep one of them"));
    }
    candidate.text = text.map(|scalar| LoopText { scalar, syntax: Some(Syntax::Braces) });
    Ok(candidate)
}

/// Says whether a step uses our action: `OWNER/loopexec@REF`, or a folder of the repository.
fn is_ours(uses: &Node, with: Option<&Node>) -> bool {
    let Value::Text(uses) = &uses.value else { return false };
    let uses = uses.trim();
    let local = uses.strip_prefix('.').or_else(|| uses.strip_prefix('$'));
    if let Some(path) = local.filter(|path| path.starts_with('/')) {
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        return match last {
            // The repository's own action may be anybody's.
            "" | "." => with
                .map(entries)
                .unwrap_or_default()
                .iter()
                .all(|(key, _)| INPUTS.iter().any(|input| key.text.eq_ignore_ascii_case(input))),
            last => last.eq_ignore_ascii_case(ACTION),
        };
    }
    let Some((path, _)) = uses.split_once('@') else { return false };
    !uses.contains("://")
        && path.split('/').nth(1).is_some_and(|name| name.eq_ignore_ascii_case(ACTION))
}

/// Returns the services of a job and its container, as they are listed.
fn services(job: &Node) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(container) = get(job, "container") {
        let image = word(job, "container").or_else(|| word(container, "image"));
        all.push(format!(
            "the job's container {} (line {})",
            quote(&image.unwrap_or_default()),
            container.at.line
        ));
    }
    for (key, _) in get(job, "services").map(entries).unwrap_or_default() {
        all.push(format!("service {} (line {})", quote(&key.text), key.at.line));
    }
    all
}

/// Returns how a step is named in a list.
pub(super) fn step_label(number: usize, step: &Node) -> String {
    let what = ["name", "id", "uses", "run"].into_iter().find_map(|key| word(step, key));
    let first = what.as_deref().and_then(|what| what.lines().find(|line| !line.trim().is_empty()));
    match first {
        Some(first) => format!("step {} (line {})", quote(first.trim()), step.at.line),
        None => format!("step {number} (line {})", step.at.line),
    }
}

/// Returns the folder that `run` steps below a node start in.
pub(super) fn default_folder(node: &Node) -> Option<String> {
    let run = get(node, "defaults").and_then(|defaults| get(defaults, "run"))?;
    word(run, "working-directory")
}

/// Returns the shell of `run` steps below a node that name none.
pub(super) fn default_shell(node: &Node) -> Option<String> {
    let run = get(node, "defaults").and_then(|defaults| get(defaults, "run"))?;
    word(run, "shell")
}

/// Returns the jobs of a workflow.
pub(super) fn jobs(document: &Document) -> &[(MapKey, Node)] {
    document.top("jobs").map(entries).unwrap_or_default()
}
