//! The tools of the caller's path, resolved through their shims once, at t0.
//!
//! Under a private HOME a shim no longer finds its versions, and what it picks could change during a
//! run. So the folder of the real program is put before the shim, and the variables say where
//! everything lies. `shims` asks each version manager.

mod shims;

use super::environment::Variables;
use super::supervisor::Supervisor;
use crate::error::Result;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The path and variables under which the caller's tools work for a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// Absolute folders, first one first; real folders stand before shims.
    pub path: Vec<PathBuf>,
    /// Variables that tell tools where their homes are.
    pub env: Vec<(String, String)>,
    /// Well-known programs and the real file each name leads to.
    pub found: Vec<(String, PathBuf)>,
    /// What was dropped or could not be resolved, one sentence each.
    pub notes: Vec<String>,
}

/// Programs whose place is recorded.
pub const KNOWN: [&str; 18] = [
    "bash", "bun", "cargo", "cc", "deno", "dotnet", "git", "go", "java", "make", "node", "npm",
    "php", "python", "python3", "ruby", "rustc", "sh",
];

/// Variables that name the home of a tool; they pass when they name an absolute folder.
const HOMES: [&str; 14] = [
    "ANDROID_HOME",
    "BUN_INSTALL",
    "CONDA_PREFIX",
    "DOTNET_ROOT",
    "GOROOT",
    "GRADLE_HOME",
    "JAVA_HOME",
    "M2_HOME",
    "MAVEN_HOME",
    "NVM_BIN",
    "NVM_DIR",
    "PNPM_HOME",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
];

/// Folders searched when the caller has no path at all.
pub const STANDARD: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

impl Toolchains {
    /// Resolves the caller's path as it is in the folder `tree`.
    ///
    /// Version managers are asked by running them, with the caller's environment and a deadline; one
    /// that fails leaves a note. Errors: only those of running a command at all.
    pub fn resolve(supervisor: &mut Supervisor, caller: &Variables, tree: &Path) -> Result<Self> {
        let mut tools = Self::default();
        tools.take_path(caller.get(OsStr::new("PATH")).map(|path| path.as_os_str()));
        for name in HOMES {
            let Some(home) = caller.get(OsStr::new(name)).and_then(|v| v.to_str()) else {
                continue;
            };
            if Path::new(home).is_absolute() && Path::new(home).is_dir() {
                tools.set(name, home);
            }
        }
        tools.take_caches(caller);
        shims::resolve(&mut tools, supervisor, caller, tree)?;
        for name in KNOWN {
            if let Some(program) = find_program(&tools.path, name) {
                let real = std::fs::canonicalize(&program).unwrap_or(program);
                tools.found.push((name.to_owned(), real));
            }
        }
        Ok(tools)
    }

    /// Returns what the tools of an image are: its path and its variables as they are, and what was found in it.
    pub fn of_image(
        path: Vec<PathBuf>,
        env: Vec<(String, String)>,
        found: Vec<(String, PathBuf)>,
    ) -> Self {
        Self { path, env, found, notes: Vec::new() }
    }

    /// Returns the same for a workspace that does not stand at the caller's path: what lay in the
    /// caller's tree is named at its new place.
    pub fn moved(&self, from: &Path, to: &Path) -> Self {
        let moved =
            |path: &Path| path.strip_prefix(from).map_or(path.to_owned(), |rest| to.join(rest));
        let mut tools = self.clone();
        tools.path = self.path.iter().map(|folder| moved(folder)).collect();
        for (_, value) in &mut tools.env {
            if let Some(text) = moved(Path::new(value.as_str())).to_str() {
                *value = text.to_owned();
            }
        }
        tools
    }

    fn take_path(&mut self, path: Option<&OsStr>) {
        let folders: Vec<PathBuf> = match path {
            Some(path) => std::env::split_paths(path).collect(),
            None => STANDARD.iter().map(PathBuf::from).collect(),
        };
        for folder in folders {
            if folder.is_relative() {
                self.notes.push(format!("PATH: {folder:?} is relative and was dropped"));
            } else if folder.is_dir() && !self.path.contains(&folder) {
                self.path.push(folder);
            }
        }
    }

