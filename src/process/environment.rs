//! The hermetic but usable environment of a command: cleared, then what is listed here.

use super::toolchains::Toolchains;
use crate::domain::command::CommandSpec;
use crate::error::{Error, Kind, Result};
use crate::foreign;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// Variables as a process has them.
pub type Variables = BTreeMap<OsString, OsString>;

/// What every command gets.
const FIXED: [(&str, &str); 14] = [
    ("CI", "true"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONHASHSEED", "0"),
    ("SHELL", "/bin/sh"),
    ("TERM", "dumb"),
    ("TZ", "UTC"),
];

/// The caller's variables that pass unasked: who one is, and where certificates lie.
const PASSED: [&str; 11] = [
    "AWS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "LOGNAME",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "USER",
];

/// Variable and folder below the private HOME.
const XDG: [(&str, &str); 5] = [
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_RUNTIME_DIR", ".run"),
    ("XDG_STATE_HOME", ".local/state"),
];

/// What a command's environment is made from.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The variables loopexec was started with.
    pub caller: &'a Variables,
    /// The private HOME, made by `write_home`, as the command sees it.
    pub home: &'a Path,
    /// The private TMPDIR, as the command sees it; it must exist.
    pub tmp: &'a Path,
    /// The tools found at t0.
    pub toolchains: &'a Toolchains,
    /// loopexec's own variables (`LOOPEXEC_…`); nothing overrides them.
    pub own: &'a BTreeMap<String, String>,
}

impl Surroundings<'_> {
    /// Returns the complete environment of a command, sorted by name.
    ///
    /// Later ones win: fixed values, certificates, toolchains, private folders, `pass_env`, `env`,
    /// loopexec's own.
    pub fn environment(&self, spec: &CommandSpec) -> Vec<(OsString, OsString)> {
        self.compose(&spec.pass_env, &spec.env).into_iter().collect()
    }

    fn compose(&self, pass: &[String], env: &BTreeMap<String, String>) -> Variables {
        let mut all: Variables = FIXED.iter().map(|(k, v)| (k.into(), v.into())).collect();
        let passed = |name: &str| Some((name.into(), self.caller.get(OsStr::new(name))?.clone()));
        all.extend(PASSED.iter().filter_map(|name| passed(name)));
        all.extend(self.toolchains.env.iter().map(|(k, v)| (k.into(), v.into())));
        // One folder that a path cannot hold must not cost all others.
        let can_stand = |folder: &&PathBuf| !folder.as_os_str().as_encoded_bytes().contains(&b':');
        let path = std::env::join_paths(self.toolchains.path.iter().filter(can_stand));
        all.insert("PATH".into(), path.unwrap_or_default());
        all.insert("HOME".into(), self.home.into());
        for name in ["TMPDIR", "TMP", "TEMP"] {
            all.insert(name.into(), self.tmp.into());
        }
        all.extend(XDG.iter().map(|(name, folder)| (name.into(), self.home.join(folder).into())));
        all.extend(pass.iter().filter_map(|name| passed(name)));
        all.extend(env.iter().map(|(k, v)| (k.into(), v.into())));
        all.extend(self.own.iter().map(|(k, v)| (k.into(), v.into())));
        all
    }
}

