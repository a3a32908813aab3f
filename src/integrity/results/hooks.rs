//! The plugins and hooks that runners load, and the variables that make them do so.
//!
//! Each hook writes JSON lines into a folder of its own (`jsonl` reads them) and leaves the run as
//! it is when anything about it does not fit.

use crate::domain::results::Runner;
use crate::error::{Error, Kind, Result};
use crate::foreign::{self, Links};
use std::fs::DirBuilder;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Where the hooks write; set for every runner.
pub(super) const OUT_VARIABLE: &str = "LOOPEXEC_RESULTS";

const PYTHON: [(&str, &str); 4] = [
    ("sitecustomize.py", include_str!("../assets/sitecustomize.py")),
    ("loopexec_results.py", include_str!("../assets/loopexec_results.py")),
    ("loopexec_pytest.py", include_str!("../assets/loopexec_pytest.py")),
    ("loopexec_unittest.py", include_str!("../assets/loopexec_unittest.py")),
];
const NODE: [(&str, &str); 8] = [
    ("hook.cjs", include_str!("../assets/hook.cjs")),
    ("reporter.mjs", include_str!("../assets/reporter.mjs")),
    ("lines.cjs", include_str!("../assets/lines.cjs")),
    ("runners.cjs", include_str!("../assets/runners.cjs")),
    ("jest.cjs", include_str!("../assets/jest.cjs")),
    ("mocha.cjs", include_str!("../assets/mocha.cjs")),
    ("vite.mjs", include_str!("../assets/vite.mjs")),
    ("vitest.mjs", include_str!("../assets/vitest.mjs")),
];
const RUBY: [(&str, &str); 1] =
    [("loopexec_rspec.rb", include_str!("../assets/loopexec_rspec.rb"))];
const PHP: [(&str, &str); 2] = [
    ("loopexec.ini", include_str!("../assets/loopexec.ini")),
    ("loopexec_phpunit.php", include_str!("../assets/loopexec_phpunit.php")),
];
const PYTHONS: [Runner; 2] = [Runner::Pytest, Runner::Unittest];
const NODES: [Runner; 4] = [Runner::Node, Runner::Jest, Runner::Vitest, Runner::Mocha];

/// The hooks as they stand in a private folder.
#[derive(Debug)]
pub(super) struct Hooks {
    dir: PathBuf,
    runners: Vec<Runner>,
}

impl Hooks {
    /// Writes what `runners` need into `dir`, with an empty folder for what the hooks will say.
    ///
    /// What an earlier run left there is used again only where every byte and name is ours.
    ///
    /// # Errors
    /// A folder or file that cannot be written (`workspace_invalid`, or `storage_exhausted`).
    pub(super) fn write(dir: &Path, runners: &[Runner]) -> Result<Self> {
        let has = |wanted: &[Runner]| wanted.iter().any(|runner| runners.contains(runner));
        // The command may run as another user: its folder is open to all, the way to it is not ours.
        if std::fs::symlink_metadata(dir).is_ok_and(|found| !found.is_dir()) {
            // A link that an earlier command put there leads to what is not ours.
            remove_dir(dir)?;
        }
        make_dir(dir, 0o755)?;
        remove_dir(&dir.join("out"))?;
        make_dir(&dir.join("out"), 0o1777)?;
        let folders = [
            ("python", &PYTHON[..], has(&PYTHONS)),
            ("node", &NODE[..], has(&NODES)),
            ("ruby", &RUBY[..], has(&[Runner::Rspec])),
            ("php", &PHP[..], has(&[Runner::Phpunit])),
        ];
        for (folder, files, wanted) in folders {
            if wanted && !is_whole(&dir.join(folder), files) {
                remove_dir(&dir.join(folder))?;
                make_dir(&dir.join(folder), 0o755)?;
                for (name, text) in files {
                    write_file(&dir.join(folder).join(name), text)?;
                }
            }
        }
        Ok(Self { dir: dir.to_path_buf(), runners: runners.to_vec() })
    }

    /// Returns the folder that the hooks write into.
    pub(super) fn out(&self) -> PathBuf {
        self.dir.join("out")
    }

