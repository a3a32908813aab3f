//! The first look at the caller's tree: which paths are ignored at t0, and by which rules.
//!
//! git says what it ignores; the rules are copied for paths that come later. Copying files is the
//! duty of `make`.

use crate::error::{Error, Kind, Result};
use crate::foreign::{self, Links};
use crate::workspace::at::{Descent, Sort, kind_of};
use crate::workspace::caller::{Caller, CallerKind};
use crate::workspace::gitcmd::{Git, git_dir, interrupted};
use crate::workspace::ignored::{Content, Ignored, Listed, Standing};
use crate::workspace::{Stop, paths};
use std::ffi::{CString, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Names at the root that are no part of the work: git's own folder and loopexec's state.
pub const OUTSIDE: [&[u8]; 3] = [b".git", b".loopexec", b".loop_state.json"];

/// Says whether a name at the root of the caller's tree is no part of it: also the state of another run that is just
/// being written, and gone a moment later.
pub fn is_outside(name: &[u8]) -> bool {
    let written =
        || name.strip_prefix(b".loop_state.json.").is_some_and(|id| id.ends_with(b".tmp"));
    OUTSIDE.contains(&name) || written()
}

/// The largest rules file that is read; git reads larger ones, people do not write them.
const RULES_MAX: u64 = 4 << 20;

/// What the first look found.
#[derive(Debug, Default)]
pub struct Scan {
    /// What is ignored in this run.
    pub ignored: Ignored,
    /// Folders with a repository of their own (submodules and others), carried as plain files.
    pub nested: Vec<Vec<u8>>,
}

/// Reads what the caller's git ignores, and the rules it goes by.
pub fn read_scan(caller: &Caller, stop: Stop<'_>) -> Result<Scan> {
    let mut scan = Scan::default();
    let excludes = read_excludes_file(caller, stop)?;
    let mut setting = OsString::from("core.excludesFile=");
    setting.push(excludes.as_deref().unwrap_or(Path::new("/dev/null")));
    let settings = [OsString::from("-c"), setting];
    // A plain folder has no git directory; an empty one elsewhere makes its .gitignore files count.
    let mut _empty = None;
    let git = match &caller.kind {
        CallerKind::Git { git_dir, common_dir, .. } => {
            let exclude = common_dir.join("info/exclude");
            scan.ignored.add_general_rules(&read_rules(&exclude));
            for folder in [git_dir, common_dir] {
                if let Ok(inside) = folder.strip_prefix(&caller.root)
                    && inside != Path::new(".git")
                {
                    scan.ignored.list(paths::as_bytes(inside), Listed::Folder);
                }
            }
            caller.git().with(settings)
        }
        CallerKind::Plain => {
            let folder = tempfile::tempdir().map_err(|source| {
                Error::io(Kind::WorkspaceInvalid, "cannot make a temporary folder", source)
            })?;
            let at = folder.path().join("git");
            let init = ["init", "-q", "--bare", "--template="];
            let init: Vec<OsString> =
                init.iter().map(OsString::from).chain([at.clone().into()]).collect();
            caller.bare_git().must("make an empty repository", init, b"", stop)?;
            _empty = Some(folder);
            let mut tree = OsString::from("--work-tree=");
            tree.push(&caller.root);
            caller.git().with([git_dir(&at), tree]).with(settings)
        }
    };
    if let Some(file) = &excludes {
        scan.ignored.add_general_rules(&read_rules(file));
    }
    list_ignored(&mut scan.ignored, &git, b"", stop)?;
    walk(caller, &mut scan, stop)?;
    Ok(scan)
}

/// One folder on the way.
struct Frame {
    names: std::vec::IntoIter<CString>,
    standing: Standing,
    /// Git listed the folder because all it holds is ignored, though no rule names the folder.
    covered: bool,
    recorded: bool,
    anything: bool,
}

fn walk(caller: &Caller, scan: &mut Scan, stop: Stop<'_>) -> Result<()> {
    let mut descent = Descent::open(&caller.root)?;
    let mut frames = vec![open_frame(&descent, caller, scan, Standing::Recorded, false, stop)?];
    while let Some(frame) = frames.last_mut() {
        let Some(name) = frame.names.next() else {
            close_frame(&mut frames, &mut descent, scan)?;
            continue;
        };
        if stop() {
            return Err(interrupted());
        }
        let at_root = descent.depth() == 0;
        if at_root && is_outside(name.to_bytes()) {
            continue;
        }
        frame.anything = true;
        if name.as_c_str() == c".git" {
            continue;
        }
        let stat = descent.read_stat(&name)?;
        let is = if kind_of(&stat) == Sort::Folder { Listed::Folder } else { Listed::File };
        let path = paths::join(descent.path(), name.to_bytes());
        let mut standing = scan.ignored.standing(&path, is, frame.standing);
        let mut covered = frame.covered;
        if is == Listed::Folder
            && standing == Standing::Ignored
            && frame.standing == Standing::Recorded
            && !scan.ignored.matches_rules(&path, is)
        {
            // A new file in it need not be ignored: what it holds is listed one by one.
            scan.ignored.unlist_folder(&path);
            standing = Standing::Recorded;
            covered = true;
        }
        if covered && is == Listed::File && standing == Standing::Recorded {
            scan.ignored.list(&path, Listed::File);
            standing = Standing::Ignored;
        }
        match (is, standing) {
            (_, Standing::Ignored) => {}
            (Listed::File, _) => frame.recorded = true,
            (Listed::Folder, _) => {
                descent.enter(&name)?;
                let frame = open_frame(&descent, caller, scan, standing, covered, stop)?;
                frames.push(frame);
            }
        }
    }
    Ok(())
}

fn open_frame(
    descent: &Descent,
    caller: &Caller,
    scan: &mut Scan,
    standing: Standing,
    covered: bool,
    stop: Stop<'_>,
) -> Result<Frame> {
    let names = descent.read_names()?;
    let has = |name: &[u8]| names.binary_search_by(|n| n.to_bytes().cmp(name)).is_ok();
    let mut rules = Vec::new();
    if descent.depth() > 0 && has(b".git") {
        let folder = descent.path().to_vec();
        let place = caller.root.join(paths::as_path(&folder));
        let git = caller.git().with([OsString::from("-C"), place.into()]);
        // A repository of its own that git cannot read still has its files.
        if list_ignored(&mut scan.ignored, &git, &folder, stop).is_ok() {
            let asked = ["rev-parse", "--path-format=absolute", "--git-path", "info/exclude"];
            let exclude = git.run(asked, b"", stop)?;
            rules = read_rules(paths::as_path(exclude.line()));
            rules.push(b'\n');
        }
        scan.nested.push(folder);
    }
    if has(b".gitignore") && standing != Standing::Mixed {
        let mut text = Vec::new();
        if let Ok(file) = descent.open_file(c".gitignore")
            && file.metadata().is_ok_and(|found| found.is_file())
        {
            let _ = file.take(RULES_MAX).read_to_end(&mut text);
        }
        rules.extend_from_slice(&text);
    }
    if rules.iter().any(|byte| !byte.is_ascii_whitespace()) {
        scan.ignored.add_rules(descent.path(), &rules);
    }
    let names = names.into_iter();
    Ok(Frame { names, standing, covered, recorded: false, anything: false })
}

fn close_frame(frames: &mut Vec<Frame>, descent: &mut Descent, scan: &mut Scan) -> Result<()> {
    let Some(done) = frames.pop() else { return Ok(()) };
    let mut recorded = done.recorded;
    if !recorded && descent.depth() > 0 && done.standing == Standing::Recorded {
        if done.anything {
            scan.ignored.note_hollow(descent.path());
        } else {
            scan.ignored.note_empty(descent.path());
        }
        let content = if done.anything { Content::IgnoredAlone } else { Content::Nothing };
        recorded = scan.ignored.records_folder(descent.path(), content);
    }
    if let Some(above) = frames.last_mut() {
        above.recorded |= recorded;
    }
    descent.leave()
}

/// Adds git's own lists below a folder: what is ignored, and what is tracked all the same.
fn list_ignored(ignored: &mut Ignored, git: &Git, folder: &[u8], stop: Stop<'_>) -> Result<()> {
    let doing = "list the ignored files";
    let arguments = ["ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory"];
    for path in git.must(doing, arguments, b"", stop)?.stdout.split(|byte| *byte == 0) {
        match path.strip_suffix(b"/") {
            _ if path.is_empty() => {}
            Some(path) => ignored.list(&paths::join(folder, path), Listed::Folder),
            None => ignored.list(&paths::join(folder, path), Listed::File),
        }
    }
    let arguments = ["ls-files", "-z", "-c", "-i", "--exclude-standard"];
    for path in git.must(doing, arguments, b"", stop)?.stdout.split(|byte| *byte == 0) {
        if !path.is_empty() {
            ignored.keep(&paths::join(folder, path));
        }
    }
    Ok(())
}

/// Returns the person's own rules file, where git would look for it.
fn read_excludes_file(caller: &Caller, stop: Stop<'_>) -> Result<Option<PathBuf>> {
    let arguments = ["config", "--type=path", "--get", "core.excludesFile"];
    let named = caller.personal_git().run(arguments, b"", stop)?;
    if named.code == 0 && !named.line().is_empty() {
        return Ok(Some(caller.root.join(paths::as_path(named.line()))));
    }
    let around = caller.surroundings();
    let folder = around
        .xdg_config_home
        .clone()
        .or_else(|| around.home.as_ref().map(|home| home.join(".config")));
    Ok(folder.map(|folder| folder.join("git/ignore")).filter(|file| file.is_file()))
}

fn read_rules(file: &Path) -> Vec<u8> {
    foreign::read_start(file, Links::Follow, RULES_MAX).unwrap_or_default()
}
