//! Text to `LoopSpec`: the loop file, flags, environment, JSON schema.
//!
//! The flow: `search` finds the file, `tree` reads YAML with places, `settings` reads values by the
//! `table` of keys, `layers` lays defaults < file < environment < flags over each other, `build` puts
//! the spec together, `plan` prints it. `workflow` finds loops that stand inside other files. `schema` is made from the same table.

mod blocked;
mod build;
mod diagnostic;
mod digest;
mod exits;
mod keys;
mod kind;
mod layers;
mod nested;
mod pattern;
mod plan;
mod protected;
mod providers;
mod schema;
pub(crate) mod script;
mod search;
mod settings;
pub mod spec;
mod table;
mod take;
mod tree;
pub mod value;
mod words;
pub mod workflow;

pub use blocked::DEFAULT_BLOCKED;
pub use exits::{always_fails, check_fail_on};
pub use plan::{plan_json, render_plan};
pub use protected::{
    Base, BaseNote, Held, PROTECTED, hold_to_base, parse_base, protected_difference,
};
pub use schema::schema;
pub use script::script_paths;
pub use search::NAMES;
pub use spec::LoopSpec;

use crate::domain::gate::ProtectedChange;
use crate::error::{Error, Kind, Result};
use diagnostic::{At, Medium, Sources};
use settings::Settings;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// What a loop is resolved from.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// The folder the command was started in; the loop file is looked for here.
    pub start: PathBuf,
    /// The top of the tree that the folder lies in; a loop file there is named when there is none here.
    pub top: Option<PathBuf>,
    /// The loop file, where one was named; relative to `start`.
    pub file: Option<PathBuf>,
    /// Overrides by flag: (dotted key, value, flag as typed).
    pub flags: Vec<(String, String, String)>,
    /// The environment; only `LOOPEXEC_SET_*` and `LOOPEXEC_ACCEPT_ISOLATION` are read.
    pub env: Vec<(OsString, OsString)>,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// The loop file.
    File {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// An environment variable, by name.
    Env(String),
    /// A flag, as typed.
    Flag(String),
}

/// A loop, resolved, and where each value came from.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The loop.
    pub spec: LoopSpec,
    /// Where each value came from, by dotted key; keys that are absent stand for `Default`.
    pub origins: BTreeMap<String, Origin>,
    /// The loop digest, `sha256:` and 64 hexadecimal digits; what it covers stands at `digest::loop_digest`.
    pub digest: String,
    /// The loop file as it was named or found, relative to the folder the command was started in.
    pub file: Option<PathBuf>,
    /// What is odd but no error, one sentence each.
    pub warnings: Vec<String>,
    /// What a pull request changes of the protected sections, where a person has to agree first.
    pub protected: Option<ProtectedChange>,
    /// The loop file's own path among the blocked files, where it was added there.
    pub own_path: Option<String>,
    /// The file that holds it, where that is known: its own, or a workflow file.
    pub stands_in: Option<PathBuf>,
    /// The base revision it was held to, where it comes from a pull request.
    pub base: Option<BaseNote>,
}

/// Resolves a loop from its file, the environment and flags.
///
/// # Errors
/// `config_invalid` with the place, the line, a caret and what to write instead.
pub fn load(inputs: &Inputs) -> Result<Resolved> {
    let mut sources = Sources::default();
    let file = match &inputs.file {
        Some(file) => Some(file.clone()),
        None => search::find_file(&inputs.start)?,
    };
    let (mut settings, root) = match &file {
        Some(file) => {
            let text = search::read_file(&inputs.start, file, "loop file")?;
            read_text(&mut sources, &file.display().to_string(), &text)?
        }
        None => (Settings::new(), None),
    };
    layers::apply_env(&inputs.env, &mut sources, &mut settings)?;
    layers::apply_flags(&inputs.flags, &mut sources, &mut settings)?;
    if file.is_none() {
        let has = |key: &str| settings.keys().any(|known| known == key);
        let model = settings.keys().any(|key| key == "model" || key.starts_with("model."));
        if !(has("exec.run") && has("check.run") && model) {
            return Err(search::no_file(&inputs.start, inputs.top.as_deref()));
        }
    }
    let (mut resolved, settings) =
        resolve(&sources, settings, root, stem_of(file.as_deref()), file.as_deref())?;
    if let Some(file) = &file {
        block(inputs, file, &settings, &mut resolved);
    }
    Ok(resolved)
}

/// A loop's text that stands in no loop file: in a workflow file, or in an input of the action.
#[derive(Debug, Clone)]
pub struct Inline {
    /// The loop's name where its text says none; a slug.
    pub name: String,
    /// The text of the loop.
    pub text: String,
    /// What messages call the text: the file it stands in, or the input.
    pub source: String,
    /// The file it stands in, where that is known: no exec may touch it.
    pub file: Option<PathBuf>,
    /// Where it stands in that file.
    pub(crate) frame: Option<workflow::Frame>,
}

impl Inline {
    /// Makes the loop of a text that came without its file, such as the input `loop` of the action.
    pub fn new(source: &str, text: &str, name: &str) -> Self {
        Self {
            name: value::slug(name),
            text: text.to_owned(),
            source: source.to_owned(),
            file: None,
            frame: None,
        }
    }
}

