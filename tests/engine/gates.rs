//! Gates: no history gets past a closed one to success, and an answer opens only the one it names.

use crate::script::*;
use loopexec::domain::evidence::{Decision, Halt};
use loopexec::domain::fold::{Position, take_answer, waits};
use loopexec::domain::gate::{Answer, Gate, Large, ProtectedChange, Question, Reply};
use loopexec::domain::observation::PatchSize;
use loopexec::domain::plan::Plan;
use loopexec::engine::drive::drive;
use proptest::prelude::*;

fn gated(gates: &[Gate]) -> Plan {
    Plan { gates: gates.to_vec(), ..plan() }
}

/// A loop whose patch may have so many files and lines.
fn capped(files: Option<u64>, lines: Option<u64>) -> Plan {
    let mut plan = plan();
    (plan.limits.patch_files, plan.limits.patch_lines) = (files, lines);
    plan
}

/// A step that ends green with a patch of so many files and lines.
fn sized(files: u64, lines: u64) -> Vec<Step> {
    vec![Step { patch: PatchSize { files, lines }, ..turn("t1", green(&["a", "b"])) }]
}

fn protected() -> Plan {
    let change = ProtectedChange {
        digest: "d".repeat(64),
        keys: vec!["check.run".to_owned()],
        why: "check.run differs from the base revision".to_owned(),
    };
    Plan { protected: Some(change), ..plan() }
}

fn base() -> Vec<Report> {
    vec![red(&["b"], &["a"])]
}

fn mended() -> Vec<Step> {
    vec![turn("t1", green(&["a", "b"]))]
}

fn answer(question: &Question, reply: Reply) -> Answer {
    Answer {
        gate: question.gate,
        reply,
        by: "a person".to_owned(),
        note: String::new(),
        time: "2026-01-01T00:00:00.000Z".to_owned(),
        head: "h".to_owned(),
        subject: question.subject.clone(),
    }
}

/// Drives to the next halt, and folds the record to the same decisions.
fn go(plan: &Plan, position: Position, world: &mut Scripted) -> (Position, Halt) {
    let end = drive(plan, position, world, &mut Recorded::default()).unwrap();
    (Position::Halted(Box::new(end.history), end.halt.clone()), end.halt)
}

fn reason(halt: &Halt) -> (&'static str, &str) {
    (halt.reason.as_str(), halt.detail.as_str())
}

#[test]
fn a_confirmed_green_waits_for_a_yes_and_a_red_one_asks_nobody() {
    let plan = gated(&[Gate::Deliver]);
    let (halt, world, recorded) = run(&plan, Scripted::new(base(), mended()));
    assert_eq!(reason(&halt), ("escalation_pending", "deliver"));
    assert_eq!(world.asked, 1);
    assert!(recorded.observations[0].asked.as_ref().unwrap().delivered);
    let mut capped = plan.clone();
    capped.limits.iterations = 1;
    let steps = vec![turn("t1", red(&["b"], &["a"]))];
    let (halt, world, _) = run(&capped, Scripted::new(base(), steps));
    assert_eq!((halt.reason.as_str(), world.asked), ("max_iterations_reached", 0));
}

#[test]
fn a_question_that_no_channel_takes_is_human_required() {
    let mut world = Scripted::new(base(), mended());
    world.hears = false;
    let (halt, ..) = run(&gated(&[Gate::Deliver]), world);
    assert_eq!(reason(&halt), ("human_required", "deliver"));
}

#[test]
fn a_breach_is_no_question() {
    let mut steps = mended();
    steps[0].touches = vec!["infra/main.tf"];
    let (halt, world, _) = run(&gated(&[Gate::Deliver]), Scripted::new(base(), steps));
    assert_eq!((halt.reason.as_str(), world.asked), ("blocked_path_modified", 0));
}

#[test]
fn what_is_green_from_the_start_hands_nothing_over_and_asks_nobody() {
    let plan = gated(&[Gate::Deliver, Gate::ProtectedChange]);
    let (halt, world, _) = run(&plan, Scripted::new(vec![green(&["a"])], vec![]));
    assert_eq!((halt.reason.as_str(), world.asked), ("success_condition_met", 0));
}

