//! Runs in zones: what exec and the check reach, what is recorded, and that the rest of a run is as it is elsewhere.

use super::{Ground, SOMEBODY, dies_with_its_supervisor, is_root, json, text, unprivileged};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use std::process::{Command, Output, Stdio};

/// The backend of whoever runs the tests.
pub(super) fn backend() -> &'static str {
    if is_root() { "root" } else { "namespaces" }
}

impl Ground {
    /// Writes a loop whose check wants `done` to say yes; `more` are further lines.
    pub(super) fn project(&self, exec: &str, more: &str) {
        self.lines(backend(), exec, "grep -q yes done", more);
    }

    pub(super) fn lines(&self, backend: &str, exec: &str, check: &str, more: &str) {
        let exec = exec.replace('\n', "\n  ");
        let text = format!(
            "version: 1\nmodel: none\ngoal: Say yes.\nexec: |\n  {exec}\ncheck: |\n  {check}\n\
             limits: {{iterations: 3}}\nisolation:\n  backend: {backend}\n{more}"
        );
        std::fs::write(self.at("project/loop.yml"), text).unwrap();
        std::fs::write(self.at("project/done"), "no\n").unwrap();
        self.git(&["init", "-q"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "start"]);
    }

    /// Changes the loop file and commits it.
    pub(super) fn edit(&self, from: &str, to: &str) {
        let path = self.at("project/loop.yml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        self.git(&["commit", "-qam", "edited"]);
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.invalid",
                "-c",
                "safe.directory=*",
            ])
            .args(args)
            .current_dir(self.at("project"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(super) fn run(&self, before: &[&str]) -> (Value, Output) {
        let output = self.command(before).args(["run", "--json"]).output().unwrap();
        (json(&output), output)
    }

    pub(super) fn converges(&self, before: &[&str]) -> Value {
        let (said, output) = self.run(before);
        assert_eq!(
            said["halt_reason"],
            "success_condition_met",
            "{}\n{}",
            text(&output),
            self.outputs()
        );
        said
    }

    /// All events of the latest receipt.
    pub(super) fn events(&self) -> Vec<Value> {
        let mut runs: Vec<_> = std::fs::read_dir(self.at("project/.loopexec/runs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        runs.sort();
        let text = std::fs::read_to_string(runs.last().unwrap().join("receipt.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What all commands printed.
    pub(super) fn outputs(&self) -> String {
        fn tails(value: &Value, found: &mut String) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(tail)) = map.get("tail") {
                        found.push_str(tail);
                    }
                    map.values().for_each(|value| tails(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| tails(value, found)),
                _ => {}
            }
        }
        let mut found = String::new();
        self.events().iter().for_each(|event| tails(event, &mut found));
        found
    }

    pub(super) fn start(&self) -> Value {
        let events = self.events();
        events.into_iter().find(|event| event.get("isolation").is_some()).unwrap()
    }
}

/// Says what exec and the check can reach that they must not.
const LOOK: &str = r#"cat "$SECRET" && echo REACHED
ls "$TREE/.loopexec" && echo REACHED
ls "$CACHE"/*/*/layer "$CACHE"/*/*/copies && echo REACHED
ls "$CACHE"/*/*/snapshots "$CACHE"/*/*/zone && echo REACHED
touch /usr/x && echo REACHED
(exec 3<>/dev/tcp/127.0.0.1/$PORT) 2>/dev/null && echo REACHED
test "$(ls /proc | grep -c '^[0-9]')" -lt 20 || echo REACHED
test "$(pwd)" = "$TREE" || echo ELSEWHERE"#;

fn look(ground: &Ground, port: u16) -> String {
    let at = |name: &str| ground.at(name).display().to_string();
    format!(
        "SECRET={} TREE={} CACHE={} PORT={port}\n{LOOK}",
        at("home/secret"),
        at("project"),
        at("cache")
    )
}

/// A run under the backend `root` of whoever is behind these words; its cache goes without a trace.
pub(super) fn converges_behind(ground: &Ground, before: &[&str]) {
    let exec = "id -u; rm -rf old; mkdir -p old; echo new > old/new; echo yes > done";
    std::fs::create_dir(ground.at("project/old")).unwrap();
    std::fs::write(ground.at("project/old/was"), "").unwrap();
    std::fs::write(ground.at("project/.gitignore"), "kept\n").unwrap();
    std::fs::create_dir(ground.at("project/kept")).unwrap();
    std::fs::write(ground.at("project/kept/it"), "").unwrap();
    let check = "test -e kept/it && rm -rf kept && mkdir kept && : > kept/it && ! cat old/was 2>/dev/null && grep -q yes done";
    ground.lines("root", exec, check, "");
    if is_root() {
        let user = format!("{SOMEBODY}:{SOMEBODY}");
        let given = Command::new("chown").args(["-R", &user]).arg(ground.at("project")).status();
        assert!(given.unwrap().success());
    }
    let said = ground.converges(before);
    assert_eq!(said["isolation"]["backend"], "root", "{said}");
    let caches = std::fs::read_dir(ground.at("cache")).unwrap().flatten();
    let left: Vec<_> =
        caches.flat_map(|key| std::fs::read_dir(key.path()).unwrap().flatten()).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn reaches_nothing(before: &[&str], backend: &str) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let ground = Ground::new();
    let look = look(&ground, port);
    let script = format!("{look}\ngrep -q yes done\n");
    std::fs::write(ground.at("project/check.sh"), script).unwrap();
    let exec = format!("{look}\nmkfifo pipe; (setsid sleep 300 &)\necho yes > done");
    ground.lines(backend, &exec, "bash check.sh 2>&1", "");
    // A check that looks outside on purpose is told so where it may be.
    ground.edit("check: |\n  bash", "check:\n  diagnose: off\n  run: bash");
    if !before.is_empty() {
        ground.give_away();
    }
    let said = ground.converges(before);
    let outputs = ground.outputs();
    assert!(!outputs.contains("REACHED") && !outputs.contains("ELSEWHERE"), "{outputs}");
    assert!(outputs.contains("No such file"), "it looked: {outputs}");
    assert_eq!(said["isolation"]["backend"], backend, "{said}");
    assert_eq!(said["isolation"]["degraded"], false, "{said}");
    let isolation = &ground.start()["isolation"];
    for zone in ["agent", "exec"] {
        assert!(isolation["zones"]["proof"][zone].as_u64().unwrap() > 50, "{isolation}");
    }
    assert_eq!(std::fs::read_to_string(ground.at("project/done")).unwrap(), "yes\n");
    for command in ["verify", "replay"] {
        let output = ground.command(before).args([command, "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output));
    }
    let report = ground.command(before).arg("report").output().unwrap();
    let line = format!("{backend}; overlay copies; ");
    assert!(
        text(&report).contains(&line) || text(&report).contains("real copies"),
        "{}",
        text(&report)
    );
    assert!(text(&report).contains("exec reaches nothing"), "{}", text(&report));
}

#[test]
fn exec_and_check_reach_nothing_and_the_receipt_says_what_held() {
    reaches_nothing(&[], backend());
    if is_root() {
        reaches_nothing(&unprivileged(), "namespaces");
    }
}

#[test]
fn exec_reaches_what_the_loop_lists_and_every_attempt_is_in_the_receipt() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut asked = [0; 4];
            let _ = stream.unwrap().read_exact(&mut asked);
        }
    });
    let ground = Ground::new();
    let connect = |target: &str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {target} HTTP/1.1\\r\\n\\r\\nping' >&3; head -1 <&3; exec 3>&-"
        )
    };
    let exec = format!(
        "{}\n{}\necho \"$HTTPS_PROXY\"\necho yes > done",
        connect(&format!("127.0.0.1:{port}")),
        connect("example.com:443")
    );
    // The check has no way out, and is told of none.
    let check = "test -z \"$HTTPS_PROXY\" && ! (exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null && grep -q yes done";
    ground.lines(backend(), &exec, check, &format!("  egress: ['127.0.0.1:{port}']\n"));
    ground.converges(&[]);
    let events = ground.events();
    let egress = events.iter().find_map(|event| {
        let event = event.to_string();
        event.contains("\"egress\":{\"attempts\"").then_some(event)
    });
    let egress = egress.unwrap_or_else(|| panic!("{events:#?}"));
    assert!(
        egress.contains(&format!("\"target\":\"127.0.0.1:{port}\",\"allowed\":true")),
        "{egress}"
    );
    assert!(egress.contains("\"target\":\"example.com:443\",\"allowed\":false"), "{egress}");
    assert!(ground.outputs().contains("http://127.0.0.1:3128"), "{}", ground.outputs());
}

#[test]
fn setup_has_the_callers_network_unless_the_loop_says_otherwise() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let reach = format!("(exec 3<>/dev/tcp/127.0.0.1/{port})");
    let ground = Ground::new();
    let secret = ground.at("home/secret");
    let setup = format!("setup: |\n  {reach}\n  ! cat {} 2>/dev/null\n", secret.display());
    ground.project("echo yes > done", &setup);
    ground.converges(&[]);
    let ground = Ground::new();
    ground.project("echo yes > done", &format!("setup: {{run: \"! {reach}\", network: none}}\n"));
    ground.converges(&[]);
}

