//! `doctor`: every precondition, and that it runs neither exec nor check.

use crate::bench::{Bench, assert_untouched};
use serde_json::Value;

fn standing(told: &Value, name: &str) -> String {
    let rows = told["checks"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name);
    row.unwrap_or_else(|| panic!("no row {name}: {told:#}"))["standing"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_loop_in_order_passes_and_nothing_of_it_runs() {
    let bench = Bench::new();
    let ran_file = bench.beside("ran");
    bench.script("work.sh", &format!("touch {}", ran_file.display()));
    bench.loop_file(
        "exec: ./work.sh\ncheck: {run: ./work.sh, runner: tap, pass_env: [UNSET_NAME]}\nsetup: ./work.sh\n",
    );
    bench.commit();
    let before = bench.tree_hash();
    let ran = bench.run(&["doctor", "--json"]);
    let told = ran.json();
    assert_eq!(ran.code, Some(0), "{told:#}");
    for name in [
        "git",
        "loop-file",
        "check-text",
        "programs",
        "tree",
        "evidence",
        "lock",
        "carry",
        "runner",
    ] {
        assert_eq!(standing(&told, name), "pass", "{name}: {told:#}");
    }
    assert_eq!(standing(&told, "baseline"), "warn", "UNSET_NAME is not set");
    assert_eq!(standing(&told, "isolation"), "warn");
    assert_eq!(told["baseline"]["check"], "./work.sh");
    let env = told["baseline"]["env"].to_string();
    assert!(env.contains("\"TZ\"") && !env.contains("UTC"), "names only: {env}");
    assert!(!ran_file.exists());
    assert_untouched(&before, &bench.tree_hash());
    assert!(!bench.path(".loopexec").exists());
    let caches: Vec<_> = std::fs::read_dir(bench.beside("cache")).unwrap().collect();
    assert!(caches.is_empty(), "{caches:?}");
}

#[test]
fn what_hides_a_red_and_what_is_not_there_is_said() {
    let bench = Bench::new();
    bench.loop_file("exec: ./missing.sh\ncheck: pytest -q || true\n");
    bench.write("secret.txt", "x");
    bench.write(".gitignore", "server.key\n");
    bench.write("server.key", "k");
    bench.commit();
    let mut bench = bench;
    bench.env("MY_API_KEY", "not-for-anyone");
    let ran = bench.run(&["doctor"]);
    assert_eq!(ran.code, Some(30), "{ran:#?}");
    for part in ["`|| true`", "exec: ./missing.sh", "MY_API_KEY", "server.key", "looks like pytest"]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("not-for-anyone"));
}

#[test]
fn a_bad_file_a_held_lock_and_a_refused_state_fail() {
    let bench = Bench::new();
    let ran = bench.run(&["doctor", "--json"]);
    assert_eq!((ran.code, standing(&ran.json(), "loop-file").as_str()), (Some(30), "fail"));
    bench.loop_file("exec: sleep 30\ncheck: test -f x\nworkspace: {on_dirty: refuse}\n");
    let ran = bench.run(&["doctor", "--json"]);
    assert_eq!((ran.code, standing(&ran.json(), "tree").as_str()), (Some(30), "fail"));
    bench.commit();
    assert_eq!(bench.run(&["doctor"]).code, Some(0));
    let mut run = bench.start(&["run", "-q"]);
    let held = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let told = bench.run(&["doctor", "--json"]).json();
        standing(&told, "lock") == "fail"
    });
    run.child.kill().unwrap();
    run.wait();
    assert!(held);
    bench.write(
        "big.yml",
        "version: 1\nmodel: none\nexec: x\ncheck: test -f x\nworkspace: {carry_max: 1KiB}\n",
    );
    bench.write(".gitignore", "big/\n");
    bench.write("big/a", vec![0; 5000]);
    let told = bench.run(&["doctor", "big.yml", "--json"]).json();
    let carry = standing(&told, "carry");
    // Where extents are shared nothing is copied, and nothing has to fit.
    let shared = told["checks"].to_string().contains("shared without copying");
    assert_eq!(carry, if shared { "pass" } else { "fail" }, "{told:#}");
}

