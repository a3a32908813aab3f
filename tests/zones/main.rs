//! Zones from outside: what both prove from inside, what they do on hosts that allow little, what comes out of
//! them, and that nothing of one outlives its supervisor. Runs in them stand in `run`, containers in `oci`.

mod choice;
mod clone;
mod escapes;
mod groups;
mod landlock;
mod nested;
mod oci;
mod planted;
mod run;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// An unprivileged user that has no account here.
const SOMEBODY: &str = "4321";

/// A project in a folder that every user may enter, with this program beside it.
struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let ground = Self { folder };
        copy_program(env!("CARGO_BIN_EXE_loopexec"), &ground.at("loopexec"));
        for name in ["project", "home", "cache"] {
            std::fs::create_dir(ground.at(name)).unwrap();
        }
        std::fs::write(ground.at("home/secret"), "of the host").unwrap();
        std::fs::write(ground.at("project/file"), "one\n").unwrap();
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    /// The program as this user, behind these words.
    fn command(&self, before: &[&str]) -> Command {
        let program = self.at("loopexec").into_os_string();
        let mut words = before.iter().map(|word| std::ffi::OsString::from(*word)).chain([program]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).current_dir(self.at("project")).env_clear();
        command.env("HOME", self.at("home")).env("LOOPEXEC_CACHE", self.at("cache"));
        command.env("PATH", std::env::var_os("PATH").unwrap());
        for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let own = std::env::var_os(name).map(PathBuf::from);
            let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(folder)));
            command.envs(own.filter(|own| own.is_dir()).map(|own| (name, own)));
        }
        command.stdin(Stdio::null());
        command
    }

    fn isolate(&self, before: &[&str], args: &[&str]) -> Output {
        self.command(before).arg("isolate").args(args).output().unwrap()
    }

    /// Gives all of it to the unprivileged user.
    fn give_away(&self) {
        let user = format!("{SOMEBODY}:{SOMEBODY}");
        let done = Command::new("chown").arg("-R").arg(user).arg(self.folder.path()).status();
        assert!(done.unwrap().success());
    }
}