#[test]
fn a_yes_leads_to_success_without_another_exec_and_a_no_ends_for_good() {
    for (reply, wanted) in
        [(Reply::Yes, ("success_condition_met", "")), (Reply::No, ("human_required", "declined"))]
    {
        let plan = gated(&[Gate::Deliver]);
        let mut world = Scripted::new(base(), mended());
        let (position, _) = go(&plan, Position::start(), &mut world);
        let question = waits(&plan, &position).unwrap();
        let (position, decision) = take_answer(&plan, &position, answer(&question, reply)).unwrap();
        assert!(matches!(decision, Decision::Halt(_)));
        assert_eq!(waits(&plan, &position), None, "nothing is left to answer");
        let (position, halt) = go(&plan, position, &mut world);
        assert_eq!(reason(&halt), wanted);
        assert_eq!((world.execs, world.asked), (1, 1));
        assert!(take_answer(&plan, &position, answer(&question, Reply::Yes)).is_none());
    }
}

#[test]
fn an_answer_to_another_gate_or_another_result_opens_nothing() {
    let plan = gated(&[Gate::Deliver]);
    let mut world = Scripted::new(base(), mended());
    let (position, _) = go(&plan, Position::start(), &mut world);
    let question = waits(&plan, &position).unwrap();
    let right = answer(&question, Reply::Yes);
    for wrong in [
        Answer { gate: Gate::ProtectedChange, ..right.clone() },
        Answer { subject: "0".repeat(64), ..right.clone() },
    ] {
        assert!(take_answer(&plan, &position, wrong).is_none());
    }
    let mut other = Scripted::new(base(), vec![turn("t2", green(&["a", "b"]))]);
    let (position, _) = go(&plan, Position::start(), &mut other);
    assert!(take_answer(&plan, &position, right).is_none(), "the other tree was not looked at");
}

#[test]
fn nothing_runs_before_a_protected_change_is_agreed_to() {
    let plan = protected();
    let mut world = Scripted::new(base(), mended());
    let (position, halt) = go(&plan, Position::start(), &mut world);
    assert_eq!(reason(&halt), ("escalation_pending", "protected_change"));
    assert!(halt.why.contains("check.run differs"), "{}", halt.why);
    assert_eq!((world.execs, world.copies_run, world.asked), (0, 0, 1));
    let question = waits(&plan, &position).unwrap();
    let said = answer(&question, Reply::Yes);
    let (opened, decision) = take_answer(&plan, &position, said).unwrap();
    assert!(matches!((&opened, decision), (Position::Start(_), Decision::Continue { .. })));
    let (_, halt) = go(&plan, opened, &mut world);
    assert_eq!((reason(&halt), world.asked), (("success_condition_met", ""), 1));
    let declined = take_answer(&plan, &position, answer(&question, Reply::No)).unwrap().0;
    let (_, halt) = go(&plan, declined, &mut world);
    assert_eq!(reason(&halt), ("human_required", "declined"));
}

#[test]
fn a_patch_over_a_cap_waits_for_a_yes_and_one_at_it_asks_nobody() {
    for (plan, steps, over) in [
        (capped(Some(3), None), sized(3, 9000), false),
        (capped(Some(3), None), sized(4, 1), true),
        (capped(None, Some(50)), sized(9000, 50), false),
        (capped(None, Some(50)), sized(1, 51), true),
        (capped(Some(3), Some(50)), sized(4, 50), true),
        (capped(None, None), sized(9000, 9000), false),
    ] {
        let (halt, world, recorded) = run(&plan, Scripted::new(base(), steps));
        let wanted = match over {
            true => ("escalation_pending", "large_patch"),
            false => ("success_condition_met", ""),
        };
        assert_eq!((reason(&halt), world.asked), (wanted, u32::from(over)));
        let measured = recorded.observations[0].patch.is_some();
        assert_eq!(measured, plan.limits.caps_patch(), "nobody measures what nothing caps");
    }
}

#[test]
fn the_question_about_a_large_patch_names_its_size_and_the_caps() {
    let plan = capped(Some(3), Some(50));
    let mut world = Scripted::new(base(), sized(1, 120));
    let (position, halt) = go(&plan, Position::start(), &mut world);
    let wanted = "the patch changes 1 file and 120 lines, and the loop has limits.patch_files: 3 and limits.patch_lines: 50";
    assert!(halt.why.contains(wanted), "{}", halt.why);
    let question = waits(&plan, &position).unwrap();
    assert_eq!(question.large.unwrap().to_string(), wanted);
}