    /// Lists what the hooks wrote, at most `most` files; nothing where the folder is not the one that we made: a
    /// link would lead to what is no result.
    pub(super) fn written(&self, most: usize) -> Vec<PathBuf> {
        if !self.is_in_place() {
            return Vec::new();
        }
        let entries = std::fs::read_dir(self.out()).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).take(most).collect()
    }

    /// Says whether the folder that the hooks write into is one, and no link.
    pub(super) fn is_in_place(&self) -> bool {
        let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        is_folder(&self.dir) && is_folder(&self.out())
    }

    /// Returns the folder that programs of GoogleTest write into.
    pub(super) fn gtest(&self) -> PathBuf {
        self.out().join("gtest")
    }

    /// Returns the file that a program of GoogleTest makes when it begins and removes when it ends.
    pub(super) fn premature(&self) -> PathBuf {
        self.out().join("premature")
    }

    /// Returns the variables to set; `base` gives the value that a variable has without us.
    pub(super) fn env(&self, base: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        let has = |runner: Runner| self.runners.contains(&runner);
        let any = |wanted: &[Runner]| wanted.iter().any(|runner| has(*runner));
        let folder = |name: &str| self.dir.join(name).display().to_string();
        let base = |name: &str| base(name).filter(|value| !value.is_empty());
        let mut env = Vec::new();
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        if any(&PYTHONS) || any(&NODES) || any(&[Runner::Rspec, Runner::Phpunit]) {
            set(OUT_VARIABLE, self.out().display().to_string());
        }
        if any(&PYTHONS) {
            let ours = folder("python");
            let path = base("PYTHONPATH").map_or(ours.clone(), |path| format!("{ours}:{path}"));
            set("PYTHONPATH", path);
            // tox passes only what it is told: 3 and 4 have a variable each for that.
            let pass = format!("PYTHONPATH {OUT_VARIABLE}");
            set("TOX_TESTENV_PASSENV", join(base("TOX_TESTENV_PASSENV"), ' ', &pass));
            let pass = format!("testenv.pass_env+=PYTHONPATH,{OUT_VARIABLE}");
            set("TOX_OVERRIDE", join(base("TOX_OVERRIDE"), ';', &pass));
        }
        if any(&NODES) {
            // A path with a space needs quotes inside NODE_OPTIONS; backslashes escape there.
            let hook = self.dir.join("node/hook.cjs").display().to_string();
            let hook = hook.replace('\\', "\\\\").replace('"', "\\\"");
            set("NODE_OPTIONS", join(base("NODE_OPTIONS"), ' ', &format!("--require=\"{hook}\"")));
        }
        if has(Runner::Rspec) {
            // A path with a space has no place in RUBYOPT.
            set("RUBYLIB", join(base("RUBYLIB"), ':', &folder("ruby")));
            set("RUBYOPT", join(base("RUBYOPT"), ' ', "-rloopexec_rspec"));
        }
        if has(Runner::Phpunit) {
            // An empty name stands for the folder that PHP reads without us.
            let before = base("PHP_INI_SCAN_DIR").unwrap_or_default();
            set("PHP_INI_SCAN_DIR", format!("{before}:{}", folder("php")));
            set("LOOPEXEC_PHP", folder("php/loopexec_phpunit.php"));
        }
        if has(Runner::Ctest) {
            set("CTEST_OUTPUT_ON_FAILURE", "1".to_owned());
            // A name that ends in a slash is a folder: each program writes a file of its own there.
            set("GTEST_OUTPUT", format!("xml:{}/", self.gtest().display()));
            set("TEST_PREMATURE_EXIT_FILE", self.premature().display().to_string());
        }
        if has(Runner::Go) {
            // `-json` would change `go list` and `go vet` too; `-test.v` is known to `go test` only.
            set("GOFLAGS", join(base("GOFLAGS"), ' ', "-test.v -count=1"));
        }
        if has(Runner::Nextest) {
            // The output of passing tests holds libtest's own word that they passed.
            let wanted = [
                ("NEXTEST_STATUS_LEVEL", "all"),
                ("NEXTEST_FINAL_STATUS_LEVEL", "none"),
                ("NEXTEST_SUCCESS_OUTPUT", "immediate"),
                ("NEXTEST_FAILURE_OUTPUT", "immediate"),
                ("NEXTEST_HIDE_PROGRESS_BAR", "1"),
            ];
            for (name, value) in wanted {
                set(name, value.to_owned());
            }
        }
        env
    }
}

fn join(base: Option<String>, with: char, ours: &str) -> String {
    base.map_or_else(|| ours.to_owned(), |base| format!("{base}{with}{ours}"))
}

