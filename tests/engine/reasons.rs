//! Each reason that rests on history, beside a neighbour that just does not reach it.

use crate::script::*;
use loopexec::domain::observation::Usage;
use loopexec::domain::plan::{Metering, OnRegression, Plan};

fn reason(plan: &Plan, baseline: Vec<Report>, steps: Vec<Step>) -> &'static str {
    run(plan, Scripted::new(baseline, steps)).0.reason.as_str()
}

fn base() -> Vec<Report> {
    vec![red(&["b"], &["a"])]
}

#[test]
fn a_confirmed_green_is_success_even_on_the_last_iteration() {
    let mut plan = plan();
    plan.limits.iterations = 1;
    assert_eq!(
        reason(&plan, base(), vec![turn("t1", green(&["a", "b"]))]),
        "success_condition_met"
    );
    assert_eq!(
        reason(&plan, base(), vec![turn("t1", red(&["b"], &["a"]))]),
        "max_iterations_reached"
    );
}

#[test]
fn a_green_baseline_ends_the_loop_without_an_exec() {
    let (halt, world, _) = run(&plan(), Scripted::new(vec![green(&["a"])], vec![]));
    assert_eq!((halt.reason.as_str(), world.execs), ("success_condition_met", 0));
    let mut strict = plan();
    strict.require_red = true;
    assert_eq!(reason(&strict, vec![green(&["a"])], vec![]), "check_inadequate");
}

#[test]
fn a_green_with_a_breach_is_a_breach() {
    let mut step = turn("t1", green(&["a", "b"]));
    step.touches = vec!["infra/main.tf"];
    assert_eq!(reason(&plan(), base(), vec![step]), "blocked_path_modified");
    let mut step = turn("t1", green(&["a", "b"]));
    step.control.insert(".git/config: core.hooksPath".into(), "x".into());
    assert_eq!(reason(&plan(), base(), vec![step]), "blocked_path_modified");
}

#[test]
fn two_verdicts_of_one_tree_are_flaky() {
    let mut step = turn("t1", green(&["a", "b"]));
    step.copies = vec![green(&["a", "b"]), red(&["b"], &["a"])];
    assert_eq!(reason(&plan(), base(), vec![step]), "check_flaky");
    assert_eq!(
        reason(&plan(), vec![red(&[], &["a"]), green(&["a"]), red(&[], &["a"])], vec![]),
        "check_flaky"
    );
}

#[test]
fn an_untouched_tree_that_turns_green_is_flaky() {
    let step = turn("t0", green(&["a", "b"]));
    assert_eq!(reason(&plan(), base(), vec![step]), "check_flaky");
}

#[test]
fn red_copies_tell_side_effects_from_hidden_state() {
    let mut step = turn("t1", green(&["a", "b"]));
    step.copies = vec![red(&["b"], &["a"])];
    assert_eq!(reason(&plan(), base(), vec![step.clone()]), "check_not_hermetic");
    step.rerun = Some(red(&["b"], &["a"]));
    assert_eq!(reason(&plan(), base(), vec![step]), "check_has_side_effects");
}

#[test]
fn a_red_view_that_a_real_copy_does_not_bear_out_is_set_aside() {
    let mut step = turn("t1", green(&["a", "b"]));
    let r = red(&["b"], &["a"]);
    step.copies = vec![r.clone(), r, green(&["a", "b"])];
    let (halt, _, recorded) = run(&plan(), Scripted::new(base(), vec![step]));
    assert_eq!(halt.reason.as_str(), "success_condition_met");
    assert_eq!(recorded.observations[0].set_aside.len(), 2);
}

#[test]
fn a_baseline_that_only_our_sandbox_reddens_is_not_hermetic() {
    let mut world = Scripted::new(vec![broken()], vec![]);
    world.diagnosis = Some(green(&["a"]));
    let (halt, world, _) = run(&plan(), world);
    assert_eq!((halt.reason.as_str(), world.execs), ("check_not_hermetic", 0));
    assert!(halt.hints[0].contains("pass_env: [DATABASE_URL]"), "{:?}", halt.hints);
    let mut world = Scripted::new(vec![broken()], vec![]);
    world.network = Some(green(&["a"]));
    world.diagnosis = world.network.clone();
    let (halt, world, _) = run(&plan(), world);
    assert_eq!((halt.reason.as_str(), &*halt.detail), ("check_not_hermetic", "network"));
    assert_eq!(world.execs, 0);
    let silent_baseline = reason(&plan(), vec![silent()], vec![]);
    assert_eq!(silent_baseline, "check_unrunnable");
}

