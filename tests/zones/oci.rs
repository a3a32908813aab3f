//! Zones in containers: the proof from inside, runs, and what is said where an engine, its daemon or the image is missing.
//!
//! The image is made of this machine's own files; nothing comes from a registry. Docker's daemon is started by the
//! test that needs it, where root runs it.

use super::{Ground, SOMEBODY, dies_with_its_supervisor, is_root, json, text};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What the image holds.
const PROGRAMS: [&str; 9] = ["bash", "cat", "grep", "id", "ls", "setsid", "sh", "sleep", "touch"];

/// An image of its own.
struct Image {
    engine: Engine,
    name: String,
}

/// An engine's client.
struct Engine {
    word: &'static str,
    /// Words that make a command that of another user.
    before: Vec<String>,
    /// Where its daemon or its storage is.
    env: Vec<(&'static str, OsString)>,
}

impl Engine {
    /// Podman as whoever runs the tests has it.
    fn podman() -> Self {
        // Its storage is found by HOME where it is not root's.
        let env = vec![("HOME", std::env::var_os("HOME").unwrap())];
        Self { word: "podman", before: Vec::new(), env }
    }

    fn command(&self) -> Command {
        let words: Vec<&str> = self.before.iter().map(String::as_str).chain([self.word]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir("/").envs(self.env.clone()).stdin(Stdio::null());
        command
    }
}

impl Image {
    fn new(ground: &Ground, engine: Engine) -> Self {
        let root = ground.at("image");
        for name in ["bin", "etc", "proc", "tmp"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::set_permissions(root.join("tmp"), std::fs::Permissions::from_mode(0o1777))
            .unwrap();
        for name in PROGRAMS {
            let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output();
            let file = String::from_utf8(found.unwrap().stdout).unwrap();
            put(&root, Path::new(file.trim()), &Path::new("/bin").join(name));
        }
        let tar = ground.at("image.tar");
        let made = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status();
        assert!(made.unwrap().success());
        let number =
            ground.at("").display().to_string().replace(|c: char| !c.is_alphanumeric(), "");
        let name = format!("localhost/loopexec-test{}:1", number.to_lowercase());
        let image = Self { engine, name };
        let output = image
            .engine
            .command()
            .args(["import", "--change", "ENV FROM_IMAGE=yes", "--change", "VOLUME /data"])
            .arg(&tar)
            .arg(&image.name)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        image
    }

    /// The program of a ground, told of the engine's daemon.
    fn command(&self, ground: &Ground) -> Command {
        let before: Vec<&str> = self.engine.before.iter().map(String::as_str).collect();
        let mut command = ground.command(&before);
        command.envs(self.engine.env.clone());
        command
    }

    fn isolate(&self, ground: &Ground, args: &[&str]) -> Output {
        self.isolating(ground).args(args).output().unwrap()
    }

    fn isolating(&self, ground: &Ground) -> Command {
        let mut command = self.command(ground);
        command.args(["isolate", "--backend", "oci", "--image", &self.name]);
        command.args(["--engine", self.engine.word]);
        command
    }

    /// Runs a loop to its green; `more` are further lines of it, `isolation` of its zones.
    fn converges(&self, ground: &Ground, exec: &str, more: &str, isolation: &str) -> Value {
        let exec = exec.replace('\n', "\n  ");
        let text = format!(
            "version: 1\nmodel: none\ngoal: Say yes.\nexec: |\n  {exec}\nlimits: {{iterations: 3}}\n{more}\
             isolation:\n  backend: oci\n  image: {}\n  engine: {}\n{isolation}",
            self.name, self.engine.word
        );
        std::fs::write(ground.at("project/loop.yml"), text).unwrap();
        std::fs::write(ground.at("project/done"), "no\n").unwrap();
        ground.git(&["init", "-q"]);
        ground.git(&["add", "-A"]);
        ground.git(&["commit", "-qm", "start"]);
        let output = self.command(ground).args(["run", "--json"]).output().unwrap();
        let said = json(&output);
        let told = super::text(&output);
        assert_eq!(said["halt_reason"], "success_condition_met", "{told}\n{}", ground.outputs());
        said
    }

    /// Both zones hold, files stay their owner's, bytes and codes come out as they are.
    fn holds(&self, ground: &Ground) {
        let output = self.isolate(ground, &["--canary", "--json"]);
        let said = json(&output);
        assert_eq!(said["backend"], "oci", "{said}");
        let tables = said["tables"].as_array().unwrap();
        assert_eq!(tables.len(), 2);
        for table in tables {
            let rows = table["rows"].as_array().unwrap();
            assert!(rows.len() > 50, "{table}");
            rows.iter().for_each(|row| assert_eq!(row["holds"], true, "{row}"));
        }
        let script = "id -u; echo two >> file; echo x > made; echo \"$FROM_IMAGE\"; set -- /proc/[0-9]*; echo $#; \
            printf '\\377\\000'; echo err > /dev/stderr; exit 7";
        let output = self.isolate(ground, &["--", "bash", "-c", script]);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert!(output.stdout.ends_with(b"\nyes\n2\n\xff\0"), "{output:?}");
        assert!(text(&output).contains("err\n"), "{output:?}");
        let uid = output.stdout.split(|byte| *byte == b'\n').next().unwrap();
        assert_ne!(uid, b"0", "{output:?}");
        let own = std::fs::metadata(ground.at("project")).unwrap().uid();
        for name in ["file", "made"] {
            let found = std::fs::metadata(ground.at("project").join(name)).unwrap();
            assert_eq!(found.uid(), own, "on disk {name} is the caller's");
        }
        assert_eq!(std::fs::read_to_string(ground.at("project/file")).unwrap(), "one\ntwo\n");
    }

    /// Nothing of a container outlives its supervisor, and the engine has cleared it away.
    fn dies(&self, ground: &Ground, marker: &str) {
        let marker = format!("{marker}{}", std::process::id());
        let script = format!("(setsid sleep {marker} &) ; trap '' TERM HUP; sleep {marker}");
        let mut child = self.isolating(ground).args(["--", "bash", "-c", &script]).spawn().unwrap();
        dies_with_its_supervisor(&mut child, &marker);
        let begun = Instant::now();
        loop {
            let mut list = self.engine.command();
            let filter = format!("ancestor={}", self.name);
            let listed =
                list.args(["ps", "--all", "--quiet", "--filter", &filter]).output().unwrap();
            assert!(listed.status.success(), "{listed:?}");
            if listed.stdout.is_empty() {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "a container is left: {listed:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.engine.command().args(["rmi", "--force", &self.name]).output();
    }
}

/// Copies a program with the libraries that it names.
fn put(root: &Path, file: &Path, to: &Path) {
    let listed = Command::new("ldd").arg(file).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    let libraries = libraries.map(|word| (PathBuf::from(word), PathBuf::from(word)));
    for (from, to) in libraries.chain([(file.to_owned(), to.to_owned())]) {
        let to = root.join(to.strip_prefix("/").unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }
}

/// A daemon of docker's with everything in a folder of its own.
struct Daemon {
    child: Child,
    folder: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let log = std::fs::File::create(at("log")).unwrap();
        let child = Command::new("dockerd")
            .args(["--bridge=none", "--iptables=false", "--ip6tables=false"])
            .arg("--data-root")
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--pidfile")
            .arg(at("pid"))
            .arg("--host")
            .arg(format!("unix://{}", at("socket").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("dockerd can be started");
        let daemon = Self { child, folder };
        let begun = Instant::now();
        while !daemon.client().command().arg("version").output().unwrap().status.success() {
            let log = std::fs::read_to_string(daemon.folder.path().join("log")).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(90), "no daemon: {log}");
            std::thread::sleep(Duration::from_millis(200));
        }
        daemon
    }

    fn client(&self) -> Engine {
        let socket = self.folder.path().join("socket");
        let host = format!("unix://{}", socket.display());
        Engine { word: "docker", before: Vec::new(), env: vec![("DOCKER_HOST", host.into())] }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
        // It leaves the host's network mounted there, and the folder could not be removed.
        let left = self.folder.path().join("exec/netns/default");
        let _ = Command::new("umount").arg(left).stderr(Stdio::null()).status();
    }
}

#[test]
fn both_zones_hold_in_containers_of_podman_and_nothing_outlives_a_killed_supervisor() {
    let ground = Ground::new();
    let image = Image::new(&ground, Engine::podman());
    image.holds(&ground);
    image.dies(&ground, "93");
}

#[test]
fn a_launcher_that_is_killed_is_no_end_of_its_command() {
    let ground = Ground::new();
    let image = Image::new(&ground, Engine::podman());
    let script = "touch begun; exec sleep 300";
    let mut command = image.isolating(&ground);
    command.args(["--", "bash", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = Instant::now();
    while !ground.at("project/begun").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    for launcher in std::fs::read_to_string(children).unwrap().split_whitespace() {
        let launcher = nix::unistd::Pid::from_raw(launcher.parse().unwrap());
        nix::sys::signal::kill(launcher, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(30), "{output:?}");
    assert!(text(&output).contains("was ended from outside"), "{output:?}");
}

#[test]
fn podman_without_root_gives_commands_their_callers_user() {
    if !is_root() {
        // The other tests have been that.
        return;
    }
    let ground = Ground::new();
    // A user with an account and subordinate ids, on a machine on which there is one.
    let lists = ground.at("lists");
    let home = ground.at("home");
    std::fs::create_dir(&lists).unwrap();
    for (name, line) in [
        ("passwd", format!("somebody:x:{SOMEBODY}:{SOMEBODY}::{}:/bin/sh", home.display())),
        ("group", format!("somebody:x:{SOMEBODY}:")),
        ("subuid", "somebody:1000000:65536".to_owned()),
        ("subgid", "somebody:1000000:65536".to_owned()),
    ] {
        let text = std::fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
        std::fs::write(lists.join(name), format!("{text}{line}\n")).unwrap();
    }
    let run = ground.at("run");
    std::fs::create_dir(&run).unwrap();
    ground.give_away();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o700)).unwrap();
    let script = format!(
        "for name in passwd group subuid subgid; do mount --bind {}/$name /etc/$name; done; \
         exec setpriv --reuid {SOMEBODY} --regid {SOMEBODY} --clear-groups \"$@\"",
        lists.display()
    );
    let before = ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
    let env = vec![("HOME", home.into_os_string()), ("XDG_RUNTIME_DIR", run.clone().into())];
    let image = Image::new(&ground, Engine { word: "podman", before, env });
    image.holds(&ground);
    image.dies(&ground, "91");
    drop(image);
    // What keeps its user namespace stays until somebody ends it.
    let kept = std::fs::read_to_string(run.join("libpod/tmp/pause.pid")).unwrap();
    let kept = nix::unistd::Pid::from_raw(kept.trim().parse().unwrap());
    nix::sys::signal::kill(kept, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn containers_of_docker_hold_as_well_and_are_bounded_by_their_daemon() {
    if !is_root() {
        // Its daemon is root's.
        return;
    }
    let daemon = Daemon::start();
    let ground = Ground::new();
    let image = Image::new(&ground, daemon.client());
    image.holds(&ground);
    image.dies(&ground, "92");
    // What runs below the daemon is bounded like what runs below us.
    let exec =
        "test -e big && echo yes > done; touch big; printf -v x '%*s' 500000000 ''; sleep 20";
    let check = "check: grep -q yes done\n";
    image.converges(&ground, exec, check, "  agent: {memory: 200MiB}\n");
    let events = ground.events();
    let limits: Vec<&str> = events.iter().filter_map(|event| event["limit"].as_str()).collect();
    assert_eq!(limits, ["memory", "memory"], "{}", ground.outputs());
}

#[test]
fn a_run_in_containers_converges_and_the_receipt_says_what_they_were_made_from() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 4];
            if stream.read_exact(&mut asked).is_ok() {
                let _ = stream.write_all(b"pong");
            }
        }
    });
    let ground = Ground::new();
    let image = Image::new(&ground, Engine::podman());
    let secret = ground.at("home/secret").display().to_string();
    let reach = format!("(exec 3<>/dev/tcp/127.0.0.1/{port})");
    let ask = |target: &str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {target} HTTP/1.1\\r\\n\\r\\nping' >&3; cat <&3 || :; exec 3>&-"
        )
    };
    // What the loop shows of this machine is there, beside the image.
    let (data, out) = (ground.at("data"), ground.at("out"));
    std::fs::create_dir(&data).unwrap();
    std::fs::create_dir(&out).unwrap();
    std::fs::write(data.join("it"), "of data\n").unwrap();
    let (data, out) = (data.display(), out.display());
    let exec = format!(
        "cat {data}/it; touch {data}/x && echo REACHED; echo x > {out}/made\n\
         cat {secret} && echo REACHED; ls /usr/share && echo REACHED; {reach} 2>/dev/null && echo REACHED\n\
         {}\n{}\necho \"$FROM_IMAGE $HTTPS_PROXY\"; (setsid sleep 300 &)\necho yes > done",
        ask(&format!("127.0.0.1:{port}")),
        ask("example.com:443"),
    );
    // setup has the caller's network, and the check what is declared.
    let more = format!(
        "setup: |\n  {reach}\n  test $FROM_IMAGE = yes\n\
         check:\n  services: [{{address: 'localhost:{port}', reset: 'true'}}]\n  run: |\n    {reach}\n    test -z \"$HTTPS_PROXY\"\n    grep -q yes done\n"
    );
    let egress = format!(
        "  egress: ['127.0.0.1:{port}']\n  agent: {{read: ['{data}'], write: ['{out}']}}\n"
    );
    let said = image.converges(&ground, &exec, &more, &egress);
    assert_eq!(said["isolation"]["backend"], "oci", "{said}");
    assert_eq!(said["isolation"]["degraded"], false, "{said}");
    let outputs = ground.outputs();
    assert!(outputs.contains("pong") && outputs.contains("yes http://127.0.0.1:3128"), "{outputs}");
    assert!(outputs.contains("not listed") && !outputs.contains("REACHED"), "{outputs}");
    assert!(outputs.contains("of data"), "{outputs}");
    let (made, folder) = (ground.at("out/made"), ground.at("out"));
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&made), owner(&folder), "on disk it is the caller's");
    let facts = &ground.start()["isolation"]["zones"];
    assert_eq!((&facts["engine"], &facts["image"]), (&"podman".into(), &image.name.clone().into()));
    let id = facts["image_id"].as_str().unwrap();
    let known =
        Command::new("podman").args(["image", "inspect", "--format", "{{.Id}}", id]).output();
    assert_eq!(String::from_utf8(known.unwrap().stdout).unwrap().trim(), id);
    assert!(!facts["engine_version"].as_str().unwrap().is_empty(), "{facts}");
    assert_eq!(std::fs::read_to_string(ground.at("project/done")).unwrap(), "yes\n");
    for command in ["verify", "replay"] {
        let output = image.command(&ground).args([command, "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output));
    }
    let report = text(&image.command(&ground).arg("report").output().unwrap());
    assert!(report.contains(&format!("image {} by podman", image.name)), "{report}");
    let caches = std::fs::read_dir(ground.at("cache")).unwrap().flatten();
    let left: Vec<_> =
        caches.flat_map(|key| std::fs::read_dir(key.path()).unwrap().flatten()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_is_missing_is_said_in_one_sentence_and_nothing_runs() {
    let ground = Ground::new();
    // A path on which there is git, and no engine.
    let nothing = ground.at("nothing");
    std::fs::create_dir(&nothing).unwrap();
    let git = Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout;
    let git = PathBuf::from(String::from_utf8(git).unwrap().trim());
    std::os::unix::fs::symlink(git, nothing.join("git")).unwrap();
    let refused = |args: &[&str], change: &dyn Fn(&mut Command)| {
        let mut command = ground.command(&[]);
        command.env("HOME", std::env::var_os("HOME").unwrap());
        command.args(["isolate", "--backend", "oci"]).args(args);
        change(command.args(["--", "touch", "ran"]));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(30), "{args:?}: {output:?}");
        assert!(!ground.at("project/ran").exists(), "{args:?}");
        let said = text(&output);
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        said
    };
    let as_is = |_: &mut Command| {};
    let no_programs = |command: &mut Command| {
        command.env("PATH", &nothing);
    };
    let no_daemon = |command: &mut Command| {
        command.env("DOCKER_HOST", format!("unix://{}", nothing.join("socket").display()));
    };
    for (said, words) in [
        (refused(&["--image", "a"], &no_programs), "neither podman nor docker on PATH: install"),
        (refused(&["--image", "a", "--engine", "docker"], &no_programs), "no program `docker`"),
        (refused(&["--image", "a", "--engine", "docker"], &no_daemon), "no daemon of it answers"),
        (
            refused(&["--image", "localhost/none:1", "--engine", "podman"], &as_is),
            "podman has no image `localhost/none:1` here, and loopexec pulls none: `podman pull",
        ),
        (refused(&["--image=-a", "--engine", "podman"], &as_is), "the name of no image"),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // A program of the tree is not run out here, whatever it is called.
    let folder = ground.at("project/bin");
    std::fs::create_dir(&folder).unwrap();
    let ran = ground.at("home/ran");
    std::fs::write(folder.join("podman"), format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    std::fs::set_permissions(folder.join("podman"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let trees = |command: &mut Command| {
        command.env("PATH", std::env::join_paths([&folder, &nothing]).unwrap());
    };
    let said = refused(&["--image", "a"], &trees);
    assert!(said.contains("neither podman nor docker"), "{said}");
    assert!(!ran.exists(), "a program of the tree ran on the host");
}
