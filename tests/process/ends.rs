//! How commands end, and what they see and leave.

use crate::bench::*;
use loopexec::domain::command::Exit;
use loopexec::error::Kind;
use loopexec::process::{Placement, Silent, Supervisor};
use std::fs;
use std::process::Command;
use std::time::Duration;

#[test]
fn codes_signals_and_streams_come_back() {
    for (mode, mut supervisor) in modes() {
        let outcome = run(&mut supervisor, &job(mode, "echo out; echo err >&2; exit 3"));
        assert_eq!(outcome.exit, Exit::Code { code: 3 }, "{mode:?}");
        assert_eq!(outcome.stdout.kept(), b"out\n");
        assert_eq!(outcome.stderr.kept(), b"err\n");
        assert!(outcome.survivors.is_empty() && outcome.stdout.ended && outcome.stderr.ended);
        let outcome = run(&mut supervisor, &job(mode, "kill -SEGV $$"));
        assert_eq!(outcome.exit, Exit::Signal { signal: libc::SIGSEGV }, "{mode:?}");
    }
}

#[test]
fn it_sees_nothing_of_the_caller_but_what_it_was_given() {
    let script = "env; read x || echo eof; ls /proc/self/fd | wc -l; tty <&1
        stat=$(cat /proc/$$/stat); set -- ${stat##*)}; test $3 = $$ && test $4 = $$ && echo leader";
    for (mode, mut supervisor) in modes() {
        let mut given = job(mode, script);
        given.env.push(("GIVEN".into(), "a b".into()));
        let said = text(&run(&mut supervisor, &given));
        // 0, 1, 2 and the listing itself.
        for line in ["GIVEN=a b", "eof", "leader", "4", "not a tty"] {
            assert!(said.lines().any(|l| l == line), "{mode:?} {line} {said}");
        }
        let names: Vec<&str> = said.lines().filter_map(|l| Some(l.split_once('=')?.0)).collect();
        let known = ["GIVEN", "PATH", "PWD", "OLDPWD", "SHLVL", "_"];
        assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    }
}

#[test]
fn a_file_that_the_caller_left_open_does_not_reach_the_command() {
    for mode in mode_names() {
        // The shell hands descriptor 7 down without close-on-exec, and signals ignored.
        let child = helper(mode, "ls /proc/self/fd | wc -l; grep SigIgn /proc/self/status", |c| {
            let mut sh = Command::new("sh");
            sh.args(["-c", "trap '' INT HUP USR1; exec 7</dev/null; exec \"$@\"", "sh"]);
            sh.arg(c.get_program()).args(c.get_args());
            sh
        });
        let said = said_by(child);
        assert!(said.contains("stdout \"4\\nSigIgn:"), "{mode} {said}");
        // The C library keeps 32 and 33 to itself.
        let ignored = said.split("SigIgn:\\t").nth(1).and_then(|rest| rest.get(..16)).unwrap();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        assert_eq!(ignored & 0x7fff_ffff, 0, "{mode} {said}");
    }
}

#[test]
fn a_deadline_ends_the_deaf_and_the_stopped() {
    for (mode, mut supervisor) in modes() {
        let marker = marker();
        for script in [
            format!("{TRAPS} sleep {marker} & sleep {marker}; sleep {marker}"),
            format!("sleep {marker} & kill -STOP $$; sleep {marker}"),
            format!("exec sleep {marker}"),
        ] {
            let mut given = job(mode, &script);
            given.deadline = Some(Duration::from_millis(400));
            let outcome = run(&mut supervisor, &given);
            assert_eq!(outcome.exit, Exit::TimedOut, "{mode:?} {script}");
            assert!(alive(&marker).is_empty(), "{mode:?} {script}");
            assert!(outcome.wall < Duration::from_millis(1900), "{mode:?} {:?}", outcome.wall);
        }
    }
}

#[test]
fn a_command_that_ends_when_asked_may_say_goodbye() {
    for (mode, mut supervisor) in modes() {
        let script = "trap 'echo bye; exit 0' TERM; while :; do read x < /dev/zero & wait; done";
        let mut given = job(mode, script);
        given.deadline = Some(Duration::from_millis(300));
        given.grace = Duration::from_secs(20);
        let outcome = run(&mut supervisor, &given);
        assert_eq!(
            (&outcome.exit, text(&outcome).as_str()),
            (&Exit::TimedOut, "bye\n"),
            "{mode:?}"
        );
        assert!(outcome.wall < Duration::from_secs(5));
    }
}

#[test]
fn idle_is_silence_without_work_or_changes() {
    for (mode, mut supervisor) in modes() {
        let folder = place();
        let within = |script: &str| {
            let mut given = job(mode, script);
            given.cwd = folder.path().into();
            given.idle = Some(Duration::from_millis(800));
            given.idle_watch = vec![folder.path().into()];
            given
        };
        let outcome = run(&mut supervisor, &within("echo begin; exec sleep 60"));
        assert_eq!(outcome.exit, Exit::Idle, "{mode:?}");
        assert!(outcome.wall < Duration::from_secs(5), "{:?}", outcome.wall);
        for busy in [
            "for i in 1 2 3 4 5; do echo $i; sleep 0.4; done",
            "for i in 1 2 3 4 5; do : > f$i; sleep 0.4; done",
            "end=$(($(date +%s) + 3)); while test $(date +%s) -lt $end; do :; done",
        ] {
            let outcome = run(&mut supervisor, &within(busy));
            assert_eq!(outcome.exit, Exit::Code { code: 0 }, "{mode:?} {busy}");
        }
    }
}

#[test]
fn any_output_is_hashed_whole_in_little_memory() {
    const SIZE: u64 = 500_000_000;
    let script =
        format!("head -c {SIZE} /dev/zero & head -c {SIZE} /dev/zero | tr '\\0' '\\377' >&2; wait");
    let said = said_by(helper("plain", &script, |c| c));
    for byte in [0u8, 0xff] {
        let mut hash = <sha2::Sha256 as sha2::Digest>::new();
        let block = vec![byte; 1_000_000];
        (0..SIZE / 1_000_000).for_each(|_| sha2::Digest::update(&mut hash, &block));
        let digest = loopexec::domain::hex::encode(&sha2::Digest::finalize(hash));
        assert!(said.contains(&digest), "{said}");
    }
    assert!(said.contains(&format!("seen {SIZE} {SIZE}")), "{said}");
    let peak: u64 = said.lines().find_map(|l| l.strip_prefix("peak ")).unwrap().parse().unwrap();
    assert!(peak < 48 * 1024, "{peak} kB");
}

#[test]
fn what_cannot_start_is_told_apart_from_what_fails() {
    let folder = place();
    fs::write(folder.path().join("plain"), "no program").unwrap();
    for (mode, mut supervisor) in modes() {
        let file = folder.path().join("plain").into_os_string();
        for argv in [vec!["loopexec-no-such-program".into()], vec![file], vec!["/".into()], vec![]]
        {
            let mut given = job(mode, "");
            given.argv = argv;
            let exit = run(&mut supervisor, &given).exit;
            assert!(
                matches!(&exit, Exit::NotStarted { why } if !why.is_empty()),
                "{mode:?} {exit:?}"
            );
        }
        let mut given = job(mode, ":");
        given.cwd = folder.path().join("gone");
        let exit = run(&mut supervisor, &given).exit;
        assert!(matches!(&exit, Exit::NotStarted { why } if why.contains("gone")), "{mode:?}");
        let outcome = run(&mut supervisor, &job(mode, "loopexec-no-such-program"));
        assert_eq!(outcome.exit, Exit::Code { code: 127 });
    }
    for wrong in ["/nonexistent/launcher", "/bin/true", "/bin/false"] {
        let mut broken = Supervisor::new(wrong.into(), Placement::Detect).unwrap();
        let error = broken.run(&job(Mode::Plain, ":"), &mut Silent).unwrap_err();
        assert_eq!(error.kind, Kind::IsolationUnsatisfiable, "{wrong}");
    }
}

#[test]
fn three_hundred_runs_leave_no_file_and_no_zombie() {
    // In a process of its own: here other tests open files at the same time.
    for mode in mode_names() {
        let said = said_by(helper(mode, "repeat 300", |c| c));
        assert!(said.contains("grown 0 children 0"), "{mode} {said}");
    }
}
