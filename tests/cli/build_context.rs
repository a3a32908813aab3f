//! `build-context`: what the next exec would see is what the next exec sees.

use crate::bench::Bench;
use crate::measured::interrupt;

const LOOP: &str = "goal: make it two\nlimits: {iterations: 2}\nexec: 'cp \"$LOOPEXEC_CONTEXT\" seen-$LOOPEXEC_ITERATION; cp \"$LOOPEXEC_FAILURES\" failures-$LOOPEXEC_ITERATION; echo x >> work'\ncheck: 'echo it is $(cat work); grep -q 2 work'\n";

#[test]
fn it_shows_what_exec_is_shown() {
    let bench = Bench::new();
    bench.write("work", "1\n");
    bench.write(".gitignore", "seen-*\nfailures-*\n");
    bench.loop_file(&format!("workspace: {{mode: in_place}}\n{LOOP}"));
    bench.commit();
    let once = bench.run(&["run", "--once", "--json"]);
    assert_eq!(once.code, Some(12), "{once:#?}");
    // The second exec of a run of two sees what the record of the first run foretells.
    bench.git(&["checkout", "-q", "work"]);
    let shown = bench.run(&["build-context", "--json", "loop.yml"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let json = shown.json();
    let two = bench.run(&["run", "--json"]);
    assert_eq!(two.code, Some(12), "{two:#?}");
    let seen = std::fs::read_to_string(bench.path("seen-2")).unwrap();
    assert_eq!(json["context"], seen.as_str());
    assert!(json["tokens"].as_u64().unwrap() <= json["ceiling"].as_u64().unwrap());
    let failures = std::fs::read_to_string(bench.path("failures-2")).unwrap();
    assert_eq!(json["failures"], serde_json::from_str::<serde_json::Value>(&failures).unwrap());
    let context = json["context"].as_str().unwrap();
    assert!(context.contains("make it two") && context.contains("it is 1"), "{context}");
    assert!(json["manifest"].as_array().unwrap().iter().any(|item| item["path"] == "work"));
}

#[test]
fn the_settings_are_the_runs_own_or_those_of_a_file() {
    let bench = Bench::new();
    bench.write("work", "1\n");
    bench.loop_file(LOOP);
    bench.commit();
    bench.run_loop(&[]);
    let own = bench.run(&["build-context"]);
    assert!(own.stdout.contains("make it two"), "{own:#?}");
    let said = own.stderr.trim_end();
    assert!(
        said.contains("has ended (") && said.ends_with("an iteration 3 would be shown"),
        "{said}"
    );
    bench.write("other.yml", "version: 1\nmodel: none\ngoal: another goal\nexec: x\ncheck: y\n");
    let other = bench.run(&["build-context", "other.yml"]);
    assert!(other.stdout.contains("another goal"), "{other:#?}");
    bench.write("small.yml", "version: 1\nmodel: none\nexec: x\ncheck: y\ncontext: {tokens: 1}\n");
    assert_eq!(bench.run(&["build-context", "small.yml"]).code, Some(30));
    assert_eq!(bench.run(&["build-context", "missing.yml"]).code, Some(30));
}

#[test]
fn without_a_baseline_there_is_nothing_to_show() {
    let bench = Bench::new();
    let none = bench.run(&["build-context", "--json"]);
    assert_eq!((none.code, &none.json()["detail"]), (Some(30), &"no_run".into()));
    bench.whole_loop_file("version: 1\n");
    bench.run_loop(&[]);
    let none = bench.run(&["build-context", "--json"]);
    assert_eq!((none.code, &none.json()["detail"]), (Some(30), &"no_baseline".into()));
}

#[test]
fn after_an_interruption_it_is_what_the_resumed_iteration_sees() {
    let bench = Bench::new();
    let mark = bench.beside("mark");
    bench.write("work", "1\n");
    bench.loop_file(&format!(
        "goal: make it two\nexec: 'touch {0}; sleep 60'\ncheck: grep -q 2 work\n",
        mark.display()
    ));
    bench.commit();
    let ran = interrupt(&bench, &["run", "--json"], &mark);
    assert_eq!(ran.reason(), "interrupted");
    let shown = bench.run(&["build-context", "--json"]).json();
    assert_eq!((&shown["iteration"], &shown["ended"]), (&1.into(), &true.into()));
    let said = shown["shown"].as_str().unwrap();
    assert!(said.contains("iteration 1 is shown by loopexec run --resume"), "{said}");
    assert!(shown["context"].as_str().unwrap().contains("Iteration 1 of "), "{shown:#}");
}
