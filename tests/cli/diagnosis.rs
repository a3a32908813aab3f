//! What keeps a check from being red for a reason of its own is told apart before any exec: a
//! command that is not there, a HOME, a variable, and a module that is still to be written.

use crate::bench::{Bench, Ran};
use crate::reasons::{execs, halts, text};
use loopexec::domain::reason::HaltReason;

/// Returns a bench whose exec leaves a marker beside the tree, so that it shows whether it ran.
fn bench_with(check: &str) -> Bench {
    let bench = Bench::new();
    bench.loop_file(&format!(
        "exec: touch '{}'; echo 'echo fine' > lib.sh; touch done\ncheck: {check}\n",
        bench.beside("exec-ran").display()
    ));
    bench
}

fn halts_before_exec(bench: &Bench, reason: HaltReason, detail: &str) -> Ran {
    bench.commit();
    let ran = halts(bench, reason);
    assert!(!bench.beside("exec-ran").exists(), "exec ran");
    assert_eq!(execs(bench, &ran), 0);
    assert_eq!(ran.json()["detail"], detail, "{ran:#?}");
    ran
}

fn goes_on_to_exec(bench: &Bench) {
    bench.commit();
    halts(bench, HaltReason::SuccessConditionMet);
    assert!(bench.beside("exec-ran").exists(), "exec did not run");
}

/// Returns every line that says what to do.
fn hints(bench: &Bench, ran: &Ran) -> String {
    let events = bench.events(ran);
    events.last().unwrap()["hints"].to_string()
}

#[test]
fn a_command_that_does_not_exist_is_unrunnable_and_the_line_names_setup() {
    let bench = bench_with("no-such-runner -q && test -f done");
    let ran = halts_before_exec(&bench, HaltReason::CheckUnrunnable, "command_not_found");
    assert!(text(&ran.json()["next"]).contains("setup"), "{ran:#?}");
}

#[test]
fn a_module_found_only_through_the_callers_home_is_not_hermetic_and_the_line_names_setup() {
    let bench = bench_with(". \"$HOME/lib.sh\" && test -f done");
    std::fs::write(bench.beside("home/lib.sh"), "echo from home\n").unwrap();
    let ran = halts_before_exec(&bench, HaltReason::CheckNotHermetic, "home");
    assert!(text(&ran.json()["next"]).contains("setup:"), "{ran:#?}");
}

#[test]
fn a_module_found_only_through_home_is_told_even_if_the_check_stays_red_with_it() {
    // With HOME it is red for the right reason, without it for the wrong one; the exit differs not.
    let bench = bench_with("./check.sh");
    bench.script("check.sh", "[ -f \"$HOME/lib.sh\" ] || { echo no library in HOME was found: lib.sh not found; exit 1; }\ntest -f done");
    std::fs::write(bench.beside("home/lib.sh"), "true\n").unwrap();
    halts_before_exec(&bench, HaltReason::CheckNotHermetic, "home");
}

#[test]
fn a_program_found_only_in_the_callers_home_is_not_hermetic_or_is_found() {
    let mut bench = bench_with("helper && test -f done");
    let folder = bench.beside("home/bin");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("helper"), "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(
        folder.join("helper"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let path = std::env::var("PATH").unwrap();
    bench.env("PATH", &format!("{}:{path}", folder.display()));
    // What stands on the caller's PATH was resolved at t0.
    goes_on_to_exec(&bench);
}

#[test]
fn a_module_found_only_through_a_variable_is_not_hermetic_and_the_line_names_pass_env() {
    let mut bench = bench_with(". \"$MY_LIBRARY/lib.sh\" && test -f done");
    std::fs::create_dir(bench.beside("library")).unwrap();
    std::fs::write(bench.beside("library/lib.sh"), "true\n").unwrap();
    let library = bench.beside("library").display().to_string();
    bench.env("MY_LIBRARY", &library);
    let ran = halts_before_exec(&bench, HaltReason::CheckNotHermetic, "environment");
    assert!(text(&ran.json()["next"]).contains("pass_env: [MY_LIBRARY]"), "{ran:#?}");
}

#[test]
fn a_variable_that_is_missing_is_not_hermetic_and_the_lines_name_pass_env_and_env() {
    let mut bench = bench_with("./check.sh");
    bench.script("check.sh", "set -u\ntest \"$SERVICE_MODE\" = fast && test -f done");
    bench.env("SERVICE_MODE", "fast");
    let ran = halts_before_exec(&bench, HaltReason::CheckNotHermetic, "environment");
    let hints = hints(&bench, &ran);
    assert!(hints.contains("pass_env: [SERVICE_MODE]"), "{hints}");
    assert!(hints.contains("env: {SERVICE_MODE"), "{hints}");
}

#[test]
fn the_line_that_is_named_mends_it() {
    let mut bench = Bench::new();
    bench.script("check.sh", "set -u\ntest \"$SERVICE_MODE\" = fast && test -f done");
    bench.loop_file("exec: touch done\ncheck: {run: ./check.sh, pass_env: [SERVICE_MODE]}\n");
    bench.env("SERVICE_MODE", "fast");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
    let bench = Bench::new();
    bench.script("check.sh", "set -u\ntest \"$SERVICE_MODE\" = fast && test -f done");
    bench.loop_file("exec: touch done\ncheck: {run: ./check.sh, env: {SERVICE_MODE: fast}}\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn a_module_that_is_still_to_be_written_is_an_ordinary_red() {
    let bench = bench_with("./check.sh");
    bench.script("check.sh", ". ./lib.sh && test -f done");
    goes_on_to_exec(&bench);
}

#[test]
fn a_script_that_is_still_to_be_written_is_an_ordinary_red() {
    let bench = bench_with("./check.sh");
    bench.script("check.sh", "sh ./lib.sh && test -f done");
    goes_on_to_exec(&bench);
}

#[test]
fn a_red_test_is_an_ordinary_red_whatever_the_callers_environment_holds() {
    let mut bench = bench_with("test -f done");
    bench.env("SERVICE_MODE", "fast");
    std::fs::write(bench.beside("home/lib.sh"), "true\n").unwrap();
    goes_on_to_exec(&bench);
}

#[test]
fn no_diagnosis_is_made_where_the_loop_file_asks_for_none() {
    let mut bench = Bench::new();
    bench.loop_file(
        "exec: touch done\ncheck: {run: 'test \"$SERVICE_MODE\" = fast || test -f done', diagnose: off}\n",
    );
    bench.env("SERVICE_MODE", "fast");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}