/// Resolves a loop whose text stands in no loop file, with the environment and flags; `inputs.file` is
/// not read. The digest is that of a loop file with the same text.
///
/// # Errors
/// As [`load`], at the place in the file that the text stands in.
pub fn load_text(inputs: &Inputs, inline: &Inline) -> Result<Resolved> {
    let mut sources = Sources::default();
    let source = sources.add_framed(&inline.source, &inline.text, inline.frame.clone());
    let at = At { source, line: 1, column: 1, len: 1 };
    if inline.text.len() > tree::MAX_BYTES {
        let sentence = "the loop is larger than 1 MiB, which is the most a loop may have";
        return Err(sources.error(at, sentence));
    }
    let (mut settings, root) = read_source(&sources, source)?;
    layers::apply_env(&inputs.env, &mut sources, &mut settings)?;
    layers::apply_flags(&inputs.flags, &mut sources, &mut settings)?;
    let shown = Path::new(&inline.source);
    let (mut resolved, settings) =
        resolve(&sources, settings, root, inline.name.clone(), Some(shown))?;
    if let Some(file) = &inline.file {
        block(inputs, file, &settings, &mut resolved);
    }
    Ok(resolved)
}

/// Adds the file a loop stands in to what no exec may touch.
fn block(inputs: &Inputs, file: &Path, settings: &Settings, resolved: &mut Resolved) {
    resolved.stands_in = Some(file.to_owned());
    let amend = settings.get("guards.blocked_paths").map(|setting| &setting.val);
    let below = |folder: &Path| inside(folder, file).map(|path| path.to_str().map(str::to_owned));
    // The digest is taken already: where a loop file lies is not a part of it.
    let guards = &mut resolved.spec.guards;
    resolved.own_path = match (below(&inputs.start), inputs.top.as_deref().and_then(below)) {
        (Some(Some(path)), _) => blocked::add_loop_file(guards, amend, &path),
        (None, Some(Some(path))) => blocked::add_loop_pattern(guards, amend, &path),
        (Some(None), _) | (None, Some(None)) => {
            let why = "the loop file's name is not UTF-8, so it is not among the blocked files";
            resolved.warnings.push(why.to_owned());
            None
        }
        (None, None) => None,
    };
}

/// Resolves a loop from a text that stands in no file of its own; `name` is what messages call it.
///
/// # Errors
/// As `load`.
pub fn parse_str(text: &str, name: &str) -> Result<Resolved> {
    let mut sources = Sources::default();
    let text = tree::text_of(name, text.as_bytes())?;
    let (settings, root) = read_text(&mut sources, name, text)?;
    let file = Path::new(name);
    let (mut resolved, _) = resolve(&sources, settings, root, stem_of(Some(file)), Some(file))?;
    resolved.file = None;
    Ok(resolved)
}

/// Returns the JSON schema of the loop file as it is kept in `dist/loop.schema.json`.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// Reads the text of a loop file; an empty one is an error.
fn read_text(sources: &mut Sources, name: &str, text: &str) -> Result<(Settings, Option<At>)> {
    let source = sources.add(name, Medium::File, text);
    read_source(sources, source)
}

/// Reads a source that holds a whole loop.
fn read_source(sources: &Sources, source: usize) -> Result<(Settings, Option<At>)> {
    let Some(root) = tree::parse(sources, source)? else {
        let at = At { source, line: 1, column: 1, len: 1 };
        return Err(sources
            .error(at, "the loop file is empty")
            .hint("`loopexec init` writes one for the project it finds"));
    };
    let settings = settings::read_root(sources, &root)?;
    Ok((settings, Some(root.at)))
}

/// Fills defaults, puts the spec together and digests it.
fn resolve(
    sources: &Sources,
    mut settings: Settings,
    root: Option<At>,
    name: String,
    file: Option<&Path>,
) -> Result<(Resolved, Settings)> {
    layers::apply_defaults(&mut settings)?;
    let mut warnings = Vec::new();
    let builder = take::Builder { sources, settings: &settings, root };
    let spec = builder.spec(name, &mut warnings)?;
    let digest = digest::loop_digest(&spec).map_err(|source| {
        Error::new(Kind::Internal, "the loop cannot be digested").because(source)
    })?;
    let origins = settings
        .iter()
        .map(|(key, setting)| {
            let origin = match sources.of(setting.at) {
                Some(source) => match source.medium {
                    Medium::File | Medium::Text => {
                        let at = sources.shown(setting.at);
                        Origin::File { line: at.line, column: at.column }
                    }
                    Medium::Env => Origin::Env(source.name.clone()),
                    Medium::Flag => Origin::Flag(source.name.clone()),
                    Medium::Default => Origin::Default,
                },
                None => Origin::Default,
            };
            (key.clone(), origin)
        })
        .collect();
    let file = file.map(Path::to_path_buf);
    Ok((
        Resolved {
            spec,
            origins,
            digest,
            file,
            warnings,
            protected: None,
            own_path: None,
            stands_in: None,
            base: None,
        },
        settings,
    ))
}

/// Returns the name that a loop gets from its file.
fn stem_of(file: Option<&Path>) -> String {
    let stem = file.and_then(|file| file.file_stem()).map(|stem| stem.to_string_lossy());
    stem.map_or_else(|| "loop".to_owned(), |stem| value::slug(&stem))
}

/// Returns a path relative to a folder, when it stays below it.
fn inside(start: &Path, file: &Path) -> Option<PathBuf> {
    let relative = file.strip_prefix(start).unwrap_or(file);
    let mut parts = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts)
}
