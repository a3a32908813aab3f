//! Ways out of a zone that were open once: what lies in a shown home beside files, sockets of the host's network,
//! the keeper's own bounds, a process without its first thread, evidence below a folder that moves.

use super::run::backend;
use super::{Ground, is_root, json, text, unprivileged};
use std::fs;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

/// Listens for whoever connects, and says so in what it sends.
fn listen(listener: UnixListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = std::io::Write::write_all(&mut stream.unwrap(), b"OF THE HOST");
        }
    });
}

fn shows_files_alone(before: &[&str]) {
    let ground = Ground::new();
    let tool = ground.at("home/.rd");
    fs::create_dir_all(tool.join("bin")).unwrap();
    fs::create_dir(ground.at("home/.vault")).unwrap();
    fs::create_dir_all(ground.at("home/.local/bin")).unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = ground.at("home").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    write(".rd/bin/rd", "#!/bin/sh\necho runs\n", 0o755);
    write(".rd/data", "a file\n", 0o644);
    write(".rd/config.yml", "SECRET\n", 0o600);
    write(".vault/agent.sh", "#!/bin/sh\necho runs too\n", 0o755);
    write(".vault/key", "SECRET\n", 0o644);
    std::os::unix::fs::symlink("../../.vault/agent.sh", ground.at("home/.local/bin/va")).unwrap();
    listen(UnixListener::bind(tool.join("rd.sock")).unwrap());
    fs::set_permissions(tool.join("rd.sock"), fs::Permissions::from_mode(0o666)).unwrap();
    let pipe = tool.join("pipe");
    assert!(Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status().unwrap().success());
    if !before.is_empty() {
        ground.give_away();
    }
    // Somebody of the host reads the pipe for as long as this lives.
    let (heard, hears) = std::sync::mpsc::channel();
    let reading = pipe.clone();
    std::thread::spawn(move || {
        let mut said = String::new();
        let _ = fs::File::open(reading).unwrap().read_to_string(&mut said);
        let _ = heard.send(said);
    });
    let path = std::env::var("PATH").unwrap();
    let path =
        format!("{}:{}:{path}", tool.join("bin").display(), ground.at("home/.local/bin").display());
    let script = format!(
        "rd; va; cat {home}/.rd/data; cat {home}/.rd/config.yml {home}/.vault/key 2>/dev/null; ls {home}/.vault\n\
         python3 - <<'END'\nimport socket, os\n\
         try:\n    s = socket.socket(socket.AF_UNIX); s.connect('{home}/.rd/rd.sock'); print(s.recv(20))\nexcept OSError as e: print('refused', e.errno)\n\
         try: os.write(os.open('{home}/.rd/pipe', os.O_WRONLY | os.O_NONBLOCK), b'out')\n\
         except OSError as e: print('no reader', e.errno)\nEND\n",
        home = ground.at("home").display()
    );
    for zone in ["exec", "agent"] {
        let output = ground
            .command(before)
            .args(["isolate", "--zone", zone, "--", "bash", "-c", &script])
            .env("PATH", &path)
            .output()
            .unwrap();
        let said = text(&output);
        assert!(said.contains("runs\n") && said.contains("runs too\n"), "{zone}: {said}");
        assert!(said.contains("a file\n"), "{zone}: {said}");
        assert!(!said.contains("SECRET") && !said.contains("key"), "{zone}: {said}");
        assert!(!said.contains("OF THE HOST"), "{zone}: {said}");
        assert!(said.contains("no reader"), "{zone}: {said}");
    }
    assert!(hears.try_recv().is_err(), "the host heard something");
    // Whoever waits for the pipe is let go.
    let _ = fs::OpenOptions::new().write(true).open(&pipe);
}

#[test]
fn of_a_tools_home_a_zone_shows_the_files_that_are_for_everybody() {
    shows_files_alone(&[]);
    if is_root() {
        shows_files_alone(&unprivileged());
    }
}

