//! A job of a CI file that has no loop yet: its commands, variables and services, for `init`.
//!
//! Which of its commands is the check, and what is written of it, is the duty of `commands::init`.

use super::document::{Document, Kind, entries, get, items, scalar, word};
use super::expression::{Sets, Syntax, expressions};
use super::variables::{self, Scope};
use super::{STEP_FILES, github, gitlab, inside};
use crate::config::diagnostic::{printable, quote};
use crate::config::tree::{MapKey, Node};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// A job, as far as a loop can take it over.
#[derive(Debug, Clone, Default)]
pub struct CiJob {
    /// Its id.
    pub id: String,
    /// The line where it stands, from 1.
    pub line: usize,
    /// Its commands, in order.
    pub commands: Vec<CiCommand>,
    /// Commands that hold an expression, which only the platform knows; they are not taken.
    pub unknown: Vec<CiCommand>,
    /// Literal variables that all of its commands see.
    pub variables: BTreeMap<String, String>,
    /// What a loop cannot take over, one phrase each.
    pub not_taken: Vec<String>,
    /// Its services.
    pub services: Vec<Service>,
}

/// One command of a job.
#[derive(Debug, Clone, Default)]
pub struct CiCommand {
    /// The script.
    pub text: String,
    /// How messages name it.
    pub label: String,
    /// The folder it runs in, where it is not the root.
    pub folder: Option<String>,
    /// Literal variables of its own.
    pub variables: BTreeMap<String, String>,
    /// The shell, where it is named.
    pub shell: Option<&'static str>,
    /// Whether later commands run in the same shell, so that what it sets there stays.
    pub lasting: Lasting,
}

/// What a command leaves for the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lasting {
    /// Files alone: each step is a shell of its own.
    #[default]
    Files,
    /// The state of the shell too.
    Shell,
}

/// A service beside a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its port on localhost, where it is written or well known.
    pub port: Option<u16>,
    /// The line where it stands, from 1.
    pub line: usize,
}

/// Ports that images listen on, by the image's name.
const PORTS: [(&str, u16); 8] = [
    ("postgres", 5432),
    ("mysql", 3306),
    ("mariadb", 3306),
    ("redis", 6379),
    ("mongo", 27017),
    ("rabbitmq", 5672),
    ("elasticsearch", 9200),
    ("memcached", 11211),
];

/// Reads a job; without a name the only one whose commands `is_check` likes, else the only one with commands.
///
/// # Errors
/// `config_invalid` when no job fits or several do: all are listed with their lines.
pub fn read_job(
    name: &str,
    text: &str,
    wanted: Option<&str>,
    is_check: &dyn Fn(&str) -> bool,
) -> Result<CiJob> {
    let document = Document::read(name, text)?;
    let mut all: Vec<(CiJob, Option<String>)> = match document.kind {
        Kind::LoopFile => {
            return Err(document.about("this is a loop file, not one of a CI platform"));
        }
        Kind::GitHub => github::jobs(&document)
            .iter()
            .map(|job| Ok((github_job(&document, job)?, word(&job.1, "name"))))
            .collect::<Result<_>>()?,
        Kind::Composite => vec![(composite(&document)?, None)],
        Kind::GitLab => gitlab::jobs(&document)
            .filter(|(key, _)| !key.text.starts_with('.'))
            .map(|job| Ok((gitlab_job(&document, job)?, None)))
            .collect::<Result<_>>()?,
    };
    let fitting: Vec<usize> = match wanted {
        Some(wanted) => {
            places(&all, |(job, name)| job.id == wanted || name.as_deref() == Some(wanted))
        }
        None => {
            let checks = |job: &CiJob| {
                job.commands.iter().chain(&job.unknown).any(|command| is_check(&command.text))
            };
            match places(&all, |(job, _)| checks(job)) {
                none if none.is_empty() => places(&all, |(job, _)| !job.commands.is_empty()),
                some => some,
            }
        }
    };
    match fitting.as_slice() {
        [only] => {
            let job = all.swap_remove(*only).0;
            match job.commands.is_empty() && job.unknown.is_empty() {
                true => Err(document
                    .about(&format!("job {} has no command that can be taken", quote(&job.id)))),
                false => Ok(job),
            }
        }
        [] => {
            let sentence = match wanted {
                Some(wanted) => format!("there is no job {}", quote(wanted)),
                None => "no job has a command".to_owned(),
            };
            Err(list(&document, &sentence, &all))
        }
        _ => {
            let sentence = "several jobs look like tests, and nothing says which one is meant";
            Err(list(&document, sentence, &all))
        }
    }
}