#[test]
fn a_baseline_that_the_zone_reddens_is_told_apart() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let ended = |diagnose: &str, check: &str| {
        let ground = Ground::new();
        let check = check.replace("$SECRET", &ground.at("home/secret").display().to_string());
        ground.lines(backend(), "touch ran; echo yes > done", &check, "");
        ground.edit("check: |\n  ", &format!("check:\n  diagnose: {diagnose}\n  run: |\n    "));
        let (said, output) = ground.run(&[]);
        let reason = said["halt_reason"].clone();
        if reason == "check_not_hermetic" {
            assert_eq!(said["iterations"], 0, "nothing is spent: {}", text(&output));
        }
        assert_eq!(ground.at("home/secret.seen").exists(), diagnose == "outside");
        (reason, said["detail"].clone(), text(&output))
    };
    let (reason, detail, said) =
        ended("on", &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && grep -q no done"));
    assert_eq!((reason, detail), ("check_not_hermetic".into(), "network".into()), "{said}");
    // With the host's network the check may make no unix socket, and says something else.
    let socket =
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/none.sock\")'";
    let (reason, _, said) = ended("on", socket);
    assert_eq!(reason, "no_progress_detected", "{said}");
    // Outside of its zone the check runs where the loop says so, and not because it is red.
    let leaves = "cat $SECRET && touch $SECRET.seen";
    let (reason, _, said) = ended("on", leaves);
    assert_eq!(reason, "no_progress_detected", "{said}");
    let (reason, detail, said) = ended("outside", leaves);
    assert_eq!((reason, detail), ("check_not_hermetic".into(), "path".into()), "{said}");
    // A server that the check starts by itself is no such thing.
    let own = "python3 -m http.server 8000 >/dev/null 2>&1 & sleep 1; \
        python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:8000\")' && grep -q yes done";
    let ground = Ground::new();
    ground.lines(backend(), "echo yes > done", own, "");
    ground.converges(&[]);
}