#[test]
fn three_silent_checks_in_a_row_are_unrunnable_and_two_are_not() {
    let steps: Vec<Step> = (1..4).map(|n| turn(&format!("t{n}"), silent())).collect();
    assert_eq!(reason(&plan(), base(), steps), "check_unrunnable");
    let steps = vec![turn("t1", silent()), turn("t2", silent()), turn("t3", green(&["a", "b"]))];
    assert_eq!(reason(&plan(), base(), steps), "success_condition_met");
}

#[test]
fn two_tests_that_never_pass_together_are_named() {
    let swap = red(&["a"], &["b"]);
    let steps = vec![turn("t1", swap.clone()), turn("t2", swap.clone())];
    let (halt, ..) = run(&plan(), Scripted::new(base(), steps));
    assert_eq!(halt.reason.as_str(), "unsatisfiable_constraints");
    assert_eq!(
        halt.why,
        "in 2 attempts fixing a broke b (or the other way round), and in no state seen did both pass."
    );
    let steps = vec![turn("t1", swap), turn("t2", green(&["a", "b"]))];
    assert_eq!(reason(&plan(), base(), steps), "success_condition_met");
}

#[test]
fn a_tree_that_returns_twice_oscillates() {
    let mut plan = plan();
    plan.limits.no_progress = 100;
    plan.limits.same_failure = 100;
    let r = || red(&["b"], &["a"]);
    let steps = |names: &[&str]| names.iter().map(|name| turn(name, r())).collect::<Vec<_>>();
    let mut open = steps(&["x", "y", "x", "z"]);
    open.push(turn("g", green(&["a", "b"])));
    assert_eq!(reason(&plan, base(), open), "success_condition_met");
    assert_eq!(reason(&plan, base(), steps(&["x", "y", "x", "y"])), "oscillation_detected");
    let mut plateau = steps(&["x", "x", "x", "x"]);
    plateau.push(turn("g", green(&["a", "b"])));
    assert_eq!(reason(&plan, base(), plateau), "success_condition_met");
}

#[test]
fn a_regression_reverts_twice_and_halts_the_third_time() {
    let mut plan = plan();
    plan.limits.no_progress = 100;
    let bad = |name: &str| turn(name, red(&[], &["a", "b"]));
    let (halt, world, recorded) =
        run(&plan, Scripted::new(base(), vec![bad("x"), bad("y"), bad("z")]));
    assert_eq!((halt.reason.as_str(), world.execs), ("same_test_regressed", 3));
    assert!(recorded.observations.iter().all(|o| o.base == "t0"), "each starts from the accepted");
    let steps = vec![bad("x"), bad("y"), turn("g", green(&["a", "b"]))];
    assert_eq!(reason(&plan, base(), steps), "success_condition_met");
    plan.on_regression = OnRegression::Halt;
    assert_eq!(reason(&plan, base(), vec![bad("x")]), "same_test_regressed");
}

#[test]
fn the_same_failure_with_a_changing_tree_is_repeated() {
    let r = || red(&["b"], &["a"]);
    let steps: Vec<Step> = (1..4).map(|n| turn(&format!("t{n}"), r())).collect();
    assert_eq!(reason(&plan(), base(), steps), "same_failure_repeated");
}

#[test]
fn a_failing_set_that_never_leaves_the_baselines_is_infeasible() {
    let told = |n: u32| Report { message: format!("message {n}"), ..red(&["b"], &["a"]) };
    let steps: Vec<Step> = (1..4).map(|n| turn(&format!("t{n}"), told(n))).collect();
    assert_eq!(reason(&plan(), base(), steps.clone()), "infeasible_suspected");
    let mut capped = plan();
    capped.limits.iterations = 2;
    assert_eq!(reason(&capped, base(), steps), "max_iterations_reached");
}

