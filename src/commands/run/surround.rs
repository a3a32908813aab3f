//! What a command of the loop is told of the world: its environment and its argv.

use super::site::Ground;
use crate::config::script::script_paths;
use crate::config::spec::LoopSpec;
use crate::domain::command::{CommandSpec, Run};
use crate::domain::observation::{CheckRun, Place};
use crate::error::{Error, Kind, Result};
use crate::foreign::{self, Links};
use crate::process::environment::{Surroundings, Variables};
use crate::process::shell::Shells;
use crate::process::toolchains::Toolchains;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that say where things of ours are, whatever the caller has.
const PLACES: [&str; 9] = [
    "HOME",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Variables that say where interpreters, loaders and build tools find what they load.
const STEERING: [&str; 12] = [
    "CLASSPATH",
    "CPATH",
    "GEM_PATH",
    "GOFLAGS",
    "GOPATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "NODE_PATH",
    "PERL5LIB",
    "PKG_CONFIG_PATH",
    "PYTHONPATH",
    "RUBYLIB",
];

/// Bytes of a script of the check that are searched for names of variables.
const SCRIPT_READ: u64 = 64 * 1024;

/// What commands are told.
#[derive(Debug)]
pub struct Surround {
    /// The variables loopexec was started with.
    pub caller: Variables,
    /// The tools found at t0.
    pub toolchains: Toolchains,
    /// The shells found at t0.
    pub shells: Shells,
    /// The private TMPDIR; emptied before each command.
    pub tmp: PathBuf,
}

/// A complete environment, growing until a command starts.
#[derive(Debug, Default)]
pub struct Env(BTreeMap<OsString, OsString>);

impl Env {
    /// Returns the value of a variable, where it is text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(OsStr::new(name)).and_then(|value| value.to_str())
    }

    /// Sets variables.
    pub fn extend(&mut self, pairs: Vec<(String, String)>) {
        self.0.extend(pairs.into_iter().map(|(name, value)| (name.into(), value.into())));
    }

    /// Returns all pairs, sorted by name.
    pub fn into_vec(self) -> Vec<(OsString, OsString)> {
        self.0.into_iter().collect()
    }
}

impl Surround {
    /// Returns the argv of a command.
    ///
    /// # Errors
    /// `config_invalid` when no shell can run it.
    pub fn argv(&self, command: &CommandSpec) -> Result<Vec<OsString>> {
        self.shells.argv(&command.run)
    }

    /// Returns the environment of the check at a place.
    ///
    /// # Errors
    /// `workspace_invalid` when the temporary folder cannot be made.
    pub(super) fn environment(
        &self,
        place: Place,
        ground: &Ground,
        command: &CommandSpec,
        own: &BTreeMap<String, String>,
    ) -> Result<Env> {
        self.empty_tmp()?;
        let home: &Path = &ground.home;
        let around = Surroundings {
            caller: &self.caller,
            home,
            tmp: &self.tmp,
            toolchains: &self.toolchains,
            own,
        };
        let hermetic: BTreeMap<OsString, OsString> =
            around.environment(command).into_iter().collect();
        let mut all = BTreeMap::new();
        match place {
            Place::Workspace
            | Place::Copy
            | Place::RealCopy
            | Place::Canary
            | Place::CallerNetwork => {
                return Ok(Env(hermetic));
            }
            Place::CallerEnvironment => {
                all.extend(self.own_of_the_caller(&command.pass_env));
                for name in PLACES {
                    all.remove(OsStr::new(name));
                    let ours = hermetic.get(OsStr::new(name)).cloned();
                    all.extend(ours.map(|value| (OsString::from(name), value)));
                }
            }
            Place::CallerHome => all.extend(self.own_of_the_caller(&command.pass_env)),
        }
        // Bytecode beside modules outside of the tree would be a trace in the caller's places, and a change of what
        // the check of another run uses.
        all.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
        let set = command.env.iter().map(|(name, value)| (name.into(), value.into()));
        all.extend(set);
        Ok(Env(all))
    }

