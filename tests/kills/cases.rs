//! Ways of taking a run up that are not a matter of chance.

use crate::bench::Bench;
use crate::site::{Rng, Site};
use loopexec::receipt::record::{Compare, fold};

fn interrupted_in_exec(bench: &Bench, wait: &str) {
    bench.write("agent.sh", format!("echo half > part.txt\n{wait}\necho whole > done.txt\n"));
    bench.loop_file(concat!(
        "exec: sh agent.sh\n",
        "check: test -f done.txt\n",
        "limits: { iterations: 2 }\n",
    ));
    bench.commit();
}

/// Starts a run and waits until exec is at work.
fn start_and_wait(bench: &Bench, id: &str) -> crate::bench::Started {
    let started = bench.start(&["run", "--json", "--run-id", id]);
    let live = bench.path(&format!(".loopexec/runs/{id}/live.json"));
    let in_exec =
        || std::fs::read_to_string(&live).is_ok_and(|text| text.contains("\"phase\":\"exec\""));
    let start = std::time::Instant::now();
    while !in_exec() {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(150));
    started
}

#[test]
fn an_interrupted_run_writes_its_end_and_goes_on_without_what_was_cut_short() {
    let bench = Bench::new();
    let flag = bench.beside("go");
    interrupted_in_exec(&bench, &format!("test -e '{}' || sleep 60", flag.display()));
    let started = start_and_wait(&bench, "R");
    let begun = std::time::Instant::now();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(started.pid()), nix::sys::signal::SIGTERM)
        .unwrap();
    let ran = started.wait();
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
    assert_eq!((ran.code, &*ran.reason()), (Some(21), "interrupted"), "{ran:#?}");
    assert_eq!(bench.events(&ran).last().unwrap()["type"], "run_end");
    assert!(!bench.path("part.txt").exists());

    // As if a first attempt to take it up had been killed in the middle of its first line.
    let receipt = bench.run_of(&ran).receipt();
    let whole = std::fs::read_to_string(&receipt).unwrap();
    std::fs::write(&receipt, whole + "{\"v\":1,\"seq\":").unwrap();

    std::fs::write(&flag, "").unwrap();
    let again = bench.run(&["run", "--json", "--resume"]);
    assert_eq!(again.code, Some(10), "{again:#?}");
    let object = again.json();
    assert_eq!((&object["run_id"], &object["iterations"]), (&"R".into(), &1.into()));
    assert!(bench.path("done.txt").exists());
    let events = bench.events(&again);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let resumed = kinds.iter().position(|kind| *kind == "resumed").unwrap();
    assert_eq!(kinds[resumed - 2..resumed], ["run_end", "recovered"]);
    assert_eq!(kinds.last(), Some(&"run_end"));
    // What the cut iteration took is still spent.
    let earlier = events[resumed]["earlier_ms"].as_u64().unwrap();
    assert_eq!(events[resumed - 2]["elapsed_ms"].as_u64(), Some(earlier));
    assert!(object["elapsed_ms"].as_u64().unwrap() > earlier);
    bench.fold(&again);

    // Now it has ended for good.
    let ended = bench.run(&["run", "--json", "--resume", "R"]);
    assert_eq!(ended.code, Some(30), "{ended:#?}");
    assert_eq!(ended.json()["errors"][0]["detail"], "ended", "{ended:#?}");
}

