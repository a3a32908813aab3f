//! The paths of the machine that a loop shows in its zones by name, and which of them no command may see.

use crate::error::{Error, Kind, Result};
use crate::workspace::secrets::is_secret_name;
use crate::zone::kind::{Shown, exposed, shows_too_much};
use crate::zone::system;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where programs keep who somebody is, below a HOME, beside what is called like a secret anyway: the homes of
/// agents, of clouds, of git and of CI tools.
const IDENTITIES: [&str; 22] = [
    ".aider",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/claude",
    ".config/composer",
    ".config/configstore",
    ".config/containers",
    ".config/gcloud",
    ".config/gh",
    ".config/git",
    ".config/glab-cli",
    ".config/goose",
    ".config/opencode",
    ".config/rclone",
    ".cursor",
    ".gemini",
    ".gitconfig",
    ".local/share/keyrings",
    ".local/share/opencode",
    ".npmrc",
    ".password-store",
];

/// What paths are looked at against.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// The caller's HOME.
    pub home: Option<&'a Path>,
    /// The caller's tree.
    pub tree: &'a Path,
    /// Where loopexec works.
    pub caches: &'a Path,
}

/// Finds the paths that a key of the loop file names.
///
/// # Errors
/// `config_invalid` for a path that is not there, is no folder or file, or shows more than what it names;
/// `credential_scope_invalid` for one that holds, or lies in, what says who somebody is.
pub fn resolve(key: &str, texts: &[String], host: Host<'_>) -> Result<Vec<PathBuf>> {
    texts.iter().map(|text| one(key, text, host)).collect()
}

/// Returns what a command has to see because its scripts lie outside of the tree, and why what it does not see is
/// kept from it: a script's folder, for it needs what lies beside it, or where that holds more than a zone may show,
/// the script alone.
pub fn with_scripts(
    name: &str,
    scripts: Vec<PathBuf>,
    host: Host<'_>,
) -> (Vec<PathBuf>, Vec<String>) {
    let may_be_shown = |path: &Path| one(name, &path.to_string_lossy(), host);
    let (mut found, mut hidden) = (Vec::new(), Vec::new());
    for script in scripts {
        if script.starts_with(host.tree) || system::is_shown(&script) {
            continue;
        }
        // `/srv` and its like are nobody's own, and no more is what everybody may write to.
        let own = script.parent().filter(|folder| {
            let open_to_all =
                fs::symlink_metadata(folder).map_or(true, |found| found.mode() & 0o002 != 0);
            folder.components().count() > 2 && !open_to_all
        });
        let folder = own.and_then(|folder| may_be_shown(folder).ok());
        match folder.map_or_else(|| may_be_shown(&script), Ok) {
            Ok(path) if !found.contains(&path) => found.push(path),
            Ok(_) => {}
            Err(error) => hidden.push(format!("not shown in its zone: {}", error.what)),
        }
    }
    (found, hidden)
}

/// Makes sure that no command can change which files another one is shown, or those that check its work: `scripts`
/// are what check, sealed check and judge run outside of the tree.
///
/// # Errors
/// `config_invalid` for a path that is shown, or a script, inside of one that takes writes.
pub fn keep_apart(rooms: [&Shown; 2], scripts: &[PathBuf]) -> Result<()> {
    let shown = rooms.into_iter().flat_map(|room| room.read.iter().chain(&room.write));
    // A name may lead there too.
    let real: Vec<PathBuf> =
        scripts.iter().filter_map(|script| fs::canonicalize(script).ok()).collect();
    let is_written = |script: &&PathBuf| {
        rooms.iter().any(|room| room.write.iter().any(|written| *script == written))
    };
    let paths = shown.chain(scripts).chain(&real).map(PathBuf::as_path);
    let found = exposed(paths, rooms);
    let itself = scripts.iter().chain(&real).find(is_written);
    let Some((path, written)) = found.or(itself.map(|script| (script.as_path(), script.as_path())))
    else {
        return Ok(());
    };
    let what = format!(
        "a command may write to {}, and so put something else in the place of {}",
        written.display(),
        path.display()
    );
    let hint = "what `isolation.agent.write` and `isolation.exec.write` name holds nothing that is shown by another name, and no script that checks";
    Err(Error::new(Kind::ConfigInvalid, what).hint(hint))
}

