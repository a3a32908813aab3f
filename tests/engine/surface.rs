//! A green is held to the tests of t0: what is told once, what halts at once, what is nobody's fault.

use crate::script::{Report, Scripted, Step, broken, green, plan, red, run, run_fact, turn};
use loopexec::domain::command::Exit;
use loopexec::domain::plan::{Assertions, OnBreach, Plan};
use loopexec::domain::reason::HaltReason as R;
use loopexec::domain::surface::{
    Canary, CoverageFact, Moved, OverlayFact, SettingChange, SurfaceFact, TestAt, Veto, Weakened,
    Weaker,
};

const A: &str = "tests/t.py::test_a";
const B: &str = "tests/t.py::test_b";

fn at(name: &str) -> TestAt {
    TestAt { file: "tests/t.py".to_owned(), name: name.to_owned(), line: 3 }
}

fn start() -> Vec<Report> {
    vec![red(&[B], &[A])]
}

fn honest(tree: &str) -> Step {
    turn(tree, green(&[A, B]))
}

/// The agent deleted `test_a`; with the tests of t0 the candidate is red.
fn deletes(tree: &str) -> Step {
    Step {
        copies: vec![red(&[B], &[A])],
        surface: SurfaceFact {
            files: vec!["tests/t.py".to_owned()],
            lost: vec![at("test_a")],
            ..SurfaceFact::default()
        },
        overlay: OverlayFact {
            tree: "laid".to_owned(),
            restored: vec!["tests/t.py".to_owned()],
            ..OverlayFact::default()
        },
        ..turn(tree, green(&[B]))
    }
}

#[test]
fn a_lost_test_is_told_once_and_halts_the_second_time() {
    let (halt, world, recorded) =
        run(&plan(), Scripted::new(start(), vec![deletes("one"), deletes("two")]));
    assert_eq!((halt.reason, world.execs), (R::MetricIntegrityViolation, 2));
    assert!(halt.why.contains("tests/t.py") && halt.why.contains("test_a"), "{}", halt.why);
    assert!(halt.hints[0].contains("mutable: [tests/t.py]"), "{:?}", halt.hints);
    assert!(recorded.decisions[1].contains("Put the tests back"), "{}", recorded.decisions[1]);
}

#[test]
fn an_agent_that_puts_the_test_back_converges() {
    let (halt, world, _) =
        run(&plan(), Scripted::new(start(), vec![deletes("one"), honest("two")]));
    assert_eq!((halt.reason, world.execs), (R::SuccessConditionMet, 2));
    assert!(halt.why.contains("not detected"), "{}", halt.why);
}

#[test]
fn a_weakened_state_is_never_what_later_ones_are_held_to() {
    // The test is put back and red: that is no regression of the state in which it was gone.
    let back = turn("two", red(&[B], &[A]));
    let (halt, world, _) =
        run(&plan(), Scripted::new(start(), vec![deletes("one"), back, honest("three")]));
    assert_eq!((halt.reason, world.execs), (R::SuccessConditionMet, 3));
}

#[test]
fn a_weakened_setting_halts_before_the_check() {
    let change = SettingChange {
        path: "package.json".to_owned(),
        key: "scripts.test".to_owned(),
        before: "jest".to_owned(),
        after: "exit 0".to_owned(),
    };
    let surface = SurfaceFact { settings: vec![change], ..SurfaceFact::default() };
    let step = Step { surface, ..honest("one") };
    let (halt, world, recorded) = run(&plan(), Scripted::new(start(), vec![step.clone()]));
    assert_eq!((halt.reason, world.execs), (R::MetricIntegrityViolation, 1));
    assert_eq!(halt.why, "package.json: scripts.test was changed: jest → exit 0.");
    assert!(recorded.observations[0].check.is_none());

    let mut reverts = plan();
    reverts.guards.on_breach = OnBreach::Revert;
    reverts.guards.max_reverts = 2;
    let (halt, world, _) =
        run(&reverts, Scripted::new(start(), vec![step.clone(), step.clone(), honest("two")]));
    assert_eq!((halt.reason, world.execs), (R::SuccessConditionMet, 3));
    let (halt, world, _) = run(&reverts, Scripted::new(start(), vec![step; 3]));
    assert_eq!((halt.reason, world.execs), (R::MetricIntegrityViolation, 3));
}

