//! Asks version managers what is behind their shims.

use super::{Toolchains, find_program, is_trees, outside_of};
use crate::domain::command::Exit;
use crate::error::{Error, Kind, Result};
use crate::process::environment::Variables;
use crate::process::{Job, Silent, Supervisor, View};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time a version manager may take to answer.
const ANSWER: Duration = Duration::from_secs(20);

/// Managers built like rbenv: name, variable of the root, variable of the version.
const RBENV_LIKE: [(&str, &str, &str); 4] = [
    ("pyenv", "PYENV_ROOT", "PYENV_VERSION"),
    ("rbenv", "RBENV_ROOT", "RBENV_VERSION"),
    ("nodenv", "NODENV_ROOT", "NODENV_VERSION"),
    ("goenv", "GOENV_ROOT", "GOENV_VERSION"),
];

/// Names that are asked of a manager which knows single programs only.
const ASKED: [&str; 8] = ["node", "python3", "python", "ruby", "go", "java", "php", "deno"];

/// Who is asked, in whose environment, where.
struct Asker<'a> {
    supervisor: &'a mut Supervisor,
    caller: &'a Variables,
    tree: &'a Path,
}

/// Puts real folders before every folder of shims that is on the path.
pub(super) fn resolve(
    tools: &mut Toolchains,
    supervisor: &mut Supervisor,
    caller: &Variables,
    tree: &Path,
) -> Result<()> {
    let mut asker = Asker { supervisor, caller, tree };
    for folder in tools.path.clone() {
        // What the tree holds is not run outside of a zone.
        if is_trees(&folder, tree, asker.folder("HOME").as_deref()) {
            continue;
        }
        let file = |name: &str| find_program(std::slice::from_ref(&folder), name);
        if let (Some(rustup), Some(_)) = (file("rustup"), file("cargo").or_else(|| file("rustc"))) {
            asker.resolve_rustup(tools, &folder, &rustup)?;
        }
        if let Some(volta) = file("volta").filter(|_| folder.ends_with("bin")) {
            asker.resolve_volta(tools, &folder, &volta)?;
        }
        if folder.file_name() == Some(OsStr::new("shims")) {
            asker.resolve_shims(tools, &folder)?;
        }
        // fnm gives each shell a link that goes with the shell.
        if folder.to_string_lossy().contains("fnm_multishells")
            && let Ok(real) = std::fs::canonicalize(&folder)
        {
            tools.put_before(&folder, real);
        }
    }
    Ok(())
}

