//! What the check uses outside of the workspace: the programs its words lead to, the Python runner they load,
//! and folders that tests are linked to.
//!
//! An overlay takes none of these from t0: whoever changes them decides every run. They are read once before
//! the first exec of a process and compared after each one; a later process starts anew, for it may be on
//! another machine. Where a zone keeps exec from them nothing here ever differs.

use super::site::Site;
use super::surround::text_of;
use crate::config::script::script_paths;
use crate::error::Result;
use crate::foreign::{self, Links};
use crate::integrity::surface::{Class, is_runner_tree};
use crate::integrity::syntax::Language;
use crate::process::Capability;
use crate::process::toolchains::find_program;
use crate::workspace::delta::{self, Form};
use crate::workspace::paths;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names that are looked up at the most; a check names a few.
const MOST_NAMES: usize = 400;
/// Files below runners' packages and linked folders at the most.
const MOST_FILES: usize = 20_000;
/// Files and folders that are looked at below one of them.
const MOST_SEEN: usize = 200_000;
/// A larger file is told apart by its place, size and times alone.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of a file of text in which names of programs are looked for.
const MOST_TEXT: u64 = 256 << 10;
/// Files whose recipes a build tool runs.
const RECIPES: [&str; 5] = ["Makefile", "makefile", "GNUmakefile", "justfile", "package.json"];

/// A file as the system tells it; a digest stays true while this does.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// What was seen outside of the workspace before exec ran.
#[derive(Debug, Default)]
pub(super) struct Outside {
    /// Digests by absolute path.
    start: Option<BTreeMap<PathBuf, String>>,
    /// What the check's words may name, and where links lead; t0 decides both.
    names: BTreeSet<String>,
    linked: Vec<PathBuf>,
    known: BTreeMap<PathBuf, (Stamp, String)>,
}

impl Site {
    /// Remembers what the check uses outside of the workspace, unless that was done before.
    pub(super) fn remember_outside(&mut self) -> Result<()> {
        if self.outside.start.is_none() {
            self.outside.names = self.names_of_programs();
            let linked = self.linked_folders()?;
            let root = self.seen_root();
            let (inside, outside) = linked.into_iter().partition(|path| path.starts_with(&root));
            self.outside.linked = outside;
            let inside: Vec<PathBuf> = inside;
            // Where code lies there, the data may as well be what is tested.
            let named = inside
                .iter()
                .filter(|folder| !holds_code(folder))
                .filter_map(|path| path.strip_prefix(&root).ok());
            self.rules.link(named.map(|path| paths::escape(paths::as_bytes(path))));
            let found = self.read_outside();
            self.outside.start = Some(found);
        }
        Ok(())
    }

    /// Names what is not as it was remembered, with what became of it.
    pub(super) fn outside_changes(&mut self) -> Result<BTreeMap<String, String>> {
        self.remember_outside()?;
        let now = self.read_outside();
        let Some(start) = &self.outside.start else { return Ok(BTreeMap::new()) };
        let all: BTreeSet<&PathBuf> = start.keys().chain(now.keys()).collect();
        let changed = all.into_iter().filter(|path| start.get(*path) != now.get(*path));
        Ok(changed
            .map(|path| {
                let digest = now.get(path).cloned().unwrap_or_else(|| "gone".to_owned());
                (paths::escape(paths::as_bytes(path)), digest)
            })
            .collect())
    }

    fn read_outside(&mut self) -> BTreeMap<PathBuf, String> {
        let mut wanted = BTreeSet::new();
        let mut interpreters = BTreeSet::new();
        let path = &self.surround.toolchains.path;
        for name in &self.outside.names {
            let program = match name.starts_with('/') {
                true => Some(PathBuf::from(name)).filter(|path| is_stored(path)),
                false => find_program(path, name),
            };
            let Some(program) = program.filter(|program| !self.is_ours(program)) else { continue };
            let interpreter = interpreter_of(&program, path);
            for file in [Some(program), interpreter].into_iter().flatten() {
                if is_python(&file) {
                    interpreters.insert(file.clone());
                }
                wanted.insert(file);
            }
        }
        for interpreter in interpreters {
            for folder in package_folders(&interpreter) {
                if !self.is_ours(&folder) {
                    runner_files(&folder, &mut wanted);
                }
            }
        }
        wanted.extend(self.files_above());
        for folder in &self.outside.linked {
            walk(folder, &mut wanted, &mut |_| true);
        }
        let known = &mut self.outside.known;
        wanted
            .into_iter()
            .filter_map(|path| digest_of(&path, known).map(|digest| (path, digest)))
            .collect()
    }

