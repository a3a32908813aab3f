//! The loops of a file, and which one of them is meant.

use super::document::{Document, Scalar};
use super::variables::Scope;
use crate::config::diagnostic::{At, printable, quote};
use crate::config::tree::Node;
use crate::error::{Error, Result};

/// A step, as its job names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its id, where it has one.
    pub id: Option<String>,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Its place among the steps, from 1.
    pub number: usize,
}

/// A loop that a file holds or names.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    /// The job's id; `None` in an action and where none is named.
    pub(crate) job: Option<String>,
    /// The step; `None` in GitLab.
    pub(crate) step: Option<Step>,
    /// The line where it stands, from 1.
    pub(crate) line: usize,
    /// The name a loop without `name` gets, before it is made a slug.
    pub(crate) title: Option<String>,
    /// The job's own name, beside its id.
    pub(crate) job_name: Option<String>,
    /// The loop's text, where it stands in the file.
    pub(crate) text: Option<LoopText>,
    /// The path of a loop file.
    pub(crate) config: Option<Scalar>,
    /// The folder it runs in, from the root of the tree.
    pub(crate) folder: Option<Scalar>,
    /// The variables it sees, outermost first.
    pub(crate) scopes: Vec<Scope<'a>>,
    /// What it stands in.
    pub(crate) around: Around<'a>,
}

/// What a loop stands in: what the platform does around it is read from here once one is chosen.
#[derive(Debug, Clone)]
pub(crate) enum Around<'a> {
    /// Nothing that is known.
    Nothing,
    /// The steps of a job, and the job where there is one.
    Steps {
        /// The steps.
        steps: &'a Node,
        /// The job.
        job: Option<&'a Node>,
    },
    /// What a GitLab job is made of, itself last.
    Chain(Vec<&'a Node>),
}

/// A loop's text and whether the platform looks for variables in it.
#[derive(Debug, Clone)]
pub(crate) struct LoopText {
    /// The text.
    pub(crate) scalar: Scalar,
    /// How expressions in it are written, where the platform fills any in.
    pub(crate) syntax: Option<super::expression::Syntax>,
}

impl Candidate<'_> {
    /// Makes one that is found at a place, about which nothing else is known.
    pub(crate) fn at(at: At) -> Self {
        Self {
            job: None,
            step: None,
            line: at.line,
            title: None,
            job_name: None,
            text: None,
            config: None,
            folder: None,
            scopes: Vec::new(),
            around: Around::Nothing,
        }
    }

    fn is_job(&self, wanted: &str) -> bool {
        [&self.job, &self.job_name].into_iter().flatten().any(|name| name == wanted)
    }

    fn is_step(&self, wanted: &str) -> bool {
        self.step.as_ref().is_some_and(|step| {
            let named = [&step.id, &step.name].into_iter().flatten().any(|name| name == wanted);
            named || wanted.parse() == Ok(step.number)
        })
    }

    /// Returns how it is chosen on a command line, for a list.
    fn listed(&self, document: &Document) -> String {
        let mut flags = String::new();
        if let Some(job) = &self.job {
            flags.push_str(&format!(" --job {}", word(job)));
        }
        if let Some(step) = &self.step {
            let number = step.number.to_string();
            let step = step.id.as_ref().or(step.name.as_ref()).unwrap_or(&number);
            flags.push_str(&format!(" --step {}", word(step)));
        }
        let what = match (&self.text, &self.config) {
            (Some(_), _) => "inline".to_owned(),
            (None, Some(config)) => format!("config {}", quote(&config.text)),
            (None, None) => "searched for".to_owned(),
        };
        let flags = if flags.is_empty() { " no job or step".to_owned() } else { flags };
        format!("{}:{}:{flags} ({what})", printable(&document.name), self.line)
    }
}

/// Returns a name as one word of a command line.
fn word(name: &str) -> String {
    let name = printable(name);
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    match name.chars().all(plain) && !name.is_empty() {
        true => name,
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

/// Chooses the one that is meant.
///
/// # Errors
/// `config_invalid` that lists all of them, when there is none or more than one.
pub(crate) fn choose<'a>(
    document: &Document,
    mut all: Vec<Candidate<'a>>,
    job: Option<&str>,
    step: Option<&str>,
) -> Result<Candidate<'a>> {
    let fits = |candidate: &Candidate<'_>| {
        job.is_none_or(|job| candidate.is_job(job))
            && step.is_none_or(|step| candidate.is_step(step))
    };
    let fitting: Vec<usize> =
        all.iter().enumerate().filter(|(_, one)| fits(one)).map(|(index, _)| index).collect();
    if let [only] = fitting.as_slice() {
        return Ok(all.swap_remove(*only));
    }
    let asked = match (job, step) {
        (Some(job), Some(step)) => format!(" in job {}, step {}", quote(job), quote(step)),
        (Some(job), None) => format!(" in job {}", quote(job)),
        (None, Some(step)) => format!(" in a step {}", quote(step)),
        (None, None) => String::new(),
    };
    if all.is_empty() {
        return Err(none_at_all(document));
    }
    if fitting.is_empty() {
        return Err(list(document.about(&format!("there is no loop{asked}")), document, &all));
    }
    let shown: Vec<Candidate<'_>> =
        all.into_iter().enumerate().filter(|(i, _)| fitting.contains(i)).map(|(_, c)| c).collect();
    let sentence =
        format!("{} loops stand here{asked}, and nothing says which one is meant", shown.len());
    Err(list(document.about(&sentence), document, &shown))
}

fn list(mut error: Error, document: &Document, candidates: &[Candidate<'_>]) -> Error {
    const MOST: usize = 50;
    for candidate in candidates.iter().take(MOST) {
        error = error.hint(candidate.listed(document));
    }
    match candidates.len().checked_sub(MOST).filter(|more| *more > 0) {
        Some(more) => error.hint(format!("and {more} more")),
        None => error,
    }
}

fn none_at_all(document: &Document) -> Error {
    use super::document::Kind;
    match document.kind {
        Kind::GitHub | Kind::Composite => document
            .about("there is no loop in it: no step uses the action loopexec")
            .hint("a step holds one with `uses: OWNER/loopexec@REF` and `with: {loop: …}` or `with: {config: …}`"),
        Kind::GitLab | Kind::LoopFile => document
            .about("there is no loop in it: no job has a variable `LOOPEXEC_LOOP`, and no component loopexec is included")
            .hint("a job holds one with `variables: {LOOPEXEC_LOOP: {value: …, expand: false}}`"),
    }
}