#[test]
fn what_the_check_tries_to_reach_is_counted_and_noted_or_ends_the_run() {
    let reach = "python3 -c 'import socket\ntry: socket.create_connection((\"198.51.100.1\", 80), 1)\nexcept OSError: pass'; \
        getent hosts example.com; grep -q yes done";
    let ground = Ground::new();
    std::fs::write(ground.at("project/check.sh"), reach).unwrap();
    ground.lines(backend(), "echo yes > done", "sh check.sh", "");
    ground.converges(&[]);
    let report = text(&ground.command(&[]).arg("report").output().unwrap());
    assert!(report.contains("to reach a network that its zone does not have"), "{report}");

    ground.edit("limits:", "guards: {hermeticity: strict}\nlimits:");
    std::fs::write(ground.at("project/done"), "no\n").unwrap();
    let (said, output) = ground.run(&[]);
    assert_eq!(said["halt_reason"], "hermeticity_violation", "{}", text(&output));
    assert_eq!(output.status.code(), Some(14));
    let verify = ground.command(&[]).arg("verify").output().unwrap();
    assert_eq!(verify.status.code(), Some(0), "{}", text(&verify));

    // Servers of its own are the check's business.
    let ground = Ground::new();
    let own = "python3 -m http.server 8000 >/dev/null 2>&1 & sleep 1; \
        python3 -c 'import urllib.request as u; u.urlopen(\"http://localhost:8000\")' && grep -q yes done";
    ground.lines(backend(), "echo yes > done", own, "guards: {hermeticity: strict}\n");
    ground.converges(&[]);
}

