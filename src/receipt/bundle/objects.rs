//! The snapshots as loose git objects, whatever form the store keeps them in.
//!
//! Format of a loose object: zlib (RFC 1950) over `<kind> <length>\0<content>`, see git's
//! `gitformat-loose`. It is written with stored blocks (RFC 1951, 3.2.4): the zip compresses it, and
//! no two releases of a compressor need to agree.

use crate::error::{Error, Kind, Result};
use git2::{ObjectType, Oid};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

/// From this size an object is read as a stream where the store can do that.
const LARGE: usize = 4 << 20;

/// The most content of one stored block.
const BLOCK: usize = 65_535;

/// The largest prime below 2¹⁶, the modulus of Adler-32.
const ADLER: u32 = 65_521;

/// How many bytes Adler-32 can sum before it has to take the remainder.
const RUN: usize = 5552;

/// The mode of a folder and of a submodule in a tree.
const FOLDER: u32 = 0o040_000;
const SUBMODULE: u32 = 0o160_000;

/// The objects of a snapshot store.
pub(super) struct Objects {
    odb: git2::Odb<'static>,
}

/// What trees lead to.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// Every object that is there.
    pub there: BTreeSet<Oid>,
    /// Objects that should be there and are not, or are broken.
    pub missing: BTreeSet<Oid>,
}

impl Objects {
    /// Opens the objects of a store; none where a run has no store.
    ///
    /// # Errors
    /// `workspace_invalid` when they cannot be opened.
    pub(super) fn open(store: &Path) -> Result<Option<Self>> {
        let objects = store.join("objects");
        let real = |path: &Path| fs::symlink_metadata(path).is_ok_and(|there| there.is_dir());
        if !real(store) || !real(&objects) {
            return Ok(None);
        }
        let failed = |e: git2::Error| {
            let what = format!("cannot read the snapshots in {}", store.display());
            Error::new(Kind::WorkspaceInvalid, what).because(e)
        };
        let text = objects.to_str().ok_or_else(|| {
            Error::new(Kind::WorkspaceInvalid, format!("{} is not UTF-8", objects.display()))
        })?;
        // No repository is opened, so no configuration is read.
        let odb = git2::Odb::new().map_err(failed)?;
        odb.add_disk_alternate(text).map_err(failed)?;
        Ok(Some(Self { odb }))
    }

