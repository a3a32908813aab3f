//! What must hold for every history: no breach gets past to success, every run halts within its
//! caps, every halt replays to itself (`run` asserts the last).

use crate::script::*;
use loopexec::domain::surface::{OverlayFact, SettingChange, SurfaceFact, TestAt};
use proptest::prelude::*;

fn any_report() -> impl Strategy<Value = Report> {
    let names = ["a", "b", "c"];
    (0u8..8, 0u8..10).prop_map(move |(mask, kind)| {
        let (failed, passed): (Vec<_>, Vec<_>) =
            names.iter().enumerate().partition(|(n, _)| mask & (1 << n) != 0);
        let strip = |list: Vec<(usize, &&'static str)>| {
            list.into_iter().map(|(_, n)| *n).collect::<Vec<_>>()
        };
        let (failed, passed) = (strip(failed), strip(passed));
        match kind {
            0 => silent(),
            1 => broken(),
            _ if failed.is_empty() => green(&passed),
            _ => red(&passed, &failed),
        }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    (
        prop::option::weighted(0.8, 0u8..4),
        0i32..2,
        any_report(),
        prop::collection::vec(any_report(), 1..4),
        prop::option::of(any_report()),
        0u8..12,
        1u64..100,
        any_surface(),
    )
        .prop_map(
            |(tree, exec_code, check, copies, rerun, touch, takes_ms, (surface, overlay))| Step {
                tree: tree.map(|n| format!("t{n}")),
                exec_code,
                touches: if touch == 0 { vec!["infra/x"] } else { vec!["src/a"] },
                copies,
                rerun,
                takes_ms,
                surface,
                overlay,
                ..turn("t0", check)
            },
        )
}

fn any_surface() -> impl Strategy<Value = (SurfaceFact, OverlayFact)> {
    (0u8..10).prop_map(|kind| {
        let (mut surface, mut overlay) = (SurfaceFact::default(), OverlayFact::default());
        let at = |name: &str| TestAt { file: "t".to_owned(), name: name.to_owned(), line: 1 };
        match kind {
            0 => surface.settings.push(SettingChange {
                path: "pytest.ini".to_owned(),
                key: "content".to_owned(),
                before: "absent".to_owned(),
                after: "present".to_owned(),
            }),
            1 => surface.lost.push(at("a")),
            2 | 3 => {
                surface.files.push("t".to_owned());
                overlay.restored.push("t".to_owned());
                overlay.tree = "laid".to_owned();
            }
            4 => overlay.dropped.push("new".to_owned()),
            _ => {}
        }
        (surface, overlay)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_history_gets_past_a_guard_or_a_cap(
        baseline in prop::collection::vec(any_report(), 1..4),
        steps in prop::collection::vec(any_step(), 1..12),
        iterations in 1u32..12,
        time_ms in 50u64..600,
    ) {
        let mut plan = plan();
        plan.limits.iterations = iterations;
        plan.limits.time_ms = time_ms;
        let (halt, world, recorded) = run(&plan, Scripted::new(baseline, steps));
        prop_assert!(world.execs <= iterations);
        prop_assert!(world.now_ms <= time_ms + 100);
        if halt.reason.as_str() == "success_condition_met" && world.execs > 0 {
            let last = recorded.observations.last().unwrap();
            prop_assert!(last.changes.iter().all(|change| !change.path.starts_with("infra/")));
            prop_assert_eq!(last.check.as_ref().unwrap().run.exit.clone(),
                loopexec::domain::command::Exit::Code { code: 0 });
            prop_assert!(last.confirmations.len() >= 2);
            prop_assert!(last.surface.as_ref().unwrap().settings.is_empty());
        }
    }
}