    /// Lists what build tools look for in the folders above the tree and in their own homes, there or not.
    fn files_above(&self) -> Vec<PathBuf> {
        let names = &self.outside.names;
        let above = || self.caller.root.ancestors().skip(1);
        let mut found = Vec::new();
        if names.contains("cargo") {
            let homes =
                self.surround.toolchains.env.iter().filter(|(name, _)| name == "CARGO_HOME");
            let homes = homes.map(|(_, home)| PathBuf::from(home));
            let folders = above().map(|folder| folder.join(".cargo")).chain(homes);
            found.extend(
                folders.flat_map(|folder| ["config", "config.toml"].map(|name| folder.join(name))),
            );
            found.extend(above().map(|folder| folder.join("Cargo.toml")));
        }
        if ["npm", "npx", "yarn", "pnpm"].iter().any(|name| names.contains(*name)) {
            let path = &self.surround.toolchains.path;
            let prefixes = path.iter().filter_map(|folder| folder.parent());
            found.extend(prefixes.map(|prefix| prefix.join("etc/npmrc")));
            found.push(PathBuf::from("/etc/npmrc"));
        }
        found
    }

    /// Lists the words of the check, of its scripts and of what build tools run for it.
    fn names_of_programs(&self) -> BTreeSet<String> {
        let start = self.caller.root.join(&self.caller.prefix);
        let command = &self.spec.check.command;
        let mut text = text_of(command);
        let scripts = script_paths(command).into_iter();
        for file in scripts.chain(RECIPES.map(str::to_owned)) {
            text.push('\n');
            text.push_str(&start_of(&start.join(file)));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
        let names = text.split(|c: char| !is_part(c)).filter(|name| {
            name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        });
        // Programs and scripts by their whole path.
        let paths = text.split(|c: char| !is_part(c) && c != '/').filter(|path| {
            path.len() <= 1024 && path.starts_with('/') && is_program(Path::new(path))
        });
        names
            .chain(paths)
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .take(MOST_NAMES)
            .collect()
    }

    /// Lists where links of t0 lead to that stand for tests or for what tests use.
    fn linked_folders(&self) -> Result<Vec<PathBuf>> {
        let root = self.seen_root();
        let mut found = Vec::new();
        if self.frozen_tree.is_empty() {
            return Ok(found);
        }
        for change in delta::read_all(self.store.repository(), &self.frozen_tree)?.changes {
            let Some(held) = change.after.filter(|held| held.form == Form::Link) else { continue };
            let path = paths::escape(paths::as_bytes(&change.path));
            let decides = |path: &str| self.rules.class(path) != Class::Source;
            if !decides(&path) && !decides(&format!("{path}/a.py")) {
                continue;
            }
            let target = self.store.read_blob(held.blob)?;
            let from = root.join(&change.path);
            let to = from.parent().unwrap_or(&root).join(paths::as_path(&target));
            if let Ok(to) = fs::canonicalize(to)
                && (!self.is_ours(&to) || to.starts_with(&root) && to != root)
                && to.components().count() > 2
                && !foreign::is_of_the_system(&to)
            {
                found.push(to);
            }
        }
        Ok(found)
    }

    /// Returns where commands see the tree.
    fn seen_root(&self) -> PathBuf {
        match self.capability {
            Capability::Namespaces { .. } => self.caller.root.clone(),
            Capability::Plain { .. } => self.workspace(),
        }
    }

    /// Says whether a place is of the tree, which snapshots and the layer hold, or of loopexec's own.
    fn is_ours(&self, path: &Path) -> bool {
        let roots = [&self.caller.root, &self.places.cache];
        roots.iter().any(|root| path.starts_with(root)) || path.starts_with(self.workspace())
    }
}

/// Returns the start of a file as text; nothing where it cannot be read.
fn start_of(path: &Path) -> String {
    let read = foreign::read_start(path, Links::Follow, MOST_TEXT);
    read.map(|start| String::from_utf8_lossy(&start).into_owned()).unwrap_or_default()
}

/// Returns the program that a script names in its first line.
fn interpreter_of(program: &Path, path: &[PathBuf]) -> Option<PathBuf> {
    let start = foreign::read_start(program, Links::Follow, 256).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let first = PathBuf::from(words.next()?);
    if first.ends_with("env") {
        return find_program(path, words.find(|word| !word.starts_with('-'))?);
    }
    first.is_absolute().then_some(first)
}

/// Says whether a file in a known language lies at a path or below it.
fn holds_code(top: &Path) -> bool {
    let mut found = BTreeSet::new();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    walk(top, &mut found, &mut |path| name(path).is_some_and(|name| Language::of(&name).is_some()));
    !found.is_empty()
}

/// Says whether a file is run and not written to: what a check prints into by its whole path is no program.
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let runs = |is: &Metadata| is.is_file() && is.permissions().mode() & 0o111 != 0;
    is_stored(path)
        && (fs::metadata(path).is_ok_and(|is| runs(&is)) || start_of(path).starts_with("#!"))
}