/// Makes a private HOME: its XDG folders and a git identity.
///
/// Errors: `workspace_invalid`, or `storage_exhausted` on a full disk.
pub fn write_home(home: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(home)?;
        // A command of a killed run may have left links here.
        for (_, folder) in XDG {
            foreign::make_folders(home, Path::new(folder))?;
        }
        // Programs refuse a runtime folder that others may enter.
        fs::set_permissions(home.join(".run"), fs::Permissions::from_mode(0o700))?;
        foreign::write_anew(
            &home.join(".gitconfig"),
            b"[user]\n\tname = loopexec\n\temail = loopexec@localhost.invalid\n\
             [init]\n\tdefaultBranch = main\n",
        )
    };
    write().map_err(|error| {
        let what = format!("cannot make the private home {}", home.display());
        Error::io(Kind::WorkspaceInvalid, what, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(k, v)| (k.into(), v.into())).collect()
    }

    #[test]
    fn nothing_of_the_caller_passes_unasked() {
        let caller = variables(&[
            ("HOME", "/home/me"),
            ("PATH", "/evil"),
            ("GITHUB_TOKEN", "secret-1"),
            ("AWS_SECRET_ACCESS_KEY", "secret-2"),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "secret-3"),
            ("LD_PRELOAD", "/evil.so"),
            ("PYTHONPATH", "/evil"),
            ("BASH_ENV", "/evil"),
            ("LOOPEXEC_GOAL", "forged"),
            ("TZ", "Mars/Olympus"),
            ("WANTED", "yes"),
        ]);
        let own = BTreeMap::from([("LOOPEXEC_GOAL".to_owned(), "ours".to_owned())]);
        let toolchains = Toolchains {
            path: vec!["/t/bin".into(), "/a:b".into(), "/bin".into()],
            ..Default::default()
        };
        let (home, tmp) = (Path::new("/private"), Path::new("/private-tmp"));
        let around =
            Surroundings { caller: &caller, home, tmp, toolchains: &toolchains, own: &own };
        let bare = around.compose(&[], &BTreeMap::new());
        let get = |all: &Variables, name: &str| all.get(OsStr::new(name)).cloned();
        assert_eq!(get(&bare, "PATH").unwrap(), "/t/bin:/bin");
        assert_eq!(get(&bare, "HOME").unwrap(), "/private");
        assert_eq!(get(&bare, "TZ").unwrap(), "UTC");
        assert_eq!(get(&bare, "LOOPEXEC_GOAL").unwrap(), "ours");
        for name in ["GITHUB_TOKEN", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "WANTED"] {
            assert_eq!(get(&bare, name), None, "{name}");
        }
        assert!(bare.values().all(|value| !value.to_string_lossy().contains("secret")));

        let env = BTreeMap::from([
            ("TZ".to_owned(), "Asia/Tokyo".to_owned()),
            ("LOOPEXEC_GOAL".to_owned(), "forged".to_owned()),
        ]);
        let pass = ["WANTED".to_owned(), "GITHUB_TOKEN".to_owned(), "ABSENT".to_owned()];
        let asked = around.compose(&pass, &env);
        assert_eq!(get(&asked, "WANTED").unwrap(), "yes");
        assert_eq!(get(&asked, "GITHUB_TOKEN").unwrap(), "secret-1");
        assert_eq!(get(&asked, "ABSENT"), None);
        assert_eq!(get(&asked, "TZ").unwrap(), "Asia/Tokyo");
        assert_eq!(get(&asked, "LOOPEXEC_GOAL").unwrap(), "ours");
    }

    #[test]
    fn a_home_can_be_made_twice() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        write_home(&home).unwrap();
        write_home(&home).unwrap();
        assert!(home.join(".local/share").is_dir());
        assert!(fs::read_to_string(home.join(".gitconfig")).unwrap().contains("localhost.invalid"));
    }

    #[test]
    fn links_that_a_command_left_in_a_home_lead_nowhere() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write_home(&at("home")).unwrap();
        fs::write(at("victim"), "mine").unwrap();
        fs::create_dir(at("elsewhere")).unwrap();
        for (name, to) in [(".gitconfig", "victim"), (".local", "elsewhere"), (".run", "elsewhere")]
        {
            let name = at("home").join(name);
            fs::remove_dir_all(&name).or_else(|_| fs::remove_file(&name)).unwrap();
            symlink(at(to), name).unwrap();
        }
        write_home(&at("home")).unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "mine");
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0);
        assert!(at("home/.local/share").is_dir() && at("home/.gitconfig").is_file());
    }
}