    /// Follows those of the ids that are trees to everything in them.
    pub(super) fn reach<'a>(&self, ids: impl IntoIterator<Item = &'a String>) -> Reached {
        let mut reached = Reached::default();
        let mut pending: Vec<Oid> = ids
            .into_iter()
            .filter_map(|id| Oid::from_str(id).ok())
            .filter(|id| self.odb.read_header(*id).is_ok_and(|(_, kind)| kind == ObjectType::Tree))
            .collect();
        while let Some(id) = pending.pop() {
            if reached.there.contains(&id) || reached.missing.contains(&id) {
                continue;
            }
            let entries = self.odb.read(id).ok().and_then(|object| decode(object.data()));
            let Some(entries) = entries else {
                reached.missing.insert(id);
                continue;
            };
            reached.there.insert(id);
            for (mode, id) in entries {
                match mode {
                    FOLDER => pending.push(id),
                    SUBMODULE => {}
                    _ if self.odb.exists(id) => drop(reached.there.insert(id)),
                    _ => drop(reached.missing.insert(id)),
                }
            }
        }
        reached
    }

    /// Shows the content of an object to `sink`, piece by piece.
    ///
    /// # Errors
    /// `workspace_invalid` when it is not there or broken; what `sink` gives.
    pub(super) fn read(&self, id: Oid, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let broken = |e: git2::Error| {
            Error::new(Kind::WorkspaceInvalid, format!("the snapshot object {id} is broken"))
                .because(e)
        };
        let (size, _) = self.odb.read_header(id).map_err(broken)?;
        if size >= LARGE
            && let Ok((mut stream, ..)) = self.odb.reader(id)
        {
            let mut buffer = vec![0; BLOCK];
            loop {
                let read = stream.read(&mut buffer).map_err(|e| {
                    Error::io(Kind::WorkspaceInvalid, format!("the snapshot object {id}"), e)
                })?;
                if read == 0 {
                    return Ok(());
                }
                sink(&buffer[..read])?;
            }
        }
        let object = self.odb.read(id).map_err(broken)?;
        object.data().chunks(BLOCK).try_for_each(sink)
    }

    /// Shows an object to `sink` as the file that a loose object is.
    ///
    /// # Errors
    /// As [`Objects::read`].
    pub(super) fn read_loose(
        &self,
        id: Oid,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let broken = |e: git2::Error| {
            Error::new(Kind::WorkspaceInvalid, format!("the snapshot object {id} is broken"))
                .because(e)
        };
        let (size, kind) = self.odb.read_header(id).map_err(broken)?;
        let mut stored = Stored::default();
        // Deflate without compression, the fastest level: 0x7801 is a multiple of 31.
        sink(&[0x78, 0x01])?;
        stored.push(format!("{} {size}\0", kind.str()).as_bytes(), sink)?;
        self.read(id, &mut |piece| stored.push(piece, sink))?;
        stored.finish(sink)
    }

    /// Returns the files that the caller's own commits in the store hold.
    ///
    /// A commit that loopexec made of a working tree is none of them.
    pub(super) fn committed(&self) -> BTreeSet<Oid> {
        let mut trees = BTreeMap::new();
        let listed = self.odb.foreach(|id| {
            if self.odb.read_header(*id).is_ok_and(|(_, kind)| kind == ObjectType::Commit)
                && let Ok(commit) = self.odb.read(*id)
                && let Some(tree) = tree_of(commit.data())
            {
                trees.insert(tree, ());
            }
            true
        });
        if listed.is_err() {
            return BTreeSet::new();
        }
        self.reach(trees.keys()).there
    }
}

/// Returns the tree of a commit, unless loopexec made it.
fn tree_of(commit: &[u8]) -> Option<String> {
    let head = commit.split(|b| *b == b'\n').take_while(|line| !line.is_empty());
    let mut tree = None;
    for line in head {
        if let Some(id) = line.strip_prefix(b"tree ") {
            tree = String::from_utf8(id.to_vec()).ok();
        }
        let signed = line.starts_with(b"author ") || line.starts_with(b"committer ");
        if signed && line.windows(20).any(|part| part == b"<loopexec@localhost>") {
            return None;
        }
    }
    tree
}

/// Reads the entries of a tree: `<octal mode> <name>\0<20 bytes>`.
fn decode(mut bytes: &[u8]) -> Option<Vec<(u32, Oid)>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|b| *b == b' ')?;
        let mode = u32::from_str_radix(std::str::from_utf8(&bytes[..space]).ok()?, 8).ok()?;
        let end = bytes.iter().position(|b| *b == 0)?;
        entries.push((mode, Oid::from_bytes(bytes.get(end + 1..end + 21)?).ok()?));
        bytes = &bytes[end + 21..];
    }
    Some(entries)
}

/// Puts bytes into stored blocks and ends them with their Adler-32.
struct Stored {
    block: Vec<u8>,
    low: u32,
    high: u32,
}

impl Default for Stored {
    fn default() -> Self {
        Self { block: Vec::with_capacity(BLOCK), low: 1, high: 0 }
    }
}

impl Stored {
    fn push(&mut self, mut bytes: &[u8], sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for run in bytes.chunks(RUN) {
            for byte in run {
                self.low += u32::from(*byte);
                self.high += self.low;
            }
            self.low %= ADLER;
            self.high %= ADLER;
        }
        while !bytes.is_empty() {
            if self.block.len() == BLOCK {
                self.write(0, sink)?;
            }
            let room = (BLOCK - self.block.len()).min(bytes.len());
            self.block.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
        }
        Ok(())
    }

    fn finish(mut self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.write(1, sink)?;
        sink(&((self.high << 16) | self.low).to_be_bytes())
    }

