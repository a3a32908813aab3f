//! Chooses what of a run leaves, looks for secrets in all of it, and writes the zip.
//!
//! Everything is read twice: once to look, once to write, so that nothing is ever in the file that
//! has to be taken back. What stands in the chain cannot be altered: a secret there means that there
//! is no bundle; anything else that holds one is left out, and the manifest says so.

use super::objects::Objects;
use super::survey::{Survey, read_survey};
use super::{CONFIG, HEAD, MAX_BUNDLE, MAX_FILES, MAX_UNPACKED, SNAPSHOTS};
use crate::domain::hex;
use crate::error::{Error, Kind, Result};
use crate::receipt::manifest::{self, LeftOut, Manifest, Why};
use crate::receipt::reader::RECEIPT;
use crate::receipt::redact::{Form, Redactor, Search};
use crate::receipt::rundir::RunDir;
use crate::receipt::state;
use git2::Oid;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipWriter};

/// How hard deflate tries, of 9; a job that was cancelled has seconds for all of it.
const LEVEL: i64 = 3;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// The most bytes of one line of a receipt that are looked at as JSON.
const LINE: u64 = 2 << 20;

/// How much of a run's outputs leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// What verifying, replaying and resuming need.
    Evidence,
    /// The same, and what was kept of the outputs of commands.
    WithOutputs,
}

/// What a bundle is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The sha256 of the zip, hexadecimal.
    pub sha256: String,
    /// Its length in bytes.
    pub size: u64,
    /// How many files it holds.
    pub files: u64,
    /// What it does not hold; the manifest in it says the same.
    pub left_out: Vec<LeftOut>,
    /// What people should know about it, one sentence each.
    pub warnings: Vec<String>,
}

/// Where the bytes of a file come from.
#[derive(Debug, Clone)]
enum Source {
    File(PathBuf),
    Object(Oid),
    Fixed(Vec<u8>),
}

/// Writes the bundle of a run to a file that is there whole or not at all.
///
/// `redactor` knows the secrets of now. A value that a file of the caller's own commits holds is
/// none: whoever can read the bundle can read it there.
///
/// # Errors
/// `workspace_invalid` when the receipt cannot be read, the receipt or a value of it holds a secret,
/// or the bundle is over [`MAX_BUNDLE`]; `storage_exhausted` when the disk is full.
pub fn write(
    run_dir: &Path,
    state_file: Option<&Path>,
    to: &Path,
    what: Contents,
    redactor: &Redactor,
) -> Result<Facts> {
    let run = RunDir::open(run_dir)?;
    let survey = read_survey(&run);
    let mut packer = Packer::new(&run, &survey);
    packer.choose(&run, &survey, state_file, what);
    packer.look(redactor)?;
    packer.pack(&run, to)
}

struct Packer {
    objects: Option<Objects>,
    /// What goes in, by its name in the zip.
    files: BTreeMap<String, Source>,
    /// The length of each as it was looked at.
    sizes: BTreeMap<String, u64>,
    /// The names that cannot be left out.
    required: BTreeSet<String>,
    left_out: BTreeMap<String, LeftOut>,
    warnings: Vec<String>,
}

impl Packer {
    fn new(run: &RunDir, survey: &Survey) -> Self {
        let mut warnings = Vec::new();
        if let Some(wrong) = survey.wrong.first() {
            warnings.push(format!("the bundle holds evidence that will not verify: {wrong}"));
        }
        let objects = Objects::open(&run.snapshots()).unwrap_or_else(|error| {
            warnings.push(format!("the bundle has no snapshots: {error}"));
            None
        });
        let (files, sizes, required) = Default::default();
        Self { objects, files, sizes, required, left_out: BTreeMap::new(), warnings }
    }

