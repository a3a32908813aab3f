//! Which of the caller's files go into the workspace: the one walk that measuring and copying share.
//!
//! What is done with a file on the way is the visitor's; `make` has the one that copies.

use crate::error::{Error, Kind, Result};
use crate::workspace::at::{Descent, Sort, kind_of};
use crate::workspace::gitcmd::interrupted;
use crate::workspace::ignored::{Ignored, Listed, Standing};
use crate::workspace::scan::is_outside;
use crate::workspace::{Stop, paths, secrets};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use nix::sys::stat::FileStat;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io::Read;
use std::path::Path;

/// Which ignored paths are carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carry {
    /// All but secret-looking ones.
    Auto,
    /// Those that match one of these patterns (gitignore syntax, from the root), secrets too.
    List(Vec<String>),
    /// None.
    None,
}

/// Why a file is in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// It is part of the work.
    Recorded,
    /// It is ignored, and carried.
    Carried,
}

/// What is done on the way.
pub trait Visitor {
    /// Sees a folder after it was entered in the caller's tree.
    fn enter(&mut self, name: &CStr, stat: &FileStat, item: Item) -> Result<()>;
    /// Sees the end of a folder; `from` stands in it still.
    fn leave(&mut self, from: &Descent, name: &CStr, stat: &FileStat) -> Result<()>;
    /// Sees a file or a link in the folder where `from` stands.
    fn leaf(&mut self, from: &Descent, name: &CStr, stat: &FileStat, item: Item) -> Result<()>;
    /// Sees a path that is not carried, and why.
    fn behind(&mut self, path: &[u8], why: &'static str);
}

enum Take {
    /// With all it holds, secrets apart where they are looked for.
    Yes,
    /// Some of what it holds may be wanted.
    Look,
    /// No, for this reason; an empty one is not worth telling.
    No(&'static str),
}

struct Selection {
    list: Option<Gitignore>,
    folders: Vec<String>,
    none: bool,
}

impl Selection {
    fn new(carry: &Carry) -> Result<Self> {
        let mut builder = GitignoreBuilder::new("");
        let mut folders = Vec::new();
        let Carry::List(patterns) = carry else {
            return Ok(Self { list: None, folders, none: *carry == Carry::None });
        };
        for pattern in patterns {
            builder.add_line(None, pattern).map_err(|source| {
                let what = format!("workspace.carry: no pattern: {pattern:?}");
                Error::new(Kind::ConfigInvalid, what).because(source)
            })?;
            folders.push(pattern.trim_matches('/').to_string());
        }
        let list = builder.build().map_err(|source| {
            Error::new(Kind::ConfigInvalid, "workspace.carry: bad patterns").because(source)
        })?;
        Ok(Self { list: Some(list), folders, none: false })
    }

    fn take(&self, from: &Descent, name: &CStr, path: &[u8], is: Listed, inside: bool) -> Take {
        if self.none {
            return Take::No("");
        }
        if let Some(list) = &self.list {
            let found = list.matched(paths::as_path(path), is == Listed::Folder);
            return match (found.is_ignore(), found.is_whitelist(), inside, is) {
                (true, ..) | (false, false, true, _) => Take::Yes,
                (_, _, _, Listed::Folder) if self.may_hold(path) => Take::Look,
                _ => Take::No(""),
            };
        }
        if secrets::is_built(path) {
            return Take::Yes;
        }
        let name_bytes = name.to_bytes();
        if secrets::is_secret_name(name_bytes) && !is_environment(from, name, is) {
            return Take::No("its name looks like a secret");
        }
        let tokens = matches!(name_bytes, b".npmrc" | b".yarnrc.yml" | b".yarnrc");
        if tokens && is == Listed::File && secrets::holds_token(&read_start(from, name)) {
            return Take::No("it holds a token");
        }
        Take::Yes
    }