/// Copies a program that is run next. A process of its own does it: while this one holds the copy open for
/// writing, what another test forks holds it too, and a file that somebody writes to cannot be run.
fn copy_program(from: impl AsRef<OsStr>, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Words that make a command that of an unprivileged user: none where we are one.
fn unprivileged() -> Vec<&'static str> {
    match is_root() {
        true => vec!["setpriv", "--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups"],
        false => Vec::new(),
    }
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn proves(ground: &Ground, before: &[&str], backend: &str) {
    let output = ground.isolate(before, &["--canary", "--json"]);
    let said = json(&output);
    assert_eq!(said["backend"], backend, "{said}");
    let tables = said["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 2);
    for table in tables {
        let rows = table["rows"].as_array().unwrap();
        assert!(rows.len() > 50, "{table}");
        let secret = |row: &&Value| row["what"].as_str().unwrap().contains("home/secret");
        assert!(rows.iter().any(|row| secret(&row)), "the caller's HOME is looked for: {table}");
        for row in rows {
            assert_eq!(row["holds"], true, "{row}");
        }
    }
}

/// Waits until two processes sleep for `marker` seconds, kills who started them, and holds that they are gone a
/// second later.
fn dies_with_its_supervisor(child: &mut std::process::Child, marker: &str) {
    let living = || {
        let all = Command::new("ps").args(["-eo", "args"]).output().unwrap();
        let all = String::from_utf8_lossy(&all.stdout).into_owned();
        all.lines().filter(|line| *line == format!("sleep {marker}")).count()
    };
    let begun = Instant::now();
    while living() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(living(), 0, "a zone's process outlived its supervisor");
}

#[test]
fn both_zones_hold_for_an_unprivileged_user() {
    let ground = Ground::new();
    if is_root() {
        ground.give_away();
    }
    proves(&ground, &unprivileged(), "namespaces");
    let own = ground.isolate(&unprivileged(), &["--", "sh", "-c", "id -u; echo two >> file"]);
    let uid = if is_root() { SOMEBODY.to_owned() } else { nix::unistd::geteuid().to_string() };
    assert_eq!(String::from_utf8_lossy(&own.stdout).trim(), uid, "{own:?}");
    assert_eq!(std::fs::read_to_string(ground.at("project/file")).unwrap(), "one\ntwo\n");
}

#[test]
fn root_gives_its_commands_another_user_and_keeps_the_files() {
    use std::os::unix::fs::MetadataExt;
    if !is_root() {
        // What whoever is not root has of this backend is shown below.
        return;
    }
    let ground = Ground::new();
    proves(&ground, &[], "root");
    let script = "id -u; echo two >> file; echo x > made; chmod 600 made";
    let output = ground.isolate(&[], &["--", "sh", "-c", script]);
    let uid: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    assert!(uid > 65_535, "{output:?}");
    for name in ["file", "made"] {
        let found = std::fs::metadata(ground.at("project").join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (0, 0), "on disk {name} is the caller's");
    }
    let refused = ground.isolate(&[], &["--backend", "namespaces", "--", "true"]);
    assert_eq!(refused.status.code(), Some(30), "{refused:?}");
}

#[test]
fn sudo_lends_what_the_root_backend_needs_and_commands_stay_the_callers() {
    use std::os::unix::fs::MetadataExt;
    let ground = Ground::new();
    let asks_nothing = Command::new("sudo").args(["-n", "true"]).output();
    let helps = asks_nothing.expect("sudo is there").status.success();
    if !is_root() && !helps {
        let refused = ground.isolate(&[], &["--backend", "root", "--", "touch", "ran"]);
        assert_eq!(refused.status.code(), Some(30), "{refused:?}");
        assert!(text(&refused).contains("sudo does not help"), "{refused:?}");
        assert!(!ground.at("project/ran").exists());
        return;
    }
    // A user who may do everything by sudo, on a machine on which there is one.
    let lists = ground.at("lists").display().to_string();
    std::fs::create_dir(&lists).unwrap();
    let with = |name: &str, line: &str| {
        let text = std::fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
        std::fs::write(Path::new(&lists).join(name), format!("{text}{line}\n")).unwrap();
    };
    let script = format!(
        "for name in passwd shadow sudoers; do mount --bind {lists}/$name /etc/$name; done; \
         exec setpriv --reuid {SOMEBODY} --regid {SOMEBODY} --clear-groups \"$@\""
    );
    let mut before = Vec::new();
    let mut uid = nix::unistd::geteuid().as_raw();
    if is_root() {
        with("passwd", &format!("somebody:x:{SOMEBODY}:{SOMEBODY}::/:/bin/sh"));
        with("shadow", "somebody:*:19000:0:99999:7:::");
        with("sudoers", "somebody ALL=(ALL) NOPASSWD: ALL");
        let closed = std::fs::Permissions::from_mode(0o440);
        std::fs::set_permissions(Path::new(&lists).join("sudoers"), closed).unwrap();
        for name in ["home", "cache", "project", "project/file", "home/secret"] {
            let user = format!("{SOMEBODY}:{SOMEBODY}");
            assert!(
                Command::new("chown").arg(user).arg(ground.at(name)).status().unwrap().success()
            );
        }
        before = vec!["unshare", "-m", "sh", "-c", &script, "sh"];
        uid = SOMEBODY.parse().unwrap();
    }
    let output = ground.isolate(&before, &["--backend", "root", "--canary", "--json"]);
    let said = json(&output);
    assert_eq!(said["backend"], "root", "{said}");
    for table in said["tables"].as_array().unwrap() {
        let rows = table["rows"].as_array().unwrap();
        assert!(rows.len() > 50 && rows.iter().all(|row| row["holds"] == true), "{table}");
    }
    let inside =
        "id -u; echo two >> file; mkdir -p a/b; echo x > a/b/made; sudo -n id -u || echo no more";
    let output = ground.isolate(&before, &["--backend", "root", "--", "sh", "-c", inside]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.lines().collect::<Vec<_>>(), [&*uid.to_string(), "no more"], "{output:?}");
    for name in ["file", "a/b/made"] {
        let found = std::fs::metadata(ground.at("project").join(name)).unwrap();
        assert_eq!(found.uid(), uid, "{name}");
    }
    // Whole runs too, with what root's overlays leave behind.
    run::converges_behind(&ground, &before);
    let marker = format!("95{}", std::process::id());
    let mut child = ground
        .command(&before)
        .args(["isolate", "--backend", "root", "--", "sh", "-c"])
        .arg(format!("(setsid sleep {marker} &) ; trap '' TERM HUP; sleep {marker}"))
        .spawn()
        .unwrap();
    dies_with_its_supervisor(&mut child, &marker);
}

#[test]
fn a_host_that_allows_too_little_is_refused_and_runs_nothing() {
    let ground = Ground::new();
    if is_root() {
        ground.give_away();
    }
    // No further user namespaces; root of a namespace that knows no other user; no capabilities.
    let none = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let hosts: [&[&str]; 2] = [&["unshare", "-Ur", "sh", "-c", none, "sh"], &["unshare", "-U"]];
    for host in hosts {
        let before = [unprivileged(), host.to_vec()].concat();
        let output = ground.isolate(&before, &["--", "touch", "ran"]);
        assert_eq!(output.status.code(), Some(30), "{host:?}: {output:?}");
        assert!(!ground.at("project/ran").exists(), "{host:?}");
        let said = text(&output);
        assert!(said.contains("no backend isolates here"), "{said}");
        assert!(
            said.contains("where user namespaces are allowed or sudo asks for nothing, or as root"),
            "{said}"
        );
    }
    // A zone refuses what a container's filter of system calls does.
    copy_program(ground.at("loopexec"), &ground.at("project/loopexec"));
    let script = "env LOOPEXEC_CACHE=/tmp/cache ./loopexec isolate -- touch ran";
    let nested = ground.isolate(&unprivileged(), &["--", "sh", "-c", script]);
    assert_eq!(nested.status.code(), Some(30), "{nested:?}");
    assert!(!ground.at("project/ran").exists(), "{nested:?}");
}

#[test]
fn the_agent_zone_reaches_what_is_listed_and_every_attempt_is_told() {
    let ground = Ground::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 4];
        stream.read_exact(&mut asked).unwrap();
        stream.write_all(b"pong").unwrap();
        asked
    });
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\nping' >&3; cat <&3; \
         exec 4<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT example.com:443 HTTP/1.1\\r\\n\\r\\n' >&4; cat <&4; \
         echo \"$HTTPS_PROXY\"; (exec 5<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo direct"
    );
    let listed = format!("127.0.0.1:{port}");
    let args = ["--zone", "agent", "--egress", &listed, "--json", "--", "bash", "-c", &script];
    let said = json(&ground.isolate(&[], &args));
    assert_eq!(&server.join().unwrap(), b"ping", "{said}");
    let out = said["stdout"].as_str().unwrap();
    assert!(out.starts_with("HTTP/1.1 200") && out.contains("pong"), "{said}");
    assert!(out.contains("HTTP/1.1 403") && out.contains("not listed"), "{said}");
    assert!(out.contains("http://127.0.0.1:3128") && !out.contains("direct"), "{said}");
    let attempts = said["egress"]["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{said}");
    assert_eq!((&attempts[0]["target"], &attempts[0]["up"]), (&listed.clone().into(), &4.into()));
    assert_eq!((&attempts[0]["allowed"], &attempts[0]["down"]), (&true.into(), &4.into()));
    assert_eq!(
        (&attempts[1]["target"], &attempts[1]["allowed"]),
        (&"example.com:443".into(), &false.into())
    );
    let refused = ground.isolate(&[], &["--egress", &listed, "--", "true"]);
    assert_eq!(refused.status.code(), Some(2), "the exec zone has no way out: {refused:?}");
}

