//! `replay`: an end state is rebuilt and checked again; another one is found out.

use crate::bench::{Bench, Ran};
use crate::verify::rewrite;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A project whose check is a shell script with two tests in TAP.
fn shell_project(more: &str) -> Bench {
    let bench = Bench::new();
    bench.write("a", "0\n");
    bench.write("b", "1\n");
    bench.script(
        "tests.sh",
        "echo 1..2\nn=0\nfor t in a b; do n=$((n + 1)); if grep -q 1 $t; then echo \"ok $n - $t # time=$(date +%N)ms\"; else echo \"not ok $n - $t\"; bad=1; fi; done\nexit ${bad:-0}",
    );
    bench.loop_file(&format!("check: {{run: ./tests.sh, runner: tap}}\n{more}"));
    bench.commit();
    bench
}

/// Returns every file below a folder with its content.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => pending.push(path),
                false => drop(all.insert(path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    all
}

/// Exchanges the end state for one in which a file at `path` has another content, ids and chain
/// rewritten to fit.
fn exchange(bench: &Bench, ran: &Ran, path: &[&str], content: &str) {
    let run = bench.run_of(ran);
    let repo = git2::Repository::open_bare(run.snapshots()).unwrap();
    let old = bench.fold(ran).history().unwrap().next.tree.clone();
    let blob = repo.blob(content.as_bytes()).unwrap();
    let mut trees = vec![repo.find_tree(old.parse().unwrap()).unwrap()];
    for name in &path[..path.len() - 1] {
        let id = trees.last().unwrap().get_name(name).unwrap().id();
        trees.push(repo.find_tree(id).unwrap());
    }
    let mut made = blob;
    let mut mode = 0o100_644;
    for (tree, name) in trees.iter().zip(path).rev() {
        let mut builder = repo.treebuilder(Some(tree)).unwrap();
        builder.insert(name, made, mode).unwrap();
        made = builder.write().unwrap();
        mode = 0o040_000;
    }
    assert_ne!(made.to_string(), old);
    rewrite(&run.receipt(), |_, text| text.replace(&old, &made.to_string()));
    let verified = bench.run(&["verify"]);
    assert_eq!(verified.code, Some(0), "the exchange has to fit: {verified:#?}");
}

#[test]
fn a_green_end_state_is_reproduced_and_the_runs_folder_stays_byte_for_byte() {
    let bench = shell_project("exec: 'echo 1 > a'\n");
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let folder = bench.run_of(&ran).path().to_owned();
    let (before, tree) = (contents(&folder), bench.tree_hash());
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(0), "{replayed:#?}");
    let json = replayed.json();
    assert_eq!(json["reproduced"], true);
    assert_eq!((&json["verdict"], &json["fingerprint"]), (&json!("pass"), &json!("same")));
    assert_eq!(json["environment"]["equal"], true, "{json:#}");
    assert!(contents(&folder) == before, "replay wrote into the run's folder");
    crate::bench::assert_untouched(&tree, &bench.tree_hash());
    let left = contents(&bench.beside("cache"));
    assert!(left.is_empty(), "left in the cache: {:?}", left.keys());
}

#[test]
fn an_exchanged_green_end_state_is_unverified() {
    let bench = shell_project("exec: 'echo 1 > a'\n");
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    exchange(&bench, &ran, &["a"], "2\n");
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(13), "{replayed:#?}");
    let error = &replayed.json()["errors"][0];
    assert_eq!(error["kind"], "objective_unverified");
    assert!(
        error["what"].as_str().unwrap().contains("recorded as pass and is fail now"),
        "{error}"
    );
}

#[test]
fn a_red_end_state_is_reproduced_and_one_that_is_red_in_another_way_is_not() {
    let bench = shell_project("limits: {iterations: 2}\nexec: 'echo more >> work'\n");
    let ran = bench.run_loop(&[]);
    assert!(matches!(ran.code, Some(12 | 17)), "{ran:#?}");
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(0), "{replayed:#?}");
    assert_eq!(replayed.json()["verdict"], "fail");
    exchange(&bench, &ran, &["b"], "0\n");
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(13), "{replayed:#?}");
    let what = replayed.json()["errors"][0]["what"].as_str().unwrap().to_owned();
    assert!(what.contains("by other tests"), "{what}");
}

#[test]
fn a_green_baseline_and_a_run_in_a_subfolder_are_reproduced() {
    let bench = shell_project("exec: 'true'\n");
    bench.write("a", "1\n");
    bench.commit();
    assert_eq!(bench.run_loop(&[]).json()["iterations"], 0);
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(0), "{replayed:#?}");
    let bench = Bench::new();
    bench.write("sub/x", "0\n");
    bench
        .write("sub/loop.yml", "version: 1\nmodel: none\nexec: 'echo 1 > x'\ncheck: grep -q 1 x\n");
    bench.commit();
    let sub = bench.path("sub");
    let ran = bench.run(&["run", "--json", "--workdir", sub.to_str().unwrap()]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(0), "{replayed:#?}");
}