fn places<T>(all: &[T], fits: impl Fn(&T) -> bool) -> Vec<usize> {
    all.iter().enumerate().filter(|(_, one)| fits(one)).map(|(index, _)| index).collect()
}

fn list(document: &Document, sentence: &str, all: &[(CiJob, Option<String>)]) -> Error {
    let name = printable(&document.name);
    all.iter().take(50).fold(document.about(sentence), |error, (job, _)| {
        error.hint(format!("{name}:{}: --job {}", job.line, printable(&job.id)))
    })
}

fn github_job(document: &Document, (key, job): &(MapKey, Node)) -> Result<CiJob> {
    let scopes: Vec<Scope<'_>> =
        [document.top("env"), get(job, "env")].into_iter().flatten().map(Scope::Env).collect();
    let folder = github::default_folder(job).or_else(|| github::default_folder(&document.root));
    let mut taken = CiJob { id: key.text.clone(), line: key.at.line, ..CiJob::default() };
    let resolved = variables::resolve(document, &scopes, &Sets::default())?;
    taken.variables = resolved.known;
    taken.not_taken.extend(
        resolved.unknown.keys().map(|name| format!("variable {}: an expression", quote(name))),
    );
    for (key, value) in entries(job) {
        let text = || printable(&scalar(value).map(|scalar| scalar.text).unwrap_or_default());
        let what = match key.text.as_str() {
            "uses" => format!("uses {}", text()),
            "container" | "strategy" | "if" | "continue-on-error" => format!("`{}`", key.text),
            "runs-on" if text().contains("windows") => format!("runs-on {}", text()),
            _ => continue,
        };
        taken.not_taken.push(at_line(what, key.at.line));
    }
    let shell = github::default_shell(job).or_else(|| github::default_shell(&document.root));
    if let Some(steps) = get(job, "steps") {
        let defaults = Defaults { folder: folder.as_deref(), shell: shell.as_deref() };
        add_steps(document, steps, defaults, &mut taken)?;
    }
    for (name, service) in get(job, "services").map(entries).unwrap_or_default() {
        let image = word(service, "image").unwrap_or_default();
        let ports = get(service, "ports").map(items).unwrap_or_default();
        let written = ports.iter().filter_map(scalar).find_map(|port| host_port(&port.text));
        taken.services.push(Service {
            name: name.text.clone(),
            port: written.or_else(|| usual_port(&image)),
            line: name.at.line,
        });
    }
    Ok(taken)
}

fn composite(document: &Document) -> Result<CiJob> {
    let mut taken = CiJob { id: "action".to_owned(), line: 1, ..CiJob::default() };
    if let Some(steps) = get(&document.root, "runs").and_then(|runs| get(runs, "steps")) {
        add_steps(document, steps, Defaults::default(), &mut taken)?;
    }
    Ok(taken)
}

/// What steps have that say nothing themselves.
#[derive(Debug, Clone, Copy, Default)]
struct Defaults<'a> {
    folder: Option<&'a str>,
    shell: Option<&'a str>,
}

fn at_line(what: String, line: usize) -> String {
    format!("{what} (line {line})")
}

