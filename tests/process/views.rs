//! What a command sees through mounts, and that other users get the same.

use loopexec::domain::command::Exit;
use loopexec::error::{Error, Kind};
use loopexec::process::{
    Capability, Job, Mount, Outcome, OverlayMode, Placement, Silent, Supervisor, View,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout.kept()).into_owned()
}

/// Runs a script in a view where there are namespaces; where there are none, holds the refusal.
fn in_view(
    mounts: Vec<Mount>,
    remove: Vec<PathBuf>,
    cwd: &Path,
    script: &str,
) -> Option<Result<Outcome, Error>> {
    let scratch = place();
    let launcher: PathBuf = env!("CARGO_BIN_EXE_loopexec").into();
    let job = Job {
        argv: ["sh", "-c", script].map(Into::into).to_vec(),
        cwd: cwd.into(),
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        view: View::Namespace { mounts, remove },
        deadline: Some(Duration::from_secs(20)),
        idle: None,
        enclosure: None,
        idle_watch: Vec::new(),
        grace: Duration::from_millis(300),
        keep: 4096,
    };
    let mut plain = Supervisor::new(launcher.clone(), Placement::Plain).unwrap();
    let error = plain.run(&job, &mut Silent).unwrap_err();
    assert_eq!(error.kind, Kind::IsolationUnsatisfiable);
    let mut supervisor = Supervisor::new(launcher, Placement::Detect).unwrap();
    let capability = supervisor.probe(scratch.path()).unwrap();
    let needs_overlay = matches!(&job.view, View::Namespace { mounts, .. } if mounts.iter().any(|m| matches!(m, Mount::Overlay { .. })));
    match capability {
        Capability::Namespaces { overlay }
            if overlay != OverlayMode::Unavailable || !needs_overlay =>
        {
            Some(supervisor.run(&job, &mut Silent))
        }
        _ => None,
    }
}

#[test]
fn a_bind_hides_the_original_and_a_read_only_one_takes_nothing() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    for (file, content) in
        [("from/f", "new"), ("to/f", "old"), ("to/own", "own"), ("ro/f", "ro"), ("mnt/x", "x")]
    {
        fs::create_dir_all(at(file).parent().unwrap()).unwrap();
        fs::write(at(file), content).unwrap();
    }
    let mounts = vec![
        Mount::BindReadOnly { from: at("ro"), to: at("mnt") },
        Mount::Bind { from: at("from"), to: at("to") },
        // Its source is hidden by the mount before it.
        Mount::Bind { from: at("to/own"), to: at("from/f") },
    ];
    let script = "cat f; test ! -e own && echo hidden; cat ../mnt/f
        (echo x > ../mnt/y) 2>/dev/null || echo refused; echo w > w; cat ../from/f";
    let Some(outcome) = in_view(mounts, Vec::new(), &at("to"), script) else { return };
    assert_eq!(text(&outcome.unwrap()), "newhidden\nrorefused\nown");
    assert!(at("from/w").exists() && !at("to/w").exists() && at("to/own").exists());
    assert!(!at("ro/y").exists() && !at("mnt/y").exists());
}

#[test]
fn a_mount_that_cannot_be_made_names_the_path_and_is_no_failure_of_the_command() {
    let place = place();
    let (here, gone) = (place.path().to_owned(), place.path().join("not-there"));
    for mount in [
        Mount::Bind { from: here.clone(), to: gone.clone() },
        Mount::BindReadOnly { from: gone.clone(), to: here.clone() },
        Mount::Overlay { lower: gone, upper: here.clone(), work: here.clone(), to: here.clone() },
    ] {
        let Some(result) = in_view(vec![mount], Vec::new(), Path::new("/"), ":") else { return };
        let error = result.unwrap_err();
        assert_eq!(error.kind, Kind::IsolationUnsatisfiable);
        assert!(error.to_string().contains("not-there"), "{error}");
    }
}

#[test]
fn an_overlay_shows_upper_over_lower_without_what_was_removed() {
    let place = place();
    let odd = place.path().join("odd: name, with \\ and spaces");
    let at = |name: &str| odd.join(name);
    for folder in ["lower/dir", "lower/gone/deep", "upper", "work", "to"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    let files = ["lower/a", "lower/b", "lower/dir/c", "lower/gone/deep/d", "lower/single"];
    files.iter().for_each(|file| fs::write(at(file), "lower").unwrap());
    fs::write(at("upper/b"), "upper").unwrap();
    let (lower, upper, work, to) = (at("lower"), at("upper"), at("work"), at("to"));
    let mounts = vec![Mount::Overlay { lower, upper, work, to: to.clone() }];
    let remove = vec![to.join("gone"), to.join("single"), to.join("never/was")];
    let script = "echo $(cat a b) $(ls); echo changed > a; rm dir/c; mv b moved";
    let Some(outcome) = in_view(mounts, remove, &to, script) else { return };
    loopexec::process::make_work_removable(&at("work"));
    let outcome = outcome.unwrap();
    assert_eq!(text(&outcome), "lowerupper a b dir\n", "{outcome:?}");
    assert_eq!(outcome.exit, Exit::Code { code: 0 });
    for file in files {
        assert_eq!(fs::read(at(file)).unwrap(), b"lower", "{file}");
    }
    assert_eq!(fs::read(at("upper/a")).unwrap(), b"changed\n");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
}
