//! Whole trees die: with their command, their launcher, loopexec, or by a signal.

use crate::bench::*;
use loopexec::domain::command::Exit;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::{Duration, Instant};

#[test]
fn a_daemonised_grandchild_is_named_dead_and_delays_nothing() {
    for (mode, mut supervisor) in modes() {
        let marker = marker();
        let script = format!(
            "setsid sh -c '{TRAPS} setsid sleep {marker} & sleep {marker} &' & sleep 0.3; echo done"
        );
        let outcome = run(&mut supervisor, &job(mode, &script));
        assert!(alive(&marker).is_empty(), "{mode:?}");
        assert_eq!(outcome.exit, Exit::Code { code: 0 });
        assert_eq!(text(&outcome), "done\n");
        assert!(outcome.wall < Duration::from_millis(1500), "{mode:?} {:?}", outcome.wall);
        assert!(outcome.stdout.ended);
        let named = outcome.survivors.iter().filter(|s| s.command == format!("sleep {marker}"));
        assert_eq!(named.count(), 2, "{mode:?} {:?}", outcome.survivors);
        assert!(outcome.survivors.iter().all(|s| s.pid > 1 && !s.name.is_empty()));
    }
}

#[test]
fn a_process_that_forks_away_again_and_again_is_caught() {
    let folder = place();
    let marker = marker();
    let file = folder.path().join("hop");
    fs::write(&file, "sh \"$0\" \"$1\" & exit").unwrap();
    for (mode, mut supervisor) in modes() {
        let hop = format!("setsid sh '{}' {marker} &", file.display());
        let outcome = run(&mut supervisor, &job(mode, &format!("{hop} {hop} {hop} sleep 0.1")));
        assert!(alive(&marker).is_empty(), "{mode:?}");
        assert_eq!(outcome.exit, Exit::Code { code: 0 }, "{mode:?}");
        assert!(
            !outcome.survivors.is_empty() && outcome.wall < Duration::from_secs(5),
            "{outcome:?}"
        );
    }
}

#[test]
fn the_last_member_of_a_pipeline_is_no_survivor() {
    for (mode, mut supervisor) in modes() {
        // On a crowded machine a single try may be late.
        let mut tries = (0..5).map(|_| run(&mut supervisor, &job(mode, "sleep 0.005 & exit 0")));
        assert!(tries.any(|outcome| outcome.survivors.is_empty()), "{mode:?}");
    }
}

#[test]
fn a_cancelled_command_is_dead_in_under_two_seconds() {
    for (mode, mut supervisor) in modes() {
        let marker = marker();
        let cancel = supervisor.cancel();
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            cancel.raise(libc::SIGTERM);
        });
        let start = Instant::now();
        let script = format!("{TRAPS} sleep {marker} & sleep {marker}; sleep {marker}");
        let mut given = job(mode, &script);
        given.grace = Duration::from_secs(30);
        let outcome = run(&mut supervisor, &given);
        assert_eq!(outcome.exit, Exit::Interrupted, "{mode:?}");
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert!(alive(&marker).is_empty());
        assert_eq!(supervisor.interrupted(), Some(libc::SIGTERM));
        assert_eq!(run(&mut supervisor, &job(mode, ":")).exit, Exit::Interrupted);
        raiser.join().unwrap();
    }
}

#[test]
fn nothing_lives_a_second_after_loopexec_was_killed() {
    for mode in mode_names() {
        let marker = marker();
        let script = format!(
            "{TRAPS} setsid sh -c '{TRAPS} sleep {marker} & sleep {marker}; :' & sleep {marker}; :"
        );
        let mut child = helper(mode, &script, |c| c);
        wait_for(&marker, 3);
        child.kill().unwrap();
        let dead = is_gone_within(&marker, Duration::from_secs(1));
        child.wait().unwrap();
        assert!(dead, "{mode} {:?}", alive(&marker));
    }
}

#[test]
fn a_killed_launcher_takes_everything_with_it_and_is_no_red_check() {
    for mode in mode_names() {
        let marker = marker();
        let script = format!(
            "setsid sh -c '{TRAPS} sleep {marker} & sleep {marker}; :' & sleep {marker}; :"
        );
        let child = helper(mode, &script, |c| c);
        wait_for(&marker, 3);
        let launchers = children_of(child.id());
        assert_eq!(launchers.len(), 1);
        kill(launchers[0], Signal::SIGKILL);
        assert!(is_gone_within(&marker, Duration::from_secs(1)), "{mode}");
        let said = said_by(child);
        assert!(said.contains("error IsolationUnsatisfiable"), "{mode} {said}");
        assert!(said.contains("children 0"), "{mode} {said}");
    }
}