    fn choose(&mut self, run: &RunDir, survey: &Survey, state_file: Option<&Path>, what: Contents) {
        // What an earlier bundle of this run lacked is still lacking.
        let earlier = Manifest::read(run.path(), run.id()).ok().flatten();
        for left in earlier.into_iter().flat_map(|manifest| manifest.left_out) {
            self.left_out.insert(left.path.clone(), left);
        }
        self.add(RECEIPT.to_owned(), run.receipt());
        self.required.insert(RECEIPT.to_owned());
        for digest in &survey.values {
            let name = format!("blobs/{digest}");
            self.add(name.clone(), run.blobs().join(digest));
            self.required.insert(name);
        }
        for digest in survey.outputs.difference(&survey.values) {
            let name = format!("blobs/{digest}");
            match what {
                Contents::WithOutputs => self.add(name, run.blobs().join(digest)),
                Contents::Evidence => self.leave_out(name, Why::NotAsked, None),
            }
        }
        for name in &survey.torn {
            self.add(name.clone(), run.path().join(name));
        }
        for name in super::beside_the_receipt() {
            let path = run.path().join(&name);
            if is_there(&path) {
                self.add(name, path);
            }
        }
        if is_there(&run.patch()) {
            self.add("patch.diff".to_owned(), run.patch());
        }
        if let Some(path) = state_file.filter(|path| belongs_to(path, run.id())) {
            self.add(state::FILE.to_owned(), path.to_owned());
        }
        self.choose_objects(survey);
    }

    fn choose_objects(&mut self, survey: &Survey) {
        let Some(objects) = &self.objects else { return };
        let reached = objects.reach(&survey.trees);
        if let Some(one) = reached.missing.first() {
            self.warnings.push(format!(
                "the bundle's snapshots are not whole: {} of their objects cannot be read, {one} is one",
                reached.missing.len()
            ));
        }
        for id in reached.missing {
            self.leave_out(object_name(id), Why::Unreadable, None);
        }
        for id in reached.there {
            self.files.insert(object_name(id), Source::Object(id));
        }
        for (name, bytes) in [("HEAD", HEAD), ("config", CONFIG)] {
            self.files.insert(format!("{SNAPSHOTS}/{name}"), Source::Fixed(bytes.to_vec()));
        }
    }

    fn add(&mut self, name: String, path: PathBuf) {
        self.left_out.remove(&name);
        self.files.insert(name, Source::File(path));
    }

    fn leave_out(&mut self, path: String, why: Why, variable: Option<&str>) {
        let left = LeftOut { path: path.clone(), why, variable: variable.map(str::to_owned) };
        self.left_out.insert(path, left);
    }

    /// Looks for secrets in everything, and takes out what holds one.
    fn look(&mut self, redactor: &Redactor) -> Result<()> {
        let mut hits: BTreeMap<String, BTreeSet<Form>> = BTreeMap::new();
        let mut unreadable = Vec::new();
        for (name, source) in &self.files {
            let mut search = redactor.search();
            match self.look_into(name, source, &mut search) {
                Ok(size) => drop(self.sizes.insert(name.clone(), size)),
                Err(error) => unreadable.push((name.clone(), error)),
            }
            let found = search.finish();
            if !found.is_empty() {
                hits.insert(name.clone(), found);
            }
        }
        for (name, error) in unreadable {
            if name == RECEIPT {
                return Err(error);
            }
            self.files.remove(&name);
            // A value that is missing was told of when the receipt was read.
            if !self.required.contains(&name) {
                self.warnings.push(format!("the bundle lacks {name}: {error}"));
                self.leave_out(name, Why::Unreadable, None);
            }
        }
        if hits.is_empty() {
            return Ok(());
        }
        let public = self.committed_forms(redactor)?;
        for (name, forms) in hits {
            let Some(form) = forms.difference(&public).next() else { continue };
            let variable = redactor.variable(*form).to_owned();
            if self.required.contains(&name) {
                return Err(Error::new(
                    Kind::WorkspaceInvalid,
                    format!("there is no bundle: the receipt holds the value of {variable}"),
                )
                .hint("the receipt cannot be altered without breaking its chain; its folder is still here")
                .hint("give that variable a value that is in no output, or name the secret ones in receipt.redact"));
            }
            self.files.remove(&name);
            let what = match &*name {
                "patch.diff" => "the patch",
                _ if name.starts_with("blobs/") => "an output of a command",
                _ if name.starts_with(SNAPSHOTS) => "a file of the snapshots",
                _ => "a file beside the receipt",
            };
            let told = format!("the bundle lacks {what}: it holds the value of {variable}");
            if !self.warnings.contains(&told) {
                self.warnings.push(told);
            }
            self.leave_out(name, Why::Secret, Some(&variable));
        }
        Ok(())
    }