#[test]
fn services_of_this_machine_are_reached_through_doors_and_reset_before_every_run() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // A service that keeps a number: `add` makes it larger, `set` makes it one.
    std::thread::spawn(move || {
        let mut number = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 3];
            if stream.read_exact(&mut asked).is_ok() {
                number = if &asked == b"set" { 1 } else { number + 1 };
                let _ = writeln!(stream, "{number}");
            }
        }
    });
    let ask = |word: &str| {
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf {word} >&3; read -r n <&3; exec 3>&-")
    };
    let check = format!("{}; test \"$n\" = 2 && grep -q yes done", ask("add"));
    let without = Ground::new();
    without.lines(backend(), "echo yes > done", &check, "");
    let (said, output) = without.run(&[]);
    assert_eq!(said["halt_reason"], "check_not_hermetic", "{}", text(&output));
    assert!(text(&output).contains("services: [{address: localhost:PORT}]"), "{}", text(&output));

    let ground = Ground::new();
    let exec =
        format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo REACHED\necho yes > done");
    ground.lines(backend(), &exec, &check, "");
    let check = format!(
        "check:\n  services: [{{address: 'localhost:{port}', reset: ./reset.sh}}]\n  run: |\n    {check}\n"
    );
    let path = ground.at("project/loop.yml");
    let before = std::fs::read_to_string(&path).unwrap();
    let (start, rest) = before.split_once("check: |\n").unwrap();
    let rest = rest.split_once('\n').unwrap().1;
    std::fs::write(&path, format!("{start}{check}{rest}")).unwrap();
    std::fs::write(ground.at("project/reset.sh"), format!("#!/bin/bash\n{}\n", ask("set")))
        .unwrap();
    Command::new("chmod").arg("+x").arg(ground.at("project/reset.sh")).status().unwrap();
    ground.git(&["add", "-A"]);
    ground.git(&["commit", "-qm", "services"]);
    ground.converges(&[]);
    assert!(!ground.outputs().contains("REACHED"), "{}", ground.outputs());
    assert_eq!(ground.start()["isolation"]["zones"]["doors"][0], port, "{:?}", ground.start());

    ground.edit("reset: ./reset.sh", "reset: echo no; exit 3");
    let (said, output) = ground.run(&[]);
    assert_eq!(said["halt_reason"], "workspace_invalid", "{}", text(&output));
    assert_eq!(said["detail"], "reset_failed", "{}", text(&output));
    assert!(text(&output).contains("ended with exit code 3. It said: no"), "{}", text(&output));
}

#[test]
fn two_credentials_are_one_too_many_for_exec() {
    let ground = Ground::new();
    ground.lines(backend(), "touch ran; echo yes > done", "grep -q yes done", "");
    let exec = "exec:\n  pass_env: [ONE_API_KEY, OTHER_TOKEN, PLAIN, ABSENT_TOKEN]\n  run: touch ran; echo yes > done\n";
    ground.edit("exec: |\n  touch ran; echo yes > done\n", exec);
    let run = |other: &str| {
        let mut command = ground.command(&[]);
        command.env("ONE_API_KEY", "value-of-one").env("OTHER_TOKEN", other).env("PLAIN", "x");
        let output = command.args(["run", "--json"]).output().unwrap();
        (json(&output), output)
    };
    let (said, output) = run("value-of-other");
    assert_eq!(said["halt_reason"], "credential_scope_invalid", "{}", text(&output));
    assert_eq!(output.status.code(), Some(13));
    let text = text(&output);
    assert!(text.contains("ONE_API_KEY, OTHER_TOKEN") && !text.contains("value-of"), "{text}");
    assert!(!ground.at("project/ran").exists());
    assert_eq!(run("").0["halt_reason"], "success_condition_met");
}