impl Asker<'_> {
    fn resolve_rustup(
        &mut self,
        tools: &mut Toolchains,
        shims: &Path,
        rustup: &Path,
    ) -> Result<()> {
        let Some(rustc) = self.ask_path(tools, rustup, &["which", "rustc"])? else { return Ok(()) };
        let Some(bin) = rustc.parent() else { return Ok(()) };
        let home =
            self.folder("RUSTUP_HOME").or_else(|| Some(self.folder("HOME")?.join(".rustup")));
        if let Some(home) = home.filter(|home| home.is_dir()) {
            tools.set_path("RUSTUP_HOME", &home);
        }
        let named = self.ask(tools, rustup, &["show", "active-toolchain"])?;
        if let Some(name) = named.as_deref().and_then(|line| line.split_whitespace().next()) {
            tools.set("RUSTUP_TOOLCHAIN", name);
        }
        tools.put_before(shims, bin.to_owned());
        Ok(())
    }

    fn resolve_volta(&mut self, tools: &mut Toolchains, shims: &Path, volta: &Path) -> Result<()> {
        let home = self.folder("VOLTA_HOME").or_else(|| shims.parent().map(Path::to_owned));
        if let Some(home) = home.filter(|home| home.is_dir()) {
            tools.set_path("VOLTA_HOME", &home);
        }
        let node = self.ask_path(tools, volta, &["which", "node"])?;
        if let Some(bin) = node.as_deref().and_then(Path::parent) {
            tools.put_before(shims, bin.to_owned());
        }
        Ok(())
    }

    fn resolve_shims(&mut self, tools: &mut Toolchains, shims: &Path) -> Result<()> {
        let Some(root) = shims.parent().map(Path::to_owned) else { return Ok(()) };
        let places = [root.join("bin"), root.join("libexec")];
        let manager = |name: &str, path: &[PathBuf]| {
            find_program(&places, name).or_else(|| find_program(path, name))
        };
        for (name, root_variable, version_variable) in RBENV_LIKE {
            // A plug-in's shims lie deeper and have no versions of their own.
            if !root.join("versions").is_dir() {
                break;
            }
            let is_root = self.folder(root_variable).is_some_and(|known| known == root)
                || root.file_name() == Some(OsStr::new(&format!(".{name}")));
            let Some(program) = manager(name, &tools.path).filter(|_| is_root) else { continue };
            tools.set_path(root_variable, &root);
            let Some(versions) = self.ask(tools, &program, &["version-name"])? else { continue };
            tools.set(version_variable, versions.trim());
            for version in versions.trim().split(':').rev() {
                let bin = root.join("versions").join(version).join("bin");
                if version != "system" && bin.is_dir() {
                    tools.put_before(shims, bin);
                }
            }
            return Ok(());
        }
        if let Some(mise) = manager("mise", &tools.path).filter(|_| root.ends_with("mise")) {
            tools.set_path("MISE_DATA_DIR", &root);
            let folders = self.ask(tools, &mise, &["bin-paths"])?.unwrap_or_default();
            for folder in folders.lines().rev().map(PathBuf::from) {
                if folder.is_absolute() && folder.is_dir() {
                    tools.put_before(shims, folder);
                }
            }
        } else if let Some(asdf) = manager("asdf", &tools.path) {
            tools.set_path("ASDF_DATA_DIR", &root);
            for name in ASKED.into_iter().filter(|name| shims.join(name).is_file()) {
                let real = self.ask_path(tools, &asdf, &["which", name])?;
                if let Some(bin) = real.as_deref().and_then(Path::parent) {
                    tools.put_before(shims, bin.to_owned());
                }
            }
        } else {
            tools.notes.push(format!("the shims in {} could not be resolved", shims.display()));
        }
        Ok(())
    }

    fn folder(&self, name: &str) -> Option<PathBuf> {
        let value = self.caller.get(OsStr::new(name))?;
        Some(PathBuf::from(value)).filter(|path| path.is_absolute())
    }

    /// Asks for the path of a file that exists.
    fn ask_path(
        &mut self,
        tools: &mut Toolchains,
        program: &Path,
        words: &[&str],
    ) -> Result<Option<PathBuf>> {
        let answer = self.ask(tools, program, words)?;
        let path = answer.as_deref().map(|answer| PathBuf::from(answer.trim()));
        Ok(path.filter(|path| path.is_absolute() && path.is_file()))
    }

    /// Runs a version manager and returns what it printed; a failure leaves a note.
    fn ask(
        &mut self,
        tools: &mut Toolchains,
        program: &Path,
        words: &[&str],
    ) -> Result<Option<String>> {
        let mut argv = vec![program.as_os_str().to_owned()];
        argv.extend(words.iter().map(OsString::from));
        let mut env = self.caller.clone();
        let path = self.caller.get(OsStr::new("PATH"));
        let path = path.map(|path| outside_of(path, self.tree, self.folder("HOME").as_deref()));
        env.extend(path.map(|path| (OsString::from("PATH"), path)));
        // Asking must not download.
        env.insert("RUSTUP_AUTO_INSTALL".into(), "0".into());
        // A name without a value, or with `=` in it, cannot be handed on.
        env.retain(|name, _| !name.is_empty() && !name.as_bytes().contains(&b'='));
        let job = Job {
            argv,
            cwd: self.tree.to_owned(),
            env: env.into_iter().collect(),
            view: View::Plain,
            deadline: Some(ANSWER),
            idle: None,
            enclosure: None,
            idle_watch: Vec::new(),
            grace: Duration::ZERO,
            keep: 64 << 10,
        };
        let outcome = self.supervisor.run(&job, &mut Silent)?;
        match outcome.exit {
            Exit::Code { code: 0 } => {
                Ok(Some(String::from_utf8_lossy(&outcome.stdout.kept()).into_owned()))
            }
            Exit::Interrupted => Err(Error::new(Kind::Interrupted, "a signal asked to stop")),
            exit => {
                let asked = words.join(" ");
                tools
                    .notes
                    .push(format!("`{} {asked}` did not answer: {exit:?}", program.display()));
                Ok(None)
            }
        }
    }
}
