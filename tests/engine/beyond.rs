//! What lies beyond the snapshot and beyond what is read: programs outside of the workspace, results over a limit.

use crate::script::{Report, Scripted, Step, green, plan, red, run, turn};
use loopexec::domain::plan::OnBreach;
use loopexec::domain::reason::HaltReason as R;
use loopexec::domain::weakening::{INCOMPLETE, UNREAD};
use std::collections::BTreeMap;

const A: &str = "tests/t.py::test_a";
const B: &str = "tests/t.py::test_b";

/// A green, with a program outside of the workspace that is not as it was.
fn swapped(tree: &str) -> Step {
    Step {
        control: BTreeMap::from([("/usr/bin/tool".to_owned(), "other".to_owned())]),
        ..turn(tree, green(&[A, B]))
    }
}

#[test]
fn a_program_that_was_changed_outside_is_told_once_and_halts_the_second_time() {
    let start = || vec![red(&[B], &[A])];
    for on_breach in [OnBreach::Halt, OnBreach::Revert] {
        let mut plan = plan();
        plan.guards.on_breach = on_breach;
        let steps = vec![swapped("one"), swapped("two")];
        let (halt, world, recorded) = run(&plan, Scripted::new(start(), steps));
        assert_eq!((halt.reason, world.execs), (R::MetricIntegrityViolation, 2), "{}", halt.why);
        assert!(halt.why.contains("/usr/bin/tool lies outside"), "{}", halt.why);
        assert!(halt.hints[0].contains("`setup`"), "{:?}", halt.hints);
        let told = &recorded.decisions[1];
        assert!(told.contains("Put back what lies outside") && !told.contains("mutable"), "{told}");
    }
    let steps = vec![swapped("one"), turn("two", green(&[A, B]))];
    let (halt, ..) = run(&plan(), Scripted::new(start(), steps));
    assert_eq!(halt.reason, R::SuccessConditionMet, "{}", halt.why);
}

#[test]
fn what_is_beyond_a_limit_is_missed_only_where_all_was_read_at_the_start() {
    let cut =
        |report: Report| Report { problem: Some(format!("{UNREAD}so many tests.")), ..report };
    let ends = |start: Report, now: Report| {
        let steps = vec![turn("one", now.clone()), turn("two", now)];
        run(&plan(), Scripted::new(vec![start], steps)).0
    };
    // In another order another one is left out.
    let halt = ends(cut(red(&[B], &["tests/t.py::test_c"])), cut(green(&["tests/t.py::test_c"])));
    assert_eq!(halt.reason, R::SuccessConditionMet, "{}", halt.why);
    let halt = ends(red(&[B], &[A]), cut(green(&[A, "tests/t.py::test_c"])));
    assert_eq!(halt.reason, R::MetricIntegrityViolation, "{}", halt.why);
    assert!(halt.why.contains("so many tests"), "{}", halt.why);
}

#[test]
fn a_green_that_was_not_believed_is_named_where_the_iterations_end() {
    let mut plan = plan();
    plan.limits.iterations = 1;
    let (halt, ..) = run(&plan, Scripted::new(vec![red(&[B], &[A])], vec![swapped("one")]));
    assert_eq!(halt.reason, R::MaxIterationsReached);
    assert!(halt.why.contains("not believed: /usr/bin/tool"), "{}", halt.why);
}

#[test]
fn reports_that_do_not_fit_accuse_nobody_where_none_told_a_test_at_the_start() {
    let odd = Report { problem: Some(format!("{INCOMPLETE}a report is cut.")), ..green(&[]) };
    let ends = |start: Report| {
        let steps = vec![turn("one", odd.clone()), turn("two", odd.clone())];
        run(&plan(), Scripted::new(vec![start], steps)).0.reason
    };
    assert_eq!(ends(red(&[], &[])), R::SuccessConditionMet);
    assert_eq!(ends(red(&[B], &[A])), R::MetricIntegrityViolation);
}

#[test]
fn a_green_names_what_the_loop_file_frees() {
    let mut step = turn("one", green(&[A, B]));
    step.surface.freed = vec!["tests/t.py".to_owned()];
    let (halt, _, recorded) = run(&plan(), Scripted::new(vec![red(&[B], &[A])], vec![step]));
    assert_eq!(halt.reason, R::SuccessConditionMet);
    let told = &recorded.decisions[1];
    assert!(told.contains("not guarded, as guards.mutable says: tests/t.py"), "{told}");
}