#[test]
fn a_size_that_is_not_known_is_over_every_cap() {
    assert_eq!(Large::of(&capped(None, None).limits, None), None);
    for plan in [capped(Some(3), None), capped(None, Some(50))] {
        let large = Large::of(&plan.limits, None).unwrap();
        assert!(large.to_string().starts_with("nothing says how much"), "{large}");
    }
}

#[test]
fn a_large_patch_of_a_loop_that_always_asks_is_one_question_that_a_yes_to_deliver_does_not_answer()
{
    let plan = Plan { gates: vec![Gate::Deliver], ..capped(Some(3), None) };
    let mut world = Scripted::new(base(), sized(4, 1));
    let (position, halt) = go(&plan, Position::start(), &mut world);
    assert_eq!(reason(&halt), ("escalation_pending", "large_patch"));
    let question = waits(&plan, &position).unwrap();
    let deliver = Answer { gate: Gate::Deliver, ..answer(&question, Reply::Yes) };
    assert!(take_answer(&plan, &position, deliver).is_none());
    let yes = answer(&question, Reply::Yes);
    let (position, _) = take_answer(&plan, &position, yes).unwrap();
    let (_, halt) = go(&plan, position, &mut world);
    assert_eq!((reason(&halt), world.asked), (("success_condition_met", ""), 1));
}

fn any_report() -> impl Strategy<Value = Report> {
    (0u8..8).prop_map(|mask| match mask {
        0..4 => green(&["a", "b"]),
        4 => red(&["b"], &["a"]),
        5 => red(&["a"], &["b"]),
        6 => broken(),
        _ => silent(),
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    (0u8..4, any_report(), 0u8..8, 0u64..6).prop_map(|(tree, check, touch, size)| Step {
        touches: if touch == 0 { vec!["infra/x"] } else { vec!["src/a"] },
        patch: PatchSize { files: size, lines: size * 10 },
        ..turn(&format!("t{tree}"), check)
    })
}

/// What somebody says: whether it names the question, and what.
fn any_said() -> impl Strategy<Value = (bool, Reply)> {
    (prop::bool::weighted(0.6), prop::bool::ANY)
        .prop_map(|(fits, yes)| (fits, if yes { Reply::Yes } else { Reply::No }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_history_gets_past_an_unanswered_gate_to_success(
        baseline in any_report(),
        steps in prop::collection::vec(any_step(), 1..6),
        hears in prop::bool::ANY,
        protects in prop::bool::ANY,
        asks in prop::bool::ANY,
        caps in (prop::option::of(1u64..6), prop::option::of(1u64..60)),
        said in prop::collection::vec(any_said(), 0..5),
    ) {
        let mut plan = if protects { protected() } else { plan() };
        plan.gates = if asks { vec![Gate::Deliver] } else { vec![] };
        (plan.limits.patch_files, plan.limits.patch_lines) = caps;
        let mut world = Scripted::new(vec![baseline], steps);
        world.hears = hears;
        let mut yes = Vec::new();
        let (mut position, mut halt) = go(&plan, Position::start(), &mut world);
        for (fits, reply) in said {
            let Some(question) = waits(&plan, &position) else { break };
            let mut answer = answer(&question, reply);
            if !fits {
                answer.subject = "0".repeat(64);
            }
            let Some((next, _)) = take_answer(&plan, &position, answer) else {
                prop_assert!(!fits);
                continue;
            };
            prop_assert!(fits);
            if reply == Reply::Yes {
                yes.push(question.gate);
            }
            (position, halt) = go(&plan, next, &mut world);
        }
        if protects && !yes.contains(&Gate::ProtectedChange) {
            prop_assert_eq!((world.execs, world.copies_run), (0, 0));
            prop_assert_ne!(halt.reason.as_str(), "success_condition_met");
        }
        if halt.reason.as_str() == "success_condition_met" && world.execs > 0 {
            let size = world.step().patch;
            let over = |cap: Option<u64>, is: u64| cap.is_some_and(|cap| is > cap);
            let large = over(caps.0, size.files) || over(caps.1, size.lines);
            prop_assert_eq!(yes.contains(&Gate::LargePatch), large);
            prop_assert_eq!(yes.contains(&Gate::Deliver), asks && !large);
        }
        if matches!(halt.reason.as_str(), "escalation_pending") {
            prop_assert!(hears && world.asked > 0);
        }
    }
}