#[test]
fn a_red_overlay_accuses_only_where_the_surface_differs() {
    // Nothing was laid over: something outside of the snapshot decides.
    let step = Step { copies: vec![red(&[B], &[A])], ..honest("one") };
    let (halt, ..) = run(&plan(), Scripted::new(start(), vec![step]));
    assert_eq!(halt.reason, R::CheckNotHermetic);
    // A file that was laid over, and another test that fails.
    let mut step = deletes("one");
    step.check = green(&[A, B]);
    step.surface.lost.clear();
    step.copies = vec![red(&[A, B], &["tests/other.py::test_c"])];
    let (halt, ..) = run(&plan(), Scripted::new(start(), vec![step]));
    assert_eq!(halt.reason, R::CheckNotHermetic);
    // The overlay's own verdicts differ.
    let mut step = deletes("one");
    step.copies = vec![red(&[B], &[A]), green(&[A, B])];
    let (halt, ..) = run(&plan(), Scripted::new(start(), vec![step]));
    assert_eq!(halt.reason, R::CheckFlaky);
}

#[test]
fn a_test_that_moved_is_not_lost() {
    let mut step = deletes("one");
    let to = TestAt { file: "tests/unit/t.py".to_owned(), ..at("test_sum") };
    step.surface.lost.clear();
    step.surface.moved = vec![Moved { from: at("test_a"), to }];
    step.check = green(&["tests/unit/t.py::test_sum", B]);
    // With the tests of t0, and with its own in a third copy.
    step.copies = vec![green(&[A, B]), green(&[A, B]), green(&["tests/unit/t.py::test_sum", B])];
    let (halt, ..) = run(&plan(), Scripted::new(start(), vec![step]));
    assert_eq!(halt.reason, R::SuccessConditionMet, "{}", halt.why);
}

#[test]
fn cases_of_a_table_may_be_written_another_way_and_not_go_away() {
    let start = vec![red(&["t.py::test_a[1]", "t.py::test_a[2]"], &[B])];
    let renamed = turn("one", green(&["t.py::test_a[one]", "t.py::test_a[two]", B]));
    let (halt, ..) = run(&plan(), Scripted::new(start.clone(), vec![renamed]));
    assert_eq!(halt.reason, R::SuccessConditionMet, "{}", halt.why);
    let fewer = turn("one", green(&["t.py::test_a[1]", B]));
    let (halt, ..) = run(&plan(), Scripted::new(start, vec![fewer]));
    assert_eq!(halt.reason, R::MetricIntegrityViolation);
    assert!(halt.why.contains("2 cases at the start and has 1"), "{}", halt.why);
}

#[test]
fn fewer_assertions_veto_only_where_the_loop_is_strict() {
    let weak = |how| Weakened {
        was: at("test_a"),
        at: at("test_a"),
        how,
        before: "2 assertions".to_owned(),
        after: "1 assertion".to_owned(),
    };
    let step = |how| Step {
        surface: SurfaceFact {
            files: vec!["tests/t.py".to_owned()],
            weakened: vec![weak(how)],
            ..SurfaceFact::default()
        },
        ..honest("one")
    };
    let ends = |plan: &Plan, how| run(plan, Scripted::new(start(), vec![step(how)])).0.reason;
    let mut report = plan();
    report.guards.assertions = Assertions::Report;
    assert_eq!(ends(&plan(), Weaker::Assertions), R::MetricIntegrityViolation);
    assert_eq!(ends(&report, Weaker::Assertions), R::SuccessConditionMet);
    assert_eq!(ends(&report, Weaker::Marker), R::MetricIntegrityViolation);
}

#[test]
fn added_tests_that_the_check_needs_are_kept() {
    let mut step = honest("one");
    step.overlay =
        OverlayFact { dropped: vec!["tests/new.py".to_owned()], ..OverlayFact::default() };
    // Without them the check is red and no test is.
    let bare = Report { exit: Exit::Code { code: 1 }, ..green(&[A, B]) };
    step.copies = vec![bare, green(&[A, B]), green(&[A, B])];
    let (halt, _, recorded) = run(&plan(), Scripted::new(start(), vec![step]));
    assert_eq!(halt.reason, R::SuccessConditionMet, "{}", halt.why);
    let overlay = recorded.observations[0].overlay.as_ref().unwrap();
    assert_eq!(overlay.kept, ["tests/new.py"]);
}

