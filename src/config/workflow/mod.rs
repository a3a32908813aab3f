//! Loops inside workflow files: the same text that a CI platform hands to the action, found in the
//! file it stands in.
//!
//! `document` reads the file, `github` and `gitlab` find its loops, `candidate` chooses one,
//! `expression` fills in what is known, `variables` reads what the platform would set, `frame` says
//! where in the file a place of the loop is. `job` reads a job that has no loop yet, for `init`.

mod candidate;
mod document;
mod expression;
mod frame;
mod github;
mod gitlab;
pub mod job;
mod variables;

pub use candidate::Step;
pub use document::Kind;
pub(crate) use frame::Frame;

use super::diagnostic::{Sources, printable};
use super::value::slug;
use super::{Inline, Inputs, Resolved, search};
use crate::error::{Error, Kind as ErrorKind, Result};
use candidate::{Around, Candidate, choose};
use document::{Document, Scalar};
use expression::{Filled, Sets, Syntax, fill};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use variables::Unresolved;

/// Which loop of a file is meant, and what is known of its expressions.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The job, by id or name.
    pub job: Option<String>,
    /// The step, by id, name or number from 1.
    pub step: Option<String>,
    /// What expressions stand for, each `K=V` as typed.
    pub sets: Vec<String>,
}

/// Where the loop itself stands.
#[derive(Debug, Clone)]
pub enum Stands {
    /// In the file, as a text.
    Here(Box<Inline>),
    /// The file is a loop file.
    Whole(PathBuf),
    /// In a loop file of this path, relative to the folder the loop runs in.
    Config(PathBuf),
    /// In the loop file that is found in the folder the loop runs in.
    Searched,
}

/// A loop as a workflow file has it, and what the platform would set around it.
#[derive(Debug, Clone)]
pub struct Taken {
    /// What the file is.
    pub kind: Kind,
    /// The job's id, where there is one.
    pub job: Option<String>,
    /// The step, where there is one.
    pub step: Option<Step>,
    /// The line of the file where it stands, from 1.
    pub line: usize,
    /// Where the loop stands.
    pub stands: Stands,
    /// The folder it runs in, relative to the root of the tree; `None` is the root, or for a loop
    /// file the folder the command was started in.
    pub folder: Option<String>,
    /// Variables that the platform would set, literal or given.
    pub variables: BTreeMap<String, String>,
    /// What is to be said once: what is not run here, what is not known.
    pub notes: Vec<String>,
    unknown: BTreeMap<String, Unresolved>,
    sources: Sources,
}

/// Reads a file and finds the loop that is meant.
///
/// # Errors
/// `config_invalid` when the file cannot be read, when none or several of its loops fit the choice
/// (all are listed, with their lines), and where an expression stands that nothing is known of.
pub fn read(file: &Path, choice: &Choice) -> Result<Taken> {
    let text = read_text(file)?;
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    find(&file.display().to_string(), &text, choice, Some(&real))
}

/// Variables that name the files by which a step of GitHub tells its runner, and later steps, what it found.
pub const STEP_FILES: [&str; 5] =
    ["GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"];

/// Reads the text of a workflow file, at most 1 MiB.
///
/// # Errors
/// `config_invalid` when it is missing, no regular file, unreadable, too large or not UTF-8.
pub fn read_text(file: &Path) -> Result<String> {
    search::read_file(Path::new("."), file, "workflow file")
}

/// Finds the loop that is meant in the text of a file; `name` is what messages call it, `file` what no
/// exec may touch.
///
/// # Errors
/// As [`read`].
pub fn find(name: &str, text: &str, choice: &Choice, file: Option<&Path>) -> Result<Taken> {
    let document = Document::read(name, text)?;
    let sets = Sets(choice.sets.clone());
    if let Some(bad) = sets.0.iter().find(|set| !set.contains('=')) {
        let what = format!("--set {}: it is `K=V`, with an expression's text as K", printable(bad));
        return Err(
            Error::new(ErrorKind::Usage, what).hint("for instance --set matrix.python=3.11")
        );
    }
    let (job, step) = (choice.job.as_deref(), choice.step.as_deref());
    let candidates = match document.kind {
        Kind::LoopFile => return whole(&document, choice, file),
        Kind::GitHub | Kind::Composite => github::candidates(&document)?,
        Kind::GitLab => gitlab::candidates(&document)?,
    };
    let candidate = choose(&document, candidates, job, step)?;
    take(&document, candidate, &sets, file)
}

/// Finds the places of a loop's text in the workflow file that it came from, where it stands there as
/// it is; for a runner, which is handed the text alone. `name` is the loop's own where it says none.
pub fn standing(file_name: &str, file_text: &str, loop_text: &str, name: &str) -> Option<Inline> {
    let document = Document::read(file_name, file_text).ok()?;
    let candidates = match document.kind {
        Kind::GitHub | Kind::Composite => github::candidates(&document).ok()?,
        Kind::GitLab => gitlab::candidates(&document).ok()?,
        Kind::LoopFile => return None,
    };
    let same = |candidate: &Candidate<'_>| {
        candidate
            .text
            .as_ref()
            .is_some_and(|text| text.scalar.text.trim_end() == loop_text.trim_end())
    };
    let text = candidates.into_iter().find(same)?.text?;
    let frame = Frame::of(file_text, &text.scalar.text, text.scalar.at);
    Some(Inline {
        name: slug(name),
        text: loop_text.to_owned(),
        source: file_name.to_owned(),
        file: Some(PathBuf::from(file_name)),
        frame: Some(frame),
    })
}

