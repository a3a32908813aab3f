//! `report`: a run rendered, with what it does without, and nothing hostile getting through.

use crate::bench::Bench;

#[test]
fn a_report_holds_all_that_a_run_did() {
    let bench = Bench::new();
    bench.write("n", "0\n");
    bench.script(
        "check.sh",
        "echo 1..2; n=$(cat n); red=0\nfor i in 1 2; do if [ $n -ge $i ]; then echo \"ok $i - t$i\"; else echo \"not ok $i - t$i\"; red=1; fi; done\nexit $red",
    );
    bench.loop_file(
        "exec: |\n  echo $LOOPEXEC_ITERATION > n\n  (sleep 60 &) \ncheck: {run: ./check.sh, max_flake_rate: 0.5, quarantine: [never_seen]}\n",
    );
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let told = bench.run(&["report", "--json"]).json();
    let report = &told["report"];
    assert_eq!((&told["standing"], &told["iterations"]), (&"converged".into(), &2.into()));
    assert_eq!(report["head"], ran.json()["head"]);
    assert_eq!(report["loop_digest"], ran.json()["loop_digest"]);
    assert_eq!(report["baseline"]["failing"], serde_json::json!(["t1", "t2"]));
    let last = &report["iterations"][1];
    assert_eq!(last["fixed"], serde_json::json!(["t2"]));
    assert_eq!(last["changes"][0]["path"], "n");
    assert_eq!(last["confirmations"].as_array().unwrap().len(), 2);
    assert_eq!(last["survivors"][0]["name"], "sleep");
    assert_eq!(report["quarantine"], serde_json::json!(["never_seen"]));
    assert_eq!(report["bound"]["flips"], 0);
    assert_eq!(report["isolation"]["degraded"], true);
    let text = bench.run(&["report"]).stdout;
    for part in [
        "success_condition_met (exit 10, converged)",
        "Baseline: fail, 2 failing of 2 collected",
        "accepted  success_condition_met",
        "confirmation: check in fresh copy: exit 0, 0 failed of 2",
        "survivor: sleep",
        "quarantine  never_seen",
        "isolation   none, degraded",
        "unpinned    none",
        "delivery    applied to your tree (1 file, ",
        "  | ok 2 - t2",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains('\x1b'));
}

#[test]
fn a_wanted_rate_that_reruns_do_not_reach_is_unproven() {
    let bench = Bench::new();
    bench.loop_file("exec: touch x\ncheck: {run: test -f x, max_flake_rate: 0.001}\n");
    bench.commit();
    bench.run_loop(&[]);
    let bound = bench.run(&["report", "--json"]).json()["report"]["bound"].clone();
    assert_eq!((&bound["status"], &bound["max_flake_rate"]), (&"unproven".into(), &"0.001".into()));
}

#[test]
fn what_agents_print_and_name_forges_no_line() {
    let bench = Bench::new();
    bench.loop_file(
        "exec: |\n  printf '\\033[2J::error::forged\\nhead  forged\\n'\n  printf x > \"$(printf 'a\\nhead  forged\\033[31m')\"\ncheck: \"printf 'red\\\\n::set-output name=x::y\\\\n'; exit 1\"\nlimits: {iterations: 1}\n",
    );
    bench.commit();
    assert_eq!(bench.run_loop(&[]).code, Some(12));
    for command in ["report", "explain-halt", "status"] {
        let text = bench.run(&[command]).stdout;
        assert!(!text.contains('\x1b'), "{text}");
        for line in text.lines() {
            assert!(!line.starts_with("::") && !line.starts_with("head  forged"), "{text}");
        }
    }
    assert!(bench.run(&["report"]).stdout.contains("  | ::set-output"));
}

#[test]
fn an_altered_receipt_is_not_rendered() {
    let bench = Bench::new();
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    let receipt = bench.run_of(&ran).receipt();
    let text = std::fs::read_to_string(&receipt).unwrap();
    std::fs::write(&receipt, text.replacen("\"pass\"", "\"fail\"", 1)).unwrap();
    for command in ["report", "explain-halt"] {
        let ran = bench.run(&[command, "--json"]);
        assert_eq!(
            (ran.code, ran.json()["errors"][0]["kind"].as_str()),
            (Some(13), Some("objective_unverified")),
            "{ran:#?}"
        );
    }
}

#[test]
fn prove_without_v_is_noted_where_the_baseline_is_shown() {
    let bench = Bench::new();
    bench.script(
        "check.sh",
        "echo 't/a.t .. ok'; echo 'Files=1, Tests=2,  0 wallclock secs'; test -f x",
    );
    bench.loop_file("exec: touch x\ncheck: ./check.sh\n");
    bench.commit();
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let text = bench.run(&["report"]).stdout;
    let baseline = text.split("Iteration 1").next().unwrap();
    assert!(baseline.contains("No test point was seen; add -v to prove."), "{text}");
}