fn add_steps(
    document: &Document,
    steps: &Node,
    defaults: Defaults<'_>,
    taken: &mut CiJob,
) -> Result<()> {
    for (index, step) in items(steps).iter().enumerate() {
        let label = github::step_label(index + 1, step);
        let Some(text) = word(step, "run") else {
            let uses = word(step, "uses").unwrap_or_default();
            taken.not_taken.push(at_line(format!("uses {}", printable(&uses)), step.at.line));
            continue;
        };
        for key in ["if", "continue-on-error"] {
            if get(step, key).is_some() {
                taken.not_taken.push(format!("`{key}` of {label}"));
            }
        }
        if let Some(file) = STEP_FILES.iter().find(|file| text.contains(*file)) {
            taken.not_taken.push(format!("{label}: it writes to {file}, for later steps"));
            continue;
        }
        let written = word(step, "working-directory").or(defaults.folder.map(str::to_owned));
        let folder = match &written {
            Some(folder) => match inside(folder) {
                Some(folder) => Some(folder).filter(|folder| folder != "."),
                None => {
                    taken.not_taken.push(format!("{label}: its folder is not inside the project"));
                    continue;
                }
            },
            None => None,
        };
        let shell = match word(step, "shell").as_deref().or(defaults.shell) {
            None | Some("bash") => Some("bash"),
            Some("sh") => Some("sh"),
            Some(other) => {
                taken.not_taken.push(format!("{label}: its shell is {}", quote(other)));
                continue;
            }
        };
        let known = |text: &str| expressions(text, Syntax::Braces).is_empty();
        if !known(&text) || !written.as_deref().is_none_or(known) {
            taken.not_taken.push(format!("{label}: it holds an expression"));
            taken.unknown.push(CiCommand { text, label, ..CiCommand::default() });
            continue;
        }
        let scopes: Vec<Scope<'_>> = get(step, "env").map(Scope::Env).into_iter().collect();
        let resolved = variables::resolve(document, &scopes, &Sets::default())?;
        taken.not_taken.extend(
            resolved
                .unknown
                .keys()
                .map(|name| format!("variable {} of {label}: an expression", quote(name))),
        );
        // bash is what a runner takes when nothing is said, and what loopexec takes.
        let shell = shell.filter(|shell| *shell != "bash");
        taken.commands.push(CiCommand {
            text,
            label,
            folder,
            variables: resolved.known,
            shell,
            lasting: Lasting::Files,
        });
    }
    Ok(())
}

fn gitlab_job(document: &Document, (key, job): &(MapKey, Node)) -> Result<CiJob> {
    let chain = gitlab::chain(document, job);
    let own = chain.iter().filter_map(|link| get(link, "variables"));
    let scopes: Vec<Scope<'_>> =
        document.top("variables").into_iter().chain(own).map(Scope::Variables).collect();
    let resolved = variables::resolve(document, &scopes, &Sets::default())?;
    let mut taken = CiJob {
        id: key.text.clone(),
        line: key.at.line,
        variables: resolved.known,
        ..CiJob::default()
    };
    taken.not_taken.extend(
        resolved
            .unknown
            .keys()
            .map(|name| format!("variable {}: it holds a variable", quote(name))),
    );
    let found = |name| gitlab::inherited(document, &chain, name);
    if let Some(image) = found("image") {
        let name = scalar(image).map(|s| s.text).or_else(|| word(image, "name"));
        taken.not_taken.push(format!("image {}", printable(&name.unwrap_or_default())));
    }
    let lines = ["before_script", "script"]
        .into_iter()
        .filter_map(found)
        .flat_map(gitlab::script_lines)
        .filter(|line| !line.trim().is_empty());
    for text in lines {
        let label = format!("command {}", quote(text.trim().lines().next().unwrap_or_default()));
        if !expressions(&text, Syntax::Brackets).is_empty() {
            taken.not_taken.push(format!("{label}: it holds an expression"));
            taken.unknown.push(CiCommand { text, label, ..CiCommand::default() });
            continue;
        }
        let lasting = Lasting::Shell;
        taken.commands.push(CiCommand { text, label, lasting, ..CiCommand::default() });
    }
    for service in found("services").map(items).unwrap_or_default() {
        let image = scalar(service).map(|s| s.text).or_else(|| word(service, "name"));
        let image = image.unwrap_or_default();
        taken.services.push(Service {
            name: word(service, "alias").unwrap_or_else(|| image_name(&image).to_owned()),
            port: usual_port(&image),
            line: service.at.line,
        });
    }
    Ok(taken)
}

/// Returns the port on the host of `8080:80`, `127.0.0.1:8080:80`, `80` or `80/tcp`.
fn host_port(written: &str) -> Option<u16> {
    let plain = written.split('/').next()?;
    let parts: Vec<&str> = plain.split(':').collect();
    let host = match parts.as_slice() {
        [only] => only,
        [.., host, _] => host,
        [] => return None,
    };
    host.parse().ok()
}

fn image_name(image: &str) -> &str {
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split([':', '@']).next().unwrap_or(last)
}

fn usual_port(image: &str) -> Option<u16> {
    let name = image_name(image);
    PORTS.iter().find(|(known, _)| name.contains(known)).map(|(_, port)| *port)
}