    /// Tells whether a pattern can match below a folder.
    fn may_hold(&self, path: &[u8]) -> bool {
        let path = String::from_utf8_lossy(path);
        self.folders.iter().any(|pattern| {
            let literal = pattern.split(['*', '?', '[', '\\']).next().unwrap_or("");
            let anchored = pattern.contains('/');
            !anchored
                || literal.starts_with(&format!("{path}/"))
                || (literal.len() < pattern.len() && path.starts_with(literal))
        })
    }
}

/// Walks all that goes into the workspace.
pub fn walk(
    root: &Path,
    ignored: &Ignored,
    carry: &Carry,
    visitor: &mut dyn Visitor,
    stop: Stop<'_>,
) -> Result<()> {
    struct Frame {
        names: std::vec::IntoIter<CString>,
        name: CString,
        stat: FileStat,
        standing: Standing,
        taken: bool,
        /// Whether the visitor saw it: a folder that is only looked through is shown once something
        /// in it is carried.
        shown: bool,
    }
    fn show(frames: &mut [Frame], visitor: &mut dyn Visitor) -> Result<()> {
        let first = frames.iter().position(|frame| !frame.shown).unwrap_or(frames.len());
        for frame in &mut frames[first..] {
            visitor.enter(&frame.name, &frame.stat, Item::Carried)?;
            frame.shown = true;
        }
        Ok(())
    }
    let selection = Selection::new(carry)?;
    let mut from = Descent::open(root)?;
    let top = from.read_stat(c".")?;
    let names = from.read_names()?.into_iter();
    let standing = Standing::Recorded;
    let name = c".".to_owned();
    let mut frames = vec![Frame { names, name, stat: top, standing, taken: false, shown: true }];
    while let Some(frame) = frames.last_mut() {
        let Some(name) = frame.names.next() else {
            if let Some(done) = frames.pop()
                && !frames.is_empty()
            {
                if done.shown {
                    visitor.leave(&from, &done.name, &done.stat)?;
                }
                from.leave()?;
            }
            continue;
        };
        if stop() {
            return Err(interrupted());
        }
        let outside = from.depth() == 0 && is_outside(name.to_bytes());
        if outside || (name.as_c_str() == c".git" && frame.standing == Standing::Recorded) {
            continue;
        }
        let stat = from.read_stat(&name)?;
        let path = paths::join(from.path(), name.to_bytes());
        let sort = kind_of(&stat);
        let is = if sort == Sort::Folder { Listed::Folder } else { Listed::File };
        let standing = ignored.standing(&path, is, frame.standing);
        let mut taken = frame.taken;
        let mut shown = true;
        let mut item = Item::Recorded;
        if standing == Standing::Ignored {
            item = Item::Carried;
            match selection.take(&from, &name, &path, is, taken) {
                Take::Yes => taken = true,
                Take::Look if is == Listed::Folder => shown = false,
                Take::Look => continue,
                Take::No(why) => {
                    if !why.is_empty() {
                        visitor.behind(&path, why);
                    }
                    continue;
                }
            }
        }
        if let Sort::Special(kind) = sort {
            visitor.behind(&path, kind);
            continue;
        }
        if shown {
            show(&mut frames, visitor)?;
        }
        if sort != Sort::Folder {
            match visitor.leaf(&from, &name, &stat, item) {
                Err(error) if item == Item::Carried && is_denied(&error) => {
                    visitor.behind(&path, "it cannot be read");
                }
                done => done?,
            }
            continue;
        }
        match from.enter(&name) {
            Err(error) if item == Item::Carried && is_denied(&error) => {
                visitor.behind(&path, "it cannot be read");
                continue;
            }
            entered => entered?,
        }
        if shown {
            visitor.enter(&name, &stat, item)?;
        }
        let names = from.read_names()?.into_iter();
        frames.push(Frame { names, name, stat, standing, taken, shown });
    }
    Ok(())
}

/// Sums up the carried bytes, by the first two parts of their paths.
#[derive(Debug, Default)]
pub struct Measure {
    /// All carried bytes.
    pub bytes: u64,
    folders: BTreeMap<Vec<u8>, u64>,
}

impl Visitor for Measure {
    fn enter(&mut self, _: &CStr, _: &FileStat, _: Item) -> Result<()> {
        Ok(())
    }
    fn leave(&mut self, _: &Descent, _: &CStr, _: &FileStat) -> Result<()> {
        Ok(())
    }
    fn leaf(&mut self, from: &Descent, name: &CStr, stat: &FileStat, item: Item) -> Result<()> {
        if item == Item::Carried {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            self.bytes += size;
            let path = paths::join(from.path(), name.to_bytes());
            let end = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).nth(1);
            *self.folders.entry(path[..end.unwrap_or(path.len())].to_vec()).or_default() += size;
        }
        Ok(())
    }
    fn behind(&mut self, _: &[u8], _: &'static str) {}
}

impl Measure {
    /// Refuses what is over the limit, naming the largest folders and the line to add.
    pub fn check(&self, limit: u64) -> Result<()> {
        if self.bytes <= limit {
            return Ok(());
        }
        let mut largest: Vec<_> = self.folders.iter().collect();
        largest.sort_by_key(|(_, size)| std::cmp::Reverse(**size));
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let named: Vec<String> = largest
            .iter()
            .take(3)
            .map(|(path, size)| format!("{} ({} MiB)", paths::escape(path), mib(**size)))
            .collect();
        let what = format!(
            "{} MiB of ignored files would have to be copied into the workspace, more than workspace.carry_max ({} MiB); the largest: {}",
            mib(self.bytes),
            mib(limit),
            named.join(", ")
        );
        let need = self.bytes.div_ceil(1 << 30);
        Err(Error::new(Kind::WorkspaceInvalid, what)
            .detail("carry_too_large")
            .hint(format!("add `workspace: {{ carry_max: {need}GiB }}`"))
            .hint("or name what is needed: `workspace: { carry: [\"/node_modules\"] }`, or `carry: none`"))
    }
}

/// Tells whether a folder named like a secret is a Python environment (`.env/`).
fn is_environment(from: &Descent, name: &CStr, is: Listed) -> bool {
    let mut inside = name.to_bytes().to_vec();
    inside.extend_from_slice(b"/pyvenv.cfg");
    is == Listed::Folder && CString::new(inside).is_ok_and(|inside| from.read_stat(&inside).is_ok())
}

fn read_start(from: &Descent, name: &CStr) -> Vec<u8> {
    let mut content = Vec::new();
    if let Ok(file) = from.open_file(name) {
        let _ = file.take(64 << 10).read_to_end(&mut content);
    }
    content
}

fn is_denied(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|source| source.kind() == std::io::ErrorKind::PermissionDenied)
}
