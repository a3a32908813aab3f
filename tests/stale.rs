//! Cargo rebuilds by mtimes: no verdict of a loop may come from a build of other sources.

#[path = "cli/bench.rs"]
#[expect(dead_code, reason = "the end-to-end tests use the rest of it")]
mod bench;

use bench::{Bench, Ran};
use loopexec::domain::evidence::{Ratchet, Verdict};
use loopexec::domain::observation::Observation;
use loopexec::receipt::record::{Compare, Step, fold};

/// A crate without dependencies: two functions, each with a test of its own.
fn crate_bench(agent: &str, rest: &str) -> Bench {
    let mut bench = Bench::new();
    for name in ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Ok(value) = std::env::var(name) {
            bench.env(name, &value);
        }
    }
    bench.write(
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    bench.write(".gitignore", "target/\n");
    bench.write("src/lib.rs", "pub mod first;\npub mod second;\n");
    bench.write("src/first.rs", "pub fn value() -> u32 { 1 }\n");
    bench.write("src/second.rs", "pub fn value() -> u32 { 0 }\n");
    bench.write(
        "tests/values.rs",
        "#[test]\nfn first() { assert_eq!(small::first::value(), 1); }\n\
         #[test]\nfn second() { assert_eq!(small::second::value(), 2); }\n",
    );
    bench.write("agent.sh", agent);
    bench.loop_file(&format!(
        "exec: sh agent.sh\ncheck: cargo test --offline --no-fail-fast\n{rest}"
    ));
    bench.commit();
    bench
}

struct Seen {
    observation: Observation,
    verdict: Option<Verdict>,
    regressed: bool,
    failing: Vec<String>,
}

fn iterations(bench: &Bench, ran: &Ran) -> Vec<Seen> {
    let mut seen = Vec::new();
    fold(&bench.run_of(ran), Compare::Strict, &mut |step| {
        if let Step::Decided(observation, evidence, ..) = step {
            seen.push(Seen {
                observation: observation.clone(),
                verdict: evidence.verdict,
                regressed: matches!(evidence.ratchet, Ratchet::Regressed { .. }),
                failing: evidence.failing.iter().map(ToString::to_string).collect(),
            });
        }
        Ok(())
    })
    .unwrap();
    seen
}

/// Says which tests must fail for what the sources of an iteration say.
fn assert_true(seen: &Seen, wanted: &[&str]) {
    let n = seen.observation.iteration;
    assert_eq!(seen.failing.len(), wanted.len(), "iteration {n}: {:?}", seen.failing);
    for name in wanted {
        assert!(
            seen.failing.iter().any(|id| id.ends_with(name)),
            "iteration {n}: {:?}",
            seen.failing
        );
    }
}

#[test]
fn a_reverted_edit_leaves_no_build_behind_that_answers_for_the_sources_before_it() {
    // 1: mends `second` and breaks `first`, which is reverted; 2: changes nothing that is built;
    // 3: mends `second` alone. Sizes stay the same, so that only times tell the builds apart.
    let bench = crate_bench(
        concat!(
            "case $LOOPEXEC_ITERATION in\n",
            "1) echo 'pub fn value() -> u32 { 2 }' > src/second.rs\n",
            "   echo 'pub fn value() -> u32 { 9 }' > src/first.rs ;;\n",
            "2) echo note > note.txt ;;\n",
            "3) echo 'pub fn value() -> u32 { 2 }' > src/second.rs ;;\n",
            "esac\n",
        ),
        "",
    );
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let seen = iterations(&bench, &ran);
    assert_eq!(seen.len(), 3, "{ran:#?}");
    assert!(seen[0].regressed);
    assert_true(&seen[0], &["first"]);
    assert_true(&seen[1], &["second"]);
    assert_eq!(seen[2].verdict, Some(Verdict::Pass));
    let result = std::fs::read_to_string(bench.path("src/first.rs")).unwrap();
    assert!(result.contains("{ 1 }"), "{result}");
}

#[test]
fn an_agent_that_sets_old_times_is_judged_by_what_it_wrote() {
    // 1: writes a wrong value with an old time; 2: writes the right one, and breaks the other, with
    // the time of before; 3: mends both with the oldest time of all.
    let bench = crate_bench(
        concat!(
            "case $LOOPEXEC_ITERATION in\n",
            "1) echo 'pub fn value() -> u32 { 7 }' > src/second.rs\n",
            "   touch -d '2001-01-01 00:00' src/second.rs ;;\n",
            "2) echo 'pub fn value() -> u32 { 2 }' > src/second.rs\n",
            "   echo 'pub fn value() -> u32 { 9 }' > src/first.rs\n",
            "   touch -d '2001-01-01 00:00' src/second.rs src/first.rs ;;\n",
            "3) echo 'pub fn value() -> u32 { 2 }' > src/second.rs\n",
            "   echo 'pub fn value() -> u32 { 1 }' > src/first.rs\n",
            "   touch -d '2000-01-01 00:00' src/second.rs src/first.rs ;;\n",
            "esac\n",
        ),
        "limits: { no_progress: 9, same_failure: 9 }\n",
    );
    let ran = bench.run_loop(&[]);
    let seen = iterations(&bench, &ran);
    assert_true(&seen[0], &["second"]);
    assert_true(&seen[1], &["first"]);
    assert!(seen[1].regressed);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!((seen.len(), seen[2].verdict), (3, Some(Verdict::Pass)), "{ran:#?}");
}

#[test]
fn a_green_that_only_an_old_build_would_show_is_none() {
    // 1: breaks `first`, and hides it behind an old time, after the build of t0 had it right.
    let bench = crate_bench(
        concat!(
            "echo 'pub fn value() -> u32 { 8 }' > src/first.rs\n",
            "touch -d '2001-01-01 00:00' src/first.rs\n",
        ),
        "limits: { iterations: 1 }\n",
    );
    bench.write("src/second.rs", "pub fn value() -> u32 { 2 }\n");
    bench.write(
        "tests/values.rs",
        "#[test]\nfn first() { assert_eq!(small::first::value(), 1); }\n\
         #[test]\nfn second() { assert_eq!(small::second::value(), 2); }\n\
         #[test]\nfn third() { assert!(std::path::Path::new(\"third\").exists()); }\n",
    );
    bench.write(
        "agent.sh",
        std::fs::read_to_string(bench.path("agent.sh")).unwrap() + "touch third\n",
    );
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "max_iterations_reached", "{ran:#?}");
    let seen = iterations(&bench, &ran);
    assert_true(&seen[0], &["first"]);
}