#[test]
fn nothing_done_is_no_progress() {
    let idle = Step { tree: None, ..turn("", red(&["b"], &["a"])) };
    let (halt, world, _) = run(&plan(), Scripted::new(base(), vec![idle]));
    assert_eq!((halt.reason.as_str(), world.execs), ("no_progress_detected", 3));
    let two = vec![red(&["b"], &["a", "c"])];
    let idle = || Step { tree: None, ..turn("", red(&["b"], &["a", "c"])) };
    let steps = vec![
        idle(),
        idle(),
        turn("t3", red(&["a", "b"], &["c"])),
        turn("t4", green(&["a", "b", "c"])),
    ];
    assert_eq!(reason(&plan(), two, steps), "success_condition_met");
}

#[test]
fn three_failed_execs_in_a_row_halt_and_two_do_not() {
    let failing = |name: &str| Step { exec_code: 1, ..turn(name, red(&["b"], &["a"])) };
    let mut plan = plan();
    plan.limits.same_failure = 100;
    plan.limits.no_progress = 100;
    let steps = vec![failing("x"), failing("y"), failing("z")];
    assert_eq!(reason(&plan, base(), steps), "execution_failure");
    let steps = vec![failing("x"), failing("y"), turn("g", green(&["a", "b"]))];
    assert_eq!(reason(&plan, base(), steps), "success_condition_met");
    let steps = vec![Step { exec_code: 1, ..turn("g", green(&["a", "b"])) }];
    assert_eq!(reason(&plan, base(), steps), "success_condition_met");
}

#[test]
fn a_broken_build_is_no_regression_and_reverts_after_two() {
    let mut plan = plan();
    plan.limits.no_progress = 100;
    let steps = vec![turn("x", broken()), turn("y", broken()), turn("g", green(&["a", "b"]))];
    let (halt, _, recorded) = run(&plan, Scripted::new(base(), steps));
    assert_eq!(halt.reason.as_str(), "success_condition_met");
    let bases: Vec<_> = recorded.observations.iter().map(|o| o.base.as_str()).collect();
    assert_eq!(bases, ["t0", "x", "t0"]);
}

#[test]
fn the_time_limit_ends_the_loop() {
    let mut plan = plan();
    plan.limits.time_ms = 15;
    let steps = vec![turn("x", red(&["b"], &["a"])), turn("y", red(&["b"], &["a"]))];
    assert_eq!(reason(&plan, base(), steps), "time_limit_reached");
    let steps = vec![turn("x", green(&["a", "b"]))];
    assert_eq!(reason(&plan, base(), steps), "success_condition_met");
}

#[test]
fn unknown_usage_is_never_zero() {
    let mut plan = plan();
    plan.metering = Metering::File;
    plan.limits.usd_micro = Some(100);
    let used = |usd_micro| Step {
        usage: Some(Usage { usd_micro, tokens: 1, calls: 1 }),
        ..turn("g", green(&["a", "b"]))
    };
    assert_eq!(reason(&plan, base(), vec![turn("g", green(&["a", "b"]))]), "metering_lost");
    assert_eq!(reason(&plan, base(), vec![used(100)]), "success_condition_met");
    assert_eq!(reason(&plan, base(), vec![used(101)]), "budget_exceeded");
    let red_spent = Step { check: red(&["b"], &["a"]), ..used(100) };
    assert_eq!(reason(&plan, base(), vec![red_spent]), "budget_exceeded");
}

#[test]
fn targets_decide_green_and_the_rest_may_only_not_regress() {
    let mut plan = plan();
    plan.targets = vec!["a".to_owned()];
    let known_red = vec![red(&["b"], &["a", "old"])];
    let fixed = turn("g", red(&["a", "b"], &["old"]));
    assert_eq!(reason(&plan, known_red.clone(), vec![fixed]), "success_condition_met");
    plan.max_regressions = 0;
    let traded = turn("g", red(&["a"], &["b", "old"]));
    assert_eq!(reason(&plan, known_red, vec![traded]), "same_test_regressed");
}

#[test]
fn quarantined_ids_do_not_hold_a_green_back() {
    let mut plan = plan();
    plan.quarantine = vec!["shaky".to_owned()];
    let steps = vec![turn("g", red(&["a", "b"], &["shaky"]))];
    assert_eq!(reason(&plan, base(), steps.clone()), "success_condition_met");
    plan.quarantine.clear();
    plan.limits.iterations = 1;
    assert_eq!(reason(&plan, base(), steps), "max_iterations_reached");
}