    /// Looks for secrets in one file and returns its length.
    fn look_into(&self, name: &str, source: &Source, search: &mut Search<'_>) -> Result<u64> {
        match source {
            // Its digests are no place for a secret, and look like one now and then.
            Source::File(path) if name == RECEIPT => look_into_receipt(path, search),
            Source::Object(id) => {
                let objects = self.objects()?;
                objects.read(*id, &mut |piece| {
                    search.push(piece);
                    Ok(())
                })?;
                let mut size = 0;
                objects.read_loose(*id, &mut |piece| {
                    size += piece.len() as u64;
                    Ok(())
                })?;
                Ok(size)
            }
            _ => {
                let mut size = 0;
                self.read(source, u64::MAX, &mut |piece| {
                    size += piece.len() as u64;
                    search.push(piece);
                    Ok(())
                })?;
                Ok(size)
            }
        }
    }

    /// Returns the forms that the caller's own commits hold.
    fn committed_forms(&self, redactor: &Redactor) -> Result<BTreeSet<Form>> {
        let mut public = BTreeSet::new();
        let Some(objects) = &self.objects else { return Ok(public) };
        for id in objects.committed() {
            let mut search = redactor.search();
            objects.read(id, &mut |piece| {
                search.push(piece);
                Ok(())
            })?;
            public.extend(search.finish());
        }
        Ok(public)
    }

    fn objects(&self) -> Result<&Objects> {
        self.objects
            .as_ref()
            .ok_or_else(|| Error::new(Kind::Internal, "an object without a store is to be read"))
    }

    /// Shows at most so many bytes of a file to `sink`.
    fn read(
        &self,
        source: &Source,
        most: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        match source {
            Source::Fixed(bytes) => sink(bytes),
            Source::Object(id) => self.objects()?.read_loose(*id, sink),
            Source::File(path) => {
                let failed = |e| cannot("read", path, e);
                let mut file = open(path).map_err(failed)?.take(most);
                let mut buffer = vec![0; CHUNK];
                loop {
                    match file.read(&mut buffer).map_err(failed)? {
                        0 => return Ok(()),
                        read => sink(&buffer[..read])?,
                    }
                }
            }
        }
    }

    fn pack(mut self, run: &RunDir, to: &Path) -> Result<Facts> {
        let left_out: Vec<LeftOut> = std::mem::take(&mut self.left_out).into_values().collect();
        let manifest = Manifest {
            format: manifest::FORMAT.to_owned(),
            run: run.id().to_owned(),
            left_out: left_out.clone(),
        };
        let mut text = serde_json::to_vec_pretty(&manifest).map_err(|e| {
            Error::new(Kind::Internal, "the manifest of a bundle has no JSON form").because(e)
        })?;
        text.push(b'\n');
        self.sizes.insert(manifest::FILE.to_owned(), text.len() as u64);
        self.files.insert(manifest::FILE.to_owned(), Source::Fixed(text));
        if self.files.len() >= MAX_FILES || self.sizes.values().sum::<u64>() > MAX_UNPACKED {
            return Err(too_large(&format!("{} files", self.files.len())));
        }
        let failed = |e| cannot("write the bundle", to, e);
        let folder = to.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let handle = file.reopen().map_err(failed)?;
        self.pack_into(Capped { file: handle, at: 0 }, &failed)?;
        let (sha256, size) = digest_of(file.path()).map_err(failed)?;
        file.persist(to).map_err(|e| failed(e.error))?;
        let files = self.files.len() as u64;
        Ok(Facts { sha256, size, files, left_out, warnings: self.warnings })
    }