    /// Returns the caller's variables without what belongs to a CI platform: no test needs a token
    /// of the job or the file in which a step says what the next ones do.
    fn own_of_the_caller<'a>(
        &'a self,
        passed: &'a [String],
    ) -> impl Iterator<Item = (OsString, OsString)> + 'a {
        self.caller
            .iter()
            .filter(move |(name, _)| {
                let name = name.to_string_lossy();
                passed.iter().any(|known| *known == name) || !belongs_to_a_platform(&name)
            })
            .map(|(name, value)| (name.clone(), value.clone()))
    }

    fn empty_tmp(&self) -> Result<()> {
        let failed =
            |e| Error::io(Kind::WorkspaceInvalid, "cannot empty the private temporary folder", e);
        if is_clean_folder(&self.tmp) {
            return Ok(());
        }
        crate::workspace::copies::remove(&self.tmp)?;
        std::fs::create_dir_all(&self.tmp).map_err(failed)
    }

    /// Names the caller's variables that the check's environment leaves out and that its text, its
    /// own scripts below `tree` or what it printed mention; where none is, those that steer what
    /// interpreters find.
    pub fn missing_variables(
        &self,
        spec: &LoopSpec,
        tree: &Path,
        runs: &[CheckRun],
    ) -> Vec<String> {
        let mut text = text_of(&spec.check.command);
        for script in script_paths(&spec.check.command) {
            text.push('\n');
            text.push_str(&read_start(&tree.join(script)));
        }
        for run in runs {
            text.push('\n');
            text.push_str(&run.run.tail);
            let results = &run.results;
            for part in results.broken.iter().chain(results.failures.iter().map(|f| &f.message)) {
                text.push('\n');
                text.push_str(part);
            }
        }
        let words: BTreeSet<&str> =
            text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
        let passed = &spec.check.command.pass_env;
        let left_out = |name: &&str| {
            !PLACES.contains(name)
                && *name != "PATH"
                && !passed.iter().any(|p| p == name)
                && !spec.check.command.env.contains_key(*name)
        };
        let names = || self.caller.keys().filter_map(|name| name.to_str()).filter(left_out);
        let mentioned = |name: &&str| name.len() > 2 && words.contains(name);
        let found: Vec<String> = names().filter(mentioned).map(str::to_owned).collect();
        match found.is_empty() {
            false => found,
            true => names().filter(|name| STEERING.contains(name)).map(str::to_owned).collect(),
        }
    }
}

/// Says whether a variable is a CI platform's own: its tokens, its command files, its inputs.
fn belongs_to_a_platform(name: &str) -> bool {
    const NAMES: [&str; 26] = [
        "ACTIONS_CACHE_URL",
        "ACTIONS_RESULTS_URL",
        "ACTIONS_RUNTIME_TOKEN",
        "ACTIONS_RUNTIME_URL",
        "BITBUCKET_STEP_OIDC_TOKEN",
        "BUILDKITE_AGENT_ACCESS_TOKEN",
        "CIRCLE_OIDC_TOKEN",
        "CIRCLE_OIDC_TOKEN_V2",
        "CI_DEPENDENCY_PROXY_PASSWORD",
        "CI_DEPLOY_PASSWORD",
        "CI_JOB_JWT",
        "CI_JOB_JWT_V1",
        "CI_JOB_JWT_V2",
        "CI_JOB_TOKEN",
        "CI_REGISTRY_PASSWORD",
        "CI_REPOSITORY_URL",
        "GH_TOKEN",
        "GITHUB_ARTIFACTS",
        "GITHUB_ENV",
        "GITHUB_OUTPUT",
        "GITHUB_PATH",
        "GITHUB_STATE",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_TOKEN",
        "LOOPEXEC_GITLAB_TOKEN",
        "SYSTEM_ACCESSTOKEN",
    ];
    NAMES.contains(&name)
        || ["ACTIONS_ID_TOKEN_", "INPUT_", "STATE_"].iter().any(|start| name.starts_with(start))
}

/// Returns the start of a file as text; nothing where it cannot be read.
fn read_start(path: &Path) -> String {
    let read = foreign::read_start(path, Links::Follow, SCRIPT_READ);
    read.map(|start| String::from_utf8_lossy(&start).into_owned()).unwrap_or_default()
}

/// Tells whether a folder of ours is empty and as it was made.
fn is_clean_folder(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let whole = std::fs::symlink_metadata(path).is_ok_and(|found| {
        let own = nix::unistd::geteuid().as_raw();
        found.is_dir() && found.uid() == own && found.mode() & 0o7722 == 0o700
    });
    whole && std::fs::read_dir(path).is_ok_and(|mut listing| listing.next().is_none())
}

/// Returns the text of a command, as its runner is recognised by.
pub fn text_of(command: &CommandSpec) -> String {
    match &command.run {
        Run::Script { text, .. } => text.clone(),
        Run::Argv(words) => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_became_a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("check.sh"), "test -n $WANTED").unwrap();
        std::os::unix::fs::symlink(at("check.sh"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let paths = ["check.sh", "link", "pipe", "zero", "nothing"].map(at);
        std::thread::spawn(move || tell.send(paths.map(|path| read_start(&path))));
        let told = told.recv_timeout(std::time::Duration::from_secs(20)).expect("it waits");
        assert_eq!(told, ["test -n $WANTED", "test -n $WANTED", "", "", ""]);
    }
}