#[test]
fn where_the_backend_does_not_hold_nothing_is_run() {
    let ground = Ground::new();
    ground.lines(
        "namespaces",
        "echo yes > done",
        "touch ../ran; grep -q yes done",
        "setup: echo RAN; touch ../ran\n",
    );
    if is_root() {
        ground.give_away();
    }
    let before = [unprivileged(), vec!["unshare", "-U"]].concat();
    let (said, output) = ground.run(&before);
    assert_eq!(said["halt_reason"], "isolation_unsatisfiable", "{}", text(&output));
    assert_eq!(output.status.code(), Some(30));
    assert!(!ground.at("ran").exists());
    assert!(!ground.outputs().contains("RAN"), "{}", ground.outputs());
    let doctor = ground.command(&before).arg("doctor").output().unwrap();
    assert!(text(&doctor).contains("no backend isolates here"), "{}", text(&doctor));
    let doctor = ground.command(&unprivileged()).arg("doctor").output().unwrap();
    assert!(text(&doctor).contains("namespaces: both zones hold"), "{}", text(&doctor));
}

#[test]
fn in_your_own_tree_git_and_the_evidence_are_kept_from_exec() {
    let ground = Ground::new();
    let exec = "touch .git/x && echo REACHED\nmv .git gone && echo REACHED\n\
        touch .loopexec/x && echo REACHED\necho x >> .loop_state.json && echo REACHED\necho yes > done";
    ground.project(exec, "workspace: {mode: in_place}\n");
    let said = ground.converges(&[]);
    assert!(!ground.outputs().contains("REACHED"), "{}", ground.outputs());
    assert_eq!(said["isolation"]["degraded"], true, "there is no boundary: {said}");
}

#[test]
fn in_your_own_folder_exec_makes_no_repository_and_changes_none_below() {
    let ground = Ground::new();
    let exec = "mkdir .git && echo REACHED\necho x > .git/config && echo REACHED\n\
        echo x >> sub/.git/config && echo REACHED\necho x >> ignored/sub/.git/config && echo REACHED\n\
        mkdir -p ignored/new/.git/hooks\necho yes > done";
    ground.project(exec, "workspace: {mode: in_place}\n");
    std::fs::remove_dir_all(ground.at("project/.git")).unwrap();
    std::fs::write(ground.at("project/.gitignore"), "ignored/\n").unwrap();
    for name in ["sub", "ignored/sub"] {
        std::fs::create_dir_all(ground.at("project").join(name)).unwrap();
        ground.git(&["init", "-q", name]);
    }
    ground.converges(&[]);
    assert!(!ground.outputs().contains("REACHED"), "{}", ground.outputs());
    assert!(!ground.at("project/.git").exists(), "its place is kept no longer");
    assert!(ground.at("project/sub/.git/config").exists());
    assert!(ground.at("project/ignored/sub/.git/config").exists());
    assert!(!ground.at("project/ignored/new/.git").exists(), "git would obey it");
}

#[test]
fn what_a_killed_run_started_is_gone_within_a_second_and_it_is_taken_up() {
    let ground = Ground::new();
    let marker = format!("96{}", std::process::id());
    let exec = format!(
        "test -e \"$HOME/again\" || {{ touch \"$HOME/again\"; (setsid sleep {marker} &); trap '' TERM HUP; sleep {marker}; }}\necho yes > done"
    );
    ground.project(&exec, "");
    let mut child = ground.command(&[]).arg("run").stderr(Stdio::null()).spawn().unwrap();
    dies_with_its_supervisor(&mut child, &marker);
    let output = ground.command(&[]).args(["run", "--resume", "--json"]).output().unwrap();
    assert_eq!(json(&output)["halt_reason"], "success_condition_met", "{}", text(&output));
}

#[test]
fn sealed_checks_and_judges_work_in_the_exec_zone() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let ground = Ground::new();
    let refused = format!("! (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null");
    let more = format!(
        "guards:\n  judge: |\n    {refused} || exit 2\n    grep -q run_id \"$LOOPEXEC_FACTS\" || exit 1\n"
    );
    ground.lines(backend(), "echo yes > done", "grep -q yes done", &more);
    let held_out = format!(
        "check:\n  run: grep -q yes done\n  held_out: |\n    {refused}\n    grep -q yes done\n"
    );
    ground.edit("check: |\n  grep -q yes done\n", &held_out);
    ground.converges(&[]);
}