#[test]
fn what_is_tried_against_the_host_and_its_keeper_fails() {
    let ground = Ground::new();
    std::fs::create_dir_all(ground.at("project/.git/hooks")).unwrap();
    std::fs::write(ground.at("project/.git/config"), "[core]\n").unwrap();
    let beside = ground.at("home/secret");
    let script = r#"
        try() { if "$@" >/dev/null 2>&1; then echo "WORKED: $*"; fi; }
        try cat /proc/1/environ; try ls /proc/1/root/; try cat /proc/1/maps; try ls /proc/1/fd
        try kill -9 1; kill -0 1 2>/dev/null; try kill -STOP 1
        try cat "$SECRET"; try ln "$SECRET" linked; try cp /etc/shadow shadow
        ln -s "$SECRET" link; try cat link; ln -s /proc/1/root/etc rooted; try ls rooted/shadow
        try mkdir /usr/x; try touch /etc/x; try touch /.x; try rm -rf /etc/hostname
        try sh -c 'echo x > .git/config'; try touch .git/hooks/post-checkout; try rm -rf .git/hooks; try mv .git/config c
        try mknod device c 1 3; try mknod disk b 8 0; try chown 0:0 file
        try sh -c 'echo 1 > /proc/sys/kernel/core_pattern'
        try mount -t tmpfs none /tmp; try umount /tmp; try unshare -r true; try nsenter -t 1 -m true; try chroot / true
        cp "$(command -v id)" setuid; try chmod 4755 setuid; try chmod u+s setuid; try chmod g+s setuid
        try install -m 4755 setuid other; try mv .git moved; try sh -c 'echo ../evil > .git/commondir'
        id -u; echo done"#;
    let secret = beside.display().to_string();
    let script = format!("SECRET={secret}\n{script}");
    let output = ground.isolate(&[], &["--", "sh", "-c", &script]);
    let said = text(&output);
    assert!(said.ends_with("done\n"), "{said}");
    assert!(!said.contains("WORKED"), "{said}");
    assert!(!said.lines().any(|line| line == "0"), "{said}");
    for entry in std::fs::read_dir(ground.at("project")).unwrap().flatten() {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o6000, 0, "{entry:?}");
    }
    assert_eq!(std::fs::read_to_string(&beside).unwrap(), "of the host");
    assert_eq!(std::fs::read_to_string(ground.at("project/.git/config")).unwrap(), "[core]\n");
}