#[test]
fn who_has_the_hosts_network_has_none_of_its_sockets() {
    let name = format!("loopexec-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    listen(UnixListener::bind_addr(&address).unwrap());
    let ground = Ground::new();
    let setup = format!(
        "setup: |\n  python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"\\0{name}\"); print(s.recv(20))' || true\n"
    );
    ground.project("echo yes > done", &setup);
    ground.converges(&[]);
    let outputs = ground.outputs();
    assert!(!outputs.contains("OF THE HOST"), "{outputs}");
    assert!(outputs.contains("PermissionError"), "it tried: {outputs}");
}

#[test]
fn nobody_bounds_who_counts_them() {
    let ground = Ground::new();
    let mut user = Vec::new();
    if is_root() {
        ground.give_away();
        user = unprivileged();
    }
    let blind = "import resource as r\ntry: r.prlimit(1, r.RLIMIT_NOFILE, (0, 0)); print('BLIND')\nexcept PermissionError: print('refused')\n\
        r.setrlimit(r.RLIMIT_NOFILE, (100, 100)); print(r.getrlimit(r.RLIMIT_NOFILE)[0])";
    let output = ground.isolate(&user, &["--", "python3", "-c", blind]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "refused\n100\n", "{}", text(&output));
}

/// Ends its first thread while another one holds 200 MB, a page of each written to.
const HEADLESS: &str = "import ctypes, threading, time\n\
    def hold():\n    kept = bytearray(200_000_000)\n    for at in range(0, len(kept), 4096): kept[at] = 1\n    time.sleep(SECONDS)\n\
    t = threading.Thread(target=hold); t.start(); time.sleep(1)\n\
    libc = ctypes.CDLL(None); libc.syscall.argtypes = [ctypes.c_long, ctypes.c_long]\n\
    libc.syscall(EXIT, 0)\n";

fn headless(seconds: u32) -> String {
    let exit = if cfg!(target_arch = "x86_64") { "60" } else { "93" };
    HEADLESS.replace("SECONDS", &seconds.to_string()).replace("EXIT", exit)
}

/// Takes 300 MB that no process has mapped.
const PLACELESS: &str = "import os, time\nkept = [os.memfd_create('x') for _ in range(3)]\n\
    for file in kept:\n    for _ in range(100): os.write(file, b'x' * 1_000_000)\ntime.sleep(20)\n";

#[test]
fn memory_that_no_process_has_mapped_is_counted() {
    let ground = Ground::new();
    fs::write(ground.at("project/placeless.py"), PLACELESS).unwrap();
    let bounds = "  agent: {memory: 100MiB, shm: 1MiB}\n";
    ground.project("python3 placeless.py\necho yes > done", bounds);
    ground.edit("iterations: 3", "iterations: 1");
    let (_, output) = ground.run(&[]);
    let receipt: String = ground.events().iter().map(ToString::to_string).collect();
    assert!(receipt.contains("\"limit\":\"memory\""), "{}\n{receipt}", text(&output));
}

#[test]
fn a_process_without_its_first_thread_is_counted() {
    let ground = Ground::new();
    fs::write(ground.at("project/headless.py"), headless(20)).unwrap();
    ground.project("python3 headless.py\necho yes > done", "  agent: {memory: 120MiB}\n");
    ground.edit("iterations: 3", "iterations: 1");
    let (_, output) = ground.run(&[]);
    let receipt: String = ground.events().iter().map(ToString::to_string).collect();
    assert!(receipt.contains("\"limit\":\"memory\""), "{}\n{receipt}", text(&output));
    // Left behind, it is named as everybody is.
    fs::write(ground.at("project/headless.py"), headless(300)).unwrap();
    let left = "(setsid python3 headless.py &) ; sleep 4; exit 0";
    let output = ground.command(&[]).args(["isolate", "--json", "--", "sh", "-c", left]).output();
    let said = json(&output.unwrap());
    assert!(said["survivors"].to_string().contains("python3"), "{said}");
}

#[test]
fn evidence_below_a_folder_is_not_moved_away_with_it() {
    let ground = Ground::new();
    let exec = "mv out gone 2>/dev/null && echo REACH''ED\ntouch out/ev/x 2>/dev/null && echo REACH''ED\n\
        touch out/mine\necho yes > done";
    ground.project(exec, "workspace: {mode: in_place}\nreceipt: {dir: out/ev}\n");
    let (said, output) = ground.run(&[]);
    assert_eq!(said["halt_reason"], "success_condition_met", "{}", text(&output));
    let receipt = ground.at("project").join(said["receipt"].as_str().unwrap());
    assert!(!fs::read_to_string(receipt).unwrap().contains("REACHED"));
    assert!(ground.at("project/out/mine").exists() && !ground.at("project/gone").exists());
    assert_eq!(said["isolation"]["backend"], backend());
}

#[test]
fn evidence_is_nothing_to_carry_wherever_it_lies() {
    let ground = Ground::new();
    let exec = "find . -name 'receipt*' -o -name 'run*' | sed s/^/FO''UND:/\necho yes > done";
    ground.project(exec, "receipt: {dir: out/ev}\n");
    for _ in 0..2 {
        let (said, output) = ground.run(&[]);
        assert_eq!(said["halt_reason"], "success_condition_met", "{}", text(&output));
        let receipt = ground.at("project").join(said["receipt"].as_str().unwrap());
        assert!(!fs::read_to_string(receipt).unwrap().contains("FOUND:"));
        fs::write(ground.at("project/done"), "no\n").unwrap();
    }
}