    fn write(&mut self, last: u8, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let length = u16::try_from(self.block.len()).unwrap_or(u16::MAX);
        sink(&[last])?;
        sink(&length.to_le_bytes())?;
        sink(&(!length).to_le_bytes())?;
        sink(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(content: &[&[u8]]) -> (tempfile::TempDir, Vec<Oid>) {
        let dir = tempfile::tempdir().unwrap();
        let repository = git2::Repository::init_bare(dir.path().join("s")).unwrap();
        let ids = content.iter().map(|bytes| repository.blob(bytes).unwrap()).collect();
        (dir, ids)
    }

    #[test]
    fn loose_objects_are_read_back_by_git_whatever_their_size() {
        let large: Vec<u8> =
            (0..6_000_000_u32).map(|n| (n.wrapping_mul(7919) >> 3) as u8).collect();
        let contents: [&[u8]; 5] = [b"", b"one\n", &large[..65_535 - 11], &large[..65_536], &large];
        let (dir, ids) = store(&contents);
        let objects = Objects::open(&dir.path().join("s")).unwrap().unwrap();
        let to = dir.path().join("copy");
        git2::Repository::init_bare(&to).unwrap();
        for id in &ids {
            let mut file = Vec::new();
            objects
                .read_loose(*id, &mut |piece| {
                    file.extend_from_slice(piece);
                    Ok(())
                })
                .unwrap();
            let name = id.to_string();
            let path = to.join("objects").join(&name[..2]).join(&name[2..]);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let copy = git2::Repository::open_bare(&to).unwrap();
        for (id, content) in ids.iter().zip(contents) {
            assert!(copy.find_blob(*id).unwrap().content() == content, "{} bytes", content.len());
        }
        let fsck = std::process::Command::new("git")
            .arg("--git-dir")
            .arg(&to)
            .args(["cat-file", "--batch-check", "--batch-all-objects"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&fsck.stdout).lines().count(), contents.len());
    }

    #[test]
    fn trees_lead_to_everything_in_them_and_what_lacks_is_told() {
        let (dir, ids) = store(&[b"one", b"two"]);
        let path = dir.path().join("s");
        let repository = git2::Repository::open_bare(&path).unwrap();
        let mut inner = repository.treebuilder(None).unwrap();
        inner.insert("a", ids[0], 0o100_644).unwrap();
        let inner = inner.write().unwrap();
        let mut outer = repository.treebuilder(None).unwrap();
        outer.insert("b", ids[1], 0o100_755).unwrap();
        outer.insert("folder", inner, 0o040_000).unwrap();
        let outer = outer.write().unwrap();
        let objects = Objects::open(&path).unwrap().unwrap();
        // A file's id is no snapshot, nor is what is not there.
        let named = [outer.to_string(), ids[0].to_string(), "0".repeat(40), "no id".to_owned()];
        let reached = objects.reach(&named);
        assert_eq!(reached.there, BTreeSet::from([outer, inner, ids[0], ids[1]]));
        assert!(reached.missing.is_empty());
        let name = ids[0].to_string();
        fs::remove_file(path.join("objects").join(&name[..2]).join(&name[2..])).unwrap();
        let reached = Objects::open(&path).unwrap().unwrap().reach(&named);
        assert_eq!(reached.missing, BTreeSet::from([ids[0]]));
    }

    #[test]
    fn only_the_callers_own_commits_count_as_committed() {
        let (dir, ids) = store(&[b"theirs", b"ours"]);
        let path = dir.path().join("s");
        let repository = git2::Repository::open_bare(&path).unwrap();
        for (id, mail) in [(ids[0], "person@example.invalid"), (ids[1], "loopexec@localhost")] {
            let mut tree = repository.treebuilder(None).unwrap();
            tree.insert("a", id, 0o100_644).unwrap();
            let tree = repository.find_tree(tree.write().unwrap()).unwrap();
            let who = git2::Signature::now("somebody", mail).unwrap();
            repository.commit(None, &who, &who, "work", &tree, &[]).unwrap();
        }
        let committed = Objects::open(&path).unwrap().unwrap().committed();
        assert!(committed.contains(&ids[0]) && !committed.contains(&ids[1]));
    }
}