#[test]
fn projects_bring_their_tools_and_what_is_installed_in_them() {
    let node = Ground::new();
    let at = |name: &str| node.at("project").join(name);
    std::fs::create_dir_all(at("node_modules/dep")).unwrap();
    std::fs::write(at("node_modules/dep/index.js"), "module.exports = 7\n").unwrap();
    std::fs::write(at(".gitignore"), "node_modules\n").unwrap();
    std::fs::write(
        at("a.test.js"),
        "const t = require('node:test'), a = require('assert'), fs = require('fs');\n\
         t('says yes', () => { a.equal(require('dep'), 7); a.equal(fs.readFileSync('done', 'utf8'), 'yes\\n'); });\n",
    )
    .unwrap();
    node.lines(backend(), "echo yes > done", "node --test", "");
    node.converges(&[]);

    let python = Ground::new();
    let at = |name: &str| python.at("project").join(name);
    let made =
        Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(at(".venv")).status();
    assert!(made.unwrap().success());
    std::fs::write(at(".gitignore"), ".venv\n__pycache__\n").unwrap();
    std::fs::write(
        at("test_a.py"),
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(open('done').read(), 'yes\\n')\n",
    )
    .unwrap();
    python.lines(backend(), "echo yes > done", ".venv/bin/python -m unittest -q", "");
    python.converges(&[]);

    let go = Ground::new();
    let at = |name: &str| go.at("project").join(name);
    std::fs::write(at("go.mod"), "module a\n\ngo 1.19\n").unwrap();
    std::fs::write(at("a.go"), "package a\n\nfunc F() int { return 1 }\n").unwrap();
    std::fs::write(
        at("a_test.go"),
        "package a\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif F() != 2 {\n\t\tt.Fatal(\"not two\")\n\t}\n}\n",
    )
    .unwrap();
    go.lines(backend(), "sed -i 's/return 1/return 2/' a.go", "go test ./...", "");
    go.converges(&[]);
}

#[test]
fn bombs_end_as_what_they_are_and_the_next_iteration_starts() {
    let ground = Ground::new();
    // Each iteration throws another one; the last says yes. Three failed executions in a row would end the run, so that
    // the two which have to fail come first, and the one after which there may be no room for another process is alone.
    let exec = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n\n\
        case $n in\n\
        0) python3 -c 'a = []\nwhile True: a.append(b\"x\" * 10_000_000)' ;;\n\
        1) i=0; while :; do i=$((i + 1)); head -c 20000000 /dev/zero > file$i; done ;;\n\
        2) truncate -s 1T huge; rm -f huge file*; mkdir many; (cd many && seq -f file%.0f 100000 | xargs touch); rm -rf many ;;\n\
        3) python3 -c 'import os\nfor n in range(4000): os.mkdir(\"d\"); os.chdir(\"d\")'; rm -rf d ;;\n\
        4) python3 -c 'import os, time\nwhile True:\n    try: os.fork()\n    except OSError: break\ntime.sleep(1)' ;;\n\
        *) echo yes > done ;;\n\
        esac";
    std::fs::write(ground.at("project/bombs.sh"), exec).unwrap();
    // So few processes that they reach their own bound before that of memory: each has a megabyte or two of its own.
    let bounds = "  agent: {pids: 80, memory: 300MiB, disk: 500MiB}\n";
    ground.lines(backend(), "sh bombs.sh", "grep -q yes done", bounds);
    ground.edit("iterations: 3", "iterations: 8, no_progress: 8, same_failure: 8");
    ground.converges(&[]);
    let hits: Vec<Value> = ground.events().iter().map(|event| event["limit"].clone()).collect();
    let hits: Vec<&str> = hits.iter().filter_map(Value::as_str).collect();
    assert_eq!(hits, ["memory", "disk", "pids"], "{}", ground.outputs());
}