#[test]
fn a_spent_limit_stays_spent_and_ends_the_run_for_good() {
    let bench = Bench::new();
    bench.loop_file("exec: echo x >> log\ncheck: test -f done.txt\nlimits: { iterations: 1 }\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "max_iterations_reached", "{ran:#?}");
    let again = bench.run(&["run", "--json", "--resume"]);
    assert_eq!(again.json()["errors"][0]["detail"], "ended", "{again:#?}");
}

#[test]
fn a_resume_without_the_cache_makes_it_again_and_another_loop_is_refused() {
    let bench = Bench::new();
    let flag = bench.beside("go");
    interrupted_in_exec(&bench, &format!("test -e '{}' || sleep 60", flag.display()));
    let mut started = start_and_wait(&bench, "R");
    started.child.kill().unwrap();
    started.wait();
    std::fs::remove_dir_all(bench.beside("cache")).unwrap();
    std::fs::write(&flag, "").unwrap();

    let other = bench.run(&["run", "--json", "--resume", "R", "--max-iterations", "9"]);
    assert_eq!(other.code, Some(30), "{other:#?}");
    let error = &other.json()["errors"][0];
    assert_eq!(error["kind"], "config_invalid", "{other:#?}");
    assert!(error.to_string().contains(": limits differs ("), "{error}");
    let args = ["run", "--json", "--resume", "R", "--max-iterations", "9", "--exec", "true"];
    let other = bench.run(&args);
    assert!(other.stdout.contains(": exec, limits differ ("), "{other:#?}");

    let ran = bench.run(&["run", "--json", "--resume", "R"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(ran.json()["iterations"], 1);
    assert!(bench.path("done.txt").exists());
}

#[test]
fn the_latest_to_go_on_with_is_one_that_started_and_an_ended_one_names_it() {
    let bench = Bench::new();
    let flag = bench.beside("go");
    interrupted_in_exec(&bench, &format!("test -e '{}' || sleep 60", flag.display()));
    let none = bench.run(&["run", "--json", "--resume"]);
    assert_eq!(none.code, Some(30), "{none:#?}");
    let mut started = start_and_wait(&bench, "R");
    started.child.kill().unwrap();
    started.wait();
    std::fs::write(&flag, "").unwrap();

    let over = bench.run_loop(&["--run-id", "over", "--exec", "true", "--once"]);
    assert_eq!(over.reason(), "max_iterations_reached", "{over:#?}");
    for which in ["over", "latest"] {
        let ended = bench.run(&["run", "--json", "--resume", which]);
        assert_eq!(ended.json()["errors"][0]["detail"], "ended", "{ended:#?}");
        assert!(ended.stdout.contains("loopexec run --resume R;"), "{ended:#?}");
    }
    std::fs::remove_dir_all(bench.path(".loopexec/runs/over")).unwrap();

    let bad = bench.run_loop(&["--run-id", "bad", "--max-iterations", "none"]);
    assert_eq!(bad.reason(), "config_invalid", "{bad:#?}");
    assert_eq!(bench.run(&["report", "--json"]).json()["run_id"], "bad");
    std::fs::create_dir(bench.path(".loopexec/runs/dead")).unwrap();
    let named = bench.run(&["run", "--json", "--resume", "bad"]);
    assert!(named.stdout.contains("loopexec run --resume R;"), "{named:#?}");
    let ran = bench.run(&["run", "--json", "--resume"]);
    assert_eq!((ran.code, &ran.json()["run_id"]), (Some(10), &"R".into()), "{ran:#?}");
    let log: Vec<&str> = ran.stderr.lines().collect();
    let wanted = "baseline: re-check of the accepted state in fresh copy";
    assert!(log.iter().any(|line| line.starts_with(wanted)), "{log:?}");
    let again = bench.run(&["run", "--json", "--resume"]);
    assert!(again.stdout.contains("no run here can be resumed"), "{again:#?}");

    std::fs::remove_dir_all(bench.path(".loopexec/runs/R")).unwrap();
    let none = bench.run(&["run", "--json", "--resume"]);
    assert!(none.stdout.contains("each was stopped before it could start"), "{none:#?}");
}

#[test]
fn a_run_that_died_before_its_first_event_hinders_nobody() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done.txt\ncheck: test -f done.txt\n");
    bench.commit();
    for content in [None, Some(""), Some("{\"v\":1,\"seq\":0,")] {
        let folder = bench.path(".loopexec/runs/dead");
        std::fs::create_dir_all(&folder).unwrap();
        if let Some(content) = content {
            std::fs::write(folder.join("receipt.jsonl"), content).unwrap();
        }
        let ran = bench.run(&["run", "--json", "--resume", "dead"]);
        assert_eq!(ran.code, Some(30), "{content:?}: {ran:#?}");
        let error = &ran.json()["errors"][0];
        assert_eq!(error["kind"], "workspace_invalid", "{ran:#?}");
        assert!(error.to_string().contains("loopexec run starts a new one"), "{ran:#?}");
        let ran = bench.run_loop(&[]);
        assert_eq!(ran.code, Some(10), "{content:?}: {ran:#?}");
        std::fs::remove_file(bench.path("done.txt")).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_torn_tail_is_set_aside_and_recorded_and_the_run_goes_on() {
    let site = Site::new("");
    let bench = &site.bench;
    let reference = site.run_undisturbed();
    let mut rng = Rng::from_time();
    let seed = rng.seed;
    // As if the kill had met the write of a line.
    assert!(site.kill_in("torn", "exec", &mut rng).is_some(), "seed {seed}");
    let receipt = bench.path(".loopexec/runs/torn/receipt.jsonl");
    let whole = std::fs::read(&receipt).unwrap();
    let text = std::str::from_utf8(&whole).unwrap().trim_end_matches('\0');
    std::fs::write(&receipt, format!("{text}{{\"v\":1,\"seq\":")).unwrap();
    let ran = bench.run(&["run", "--json", "--resume", "torn"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    site.assert_ends_as(&reference, "torn", seed);
    let events = bench.events(&ran);
    assert!(events.iter().any(|event| event["type"] == "recovered"), "{events:?}");
    fold(&bench.run_of(&ran), Compare::Strict, &mut |_| Ok(())).unwrap();
}