#[test]
fn a_file_of_t0_in_which_tests_came_is_kept_only_where_all_of_its_own_were_told() {
    let ends = |told: &'static [&'static str]| {
        let mut step = honest("one");
        step.overlay = OverlayFact {
            tree: "laid".to_owned(),
            restored: vec!["tests/t.py".to_owned()],
            ..OverlayFact::default()
        };
        step.grown = vec!["tests/t.py".to_owned()];
        let bare = Report { exit: Exit::Code { code: 1 }, ..green(told) };
        step.copies = match told.len() {
            2 => vec![bare, green(&[A, B]), green(&[A, B])],
            _ => vec![bare],
        };
        run(&plan(), Scripted::new(start(), vec![step])).0.reason
    };
    assert_eq!(ends(&[A, B]), R::SuccessConditionMet);
    assert_eq!(ends(&[A]), R::MetricIntegrityViolation);
}

fn canary(step: Step, now: Report, then: Option<Report>) -> Step {
    let planted = Canary {
        tree: "planted".to_owned(),
        sentinel: Some(at("test_loopexec_1")),
        changed: vec![at("test_a")],
    };
    Step { canary: Some(planted), canary_runs: [Some(now), then], ..step }
}

#[test]
fn a_planted_falsehood_has_to_be_red() {
    const S: &str = "tests/t.py::test_loopexec_1";
    let ends = |now: Report, then: Option<Report>| {
        let step = canary(honest("one"), now, then);
        let (halt, ..) = run(&plan(), Scripted::new(start(), vec![step]));
        (halt.reason, halt.detail)
    };
    let violation = (R::MetricIntegrityViolation, "sentinel".to_owned());
    let fine = (R::SuccessConditionMet, String::new());
    assert_eq!(ends(red(&[B], &[S, A]), None), fine);
    // Reported as passed, and it was told on the tree of t0.
    assert_eq!(ends(green(&[A, B, S]), Some(red(&[B], &[A, S]))), violation);
    // Never told, neither then nor now: nobody is accused.
    assert_eq!(ends(green(&[A, B]), Some(red(&[B], &[A]))), fine);
    assert_eq!(ends(green(&[A, B]), Some(red(&[B], &[A, S]))), violation);
    // Another expected value, and the test still passes.
    let (reason, detail) = ends(red(&[A, B], &[S]), None);
    assert_eq!((reason, detail.as_str()), (R::CheckInadequate, "expected_value"));
}

#[test]
fn results_that_do_not_fit_a_green_are_told_once() {
    let none = turn("one", Report { exit: Exit::Code { code: 0 }, ..red(&[], &[]) });
    let (halt, world, _) = run(&plan(), Scripted::new(start(), vec![none]));
    assert_eq!((halt.reason, world.execs), (R::MetricIntegrityViolation, 2));
    assert!(halt.why.contains("none of the 2 tests"), "{}", halt.why);
}

#[test]
fn coverage_has_a_floor_with_a_tolerance() {
    let step = Step {
        coverage: Some(CoverageFact { before_ppm: 900_000, after_ppm: 880_000, excluded: vec![] }),
        ..honest("one")
    };
    let mut lenient = plan();
    lenient.guards.coverage_tolerance_ppm = 20_000;
    let ends = |plan: &Plan| run(plan, Scripted::new(start(), vec![step.clone()])).0;
    assert_eq!(ends(&lenient).reason, R::SuccessConditionMet);
    let halt = ends(&plan());
    assert_eq!(halt.reason, R::MetricIntegrityViolation);
    assert!(halt.why.contains("90.00 % → 88.00 %"), "{}", halt.why);
}

#[test]
fn a_sealed_check_is_simply_not_green() {
    let step = Step { held_out: Some(1), ..honest("one") };
    let (halt, _, recorded) = run(&plan(), Scripted::new(start(), vec![step, honest("two")]));
    assert_eq!(halt.reason, R::SuccessConditionMet);
    assert!(recorded.decisions[1].contains("A sealed check is red."));
}