/// Tells whether a folder holds these files, and nothing else: what ran before may have written
/// there.
fn is_whole(dir: &Path, files: &[(&str, &str)]) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = nix::unistd::geteuid().as_raw();
    let is_own = |found: &std::fs::Metadata| found.uid() == own && found.mode() & 0o022 == 0;
    let folder = std::fs::symlink_metadata(dir);
    let Ok(listing) = std::fs::read_dir(dir) else { return false };
    folder.is_ok_and(|found| found.is_dir() && is_own(&found) && found.mode() & 0o777 == 0o755)
        && listing.count() == files.len()
        && files.iter().all(|(name, text)| {
            foreign::open(&dir.join(name), Links::Refuse).is_ok_and(|mut file| {
                let same_size = file.metadata().is_ok_and(|found| {
                    found.len() == text.len() as u64
                        && is_own(&found)
                        && found.nlink() == 1
                        && found.mode() & 0o444 == 0o444
                });
                let mut bytes = Vec::new();
                same_size && file.read_to_end(&mut bytes).is_ok() && bytes == text.as_bytes()
            })
        })
}

fn remove_dir(dir: &Path) -> Result<()> {
    match std::fs::symlink_metadata(dir) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(found) if !found.is_dir() => std::fs::remove_file(dir),
        _ => std::fs::remove_dir_all(dir),
    }
    .map_err(|source| {
        Error::io(Kind::WorkspaceInvalid, format!("cannot empty {}", dir.display()), source)
    })
}

fn make_dir(dir: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |source| {
        Error::io(
            Kind::WorkspaceInvalid,
            format!("cannot make the folder {}", dir.display()),
            source,
        )
    };
    DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(failed)?;
    // The umask must not shut out the user that the command runs as.
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).map_err(failed)
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    foreign::write_new(path, text.as_bytes()).map_err(|source| {
        Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", path.display()), source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_an_earlier_command_left_in_the_folder_is_not_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, elsewhere) = (dir.path().join("check"), dir.path().join("elsewhere"));
        let python = ours.join("python");
        let text = |name: &str| fs::read_to_string(python.join(name)).unwrap();
        let write = || Hooks::write(&ours, &[Runner::Pytest]).unwrap();
        write();
        fs::write(ours.join("out/old.jsonl"), "{}").unwrap();
        write();
        assert_eq!(fs::read_dir(ours.join("out")).unwrap().count(), 0);

        let changes: [&dyn Fn(); 5] = [
            &|| fs::write(python.join("sitecustomize.py"), "import evil").unwrap(),
            &|| fs::write(python.join("json.py"), "import evil").unwrap(),
            &|| fs::remove_file(python.join("loopexec_pytest.py")).unwrap(),
            &|| {
                fs::remove_file(python.join("sitecustomize.py")).unwrap();
                fs::write(&elsewhere, PYTHON[0].1).unwrap();
                fs::hard_link(&elsewhere, python.join("sitecustomize.py")).unwrap();
            },
            &|| {
                fs::remove_dir_all(&python).unwrap();
                std::os::unix::fs::symlink(dir.path(), &python).unwrap();
            },
        ];
        for change in changes {
            change();
            write();
            assert!(fs::symlink_metadata(&python).unwrap().is_dir());
            assert_eq!(fs::read_dir(&python).unwrap().count(), PYTHON.len());
            for (name, ours) in PYTHON {
                assert_eq!(text(name), ours);
            }
            fs::write(&elsewhere, "changed afterwards").unwrap();
            assert_eq!(text("sitecustomize.py"), PYTHON[0].1);
        }
    }

    #[test]
    fn a_link_that_the_command_left_in_place_of_its_folder_holds_no_results() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, elsewhere) = (dir.path().join("check"), dir.path().join("elsewhere"));
        let hooks = Hooks::write(&ours, &[Runner::Pytest]).unwrap();
        fs::write(ours.join("out/1.jsonl"), "{}").unwrap();
        assert_eq!(hooks.written(10), [ours.join("out/1.jsonl")]);
        assert!(hooks.written(0).is_empty());
        fs::rename(&ours, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &ours).unwrap();
        assert!(!hooks.is_in_place() && hooks.written(10).is_empty());
        fs::remove_file(&ours).unwrap();
        fs::create_dir(&ours).unwrap();
        std::os::unix::fs::symlink(elsewhere.join("out"), ours.join("out")).unwrap();
        assert!(!hooks.is_in_place() && hooks.written(10).is_empty());
    }

    #[test]
    fn a_link_in_place_of_the_folder_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, victim) = (dir.path().join("check"), dir.path().join("victim"));
        fs::create_dir_all(victim.join("out")).unwrap();
        fs::write(victim.join("out/mine"), "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &ours).unwrap();
        Hooks::write(&ours, &[Runner::Node]).unwrap();
        assert_eq!(fs::read_to_string(victim.join("out/mine")).unwrap(), "mine");
        assert!(fs::symlink_metadata(&ours).unwrap().is_dir());
    }
}
