//! A cleared environment in which the ordinary tools still work.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

use loopexec::domain::command::{CommandSpec, Exit, Run, Shell};
use loopexec::process::environment::{Surroundings, Variables, write_home};
use loopexec::process::shell::Shells;
use loopexec::process::toolchains::Toolchains;
use loopexec::process::{Job, Outcome, Placement, Silent, Supervisor, View};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn spec(text: &str) -> CommandSpec {
    CommandSpec {
        run: Run::Script { text: text.into(), shell: Shell::Auto },
        cwd: None,
        env: BTreeMap::new(),
        pass_env: Vec::new(),
        timeout: None,
    }
}

fn run(text: &str, tree: &Path) -> (Outcome, Toolchains) {
    let caller: Variables = std::env::vars_os().collect();
    let mut supervisor =
        Supervisor::new(env!("CARGO_BIN_EXE_loopexec").into(), Placement::Plain).unwrap();
    let toolchains = Toolchains::resolve(&mut supervisor, &caller, tree).unwrap();
    let (home, tmp) = (tree.join("private/home"), tree.join("private/tmp"));
    write_home(&home).unwrap();
    fs::create_dir_all(&tmp).unwrap();
    let own = BTreeMap::from([("LOOPEXEC_RUN_ID".to_owned(), "r1".to_owned())]);
    let around = Surroundings {
        caller: &caller,
        home: &home,
        tmp: &tmp,
        toolchains: &toolchains,
        own: &own,
    };
    let spec = spec(text);
    let job = Job {
        argv: Shells::find(&toolchains.path).argv(&spec.run).unwrap(),
        cwd: tree.into(),
        env: around.environment(&spec),
        view: View::Plain,
        deadline: Some(Duration::from_secs(240)),
        idle: None,
        enclosure: None,
        idle_watch: Vec::new(),
        grace: Duration::from_secs(1),
        keep: 1 << 20,
    };
    (supervisor.run(&job, &mut Silent).unwrap(), toolchains)
}

fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&[outcome.stdout.kept(), outcome.stderr.kept()].concat()).into_owned()
}

#[test]
fn cargo_git_and_the_shell_work_under_a_private_home() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::create_dir_all(place.path().join("p/src")).unwrap();
    fs::write(
        place.path().join("p/Cargo.toml"),
        "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(place.path().join("p/src/main.rs"), "fn main() { println!(\"it runs\"); }").unwrap();
    let script = "echo $HOME $TMPDIR $TZ $LOOPEXEC_RUN_ID
        cd p; cargo run --quiet --offline
        git init --quiet; git add .; git commit --quiet -m x; git log --format='%an <%ae>'
        git rev-parse --abbrev-ref HEAD";
    let (outcome, toolchains) = run(script, place.path());
    let said = text(&outcome);
    assert_eq!(outcome.exit, Exit::Code { code: 0 }, "{said}");
    let private = place.path().join("private");
    let first = format!("{0}/home {0}/tmp UTC r1", private.display());
    for line in [&first, "it runs", "loopexec <loopexec@localhost.invalid>", "main"] {
        assert!(said.lines().any(|l| l == line), "{line}: {said}");
    }
    let cargo = toolchains.found.iter().find(|(name, _)| name == "cargo");
    let real = cargo.map(|(_, path)| path.clone()).unwrap();
    assert_eq!(real.file_name().unwrap(), "cargo", "the shim is resolved: {real:?}");
}

#[test]
fn a_script_stops_at_its_first_failure_also_in_a_pipe_where_there_is_bash() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (outcome, _) = run("false\necho on", place.path());
    assert_eq!((&outcome.exit, text(&outcome).as_str()), (&Exit::Code { code: 1 }, ""));
    let has_bash = Shells::find(&["/usr/bin".into(), "/bin".into()]).bash.is_some();
    let (outcome, _) = run("(exit 3) | cat", place.path());
    assert_eq!(outcome.exit, Exit::Code { code: if has_bash { 3 } else { 0 } });
}

/// Writes an executable script.
fn write_program(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn shims_of_every_shape_give_way_to_the_real_folders() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    let at = |name: &str| root.join(name);
    write_program(&at(".rbenv/bin/rbenv"), "echo 3.3.0");
    write_program(&at(".rbenv/shims/ruby"), "exit 9");
    write_program(&at(".rbenv/versions/3.3.0/bin/ruby"), "echo real");
    write_program(&at("share/mise/shims/node"), "exit 9");
    write_program(&at("share/mise/installs/node/22/bin/node"), "echo real");
    let node = at("share/mise/installs/node/22/bin");
    write_program(
        &at("bin/mise"),
        &format!("test \"$1\" = bin-paths && echo '{}'", node.display()),
    );
    write_program(&at(".asdf/shims/java"), "exit 9");
    write_program(&at(".asdf/installs/java/21/bin/java"), "echo real");
    let java = at(".asdf/installs/java/21/bin/java");
    write_program(
        &at(".asdf/bin/asdf"),
        &format!("test \"$*\" = 'which java' && echo '{}'", java.display()),
    );
    write_program(&at(".volta/bin/volta"), "exit 1");
    write_program(&at(".other/shims/x"), "exit 9");
    let folders =
        [".rbenv/shims", "share/mise/shims", ".asdf/shims", ".volta/bin", ".other/shims", "bin"];
    let mut path: Vec<PathBuf> = folders.iter().map(|folder| at(folder)).collect();
    path.extend(["/usr/bin".into(), "/bin".into()]);
    let caller = Variables::from([
        ("PATH".into(), std::env::join_paths(&path).unwrap()),
        ("HOME".into(), root.clone().into()),
        ("JAVA_HOME".into(), "/no/such/folder".into()),
        ("NVM_DIR".into(), root.clone().into()),
    ]);
    let mut supervisor =
        Supervisor::new(env!("CARGO_BIN_EXE_loopexec").into(), Placement::Plain).unwrap();
    let tools = Toolchains::resolve(&mut supervisor, &caller, &root).unwrap();
    let real = |name: &str| tools.found.iter().find(|(known, _)| known == name).unwrap().1.clone();
    assert_eq!(real("ruby"), at(".rbenv/versions/3.3.0/bin/ruby"), "{tools:?}");
    assert_eq!(real("node"), node.join("node"), "{tools:?}");
    assert_eq!(real("java"), java, "{tools:?}");
    let names: Vec<&str> = tools.env.iter().map(|(name, _)| name.as_str()).collect();
    for name in
        ["RBENV_ROOT", "RBENV_VERSION", "MISE_DATA_DIR", "ASDF_DATA_DIR", "VOLTA_HOME", "NVM_DIR"]
    {
        assert!(names.contains(&name), "{name} {names:?}");
    }
    assert!(!names.contains(&"JAVA_HOME"));
    // volta failed, and nobody knows the shims of `.other`.
    assert!(tools.notes.iter().any(|note| note.contains("volta")), "{:?}", tools.notes);
    assert!(tools.notes.iter().any(|note| note.contains(".other")), "{:?}", tools.notes);
}