/// A file that is a loop file holds one loop, and no job.
fn whole(document: &Document, choice: &Choice, file: Option<&Path>) -> Result<Taken> {
    if let Some(flag) = [("--job", &choice.job), ("--step", &choice.step)]
        .into_iter()
        .find_map(|(flag, value)| value.as_ref().map(|_| flag))
    {
        return Err(document.about(&format!(
            "this is a loop file, which has no jobs: {flag} names nothing in it"
        )));
    }
    Ok(Taken {
        kind: Kind::LoopFile,
        job: None,
        step: None,
        line: 1,
        stands: Stands::Whole(file.unwrap_or(Path::new(&document.name)).to_path_buf()),
        folder: None,
        variables: BTreeMap::new(),
        notes: unused(choice.sets.iter().map(|set| set.split('=').next().unwrap_or(set)).collect()),
        unknown: BTreeMap::new(),
        sources: document.sources.clone(),
    })
}

fn take(
    document: &Document,
    candidate: Candidate<'_>,
    sets: &Sets,
    file: Option<&Path>,
) -> Result<Taken> {
    let variables = variables::resolve(document, &candidate.scopes, sets)?;
    let filled = |what: &str, scalar: &Scalar, syntax| -> Result<Filled> {
        fill(&scalar.text, syntax, &mut |e| variables::known(e, sets, &variables.known)).map_err(
            |missing| {
                let error = variables::error(&document.sources, what, scalar, &missing);
                match syntax {
                    Syntax::Dollars => error.hint(
                        "or keep GitLab from looking for variables: `{value: …, expand: false}`",
                    ),
                    Syntax::Braces | Syntax::Brackets => error,
                }
            },
        )
    };
    let mut notes = Vec::new();
    let not_run = match &candidate.around {
        Around::Nothing => Vec::new(),
        Around::Steps { steps, job } => {
            notes.extend(github::folder_note(document, *job));
            let number = candidate.step.as_ref().map_or(1, |step| step.number);
            github::not_run(steps, *job, number)
        }
        Around::Chain(chain) => gitlab::not_run(document, chain),
    };
    if !not_run.is_empty() {
        notes.push(format!("not run here: {}", not_run.join(", ")));
    }
    let folder = match &candidate.folder {
        Some(folder) => {
            let text = filled("the working directory", folder, document.syntax())?.text;
            Some(inside(&text).ok_or_else(|| {
                document
                    .error(folder.at, "the working directory is not inside the repository")
                    .hint("a path relative to the root of the repository, without `..`")
            })?)
        }
        None => None,
    };
    let stands = match (&candidate.text, &candidate.config) {
        (Some(text), _) => {
            let scalar = &text.scalar;
            let done = match text.syntax {
                Some(syntax) => filled("the loop", scalar, syntax)?,
                None => Filled { text: scalar.text.clone(), ..Filled::default() },
            };
            let source = document.sources.of(scalar.at).map_or("", |source| source.text.as_str());
            let frame = Frame::of(source, &scalar.text, scalar.at).edited(done.edits);
            let frame = if done.moved { frame.inexact() } else { frame };
            Stands::Here(Box::new(Inline {
                name: candidate.title.as_deref().map_or_else(|| "loop".to_owned(), slug),
                text: done.text,
                source: document.name.clone(),
                file: file.map(Path::to_path_buf),
                frame: Some(frame),
            }))
        }
        (None, Some(config)) => {
            let text = filled("the path of the loop file", config, document.syntax())?.text;
            Stands::Config(PathBuf::from(inside(&text).ok_or_else(|| {
                document
                    .error(config.at, "the loop file is not inside the repository")
                    .hint("a path relative to the folder the loop runs in, without `..`")
            })?))
        }
        (None, None) => Stands::Searched,
    };
    notes.extend(unused(sets.unused(&document.all_expressions())));
    let names: Vec<&str> = variables.unknown.keys().map(String::as_str).collect();
    if !names.is_empty() {
        notes.push(format!(
            "not set here, because only the platform knows them: {}",
            names.join(", ")
        ));
    }
    Ok(Taken {
        kind: document.kind,
        job: candidate.job,
        step: candidate.step,
        line: candidate.line,
        stands,
        folder,
        variables: variables.known,
        notes,
        unknown: variables.unknown,
        sources: document.sources.clone(),
    })
}

fn unused(keys: Vec<&str>) -> Vec<String> {
    let said = |key: &str| format!("--set {} names no expression of the file", printable(key));
    keys.into_iter().map(said).collect()
}