#[test]
fn tools_work_inside() {
    let ground = Ground::new();
    let run = |script: &str| {
        let output = ground.isolate(&[], &["--", "sh", "-ec", script]);
        assert!(output.status.success(), "{script}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let cargo = "mkdir -p crate/src && cd crate && printf '[package]\\nname=\"a\"\\nversion=\"0.1.0\"\\n' > Cargo.toml && \
        printf '#[test]\\nfn a() {}\\n' > src/lib.rs && cargo test -q --offline && cargo test -q --offline";
    assert_eq!(run(cargo).matches("1 passed").count(), 2);
    run(
        "python3 -m venv --without-pip venv && venv/bin/python -c 'import ssl, sqlite3, multiprocessing as m; m.Lock()'",
    );
    let node = "mkdir -p node_modules/a && echo 'module.exports = 7' > node_modules/a/index.js && \
        node -e 'require(\"os\").tmpdir(); require(\"http\").createServer((q, r) => r.end()).listen(0, function () { this.close(); console.log(require(\"a\")) })'";
    assert_eq!(run(node).trim(), "7");
    if Command::new("go").arg("version").output().is_ok() {
        run("mkdir -p gone && cd gone && printf 'module a\\n\\ngo 1.19\\n' > go.mod && \
            printf 'package a\\n\\nimport \"testing\"\\n\\nfunc TestA(t *testing.T) {}\\n' > a_test.go && go test ./...");
    }
    run(
        "git init -q g && cd g && touch f && git add f && git commit -qm f && test -n \"$(git log --oneline)\"",
    );
}

#[test]
fn a_bomb_of_processes_is_bounded_and_nothing_outlives_a_killed_supervisor() {
    let ground = Ground::new();
    let bomb = "import os, sys, time\nn = 0\ntry:\n    while n < 6000:\n        if os.fork() == 0: time.sleep(100)\n        n += 1\nexcept OSError as e: print(n, e.strerror)\nelse: print(n, 'and no end')\nsys.stdout.flush()";
    let output = ground.isolate(&[], &["--json", "--", "python3", "-c", bomb]);
    let said = json(&output)["stdout"].as_str().unwrap().to_owned();
    let (count, why) = said.trim().split_once(' ').unwrap_or_else(|| panic!("{output:?}"));
    assert!((3000..4096).contains(&count.parse::<u32>().unwrap()), "{said}");
    assert_eq!(why, "Resource temporarily unavailable", "{said}");

    let marker = format!("97{}", std::process::id());
    let script = format!("(setsid sleep {marker} &) ; trap '' TERM HUP; sleep {marker}");
    let mut child =
        ground.command(&[]).args(["isolate", "--", "sh", "-c", &script]).spawn().unwrap();
    dies_with_its_supervisor(&mut child, &marker);
    assert!(Path::new(&ground.at("project")).exists());
}

#[test]
fn what_the_tree_holds_decides_nothing_outside_of_it() {
    let ground = Ground::new();
    let secret = ground.at("home/.ssh");
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::write(secret.join("id"), "of the host").unwrap();
    let read = format!("cat {}; cat .venv/bin/* bin/*; ls .venv/bin/", secret.join("id").display());
    let venv = ground.at("project/.venv");
    std::fs::create_dir_all(venv.join("bin")).unwrap();
    std::fs::write(venv.join("pyvenv.cfg"), format!("home = {}\n", secret.display())).unwrap();
    std::os::unix::fs::symlink(secret.join("id"), venv.join("bin/python3")).unwrap();
    std::os::unix::fs::symlink(&secret, ground.at("project/bin")).unwrap();
    // A program of the tree that is first on the path is run inside alone.
    let ran = ground.at("home/ran");
    let program = format!("#!/bin/sh\ntouch {}\nexec /usr/bin/git \"$@\"\n", ran.display());
    for name in ["git", "rustup", "asdf"] {
        std::fs::write(venv.join("bin").join(name), &program).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(venv.join("bin").join(name), mode).unwrap();
    }
    let own = std::env::var("PATH").unwrap();
    let path =
        format!("{}:{}:.:{own}", venv.join("bin").display(), ground.at("project/bin").display());
    for zone in ["exec", "agent"] {
        let output = ground
            .command(&[])
            .env("PATH", &path)
            .args(["isolate", "--zone", zone, "--", "/bin/sh", "-c", &read])
            .output()
            .unwrap();
        assert!(
            text(&output).contains("rustup") && !text(&output).contains("of the host"),
            "{output:?}"
        );
    }
    assert!(!ran.exists(), "a program of the tree ran on the host");
}

#[test]
fn trees_that_would_show_too_much_are_refused() {
    let ground = Ground::new();
    let refused = |ground: &Ground, folder: &Path, word: &str| {
        let output = ground
            .command(&[])
            .current_dir(folder)
            .args(["isolate", "--", "true"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(30), "{folder:?}: {output:?}");
        assert!(text(&output).contains(word), "{folder:?}: {output:?}");
    };
    refused(&ground, &ground.at("home"), "holds your HOME");
    refused(&ground, Path::new("/usr/lib"), "part of the system");
    // Places that are kept from the command lead nowhere else.
    for name in [".git", ".loopexec", ".loop_state.json"] {
        let link = ground.at("project").join(name);
        std::os::unix::fs::symlink(ground.at("home"), &link).unwrap();
        let output = ground.isolate(&[], &["--", "cat", &format!("{name}/secret")]);
        assert!(!text(&output).contains("of the host"), "{name}: {output:?}");
        assert_ne!(output.status.code(), Some(0), "{name}: {output:?}");
        std::fs::remove_file(link).unwrap();
    }
    // git leads elsewhere.
    let git = |folder: &Path, args: &[&str]| {
        let done = Command::new("git").arg("-C").arg(folder).args(args).status();
        assert!(done.unwrap().success());
    };
    let other = ground.at("other");
    std::fs::create_dir(&other).unwrap();
    git(&other, &["init", "-q"]);
    git(&ground.at("project"), &["init", "-q"]);
    git(&ground.at("project"), &["config", "core.worktree", other.to_str().unwrap()]);
    refused(&ground, &ground.at("project"), "which does not hold it");
}

#[test]
fn what_a_killed_one_leaves_goes_with_the_next_and_a_living_one_stays() {
    let ground = Ground::new();
    let folders = || {
        let caches = std::fs::read_dir(ground.at("cache")).unwrap().flatten();
        caches.flat_map(|key| std::fs::read_dir(key.path()).unwrap().flatten()).count()
    };
    let start = || ground.command(&[]).args(["isolate", "--", "sleep", "300"]).spawn().unwrap();
    let (mut killed, mut living) = (start(), start());
    let begun = Instant::now();
    while folders() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "they never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(ground.isolate(&[], &["--", "true"]).status.success());
    assert_eq!(folders(), 1, "the living one's folder stays alone");
    living.kill().unwrap();
    living.wait().unwrap();
}

#[test]
fn what_a_command_writes_comes_out_byte_for_byte() {
    let ground = Ground::new();
    let output = ground
        .isolate(&[], &["--", "sh", "-c", "printf '\\377\\000a\\n'; printf '\\376' >&2; exit 7"]);
    assert_eq!(output.stdout, b"\xff\x00a\n");
    assert_eq!((output.stderr.as_slice(), output.status.code()), (&b"\xfe"[..], Some(7)));
}
