//! The git folders below the top of a tree, those in ignored folders too: git obeys them wherever they lie.

use crate::error::Result;
use crate::workspace::at::{Descent, Sort, kind_of};
use crate::workspace::scan::OUTSIDE;
use crate::workspace::{Stop, gitcmd, paths};
use std::path::Path;

/// Returns every path below the top that is called `.git`, from the top, without looking into it.
///
/// # Errors
/// `workspace_invalid` where the tree cannot be read, and when told to stop. A folder that is closed to us is left
/// out: it is closed to our git as well.
pub fn find_nested(root: &Path, stop: Stop<'_>) -> Result<Vec<Vec<u8>>> {
    let mut descent = Descent::open(root)?;
    let mut found = Vec::new();
    let mut pending = vec![descent.read_names()?];
    while let Some(names) = pending.last_mut() {
        let Some(name) = names.pop() else {
            pending.pop();
            descent.leave()?;
            continue;
        };
        if stop() {
            return Err(gitcmd::interrupted());
        }
        if descent.depth() == 0 && OUTSIDE.contains(&name.to_bytes()) {
            continue;
        }
        if name.as_c_str() == c".git" {
            found.push(paths::join(descent.path(), name.to_bytes()));
            continue;
        }
        let is_folder = descent.read_stat(&name).is_ok_and(|stat| kind_of(&stat) == Sort::Folder);
        if is_folder && descent.enter(&name).is_ok() {
            pending.push(descent.read_names()?);
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_folders_are_found_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for made in [".git/modules/a/.git", "a/b/.git/x/.git", ".loopexec/.git", "c/d"] {
            std::fs::create_dir_all(root.join(made)).unwrap();
        }
        std::fs::write(root.join("c/d/.git"), "gitdir: ../x").unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        std::fs::write(root.join(".gitignore"), "a/\n").unwrap();
        let found = find_nested(root, &|| false).unwrap();
        assert_eq!(found, [b"a/b/.git".to_vec(), b"c/d/.git".to_vec()]);
    }
}