#[test]
fn a_command_that_kills_its_keeper_gains_nothing() {
    for mode in mode_names() {
        let marker = marker();
        let script = format!("setsid sleep {marker} & sleep 0.2; kill -9 $PPID; sleep 2; echo out");
        let said = said_by(helper(mode, &script, |c| c));
        assert!(alive(&marker).is_empty(), "{mode}");
        // Process 1 of a namespace cannot be killed from inside.
        let expected =
            if mode == "plain" { "error IsolationUnsatisfiable" } else { "exit Code { code: 0 }" };
        assert!(said.contains(expected) && said.contains("children 0"), "{mode} {said}");

        let script = format!("setsid sleep {marker} & kill -STOP $PPID; exec sleep {marker}");
        let child = helper(mode, &script, |c| c);
        wait_for(&marker, 2);
        let start = Instant::now();
        kill(child.id(), Signal::SIGTERM);
        let said = said_by(child);
        assert!(start.elapsed() < Duration::from_secs(2), "{mode} {:?}", start.elapsed());
        assert!(said.contains("exit Interrupted") && said.contains("children 0"), "{mode} {said}");
        assert!(alive(&marker).is_empty(), "{mode}");
    }
}

/// Starts a command with a deadline of three seconds, and gives it with its launcher when it runs.
fn with_launcher(mode: &str, script: &str, marker: &str, count: usize) -> (Child, u32) {
    let child = helper(mode, script, |mut command| {
        command.env("TEST_DEADLINE", "3");
        command
    });
    wait_for(marker, count);
    let launchers = children_of(child.id());
    assert_eq!(launchers.len(), 1);
    (child, launchers[0])
}

#[test]
fn a_stopped_launcher_holds_up_neither_a_deadline_nor_an_end() {
    for mode in mode_names() {
        let marker = marker();
        let script = format!("setsid sleep {marker} & sleep {marker}; :");
        let (child, launcher) = with_launcher(mode, &script, &marker, 2);
        let start = Instant::now();
        kill(launcher, Signal::SIGSTOP);
        let said = said_by(child);
        assert!(start.elapsed() < Duration::from_secs(6), "{mode} {:?}", start.elapsed());
        assert!(said.contains("exit TimedOut") && said.contains("children 0"), "{mode} {said}");
        assert!(alive(&marker).is_empty(), "{mode}");

        let script = format!("setsid sleep {marker} & sleep 1; exit 0");
        let (child, launcher) = with_launcher(mode, &script, &marker, 1);
        let start = Instant::now();
        kill(launcher, Signal::SIGSTOP);
        let said = said_by(child);
        assert!(start.elapsed() < Duration::from_secs(6), "{mode} {:?}", start.elapsed());
        // Only process 1 of a namespace can tell of the end while the launcher is stopped.
        let expected = if mode == "plain" { "exit TimedOut" } else { "exit Code { code: 0 }" };
        assert!(said.contains(expected) && said.contains("children 0"), "{mode} {said}");
        assert!(alive(&marker).is_empty(), "{mode}");
    }
}

#[test]
fn who_is_stopped_from_outside_again_and_again_ends_two_seconds_after_a_signal() {
    for mode in mode_names() {
        for below in [false, true] {
            let marker = marker();
            let script = format!("{TRAPS} setsid sleep {marker} & sleep {marker}; :");
            let (child, launcher) = with_launcher(mode, &script, &marker, 2);
            // Below the launcher is process 1 of the namespace, or the command itself.
            let stopped = if below { children_of(launcher)[0] } else { launcher };
            kill(stopped, Signal::SIGSTOP);
            let stopper = std::thread::spawn(move || {
                let pid = nix::unistd::Pid::from_raw(stopped as i32);
                while nix::sys::signal::kill(pid, Signal::SIGSTOP).is_ok() {
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            let start = Instant::now();
            kill(child.id(), Signal::SIGTERM);
            let said = said_by(child);
            let took = start.elapsed();
            stopper.join().unwrap();
            assert!(took < Duration::from_secs(2), "{mode} {below} {took:?}");
            assert!(said.contains("exit Interrupted"), "{mode} {below} {said}");
            assert!(said.contains("children 0"), "{mode} {below} {said}");
            assert!(alive(&marker).is_empty(), "{mode} {below}");
        }
    }
}

#[test]
fn one_signal_asks_and_a_second_one_does_not_wait() {
    let signals = [(Signal::SIGINT, false), (Signal::SIGHUP, false), (Signal::SIGTERM, true)];
    for mode in mode_names() {
        for (signal, twice) in signals {
            let marker = marker();
            let script = format!("{TRAPS} sleep {marker} & sleep {marker}; sleep {marker}");
            let mut child = helper(mode, &script, |c| c);
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            wait_for(&marker, 2);
            let start = Instant::now();
            kill(child.id(), signal);
            if twice {
                std::thread::sleep(Duration::from_millis(50));
                kill(child.id(), signal);
            }
            let mut said = String::new();
            while !said.contains("exit ") && lines.read_line(&mut said).unwrap() > 0 {}
            let took = start.elapsed();
            lines.read_to_string(&mut said).unwrap();
            child.wait().unwrap();
            assert!(said.contains("exit Interrupted"), "{mode} {said}");
            assert!(alive(&marker).is_empty());
            // Between the two lies the grace that a second signal cuts short.
            let limit = if twice { 650 } else { 1900 };
            assert!(took < Duration::from_millis(limit), "{mode} {took:?}");
        }
    }
}