/// Returns a relative path without what leads nowhere; one that leaves its folder is `None`.
fn inside(text: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let clean = !text.chars().any(char::is_control);
    clean.then(|| if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
}

impl Taken {
    /// Lays the platform's variables over an environment, as a step of the platform would see it.
    pub fn over<K: From<OsString> + Ord>(&self, environment: &mut BTreeMap<K, OsString>) {
        for (name, value) in &self.variables {
            environment.insert(OsString::from(name).into(), value.into());
        }
    }

    /// Resolves the loop; `inputs.start` is the folder it runs in, its `file` is not read.
    ///
    /// # Errors
    /// `config_invalid` as for any loop, at the place in the workflow file; and for a variable that the
    /// loop passes on and only the platform knows. A secret may come from the caller's environment.
    pub fn load(&self, inputs: &Inputs) -> Result<Resolved> {
        let mut env: BTreeMap<OsString, OsString> = inputs.env.iter().cloned().collect();
        let secret = |name: &str| {
            inputs.env.iter().any(|(known, value)| known == OsStr::new(name) && !value.is_empty())
        };
        self.over(&mut env);
        let inputs = Inputs { env: env.into_iter().collect(), ..inputs.clone() };
        let named = |file: Option<&PathBuf>| Inputs { file: file.cloned(), ..inputs.clone() };
        let resolved = match &self.stands {
            Stands::Here(inline) => super::load_text(&inputs, inline)?,
            Stands::Whole(path) | Stands::Config(path) => super::load(&named(Some(path)))?,
            Stands::Searched => super::load(&named(None))?,
        };
        let spec = &resolved.spec;
        let setup = spec.setup.iter().flat_map(|setup| &setup.command.pass_env);
        let passed =
            spec.exec.command.pass_env.iter().chain(&spec.check.command.pass_env).chain(setup);
        for name in passed {
            let Some(unresolved) = self.unknown.get(name) else { continue };
            if unresolved.is_secret() && secret(name) {
                continue;
            }
            let what = format!("the loop passes on `{name}`, which");
            let error =
                variables::error(&self.sources, &what, &unresolved.value, &unresolved.missing);
            return Err(match unresolved.is_secret() {
                // A secret has no place in a command line.
                true => Error { hints: Vec::new(), ..error }
                    .hint(format!("set {name} in your environment")),
                false => error,
            });
        }
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILES: [&str; 4] = [
        "env: {A: 1, B: '${{ x }}'}\njobs:\n  a:\n    services: {db: {ports: ['1:2']}}\n    steps:\n      - run: make\n      - id: s\n        uses: o/loopexec@v1\n        env: {C: '${{ env.A }}'}\n        with:\n          working-directory: a/./b\n          loop: |\n            version: 1\n            exec: ${{ m.x }}\n",
        "variables:\n  LOOPEXEC_LOOP: |\n    version: 1\n    exec: $X ${Y} %Z%\n.b: &b\n  before_script: [cd x]\nj:\n  <<: *b\n  extends: [.b]\n  services: ['postgres:1']\n  script:\n    - loopexec ci\n    - [pytest, !reference [.b, script]]\n",
        "spec:\n  inputs: {}\n---\ninclude:\n  - component: $X/loopexec@1\n    inputs: {loop: \"a: $[[ inputs.a ]]\", job_name: n}\n",
        "runs:\n  using: composite\n  steps:\n    - {uses: ./loopexec, with: {config: a}}\n    - {run: tox, shell: sh, working-directory: x}\n",
    ];

    fn check(text: &str) {
        let choice = Choice { sets: vec!["m.x=1\n2".to_owned()], ..Choice::default() };
        // A carriage return alone ends a line in YAML too.
        let lines = text.replace("\r\n", "\n").split(['\n', '\r']).count();
        let job = job::read_job("w.yml", text, None, &|script| script.contains("tox"));
        let found = find("w.yml", text, &choice, None);
        for error in [found.err(), job.err()].into_iter().flatten() {
            if let Some(place) = &error.place {
                assert!(place.line >= 1 && place.line <= lines, "{place:?} of {text:?}");
            }
            assert!(!error.what.is_empty());
        }
    }

    #[test]
    fn the_samples_are_read() {
        for text in FILES {
            check(text);
            assert!(
                job::read_job("w.yml", text, None, &|_| true).is_ok() || text.contains("include")
            );
        }
    }

    proptest! {
        #[test]
        fn no_change_of_a_file_makes_it_panic_or_point_outside(
            which in 0_usize..4,
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..4, "[\t\n\r :{}\\[\\]|>&*!$%'\"#-éa]{0,6}"), 1..6),
        ) {
            let mut text: Vec<char> = FILES.get(which).copied().unwrap_or_default().chars().collect();
            for (place, cut, new) in edits {
                let from = place.index(text.len() + 1);
                let to = (from + cut).min(text.len());
                text.splice(from..to, new.chars());
            }
            check(&text.into_iter().collect::<String>());
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}") {
            check(&text);
        }
    }
}
