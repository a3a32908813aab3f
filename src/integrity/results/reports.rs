//! Finds, removes and reads the report files that `check.results` declares.
//!
//! The tree is hostile: no symlink is followed, sizes and numbers are bounded.

use super::tally::Tally;
use super::{RunnerChoice, junit, tap};
use crate::domain::results::{Results, Runner};
use crate::error::{Error, Kind, Result};
use crate::foreign::{self, Links};
use ignore::overrides::{Override, OverrideBuilder};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The most reports of one run.
const MAX_REPORTS: usize = 5_000;
/// The most bytes of all reports of one run.
const MAX_TOTAL: u64 = 128 << 20;
/// The most entries of folders that one search looks at.
const MAX_ENTRIES: usize = 500_000;
/// The deepest folder that is searched.
const MAX_DEPTH: usize = 40;

/// Returns where the build tools of Java write their reports, for a check without `check.results`.
///
/// `files_at_root` tells whether the workspace has a file of that name at its root. Reports of an
/// earlier run are to be removed ([`remove_reports`]) before each run.
pub fn default_globs(choice: RunnerChoice, files_at_root: &dyn Fn(&str) -> bool) -> Vec<String> {
    let wants = |runner: Runner, files: &[&str]| match choice {
        RunnerChoice::Auto => files.iter().any(|file| files_at_root(file)),
        RunnerChoice::One(one) => one == runner,
    };
    let mut globs = Vec::new();
    if wants(Runner::Maven, &["pom.xml"]) {
        globs.push("**/target/surefire-reports/TEST-*.xml".to_owned());
        globs.push("**/target/failsafe-reports/TEST-*.xml".to_owned());
    }
    let gradle = ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
    if wants(Runner::Gradle, &gradle) {
        globs.push("**/build/test-results/**/TEST-*.xml".to_owned());
    }
    globs
}

/// Returns whose report lies at a path.
fn writer(name: &str) -> Runner {
    let has = |part: &str| format!("/{name}").contains(part);
    if has("/surefire-reports/TEST-") || has("/failsafe-reports/TEST-") {
        Runner::Maven
    } else if has("/build/test-results/") {
        Runner::Gradle
    } else {
        Runner::Junit
    }
}

/// Checks globs: relative, without `..`, well-formed.
///
/// # Errors
/// `config_invalid` with the glob.
pub fn check_globs(globs: &[String]) -> Result<()> {
    for glob in globs {
        let bad = glob.is_empty()
            || glob.starts_with(['/', '!'])
            || glob.split('/').any(|part| part == "..")
            || glob.contains('\0');
        if bad {
            return Err(Error::new(
                Kind::ConfigInvalid,
                format!("`check.results`: {glob:?} is not a path inside the workspace"),
            )
            .hint("write it relative to the root of the workspace, as in `reports/**/*.xml`"));
        }
        matcher(Path::new("/"), std::slice::from_ref(glob))?;
    }
    Ok(())
}

fn matcher(root: &Path, globs: &[String]) -> Result<Override> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        // A leading slash binds the glob to the root, as a path in a loop file reads.
        let anchored = format!("/{}", glob.strip_prefix("./").unwrap_or(glob));
        builder.add(&anchored).map_err(|source| {
            Error::new(Kind::ConfigInvalid, format!("`check.results`: {glob:?} is not a glob"))
                .because(source)
        })?;
    }
    builder.build().map_err(|source| {
        Error::new(Kind::ConfigInvalid, "`check.results`: the globs are not usable").because(source)
    })
}

/// Returns the regular files below `root` that match, sorted; symlinks are never followed.
///
/// # Errors
/// A glob that is not one.
pub fn find_reports(root: &Path, globs: &[String]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if globs.is_empty() {
        return Ok(found);
    }
    let wanted = matcher(root, globs)?;
    let mut left = MAX_ENTRIES;
    let mut starts: Vec<PathBuf> = globs.iter().map(|glob| literal_start(glob)).collect();
    starts.sort();
    starts.dedup();
    let all = starts.clone();
    // A start inside another one would be walked twice.
    starts.retain(|one| !all.iter().any(|other| other != one && one.starts_with(other)));
    for start in starts {
        if is_plain_path(root, &start) {
            walk(&root.join(start), &wanted, 0, &mut left, &mut found);
        }
    }
    found.sort();
    found.dedup();
    found.truncate(MAX_REPORTS);
    Ok(found)
}

/// Returns the folders of a glob before its first wildcard.
fn literal_start(glob: &str) -> PathBuf {
    let mut start = PathBuf::new();
    let parts: Vec<&str> = glob.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    for part in parts.iter().take(parts.len().saturating_sub(1)) {
        if part.contains(['*', '?', '[', '{', '\\']) {
            break;
        }
        start.push(part);
    }
    start
}

/// Tells whether every folder on the way is a real one.
fn is_plain_path(root: &Path, relative: &Path) -> bool {
    let mut path = root.to_path_buf();
    relative.components().all(|part| {
        path.push(part);
        path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
    })
}