fn one(key: &str, text: &str, host: Host<'_>) -> Result<PathBuf> {
    let refused = |what: &str, hint: &str| {
        Error::new(Kind::ConfigInvalid, format!("`{key}` names {text}, {what}")).hint(hint)
    };
    let path = match text.strip_prefix("~/") {
        None => PathBuf::from(text),
        Some(rest) => host
            .home
            .map(|home| home.join(rest))
            .ok_or_else(|| refused("and there is no HOME here", "write the path from the root"))?,
    };
    let path: PathBuf = path.components().collect();
    let real = fs::canonicalize(&path)
        .map_err(|e| refused(&format!("which cannot be read: {e}"), "make it, or take it out"))?;
    if real != path {
        let hint = format!("write {}, where it really is", real.display());
        return Err(refused("which is reached through a link", &hint));
    }
    let found = fs::metadata(&path)
        .map_err(|e| refused(&format!("which cannot be read: {e}"), "make it, or take it out"))?;
    if !found.is_dir() && !found.is_file() {
        let hint = "a socket or a device leads out of the zone: see `check.services` for services";
        return Err(refused("which is neither a folder nor a file", hint));
    }
    let overlaps = |other: &Path| path.starts_with(other) || other.starts_with(&path);
    if shows_too_much(&path, host.home) {
        return Err(refused("which holds your whole HOME, or all there is", "name what is needed"));
    }
    if ["/proc", "/sys", "/dev", "/run"].iter().any(|place| path.starts_with(place)) {
        return Err(refused("which is the machine's own", "a zone has its own"));
    }
    if system::is_shown(&path) {
        return Err(refused("which is part of the system", "a zone shows it as it is, read-only"));
    }
    if overlaps(host.tree) {
        return Err(refused("which overlaps the tree", "the tree is there, and takes writes"));
    }
    if overlaps(host.caches) {
        return Err(refused("where runs have their workspaces", "take it out"));
    }
    if let Some(secret) = identity(&path, host.home) {
        let what = format!("`{key}` names {text}: {} says who somebody is", secret.display());
        return Err(Error::new(Kind::CredentialScopeInvalid, what).hint(
            "pass the one credential that is needed by name (exec.pass_env), or copy what is needed into a folder of its own",
        ));
    }
    Ok(path)
}

/// Returns the path that holds somebody's identity: the one that is named, one that it lies in, or one in it.
fn identity(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let called = path.ancestors().find(|part| {
        part.file_name().is_some_and(|name| is_secret_name(name.as_bytes()))
            && home.is_none_or(|home| !home.starts_with(part))
    });
    let known = home.into_iter().flat_map(|home| IDENTITIES.map(|name| home.join(name)));
    let known = known
        .filter(|known| known.symlink_metadata().is_ok())
        .find(|known| path.starts_with(known) || known.starts_with(path));
    let inside = || {
        let entries = fs::read_dir(path).ok()?;
        let secret = entries.flatten().find(|entry| is_secret_name(entry.file_name().as_bytes()));
        secret.map(|entry| entry.path())
    };
    called.map(Path::to_owned).or(known).or_else(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_writes_holds_nothing_else_that_is_shown() {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let room = |read: &[&str], write: &[&str]| Shown { read: paths(read), write: paths(write) };
        let apart = |agent: &Shown, exec: &Shown, scripts: &[&str]| {
            keep_apart([agent, exec], &paths(scripts)).map_err(|error| error.what)
        };
        let out = room(&["/srv"], &["/srv/out"]);
        apart(&out, &out, &["/srv/check/run.sh"]).unwrap();
        for exec in [room(&["/srv/out/x"], &[]), room(&[], &["/srv/out/x"])] {
            for said in [apart(&out, &exec, &[]), apart(&exec, &out, &[])] {
                assert!(said.unwrap_err().contains("in the place of /srv/out/x"));
            }
        }
        assert!(apart(&out, &room(&[], &[]), &["/srv/out/check.sh"]).is_err());
        assert!(apart(&room(&[], &["/srv/a.sh"]), &room(&[], &[]), &["/srv/a.sh"]).is_err());
    }

    #[test]
    fn paths_are_shown_by_name_and_never_more_than_they_say() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| top.join(name);
        for made in ["home/data", "home/.aws", "home/.config/gh", "home/mixed", "tree/a", "caches"]
        {
            fs::create_dir_all(at(made)).unwrap();
        }
        fs::write(at("home/mixed/.netrc"), "").unwrap();
        fs::write(at("home/data/table.csv"), "").unwrap();
        std::os::unix::fs::symlink(at("home/data"), at("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let (home, tree, caches) = (at("home"), at("tree"), at("caches"));
        let host = Host { home: Some(&home), tree: &tree, caches: &caches };
        let name = |path: &str| at(path).display().to_string();
        let resolve = |text: String| resolve("isolation.exec.read", &[text], host);
        assert_eq!(resolve("~/data".into()).unwrap(), [at("home/data")]);
        assert_eq!(resolve(name("home/data/table.csv")).unwrap(), [at("home/data/table.csv")]);
        for (text, kind, word) in [
            (name("nothing"), Kind::ConfigInvalid, "cannot be read"),
            (name("link"), Kind::ConfigInvalid, "through a link"),
            (name("socket"), Kind::ConfigInvalid, "neither a folder nor a file"),
            (name("home"), Kind::ConfigInvalid, "your whole HOME"),
            ("/".into(), Kind::ConfigInvalid, "your whole HOME"),
            ("/usr".into(), Kind::ConfigInvalid, "part of the system"),
            ("/proc/1".into(), Kind::ConfigInvalid, "the machine's own"),
            (name("tree/a"), Kind::ConfigInvalid, "overlaps the tree"),
            (name("caches"), Kind::ConfigInvalid, "have their workspaces"),
            ("~/.aws".into(), Kind::CredentialScopeInvalid, ".aws"),
            ("~/.config".into(), Kind::CredentialScopeInvalid, ".config/gh"),
            ("~/.config/gh".into(), Kind::CredentialScopeInvalid, ".config/gh"),
            ("~/mixed".into(), Kind::CredentialScopeInvalid, ".netrc"),
        ] {
            let error = resolve(text.clone()).unwrap_err();
            assert_eq!(error.kind, kind, "{text}: {}", error.what);
            assert!(error.what.contains(word), "{text}: {}", error.what);
        }
    }
}