/// Says whether a path leads to a file that is not the system's view of itself.
fn is_stored(path: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|real| real.is_file() && !foreign::is_of_the_system(&real))
}

fn is_python(program: &Path) -> bool {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Lists where an interpreter finds installed packages: beside the name it is called by, and beside the real
/// one.
fn package_folders(interpreter: &Path) -> BTreeSet<PathBuf> {
    let real = fs::canonicalize(interpreter).unwrap_or_else(|_| interpreter.to_owned());
    let mut found = BTreeSet::new();
    for prefix in [interpreter, &real].into_iter().filter_map(|at| at.parent()?.parent()) {
        for lib in ["lib", "local/lib", "lib64"] {
            let Ok(listing) = fs::read_dir(prefix.join(lib)) else { continue };
            for entry in listing.flatten() {
                let name = entry.file_name();
                if name.to_string_lossy().starts_with("python3") {
                    let places = ["site-packages", "dist-packages"];
                    found.extend(places.map(|place| entry.path().join(place)));
                }
            }
        }
    }
    found.retain(|folder| folder.is_dir());
    found
}

/// Adds the files of test runners, and what an interpreter loads by itself, of a folder of packages.
fn runner_files(folder: &Path, into: &mut BTreeSet<PathBuf>) {
    let Ok(listing) = fs::read_dir(folder) else { return };
    for entry in listing.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // A plugin of pytest says so there.
        let declared = path.join("entry_points.txt");
        if name.ends_with("-info") && start_of(&declared).contains("[pytest11]") {
            into.insert(declared);
        } else if is_runner_tree(&format!("site-packages/{name}")) && !name.ends_with("-info") {
            // Its bytecode too: what is valid by time and size is loaded in the place of the source.
            walk(&path, into, &mut |_| true);
        }
    }
}

/// Adds the files below a path, or the path itself; links are not followed.
fn walk(top: &Path, into: &mut BTreeSet<PathBuf>, wanted: &mut dyn FnMut(&Path) -> bool) {
    let mut pending = vec![top.to_owned()];
    let most = into.len() + MOST_FILES;
    // Folders without files take time too.
    let mut left = MOST_SEEN;
    while let Some(path) = pending.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        left -= 1;
        if left == 0 || into.len() >= most {
            return;
        }
        if found.is_dir() {
            if foreign::is_of_the_system(&path) {
                continue;
            }
            let listing = fs::read_dir(&path).into_iter().flatten().flatten();
            pending.extend(listing.map(|entry| entry.path()).take(MOST_FILES));
        } else if wanted(&path) {
            into.insert(path);
        }
    }
}

fn stamp_of(found: &Metadata) -> Stamp {
    let modified = (found.mtime(), found.mtime_nsec());
    let changed = (found.ctime(), found.ctime_nsec());
    (found.dev(), found.ino(), found.len(), modified.0, modified.1, changed.0, changed.1)
}

/// Returns the digest of what a path leads to; read again only where the system tells a change.
fn digest_of(path: &Path, known: &mut BTreeMap<PathBuf, (Stamp, String)>) -> Option<String> {
    let found = fs::metadata(path).ok().filter(|found| !found.is_dir())?;
    let stamp = stamp_of(&found);
    if let Some((before, digest)) = known.get(path)
        && *before == stamp
    {
        return Some(digest.clone());
    }
    let digest = match found.is_file() && found.len() <= MOST_BYTES {
        true => {
            let mut hasher = Sha256::new();
            let mut file = foreign::open(path, Links::Follow).ok()?.take(MOST_BYTES);
            let mut buffer = vec![0; 1 << 16];
            loop {
                match file.read(&mut buffer).ok()? {
                    0 => break,
                    length => hasher.update(buffer.get(..length).unwrap_or_default()),
                }
            }
            crate::domain::hex::encode(&hasher.finalize())
        }
        false => format!("{stamp:?}"),
    };
    known.insert(path.to_owned(), (stamp, digest.clone()));
    Some(digest)
}