#[test]
fn an_advisory_command_may_veto_and_not_promote() {
    let veto = |hacking, objection: Option<&str>| Veto {
        run: run_fact(Exit::Code { code: 1 }),
        objection: objection.map(str::to_owned),
        hacking,
    };
    let ends = |veto| {
        let step = Step { judge: Some(veto), ..honest("one") };
        run(&plan(), Scripted::new(start(), vec![step])).0
    };
    let halt = ends(veto(false, Some("it copies the answer")));
    assert_eq!(halt.reason, R::ReviewerRejected);
    assert!(halt.why.contains("it copies the answer"), "{}", halt.why);
    assert_eq!(ends(veto(true, Some("bought"))).reason, R::RewardHackingDetected);
    assert_eq!(ends(veto(false, None)).reason, R::SuccessConditionMet);
}

#[test]
fn what_tests_share_is_named_where_a_test_as_at_t0_fails_without_it() {
    let step = Step {
        copies: vec![red(&[B], &[A])],
        overlay: OverlayFact {
            tree: "laid".to_owned(),
            dropped: vec!["tests/setup.sh".to_owned()],
            shared: vec!["tests/setup.sh".to_owned()],
            ..OverlayFact::default()
        },
        ..honest("one")
    };
    let (halt, ..) = run(&plan(), Scripted::new(start(), vec![step.clone(), step]));
    assert_eq!(halt.reason, R::MetricIntegrityViolation, "{}", halt.why);
    assert!(halt.why.starts_with("tests/setup.sh: test tests/t.py::test_a"), "{}", halt.why);
}

#[test]
fn added_tests_that_an_allowed_setting_lists_are_kept() {
    let mut step = honest("one");
    step.surface.allowed = vec![SettingChange {
        path: "CMakeLists.txt".to_owned(),
        key: "content".to_owned(),
        before: "present".to_owned(),
        after: "present".to_owned(),
    }];
    step.overlay =
        OverlayFact { dropped: vec!["tests/new.cpp".to_owned()], ..OverlayFact::default() };
    step.copies = vec![broken(), green(&[A, B]), green(&[A, B])];
    let ends = |step: &Step| run(&plan(), Scripted::new(start(), vec![step.clone(); 2])).0;
    assert_eq!(ends(&step).reason, R::SuccessConditionMet, "{}", ends(&step).why);
    // Without such a setting nothing needs them.
    step.surface.allowed.clear();
    step.copies = vec![broken()];
    assert_eq!(ends(&step).reason, R::MetricIntegrityViolation);
}

#[test]
fn tests_that_pass_without_a_name_are_not_gone() {
    const ALL: &str = "(all)";
    let start = vec![red(&[ALL], &["tests::test_a"])];
    let (halt, ..) = run(&plan(), Scripted::new(start, vec![turn("one", green(&[ALL]))]));
    assert_eq!(halt.reason, R::SuccessConditionMet, "{}", halt.why);
}

#[test]
fn a_test_whose_name_is_filled_in_at_run_time_is_found() {
    let mut step = deletes("one");
    let to = TestAt { name: "adds ${a} and ${b}".to_owned(), ..at("") };
    step.surface.lost.clear();
    step.surface.moved = vec![Moved { from: at("test_a"), to }];
    let now = green(&["tests/t.py::adds 1 and 2", B]);
    step.check = now.clone();
    step.copies = vec![green(&[A, B]), green(&[A, B]), now];
    let (halt, ..) = run(&plan(), Scripted::new(start(), vec![step.clone()]));
    assert_eq!(halt.reason, R::SuccessConditionMet, "{}", halt.why);
    step.check = green(&["tests/t.py::takes 1 and 2", B]);
    step.copies[2] = step.check.clone();
    let (halt, ..) = run(&plan(), Scripted::new(start(), vec![step.clone(), step]));
    assert_eq!(halt.reason, R::MetricIntegrityViolation);
}

#[test]
fn results_that_are_missing_are_blamed_on_what_changed() {
    let none = turn("one", Report { exit: Exit::Code { code: 0 }, ..red(&[], &[]) });
    let (halt, ..) = run(&plan(), Scripted::new(start(), vec![none]));
    assert!(halt.why.contains("src/a"), "{}", halt.why);
}