#[test]
fn the_recorded_setup_runs_again_not_what_the_loop_file_says_now() {
    let bench = Bench::new();
    bench.write(".gitignore", "made\n");
    bench.write("x", "0\n");
    bench.loop_file("setup: echo 1 > made\nexec: 'echo 1 > x'\ncheck: cmp x made\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    bench.loop_file("setup: exit 9\nexec: 'false'\ncheck: 'false'\n");
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(0), "{replayed:#?}");
}

#[test]
fn another_layer_with_another_verdict_proves_nothing() {
    let bench = Bench::new();
    bench.write(".gitignore", "local\n");
    bench.write("local", "1\n");
    bench.write("x", "0\n");
    bench.loop_file("exec: 'echo 1 > x'\ncheck: cmp x local\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    bench.write("local", "something longer\n");
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(30), "{replayed:#?}");
    assert_eq!(replayed.json()["detail"], "environment_differs");
    // Another layer with the same verdict is reproduced, with a note.
    bench.write("local", "1\n");
    bench.write("x", "9\n");
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(0), "{replayed:#?}");
}

#[test]
fn what_has_no_verdict_no_end_or_no_snapshots_is_not_replayed() {
    let bench = Bench::new();
    bench.whole_loop_file("version: 1\n");
    bench.run_loop(&[]);
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!((replayed.code, &replayed.json()["detail"]), (Some(30), &json!("no_verdict")));
    let bench = shell_project("exec: 'echo 1 > a'\n");
    let ran = bench.run_loop(&[]);
    let run = bench.run_of(&ran);
    let whole = std::fs::read(run.receipt()).unwrap();
    std::fs::write(run.receipt(), &whole[..whole.len() - 9]).unwrap();
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!((replayed.code, &replayed.json()["detail"]), (Some(30), &json!("incomplete")));
    std::fs::write(run.receipt(), &whole).unwrap();
    std::fs::rename(run.snapshots(), bench.beside("away")).unwrap();
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!((replayed.code, &replayed.json()["detail"]), (Some(30), &json!("no_snapshots")));
}

/// A crate with one red test; its output has times.
fn cargo_project() -> Bench {
    let mut bench = Bench::new();
    // rustup finds its toolchains through HOME, which the bench makes its own.
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        let path = std::env::var_os(name).map_or_else(|| home.join(folder), PathBuf::from);
        if path.is_dir() {
            bench.env(name, path.to_str().unwrap());
        }
    }
    bench.write(
        "Cargo.toml",
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    bench.write(".gitignore", "target\n");
    bench.write(
        "src/lib.rs",
        "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(2, 2), 4);\n    }\n    #[test]\n    fn zero() {\n        assert_eq!(super::add(0, 0), 0);\n    }\n}\n",
    );
    bench.loop_file("exec: sed -i 's/a - b/a + b/' src/lib.rs\ncheck: cargo test --offline\n");
    bench.commit();
    bench
}

#[test]
fn a_cargo_run_is_reproduced_and_one_other_line_is_found_out() {
    let bench = cargo_project();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let times = if cfg!(feature = "toolchains") { 20 } else { 2 };
    for time in 0..times {
        let replayed = bench.run(&["replay", "--json"]);
        assert_eq!(replayed.code, Some(0), "replay {time}: {replayed:#?}");
        assert_eq!(replayed.json()["fingerprint"], "same", "replay {time}");
    }
    let text = std::fs::read_to_string(bench.path("src/lib.rs")).unwrap();
    exchange(&bench, &ran, &["src", "lib.rs"], &text.replace("a + b", "a * 3 + b"));
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(13), "{replayed:#?}");
}

#[cfg(feature = "toolchains")]
#[test]
fn a_pytest_run_is_reproduced_twenty_times_of_twenty() {
    let mut bench = Bench::new();
    let venv = bench.beside("venv");
    let made = std::process::Command::new("python3").args(["-m", "venv"]).arg(&venv).status();
    assert!(made.unwrap().success());
    let installed =
        std::process::Command::new(venv.join("bin/pip")).args(["install", "-q", "pytest"]).status();
    assert!(installed.unwrap().success());
    let path = format!("{}:{}", venv.join("bin").display(), std::env::var("PATH").unwrap());
    bench.env("PATH", &path);
    bench.write("calc.py", "def add(a, b):\n    return a - b\n");
    bench.write(
        "test_calc.py",
        "import time\nfrom calc import add\n\ndef test_adds():\n    time.sleep(0.01)\n    assert add(2, 2) == 4\n\ndef test_zero(tmp_path):\n    print(tmp_path, time.time())\n    assert add(0, 0) == 0\n",
    );
    bench.loop_file(
        "exec: sed -i 's/a - b/a + b/' calc.py\ncheck: python -m pytest --durations=3\n",
    );
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    for time in 0..20 {
        let replayed = bench.run(&["replay", "--json"]);
        assert_eq!(replayed.code, Some(0), "replay {time}: {replayed:#?}");
        assert_eq!(replayed.json()["fingerprint"], "same", "replay {time}");
    }
    exchange(&bench, &ran, &["calc.py"], "def add(a, b):\n    return a * 3 + b\n");
    let replayed = bench.run(&["replay", "--json"]);
    assert_eq!(replayed.code, Some(13), "{replayed:#?}");
}
