//! `kill -9` of loopexec at any moment: nothing of it lives on, its receipt holds, `--resume` ends
//! as an undisturbed run does, and the caller's files are at each moment t0's or the delivered ones.
//!
//! 20 kills, or 200 with `LOOPEXEC_TEST_LONG=1`; the moments are random, the seed is printed.

#[path = "../cli/bench.rs"]
#[expect(dead_code, reason = "the end-to-end tests use the rest of it")]
mod bench;
mod cases;
mod site;

use site::{Reference, Rng, Site};

const PHASES: [&str; 7] =
    ["baseline", "setup", "exec", "snapshot", "check", "confirmation", "delivery"];

#[test]
fn a_killed_run_leaves_nothing_alive_and_goes_on_to_the_same_end() {
    kill_in_every_phase("");
}

#[cfg(feature = "toolchains")]
#[test]
fn the_same_holds_where_its_commands_run_in_zones() {
    let backend = if nix::unistd::geteuid().is_root() { "root" } else { "namespaces" };
    kill_in_every_phase(&format!("isolation: {{ backend: {backend} }}\n"));
}

fn kill_in_every_phase(more: &str) {
    let long = std::env::var_os("LOOPEXEC_TEST_LONG").is_some_and(|value| value != "0");
    let (each, total) = if long { (10, 200) } else { (2, 20) };
    let mut rng = Rng::from_time();
    println!("seed {}", rng.seed);
    let site = Site::new(more);
    let reference = site.run_undisturbed();
    let mut counts = [0_u32; PHASES.len()];
    let mut kills = 0;
    let mut misses = 0;
    while kills < total || counts.iter().any(|count| *count < each) {
        // The phase that was hit least so far, so that short ones are reached too.
        let least = (0..PHASES.len()).min_by_key(|index| counts[*index]).unwrap();
        let wanted = if counts[least] < each { least } else { rng.below(PHASES.len()) };
        let id = format!("kill-{}-{kills}-{misses}", rng.seed);
        match site.kill_in(&id, PHASES[wanted], &mut rng) {
            Some(phase) => {
                kills += 1;
                println!("kill {kills} in {phase}");
                if let Some(index) = PHASES.iter().position(|name| *name == phase) {
                    counts[index] += 1;
                }
                check_after_a_kill(&site, &reference, &id, &mut rng, &mut kills);
            }
            // The run was faster than the watch.
            None => misses += 1,
        }
        assert!(misses < total * 2, "seed {}: {counts:?}, {misses} misses", rng.seed);
        site.reset();
    }
    println!("{kills} kills: {:?}", PHASES.iter().zip(counts).collect::<Vec<_>>());
}

fn check_after_a_kill(
    site: &Site,
    reference: &Reference,
    id: &str,
    rng: &mut Rng,
    kills: &mut u32,
) {
    let seed = rng.seed;
    site.assert_nothing_lives(seed);
    site.assert_files_are_whole(reference, seed);
    if site.fold(id, seed).is_none() {
        // Not one event was whole: resuming says so, and a new run works.
        let ran = site.bench.run(&["run", "--json", "--resume", id]);
        assert_eq!(ran.code, Some(30), "seed {seed}: {ran:#?}");
        let ran = site.bench.run(&["run", "--json", "--run-id", &format!("{id}-again")]);
        assert_eq!(ran.code, Some(10), "seed {seed}: {ran:#?}");
        return site.assert_ends_as(reference, &format!("{id}-again"), seed);
    }
    // Every third run is killed once more while it is taken up.
    while rng.below(3) == 0 && site.kill_resume(id, rng) {
        *kills += 1;
        site.assert_nothing_lives(seed);
        site.assert_files_are_whole(reference, seed);
        assert!(site.fold(id, seed).is_some(), "seed {seed}");
    }
    if site.fold(id, seed).is_some_and(|folded| folded.end.is_none()) {
        let ran = site.bench.run(&["run", "--json", "--resume", id]);
        assert_eq!(ran.code, Some(10), "seed {seed}: {ran:#?}");
    }
    site.assert_ends_as(reference, id, seed);
}
