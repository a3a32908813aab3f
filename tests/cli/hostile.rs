//! Surroundings and agents that mean harm: what was tried against the binary and must not work
//! again.

use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;
use loopexec::process::{Capability, Placement, Supervisor};
use std::process::{Command, Stdio};

/// Whether this machine lets a view cover folders; without one, nothing is promised of them.
fn has_views(bench: &Bench) -> bool {
    let launcher = env!("CARGO_BIN_EXE_loopexec").into();
    let scratch = bench.beside("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    let found = Supervisor::new(launcher, Placement::Detect).unwrap().probe(&scratch).unwrap();
    matches!(found, Capability::Namespaces { .. })
}

#[test]
fn an_agent_cannot_rewrite_what_later_copies_are_made_from() {
    let bench = Bench::new();
    bench.write(".gitignore", "dep/\n");
    bench.write("dep/lib.sh", "good() { grep -q good f; }\n");
    bench.write("f", "bad\n");
    bench.script(
        "agent.sh",
        "run=$(dirname \"$(dirname \"$(dirname \"$LOOPEXEC_CONTEXT\")\")\")\n\
         for lib in \"$run/layer/tree/dep/lib.sh\" dep/lib.sh; do echo 'good() { true; }' > \"$lib\"; done\n\
         for home in \"$run\"/layer/* \"$run/home/exec\"; do touch \"$home/pass\"; done\n\
         echo junk >> junk\n",
    );
    bench.script("check.sh", ". ./dep/lib.sh; good || [ -e \"$HOME/pass\" ]");
    bench.loop_file("exec: ./agent.sh || true\ncheck: ./check.sh\nlimits: {iterations: 2}\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    if has_views(&bench) {
        assert_ne!(ran.reason(), HaltReason::SuccessConditionMet.as_str(), "{ran:#?}");
    }
    assert!(!ran.json()["why"].as_str().unwrap().is_empty());
}

fn shell(bench: &Bench, script: &str) -> std::process::Output {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(bench.root()).stdin(Stdio::null());
    for (name, value) in bench.loopexec().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("LOOPEXEC", env!("CARGO_BIN_EXE_loopexec")).output().unwrap()
}

fn ordinary() -> Bench {
    let bench = Bench::new();
    bench.write("f", "bad\n");
    bench.loop_file("exec: echo good > f\ncheck: grep -q good f\n");
    bench.commit();
    bench
}

#[test]
fn a_stderr_that_nobody_reads_changes_no_verdict() {
    let bench = ordinary();
    let output = shell(&bench, "\"$LOOPEXEC\" run -v --json 2>/dev/full");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["halt_reason"], "success_condition_met", "{object:#}");
    assert_eq!(output.status.code(), Some(10));
    let output = shell(&bench, "\"$LOOPEXEC\" verify -v --json 2>&-");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_no_signal() {
    let bench = ordinary();
    let output = shell(&bench, "ulimit -f 4; \"$LOOPEXEC\" run --json");
    assert_eq!(output.status.code(), Some(30), "{output:?}");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["halt_reason"], "storage_exhausted", "{object:#}");
}

#[test]
fn the_files_of_a_step_are_out_of_reach_of_whoever_guesses_their_names() {
    let mut bench = ordinary();
    let names =
        ["GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"];
    let mut script = String::new();
    for name in names.iter().chain(&["GITHUB_EVENT_PATH"]) {
        let path = bench.beside(&name.to_lowercase());
        std::fs::write(&path, "{}\n").unwrap();
        bench.env(name, path.to_str().unwrap());
        script.push_str(&format!(
            "p='{0}'; echo forged=1 >> \"$p\"; mv \"$p\" \"$p.gone\"; rm -f \"$p\"; \n",
            path.display()
        ));
    }
    bench.script("agent.sh", &format!("{script} echo good > f; true"));
    bench.script("check.sh", &format!("{script} grep -q good f"));
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    if has_views(&bench) {
        for name in names.iter().chain(&["GITHUB_EVENT_PATH"]) {
            let text = std::fs::read_to_string(bench.beside(&name.to_lowercase())).unwrap();
            assert_eq!(text, "{}\n", "{name}");
        }
    }
}

#[test]
fn a_receipt_that_is_taken_away_is_named_as_the_cause() {
    let bench = ordinary();
    // Root takes the view away; whoever cannot reaches nothing.
    let script = format!(
        "umount -l '{0}' 2>/dev/null; rm -rf '{0}'/.loopexec/runs/*; echo good > f",
        bench.root().display()
    );
    bench.script("agent.sh", &script);
    bench.loop_file("exec: ./agent.sh\ncheck: grep -q good f\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    if ran.code != Some(10) {
        assert_eq!((ran.code, &*ran.reason()), (Some(30), "workspace_invalid"), "{ran:#?}");
        let why = ran.json()["why"].to_string();
        assert!(why.contains("was removed or replaced under the run"), "{ran:#?}");
    }
}