    fn pack_into(&self, out: Capped, failed: &dyn Fn(io::Error) -> Error) -> Result<()> {
        let full = |e: io::Error| match e.kind() {
            io::ErrorKind::QuotaExceeded if e.get_ref().is_some() => too_large("its zip"),
            _ => failed(e),
        };
        let zipped = |e: zip::result::ZipError| full(io::Error::from(e));
        let mut zip = ZipWriter::new(out);
        if let Err(error) = self.fill(&mut zip, &full) {
            // Dropped, it would try to end the zip and say on stderr that it cannot.
            std::mem::forget(zip);
            return Err(error);
        }
        let out = zip.finish().map_err(zipped)?;
        out.file.sync_all().map_err(full)
    }

    fn fill(&self, zip: &mut ZipWriter<Capped>, full: &dyn Fn(io::Error) -> Error) -> Result<()> {
        let zipped = |e: zip::result::ZipError| full(io::Error::from(e));
        let options = SimpleFileOptions::DEFAULT
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL))
            .last_modified_time(DateTime::DEFAULT)
            .system(System::Unix);
        let file_options = options.unix_permissions(0o644);
        if self.objects.is_some() {
            // Git takes no folder without it for a repository.
            let name = format!("{SNAPSHOTS}/refs/");
            zip.add_directory(name, options.unix_permissions(0o755)).map_err(zipped)?;
        }
        for (name, source) in &self.files {
            let size = self.sizes.get(name).copied().unwrap_or(0);
            let options = file_options.large_file(size > u64::from(u32::MAX) / 2);
            zip.start_file(name.as_str(), options).map_err(zipped)?;
            let mut written = 0;
            self.read(source, size, &mut |piece| {
                written += piece.len() as u64;
                zip.write_all(piece).map_err(full)
            })?;
            if written != size {
                let what = format!("{name} changed while it was put into the bundle");
                return Err(Error::new(Kind::WorkspaceInvalid, what));
            }
        }
        Ok(())
    }
}

/// A file that does not grow over the cap.
struct Capped {
    file: File,
    at: u64,
}

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at + bytes.len() as u64 > MAX_BUNDLE {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "over the cap of a bundle"));
        }
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Capped {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}

/// Looks into the events of a receipt, without the digests of its chain.
fn look_into_receipt(path: &Path, search: &mut Search<'_>) -> Result<u64> {
    let failed = |e| cannot("read", path, e);
    let mut input = BufReader::new(open(path).map_err(failed)?);
    let (mut size, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let read = (&mut input).take(LINE).read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            return Ok(size);
        }
        size += read as u64;
        match serde_json::from_slice(&line) {
            Ok(serde_json::Value::Object(mut event)) => {
                for key in ["prev", "sum"] {
                    event.shift_remove(key);
                }
                search.push(serde_json::Value::Object(event).to_string().as_bytes());
                search.push(b"\n");
            }
            _ => search.push(&line),
        }
    }
}

/// Opens a regular file, through no link.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file())
}

/// Tells whether a state file is about a run; another run's state has no place in a bundle.
fn belongs_to(path: &Path, run: &str) -> bool {
    let Some(tree) = path.parent() else { return false };
    path.file_name().is_some_and(|name| name == state::FILE)
        && state::read_state(tree).ok().flatten().is_some_and(|state| state.run_id == run)
}

fn object_name(id: Oid) -> String {
    let digits = id.to_string();
    format!("{SNAPSHOTS}/objects/{}/{}", &digits[..2], &digits[2..])
}

fn digest_of(path: &Path) -> io::Result<(String, u64)> {
    let (mut hasher, mut size) = (Sha256::new(), 0);
    let (mut file, mut buffer) = (File::open(path)?, vec![0; CHUNK]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hex::encode(&hasher.finalize()), size)),
            read => {
                hasher.update(&buffer[..read]);
                size += read as u64;
            }
        }
    }
}

fn too_large(what: &str) -> Error {
    Error::new(
        Kind::WorkspaceInvalid,
        format!(
            "there is no bundle: {what} would be over {} GiB, or {} GiB unpacked, or {MAX_FILES} files",
            MAX_BUNDLE >> 30,
            MAX_UNPACKED >> 30
        ),
    )
    .hint("the folder of the run is still here; what is large and not needed belongs into .gitignore")
}

fn cannot(doing: &str, path: &Path, source: io::Error) -> Error {
    Error::io(Kind::WorkspaceInvalid, format!("cannot {doing} {}", path.display()), source)
}
