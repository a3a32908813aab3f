//! Zones by Landlock: what both prove where neither namespaces nor mounts can be made, what is tried against them, and
//! that a run gets them by name or by `accept` alone.

use super::{Ground, copy_program, dies_with_its_supervisor, is_root, json, text, unprivileged};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

/// Rows that Landlock cannot hold.
const NOT_HELD: [&str; 6] = [
    "its user",
    "CapBnd",
    "processes it sees",
    "its network interfaces",
    "names and sizes of hidden files",
    "TCP to the gate's port of another address",
];

fn holds(said: &Value) {
    assert_eq!((&said["backend"], &said["degraded"]), (&"landlock".into(), &true.into()), "{said}");
    let tables = said["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 2, "{said}");
    for table in tables {
        let rows = table["rows"].as_array().unwrap();
        assert!(rows.len() > 70, "{table}");
        for row in rows {
            let open = NOT_HELD.contains(&row["what"].as_str().unwrap());
            assert!(row["holds"] == true || open && row["degraded"] == true, "{row}");
        }
        let said = |what: &str| rows.iter().find(|row| row["what"] == what).unwrap();
        assert_eq!(said("a signal to loopexec")["found"], "EPERM");
        assert_eq!(said("environ of loopexec")["found"], "EACCES");
        assert_eq!(said("names and sizes of hidden files")["holds"], false, "it is told");
    }
}

#[test]
fn both_zones_hold_for_root_and_for_an_ordinary_user() {
    let canary = ["--backend", "landlock", "--canary", "--json"];
    let ground = Ground::new();
    holds(&json(&ground.isolate(&[], &canary)));
    if is_root() {
        ground.give_away();
        holds(&json(&ground.isolate(&unprivileged(), &canary)));
    }
}

#[test]
fn both_zones_hold_below_a_containers_filter_of_system_calls() {
    let ground = Ground::new();
    copy_program(ground.at("loopexec"), &ground.at("project/loopexec"));
    let mut user = Vec::new();
    if is_root() {
        ground.give_away();
        user = unprivileged();
    }
    let script = "mkdir -p /tmp/home; export HOME=/tmp/home LOOPEXEC_CACHE=/tmp/cache; \
        ./loopexec isolate -- true 2>/dev/null && echo namespaces; \
        ./loopexec isolate --backend landlock --canary --json";
    let output = ground.isolate(&user, &["--", "sh", "-c", script]);
    holds(&json(&output));
}

/// Tries what an agent may not do, and names what worked.
const ATTEMPTS: &str = r#"
import os, socket, sys
home, out, tcp, sock = sys.argv[1:5]
def attempt(name, do):
    try:
        do(); print('WORKED', name)
    except (OSError, PermissionError): pass
def stat(pid): return int(open('/proc/%d/stat' % pid).read().rsplit(')', 1)[1].split()[1])
launcher = os.getppid(); keeper = stat(launcher)
def fast():
    s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', int(tcp)))
def pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', sock)
attempt('tcp', lambda: socket.create_connection(('127.0.0.1', int(tcp)), 2))
attempt('fast', fast)
attempt('listen', lambda: socket.socket().listen())
attempt('udp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9)))
attempt('mptcp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
attempt('unix', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', sock))
attempt('pair', pair)
attempt('read', lambda: open(home + '/secret').read())
attempt('key', lambda: open(home + '/.ssh/id').read())
attempt('list', lambda: os.listdir(home))
attempt('write', lambda: open(out + '/made', 'w'))
made = '/tmp/loopexec-made-%d' % os.getpid()
attempt('tmp', lambda: (open(made, 'w'), os.remove(made)))
attempt('git', lambda: open('.git/hooks/x', 'w'))
attempt('evidence', lambda: open('.loopexec/runs/x', 'w'))
for name, pid in (('launcher', launcher), ('keeper', keeper)):
    attempt('signal ' + name, lambda: os.kill(pid, 0))
    attempt('environ ' + name, lambda: open('/proc/%d/environ' % pid).read())
    attempt('cwd ' + name, lambda: os.listdir('/proc/%d/cwd' % pid))
open(os.environ.get('TMPDIR', '/tmp') + '/own', 'w'); open('file', 'a').write('two\n'); print('done')
"#;

fn keeps_out(before: &[&str]) {
    let ground = Ground::new();
    for made in ["home/.ssh", "out", "project/.git/hooks", "project/.loopexec/runs"] {
        fs::create_dir_all(ground.at(made)).unwrap();
    }
    fs::write(ground.at("home/.ssh/id"), "of the host").unwrap();
    let (path, tcp) = (ground.at("sock"), TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let _socket = UnixDatagram::bind(&path).unwrap();
    if !before.is_empty() {
        ground.give_away();
    }
    let port = tcp.local_addr().unwrap().port().to_string();
    let places = [ground.at("home"), ground.at("out")].map(|path| path.display().to_string());
    let words = ["python3", "-c", ATTEMPTS, &places[0], &places[1], &port, path.to_str().unwrap()];
    let worked = |text: &str| text.lines().filter(|line| line.starts_with("WORKED")).count();
    for more in [
        vec!["--zone", "exec", "--"],
        vec!["--zone", "agent", "--"],
        vec!["--zone", "agent", "--egress", "192.0.2.1:443", "--"],
    ] {
        let args = [vec!["--backend", "landlock"], more, words.to_vec()].concat();
        let output = ground.isolate(before, &args);
        let said = text(&output);
        assert!(worked(&said) == 0 && said.contains("done"), "{said}");
    }
    assert_eq!(fs::read_to_string(ground.at("project/file")).unwrap().matches("two").count(), 3);
    // All of it works for whoever is in no zone.
    let script = "python3 \"$@\"; exit";
    let mut outside = Command::new("sh");
    outside.args(["-c", script, "sh"]).args(&words[1..]).current_dir(ground.at("project"));
    let said = text(&outside.output().unwrap());
    assert!(worked(&said) >= 19, "{said}");
}

#[test]
fn what_is_tried_from_a_zone_by_landlock_fails() {
    keeps_out(&[]);
    if is_root() {
        keeps_out(&unprivileged());
    }
}

#[test]
fn the_gate_lets_the_run_through_and_nobody_else() {
    let ground = Ground::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listed = listener.local_addr().unwrap().to_string();
    let script = format!(
        "p=${{HTTPS_PROXY##*:}}; t=${{HTTPS_PROXY#http://}}; t=$(printf %s \"${{t%@*}}\" | base64 -w0)\n\
        ask() {{ exec 3<>/dev/tcp/127.0.0.1/$p; printf 'CONNECT %s HTTP/1.1\\r\\n%s\\r\\n' \"$1\" \"$2\" >&3; head -n 1 <&3; exec 3>&-; }}\n\
        ask {listed} \"Proxy-Authorization: Basic $t\r\n\"; ask 192.0.2.1:443 \"Proxy-Authorization: Basic $t\r\n\"; ask {listed} ''"
    );
    let args = ["--backend", "landlock", "--zone", "agent", "--egress", &listed, "--json", "--"];
    let said = json(&ground.isolate(&[], &[&args[..], &["bash", "-c", &script]].concat()));
    let out: Vec<&str> = said["stdout"].as_str().unwrap().lines().collect();
    let codes: Vec<&str> = out.iter().map(|line| &line[9..12]).collect();
    assert_eq!(codes, ["200", "403", "407"], "{said}");
    assert_eq!(said["egress"]["attempts"].as_array().unwrap().len(), 3, "{said}");
}

#[test]
fn nothing_outlives_its_command_or_its_supervisor() {
    let ground = Ground::new();
    let marker = format!("94{}", std::process::id());
    let left = format!("(setsid sleep {marker} &); sleep 0.3");
    let args = ["--backend", "landlock", "--json", "--", "sh", "-c", &left];
    let said = json(&ground.isolate(&[], &args));
    assert!(said["survivors"].to_string().contains(&marker), "{said}");
    let all = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    assert!(!text(&all).contains(&format!("sleep {marker}")), "it lives");
    let both = format!("(setsid sleep {marker} &) ; trap '' TERM HUP; sleep {marker}");
    let mut child = ground.command(&[]);
    let mut child =
        child.args(["isolate", "--backend", "landlock", "--", "sh", "-c", &both]).spawn().unwrap();
    dies_with_its_supervisor(&mut child, &marker);
}

#[test]
fn a_run_gets_landlock_where_it_is_accepted_and_stays_there() {
    let ground = Ground::new();
    let marker = format!("93{}", std::process::id());
    let exec = format!(
        "test -e \"$HOME/again\" || {{ touch \"$HOME/again\"; (setsid sleep {marker} &); sleep {marker}; }}\n\
        touch {ran} 2>/dev/null && echo REACHED\ncat {secret} && echo REACHED\necho yes > done",
        ran = ground.at("ran").display(),
        secret = ground.at("home/secret").display()
    );
    ground.lines("auto", &exec, "touch made && grep -q yes done", "");
    let mut user = Vec::new();
    if is_root() {
        ground.give_away();
        user = unprivileged();
    }
    let weak = [user.clone(), vec!["unshare", "-U"]].concat();
    let (said, output) = ground.run(&weak);
    assert_eq!(said["halt_reason"], "isolation_unsatisfiable", "{}", text(&output));
    assert!(text(&output).contains("isolation: {accept: [landlock]}"), "{}", text(&output));

    let run = |before: &[&str], words: &[&str]| {
        let mut command = ground.command(before);
        command.env("LOOPEXEC_ACCEPT_ISOLATION", "landlock").args(words);
        command
    };
    let mut child = run(&weak, &["run"]).stderr(Stdio::null()).spawn().unwrap();
    dies_with_its_supervisor(&mut child, &marker);
    // Something stronger would hold now.
    let output = run(&user, &["run", "--resume", "--json"]).output().unwrap();
    let said = json(&output);
    assert_eq!(
        said["halt_reason"],
        "success_condition_met",
        "{}\n{}",
        text(&output),
        ground.outputs()
    );
    assert_eq!(said["isolation"]["backend"], "landlock", "{said}");
    assert!(!ground.outputs().contains("REACHED") && !ground.at("ran").exists());
}

#[test]
fn a_whole_run_converges_and_says_what_it_was_held_by() {
    let ground = Ground::new();
    let exec = format!(
        "touch {ran} 2>/dev/null && echo REACHED\ncat {secret} && echo REACHED\necho yes > done",
        ran = ground.at("ran").display(),
        secret = ground.at("home/secret").display()
    );
    ground.lines("auto", &exec, "touch made && grep -q yes done", "  accept: [landlock, none]\n");
    let mut before = vec!["unshare", "-U"];
    if is_root() {
        ground.give_away();
        before = [unprivileged(), before].concat();
    }
    let (said, output) = ground.run(&before);
    let told = format!("{}\n{}", text(&output), ground.outputs());
    assert_eq!(said["halt_reason"], "success_condition_met", "{told}");
    assert_eq!(said["isolation"]["backend"], "landlock", "{said}");
    assert_eq!(said["isolation"]["degraded"], true, "{said}");
    assert!(told.contains("warning: Landlock alone isolates exec and check"), "{told}");
    assert!(!ground.outputs().contains("REACHED") && !ground.at("ran").exists(), "{told}");
    let isolation = ground.start()["isolation"].clone();
    assert!(isolation["zones"]["landlock_abi"].as_i64().unwrap() >= 6, "{isolation}");
    assert!(isolation["stepped_down"].to_string().contains("namespaces:"), "{isolation}");
    let doctor = ground.command(&before).arg("doctor").output().unwrap();
    assert!(text(&doctor).contains("landlock: both zones hold"), "{}", text(&doctor));

    ground.edit(
        "check: |\n  touch made",
        "check:\n  services: [{address: localhost:5432}]\n  run: |\n    touch made",
    );
    fs::write(ground.at("project/done"), "no\n").unwrap();
    let (said, output) = ground.run(&before);
    assert_eq!(said["halt_reason"], "isolation_unsatisfiable", "{}", text(&output));
    assert!(text(&output).contains("the exec zone has no sockets"), "{}", text(&output));
    ground.edit("  services: [{address: localhost:5432}]\n", "");
    ground.edit("limits:", "workspace: {mode: in_place}\nlimits:");
    fs::write(ground.at("project/done"), "no\n").unwrap();
    let (said, output) = ground.run(&before);
    assert_eq!(said["halt_reason"], "isolation_unsatisfiable", "{}", text(&output));
    assert!(text(&output).contains("backend landlock makes none"), "{}", text(&output));
}