#[test]
fn a_program_that_nothing_makes_fails_and_one_that_setup_may_make_does_not() {
    let bench = Bench::new();
    for (rest, code, wanted) in [
        ("exec: ./agent.sh\ncheck: test -f x\n", 30, "fail"),
        ("exec: touch x\ncheck: no-such-program-here\n", 30, "fail"),
        ("exec: ./agent.sh\ncheck: test -f x\nsetup: touch agent.sh\n", 0, "warn"),
        ("exec: touch x\ncheck: test -f x\nsetup: ./no-setup.sh\n", 30, "fail"),
        ("exec: touch x\ncheck: test -f x\n", 0, "pass"),
    ] {
        bench.loop_file(rest);
        let ran = bench.run(&["doctor", "--json"]);
        let told = ran.json();
        assert_eq!((ran.code, &*standing(&told, "programs")), (Some(code), wanted), "{told:#}");
    }
}

#[test]
fn packages_that_nothing_installs_are_named() {
    let bench = Bench::new();
    let has = |told: &Value| told["checks"].to_string().contains("setup: npm ci");
    let doctor = || bench.run(&["doctor", "--json"]).json();
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    bench.write("package.json", "{\"dependencies\": {}}");
    assert!(!has(&doctor()));
    bench.write("package.json", "{\"devDependencies\": {\"mocha\": \"1\"}}");
    let told = doctor();
    assert!(has(&told) && standing(&told, "dependencies") == "warn", "{told:#}");
    bench.loop_file("exec: touch x\ncheck: test -f x\nsetup: touch y\n");
    assert!(!has(&doctor()));
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    bench.write("node_modules/a", "");
    assert!(!has(&doctor()));
}

#[test]
fn the_runs_that_are_announced_are_those_that_are_made() {
    let bench = Bench::new();
    let ran_file = bench.beside("ran");
    bench.script("check.sh", &format!("echo x >> {}; test -f x", ran_file.display()));
    bench.loop_file(
        "exec: 'true'\ncheck: {run: ./check.sh, results: [\"r/*.xml\"]}\nlimits: {iterations: 1}\n",
    );
    bench.commit();
    let told = bench.run(&["doctor", "--json"]).json()["checks"].to_string();
    assert!(told.contains(" 2 to 4 times (a green one is confirmed 2 more"), "{told}");
    assert!(told.contains("reports that the check has to write"), "{told}");
    assert_eq!(bench.run_loop(&[]).code, Some(12));
    let times = std::fs::read_to_string(&ran_file).unwrap().lines().count();
    assert_eq!(times, 4 + 1, "the baseline's and one iteration's");
}

#[test]
fn a_version_manager_that_fails_matters_to_what_needs_it() {
    let mut bench = Bench::new();
    let shims = bench.beside("manager/shims");
    std::fs::create_dir_all(&shims).unwrap();
    std::os::unix::fs::symlink("/bin/sh", shims.join("mytool")).unwrap();
    let path = format!("{}:{}", shims.display(), std::env::var("PATH").unwrap());
    bench.env("PATH", &path);
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    let told = bench.run(&["doctor", "--json"]).json();
    assert_eq!(standing(&told, "toolchains"), "pass", "{told:#}");
    bench.loop_file("exec: touch x\ncheck: mytool -c 'test -f x'\n");
    let told = bench.run(&["doctor", "--json"]).json();
    assert_eq!(standing(&told, "toolchains"), "warn", "{told:#}");
    assert!(told["checks"].to_string().contains("put the absolute folder"), "{told:#}");
}

#[test]
fn a_plain_folder_is_looked_at_too() {
    let bench = Bench::plain();
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    let ran = bench.run(&["doctor", "--json"]);
    assert_eq!((ran.code, standing(&ran.json(), "tree").as_str()), (Some(0), "warn"));
    assert_eq!(standing(&ran.json(), "runner"), "warn");
}
