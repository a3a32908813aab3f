//! An overlay copy really mounted, and what copies cost; needs a user namespace or root.
//!
//! Run with `--features toolchains`.

#![expect(clippy::unwrap_used, reason = "what a test sets up must work")]

#[path = "copies/snap.rs"]
mod snap;

use loopexec::workspace::copies::{How, Overlay, prepare, remove};
use loopexec::workspace::layer::freeze;
use snap::{Files, link, plain, script, snapshot, snapshot_with_empty_folder, store, write_files};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

fn is_ignored(path: &Path, _folder: bool) -> bool {
    path.starts_with("target")
}

#[test]
fn the_mounted_view_is_the_wanted_snapshot_over_the_layer() {
    let folder = tempfile::tempdir().unwrap();
    let mut t0 = Files::new();
    for name in ["a", "b", "dir/c", "dir/d", "turn/e", "flat", "deep/er/f"] {
        t0.insert(name.into(), plain(name.as_bytes()));
    }
    let mut wanted = t0.clone();
    wanted.insert("a".into(), script(b"changed"));
    wanted.remove(Path::new("dir/c"));
    wanted.remove(Path::new("turn/e"));
    wanted.insert("turn".into(), link("dir"));
    wanted.remove(Path::new("flat"));
    wanted.insert("flat/g".into(), plain(b"g"));
    wanted.remove(Path::new("deep/er/f"));
    let (ws, home) = (folder.path().join("ws"), folder.path().join("home"));
    fs::create_dir(&home).unwrap();
    write_files(&ws, &t0);
    fs::create_dir(ws.join("hollow")).unwrap();
    fs::create_dir(ws.join("target")).unwrap();
    fs::write(ws.join("target/cache"), "c").unwrap();
    let repo = store(&folder.path().join("store"));
    let frozen = snapshot_with_empty_folder(&repo, &t0, "hollow");
    let tree = snapshot(&repo, &wanted);
    let layer = freeze(&ws, &home, &folder.path().join("layer"), &is_ignored, &|| false).unwrap();
    let dest = folder.path().join("copy");
    let copy = prepare(&repo, &layer, &frozen, &tree, &dest, How::Overlay, &|| false).unwrap();
    let Overlay { lower, upper, work } = copy.overlay.unwrap();
    let mut commands = String::from("set -e\n");
    commands += &format!(
        "mount -t overlay overlay -o userxattr,lowerdir={},upperdir={},workdir={} {}\n",
        lower.display(),
        upper.display(),
        work.display(),
        copy.dir.display()
    );
    for path in &copy.remove {
        let path = copy.dir.join(path);
        commands += &format!("rm -f {0} 2>/dev/null || rmdir {0} || true\n", path.display());
    }
    commands += &format!("cp -a {}/. {}/seen\n", copy.dir.display(), folder.path().display());
    fs::create_dir(folder.path().join("seen")).unwrap();
    let output = Command::new("unshare").args(["-Urm", "sh", "-c", &commands]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut seen = snap::read_files(&folder.path().join("seen"));
    assert_eq!(seen.remove(Path::new("target/cache")), Some(plain(b"c")));
    assert_eq!(seen, wanted);
    for gone in ["seen/deep", "seen/hollow"] {
        assert!(!folder.path().join(gone).exists(), "{gone}");
    }
    remove(&dest).unwrap();
    assert!(!dest.exists());
}

#[test]
fn one_overlay_costs_at_most_a_tenth_of_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let mut t0 = Files::new();
    for index in 0..20_000u32 {
        let path = format!("d{}/e{}/f{index}.txt", index % 100, index / 100 % 50);
        t0.insert(path.into(), plain(format!("content {index}\n").as_bytes()));
    }
    let mut wanted = t0.clone();
    for (path, file) in t0.iter().step_by(2_000) {
        wanted.insert(path.clone(), plain(&[&file.1[..], b"more"].concat()));
    }
    let (ws, home) = (folder.path().join("ws"), folder.path().join("home"));
    fs::create_dir(&home).unwrap();
    write_files(&ws, &t0);
    let repo = store(&folder.path().join("store"));
    let frozen = snapshot(&repo, &t0);
    let tree = snapshot(&repo, &wanted);
    let begun = Instant::now();
    let layer = freeze(&ws, &home, &folder.path().join("layer"), &is_ignored, &|| false).unwrap();
    let freezing = begun.elapsed();
    let begun = Instant::now();
    let copied =
        Command::new("cp").arg("-a").arg(&ws).arg(folder.path().join("cp")).status().unwrap();
    assert!(copied.success());
    let copying = begun.elapsed();
    let begun = Instant::now();
    let dest: PathBuf = folder.path().join("copy");
    prepare(&repo, &layer, &frozen, &tree, &dest, How::Overlay, &|| false).unwrap();
    let preparing = begun.elapsed();
    println!("freeze {freezing:?}, cp -a {copying:?}, one overlay {preparing:?}");
    assert!(preparing * 10 <= copying, "{preparing:?} against {copying:?}");
}