fn walk(dir: &Path, wanted: &Override, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if *left == 0 || found.len() > MAX_REPORTS {
            return;
        }
        *left -= 1;
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() {
            if depth < MAX_DEPTH && entry.file_name() != ".git" {
                walk(&path, wanted, depth + 1, left, found);
            }
        } else if kind.is_file() && wanted.matched(&path, false).is_whitelist() {
            found.push(path);
        }
    }
}

/// Removes the reports of an earlier run below `root` and returns how many there were.
///
/// # Errors
/// A glob that is not one, or a report that cannot be removed (`workspace_invalid`).
pub fn remove_reports(root: &Path, globs: &[String]) -> Result<usize> {
    let found = find_reports(root, globs)?;
    for path in &found {
        match std::fs::remove_file(path) {
            Ok(()) => {}
            Err(source) if source.kind() == ErrorKind::NotFound => {}
            Err(source) => {
                return Err(Error::io(
                    Kind::WorkspaceInvalid,
                    format!("cannot remove the old report {}", path.display()),
                    source,
                ));
            }
        }
    }
    Ok(found.len())
}

/// Reads all declared reports; `None` where there is none.
///
/// JUnit XML and TAP are told apart by their first character.
///
/// # Errors
/// A glob that is not one.
pub(super) fn read_reports(
    root: &Path,
    globs: &[String],
    roots: &[String],
) -> Result<Vec<Results>> {
    let mut tallies: BTreeMap<Runner, Tally> = BTreeMap::new();
    let mut others = Vec::new();
    let found = find_reports(root, globs)?;
    let mut left = MAX_TOTAL;
    if found.len() >= MAX_REPORTS {
        let xml = tallies.entry(Runner::Junit).or_insert_with(|| Tally::new(Runner::Junit, roots));
        xml.unread_because(format_args!("there are {MAX_REPORTS} reports or more."));
    }
    for path in found {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let runner = writer(&name);
        let xml = tallies.entry(runner).or_insert_with(|| Tally::new(runner, roots));
        let most = left.min(junit::MAX_REPORT as u64 + 1);
        let Ok(bytes) = read_bounded(&path, most) else {
            xml.problem(format!("The report {name} cannot be read."));
            continue;
        };
        left = left.saturating_sub(bytes.len() as u64);
        if left == 0 {
            xml.unread_because(format_args!(
                "the reports are larger than {} MiB.",
                MAX_TOTAL >> 20
            ));
            break;
        }
        if bytes.trim_ascii().is_empty() {
            xml.incomplete(format_args!("the report {name} is empty."));
        } else if is_tap(&bytes) {
            if bytes.len() > junit::MAX_REPORT {
                xml.unread_because(format_args!(
                    "the report {name} is larger than {} MiB.",
                    junit::MAX_REPORT >> 20
                ));
            }
            others.push(tap::parse(&bytes, roots));
        } else {
            junit::read(&bytes, &name, xml);
        }
    }
    others.extend(tallies.into_values().map(Tally::finish));
    Ok(others)
}

fn is_tap(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_start();
    [&b"TAP version"[..], b"1..", b"ok", b"not ok", b"#"]
        .iter()
        .any(|start| text.starts_with(start))
}

/// Opens a regular file without following a symlink or waiting for a pipe.
pub(super) fn open_plain(path: &Path) -> std::io::Result<File> {
    foreign::open(path, Links::Refuse)
}

/// Reads at most `most` bytes of a regular file.
pub(super) fn read_bounded(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    foreign::read_start(path, Links::Refuse, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path, globs: &[&str]) -> Vec<String> {
        let globs: Vec<String> = globs.iter().map(|g| (*g).to_owned()).collect();
        let found = find_reports(root, &globs).unwrap();
        found.iter().map(|p| p.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn globs_stay_inside_and_symlinks_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.xml"), "<x/>").unwrap();
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        std::fs::create_dir_all(at.join("a/build/reports")).unwrap();
        std::fs::write(at.join("a/build/reports/TEST-x.xml"), "<x/>").unwrap();
        std::fs::write(at.join("a/build/reports/x.txt"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), at.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.xml"), at.join("s.xml")).unwrap();
        assert_eq!(names(at, &["a/build/reports/*.xml"]), ["a/build/reports/TEST-x.xml"]);
        assert_eq!(names(at, &["**/*.xml"]), ["a/build/reports/TEST-x.xml"]);
        assert_eq!(names(at, &["a/build/reports/TEST-x.xml"]), ["a/build/reports/TEST-x.xml"]);
        assert!(names(at, &["link/*.xml", "link/secret.xml", "*.xml"]).is_empty());
        assert_eq!(remove_reports(at, &["**/*.xml".into()]).unwrap(), 1);
        assert!(outside.path().join("secret.xml").exists());
        assert!(at.join("s.xml").symlink_metadata().is_ok());
        for bad in ["/etc/x.xml", "../x.xml", "a/../../x", "", "a[", "!x"] {
            assert!(check_globs(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert!(check_globs(&["target/**/TEST-*.xml".to_owned()]).is_ok());
    }
}
