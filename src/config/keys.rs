//! What a key of the loop file is: its kind, default, meaning and availability, and how keys are looked up.
//!
//! The rows stand in `table`; reading values by kind is the duty of `kind`, the schema of `schema`.

use super::table::{COMMANDS, GROUPS, KEYS};

/// One word of a closed list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    /// The word.
    pub(crate) word: &'static str,
    /// What has to come first, where this release refuses the word.
    pub(crate) later: Option<&'static str>,
}

/// Makes a word that this release knows.
pub(crate) const fn now(word: &'static str) -> Choice {
    Choice { word, later: None }
}

/// Makes a word that waits for a feature.
pub(crate) const fn later(word: &'static str, feature: &'static str) -> Choice {
    Choice { word, later: Some(feature) }
}

/// What the texts of a list are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// Any text that is not empty.
    Text,
    /// A path of the tree.
    Pattern,
    /// A pattern in gitignore syntax, from the root.
    Gitignore,
    /// A glob of files below the root.
    Glob,
    /// The name of an environment variable, with `*` and `?` as wildcards where they make sense.
    Variable,
    /// `host:port`.
    Address,
    /// A path of the machine: from the root, or from HOME with `~/`.
    Place,
}

/// The shape of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// The number of the format.
    Version,
    /// `[a-z0-9-]{1,40}`.
    Slug,
    /// Any text that is not empty.
    Text,
    /// A folder relative to a root, without `..`.
    Folder,
    /// `provider` of a model.
    Provider,
    /// `id` or `version` of a model.
    ModelId,
    /// One word of a list.
    Word(&'static [Choice]),
    /// A list of words, each at most once.
    Words(&'static [Choice]),
    /// A list of texts with at least so many items.
    Texts(Item, usize),
    /// A whole number within bounds.
    Int(u64, u64),
    /// A number within bounds.
    Real(f64, f64),
    /// Decimal dollars.
    Money,
    /// A duration from one millisecond to a year.
    Duration,
    /// A size in bytes, at least so many.
    Size(u64),
    /// `true` or `false`.
    Bool,
    /// `localhost:port`.
    Local,
    /// What a command runs: a text or a list.
    Run,
    /// A map of variables.
    Env,
    /// A list that replaces, or `{add, remove}`.
    Amend,
    /// The first of several kinds that fits.
    Either(&'static [Kind]),
    /// A map with its own keys.
    Record(&'static [Field]),
    /// A list of one kind.
    ListOf(&'static Kind),
    /// A map from any name to one kind.
    MapOf(&'static Kind),
    /// A command in any of its forms.
    Command,
}

/// A key inside a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its shape.
    pub(crate) kind: Kind,
    /// What it means.
    pub(crate) doc: &'static str,
}

/// Whether this release knows a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Since {
    /// It does.
    Now,
    /// It waits for a feature.
    Later(&'static str),
    /// It waits for a feature, but these values say what happens anyway.
    Unless(&'static [&'static str], &'static str),
}

/// One key of the loop file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// The dotted key.
    pub(crate) path: &'static str,
    /// The shape of its value.
    pub(crate) kind: Kind,
    /// Its default as YAML text; without one it is absent or computed.
    pub(crate) default: Option<&'static str>,
    /// What it means, one line.
    pub(crate) doc: &'static str,
    /// Whether this release knows it.
    pub(crate) since: Since,
}

/// The keys that every command map has.
pub(crate) const COMMAND_FIELDS: &[Field] = &[
    Field {
        name: "run",
        kind: Kind::Run,
        doc: "A text for the shell, or a list: program and arguments without a shell.",
    },
    Field {
        name: "shell",
        kind: Kind::Word(SHELLS),
        doc: "Which shell reads the text; `none` splits nothing and needs a list or one program.",
    },
    Field { name: "cwd", kind: Kind::Folder, doc: "Folder inside the workspace." },
    Field { name: "env", kind: Kind::Env, doc: "Variables set for this command." },
    Field {
        name: "pass_env",
        kind: Kind::Texts(Item::Variable, 0),
        doc: "Names of the caller's variables that pass through.",
    },
    Field { name: "timeout", kind: Kind::Duration, doc: "Wall-clock limit." },
];

/// The shells a command may name.
pub(crate) const SHELLS: &[Choice] = &[now("bash"), now("sh"), now("none")];

/// Finds a key.
pub(crate) fn find(path: &str) -> Option<Key> {
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Some(*key);
    }
    let (parent, name) = path.rsplit_once('.')?;
    let command = COMMANDS.iter().find(|command| command.path == parent)?;
    let field = COMMAND_FIELDS.iter().find(|field| field.name == name)?;
    Some(Key {
        path: command.fields.iter().copied().find(|full| *full == path)?,
        kind: field.kind,
        default: None,
        doc: field.doc,
        since: command.since,
    })
}

/// Says whether a path is a map of keys.
pub(crate) fn is_group(path: &str) -> bool {
    path.is_empty() || GROUPS.iter().any(|(group, _)| *group == path)
}

/// Says whether a path is a group that is a command.
pub(crate) fn is_command(path: &str) -> bool {
    COMMANDS.iter().any(|command| command.path == path)
}

/// Every dotted key, in the order of the reference.
pub(crate) fn all() -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for section in KEYS.chunk_by(|one, next| top(one.path) == top(next.path)) {
        let name = section.first().map_or("", |key| top(key.path));
        // What a section has as a command comes first, the commands that stand below it last.
        keys.extend(command_keys(|path| path == name));
        keys.extend(section);
        keys.extend(command_keys(|path| path != name && top(path) == name));
    }
    keys
}

/// Returns the keys that the chosen commands have as commands; rows of the table stand for themselves.
fn command_keys(chosen: impl Fn(&str) -> bool) -> impl Iterator<Item = Key> {
    let fields = COMMANDS.iter().filter(move |command| chosen(command.path));
    fields
        .flat_map(|command| command.fields)
        .filter(|path| !KEYS.iter().any(|key| key.path == **path))
        .filter_map(|path| find(path))
}

/// Returns the first name of a dotted key.
fn top(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// Returns the names that may stand directly under a group.
pub(crate) fn children(group: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    let keys = all().into_iter().map(|key| key.path);
    for path in keys.chain(GROUPS.iter().map(|(path, _)| *path)) {
        let rest = if group.is_empty() {
            Some(path)
        } else {
            path.strip_prefix(group).and_then(|rest| rest.strip_prefix('.'))
        };
        let name = rest.and_then(|rest| rest.split('.').next());
        if let Some(name) = name.filter(|name| !name.is_empty() && !names.contains(name)) {
            names.push(name);
        }
    }
    names
}