#[test]
fn a_red_first_run_beside_green_copies_is_not_called_green_from_the_start() {
    let baseline = || vec![red(&[], &["a"]), green(&["a"]), green(&["a"])];
    let (halt, world, recorded) = run(&plan(), Scripted::new(baseline(), vec![]));
    assert_eq!((halt.reason.as_str(), world.execs), ("success_condition_met", 0));
    assert!(halt.why.starts_with("the first run of the check was red"), "{}", halt.why);
    let (history, ..) =
        loopexec::domain::fold::step_baseline(&plan(), vec![], &recorded.baseline.unwrap());
    assert_eq!(history.first_red.map(|ids| ids.len()), Some(1));
    assert_eq!(history.notes.len(), 1);
    let (halt, ..) = run(&plan(), Scripted::new(vec![green(&["a"])], vec![]));
    assert!(halt.why.contains("green before any exec"), "{}", halt.why);
}

#[test]
fn broken_builds_are_named_as_what_kept_the_loop_from_progress() {
    let mut plan = plan();
    plan.limits.same_failure = 100;
    let steps = |n: u32| (1..=n).map(|n| turn(&format!("t{n}"), broken())).collect::<Vec<_>>();
    let (halt, ..) = run(&plan, Scripted::new(base(), steps(3)));
    assert_eq!(halt.reason.as_str(), "no_progress_detected");
    assert_eq!(
        halt.why,
        "build or collection failed in 3 of the last 3 iterations: it does not build."
    );
    assert!(halt.hints[0].contains("build"), "{:?}", halt.hints);
    plan.limits.iterations = 2;
    let (halt, ..) = run(&plan, Scripted::new(base(), steps(2)));
    assert_eq!(halt.reason.as_str(), "max_iterations_reached");
    assert!(halt.why.contains("Build or collection failed in 2 of the last 2"), "{}", halt.why);
    let (halt, ..) = run(&plan, Scripted::new(base(), vec![turn("t1", red(&["b"], &["a"]))]));
    assert!(!halt.why.contains("collection"), "{}", halt.why);
}

#[test]
fn broken_builds_do_not_make_a_loop_infeasible() {
    let mut plan = plan();
    plan.limits.same_failure = 100;
    let told = |n: u32| Report { message: format!("message {n}"), ..red(&["b"], &["a"]) };
    let steps = vec![turn("t1", told(1)), turn("t2", broken()), turn("t3", told(3))];
    assert_eq!(reason(&plan, base(), steps), "no_progress_detected");
}

#[test]
fn a_check_that_timed_out_at_the_end_is_named_where_a_cap_ends_the_loop() {
    let mut plan = plan();
    plan.limits.iterations = 2;
    let steps = || vec![turn("t1", red(&["b"], &["a"])), turn("t2", silent())];
    let (halt, ..) = run(&plan, Scripted::new(base(), steps()));
    assert_eq!(halt.reason.as_str(), "max_iterations_reached");
    assert!(
        halt.why.contains("The check gave no answer (it timed out after 1 s) in 1 iteration."),
        "{}",
        halt.why
    );
    assert!(halt.hints[0].contains("check.timeout"), "{:?}", halt.hints);
    plan.limits.iterations = 10;
    plan.limits.time_ms = 15;
    let steps = vec![turn("t1", silent()), turn("t2", silent())];
    let (halt, ..) = run(&plan, Scripted::new(base(), steps));
    assert_eq!(halt.reason.as_str(), "time_limit_reached");
    assert!(halt.why.contains("no answer"), "{}", halt.why);
}

#[test]
fn the_same_broken_build_again_and_again_is_named_as_that() {
    let steps: Vec<Step> = (1..4).map(|n| turn(&format!("t{n}"), broken())).collect();
    let (halt, ..) = run(&plan(), Scripted::new(base(), steps));
    assert_eq!(halt.reason.as_str(), "same_failure_repeated");
    assert!(halt.why.ends_with("each time: it does not build."), "{}", halt.why);
    assert!(halt.hints[0].contains("build"), "{:?}", halt.hints);
}