    /// Keeps the caller's package caches in reach, which makes builds without a network possible.
    fn take_caches(&mut self, caller: &Variables) {
        let folder = |name: &str| {
            let value = caller.get(OsStr::new(name))?;
            Some(PathBuf::from(value)).filter(|path| path.is_absolute())
        };
        let home = folder("HOME");
        let below_home = |below: &str| home.as_ref().map(|home| home.join(below));
        if let Some(cargo) =
            folder("CARGO_HOME").or_else(|| below_home(".cargo")).filter(|p| p.is_dir())
        {
            self.set_path("CARGO_HOME", &cargo);
        }
        if find_program(&self.path, "go").is_none() {
            return;
        }
        // The build cache stays private: it follows XDG_CACHE_HOME.
        self.set("GOTOOLCHAIN", "local");
        let gopath = caller.get(OsStr::new("GOPATH")).and_then(|p| std::env::split_paths(p).next());
        let modules = folder("GOMODCACHE")
            .or_else(|| gopath.map(|p| p.join("pkg/mod")))
            .or_else(|| below_home("go/pkg/mod"));
        if let Some(modules) = modules.filter(|path| path.is_dir()) {
            self.set_path("GOMODCACHE", &modules);
        }
        let config = folder("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
        if let Some(settings) = config.map(|c| c.join("go/env")).filter(|path| path.is_file()) {
            self.set_path("GOENV", &settings);
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
    }

    fn set_path(&mut self, name: &str, path: &Path) {
        match path.to_str() {
            Some(text) => self.set(name, text),
            None => self.notes.push(format!("{name}: {path:?} is no UTF-8 and was dropped")),
        }
    }

    /// Puts a folder of real programs before the folder of their shims.
    fn put_before(&mut self, shims: &Path, real: PathBuf) {
        self.path.retain(|folder| *folder != real);
        let at = self.path.iter().position(|folder| folder == shims).unwrap_or(0);
        self.path.insert(at, real);
    }
}

/// Says whether a folder of a search path is a tree's, as it is called or as it really is, or relative to
/// where one stands: what is in it is not run outside of a zone. A tree that is somebody's whole HOME holds
/// its owner's tools.
pub fn is_trees(folder: &Path, tree: &Path, home: Option<&Path>) -> bool {
    let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let is_home = home.is_some_and(|home| home.starts_with(tree));
    folder.is_relative() || !is_home && (folder.starts_with(tree) || real.starts_with(tree))
}

/// Returns a search path without what is a tree's, see [`is_trees`].
pub fn outside_of(path: &OsStr, tree: &Path, home: Option<&Path>) -> OsString {
    let kept = std::env::split_paths(path).filter(|folder| !is_trees(folder, tree, home));
    std::env::join_paths(kept).unwrap_or_default()
}

/// Returns the first executable file of that name in the folders.
pub fn find_program(path: &[PathBuf], name: &str) -> Option<PathBuf> {
    use nix::unistd::{AccessFlags, access};
    path.iter()
        .map(|folder| folder.join(name))
        .find(|file| file.is_file() && access(file, AccessFlags::X_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_tree_is_on_no_path_outside_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let (tree, tools) = (root.join("tree"), root.join("tools"));
        for made in [&tree.join("bin"), &tools] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::os::unix::fs::symlink(tree.join("bin"), root.join("led")).unwrap();
        let path = std::env::join_paths([
            tree.join("bin"),
            root.join("led"),
            "bin".into(),
            tools.clone(),
            "/usr/bin".into(),
        ]);
        let kept = outside_of(&path.unwrap(), &tree, Some(&root));
        let kept: Vec<PathBuf> = std::env::split_paths(&kept).collect();
        assert_eq!(kept, [tools, "/usr/bin".into()]);
        assert!(!is_trees(&tree.join("bin"), &tree, Some(&tree.join("me"))), "its owner's tools");
    }

    #[test]
    fn relative_folders_go_and_the_order_stays() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("bin");
        std::fs::create_dir(&own).unwrap();
        let text =
            format!("node_modules/.bin:{}:/no/such/folder::/usr/bin:/bin:/usr/bin", own.display());
        let mut tools = Toolchains::default();
        tools.take_path(Some(OsStr::new(&text)));
        assert_eq!(tools.path, [own.clone(), "/usr/bin".into(), "/bin".into()]);
        assert_eq!(tools.notes.len(), 2);
        tools.put_before(Path::new("/usr/bin"), "/real".into());
        assert_eq!(tools.path[1..3], [PathBuf::from("/real"), "/usr/bin".into()]);
        let moved = tools.moved(folder.path(), Path::new("/new"));
        assert_eq!(moved.path[0], Path::new("/new/bin"));
        assert_eq!(moved.path[1], Path::new("/real"));
    }
}
