//! What becomes of a result: each way of delivery, with what `setup` and the check made beside it.

use crate::bench::{Bench, Ran, assert_untouched};
use loopexec::workspace::journal::Journal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const BRANCH: &str = "workspace: { deliver: branch }\n";

/// A loop whose exec mends `src/a` and whose check leaves a lock file on its first run.
fn lock_bench(exec: &str, rest: &str) -> Bench {
    let bench = Bench::new();
    bench.write("src/a", "bad\n");
    bench
        .write("check.sh", "test -f made.lock || echo version 1 > made.lock\ngrep -q good src/a\n");
    bench.write("agent.sh", exec);
    bench.loop_file(&format!("exec: sh agent.sh\ncheck: sh check.sh\n{rest}"));
    bench.commit();
    bench
}

fn status(bench: &Bench) -> BTreeSet<String> {
    let status = bench.git(&["status", "--porcelain", "-uall"]);
    let lines = status.lines().map(str::trim).filter(|line| !line.ends_with(".loop_state.json"));
    lines.map(str::to_owned).collect()
}

fn set<const N: usize>(lines: [&str; N]) -> BTreeSet<String> {
    lines.map(str::to_owned).into()
}

fn patch_of(bench: &Bench, ran: &Ran) -> String {
    std::fs::read_to_string(bench.run_of(ran).patch()).unwrap()
}

#[test]
fn a_file_that_only_the_check_made_is_no_part_of_the_result() {
    let bench = lock_bench("echo good > src/a\n", "");
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(status(&bench), set(["M src/a"]));
    let patch = patch_of(&bench, &ran);
    assert!(patch.contains("src/a") && !patch.contains("made.lock"), "{patch}");
    assert_eq!(ran.json()["delivery"]["state"], "applied");
}

#[test]
fn a_file_that_the_check_made_and_exec_changed_is_delivered_as_a_new_one() {
    let bench = lock_bench("echo good > src/a; echo version 2 > made.lock\n", "");
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(status(&bench), set(["M src/a", "?? made.lock"]));
    assert_eq!(std::fs::read(bench.path("made.lock")).unwrap(), b"version 2\n");
}

#[test]
fn what_setup_changed_in_a_recorded_file_stays_out_unless_exec_changed_it_too() {
    let bench = Bench::new();
    bench.write("src/a", "bad\n");
    bench.write("stamp", "carried\n");
    bench.write("config", "carried\n");
    bench.write("agent.sh", "echo good > src/a; echo exec >> config\n");
    bench.loop_file(concat!(
        "setup: echo setup >> stamp; echo setup >> config; echo new > new\n",
        "exec: sh agent.sh\ncheck: grep -q good src/a\n",
    ));
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(status(&bench), set(["M src/a", "M config"]));
    assert_eq!(std::fs::read(bench.path("config")).unwrap(), b"carried\nsetup\nexec\n");
}

#[test]
fn the_patch_alone_applies_to_the_callers_tree() {
    for deliver in ["patch", "none"] {
        let rest = format!("workspace: {{ deliver: {deliver} }}\n");
        let bench = lock_bench("echo good > src/a; echo version 2 > made.lock\n", &rest);
        let before = bench.tree_hash();
        let ran = bench.run_loop(&[]);
        assert_eq!(ran.code, Some(10), "{ran:#?}");
        assert_untouched(&before, &bench.tree_hash());
        let delivery = &ran.json()["delivery"];
        assert_eq!((&delivery["mode"], &delivery["state"]), (&deliver.into(), &"patched".into()));
        let patch = ran.json()["patch"].as_str().unwrap().to_owned();
        bench.git(&["apply", "--index", &patch]);
        assert_eq!(std::fs::read(bench.path("made.lock")).unwrap(), b"version 2\n");
        assert_eq!(std::fs::read(bench.path("src/a")).unwrap(), b"good\n");
    }
}

#[test]
fn a_halt_leaves_the_tree_alone_and_the_accepted_state_as_a_patch() {
    let bench = lock_bench("echo more >> src/b\n", "limits: { iterations: 1 }\n");
    let before = bench.tree_hash();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "max_iterations_reached", "{ran:#?}");
    assert_untouched(&before, &bench.tree_hash());
    assert_eq!(ran.json()["delivery"]["of"], "accepted");
    let patch = patch_of(&bench, &ran);
    assert!(patch.contains("src/b") && !patch.contains("made.lock"), "{patch}");
}

#[test]
fn a_branch_leaves_index_head_and_working_tree_alone() {
    let bench = lock_bench("echo good > src/a\n", "workspace: { deliver: branch }\n");
    bench.write("src/c", "uncommitted\n");
    let read = |name: &str| std::fs::read(bench.path(name)).unwrap();
    let (index, head, log) = (read(".git/index"), read(".git/HEAD"), read(".git/logs/HEAD"));
    let files = |bench: &Bench| {
        let mut tree = bench.tree_hash();
        tree.retain(|path, _| !path.starts_with(".git"));
        tree
    };
    let before = files(&bench);
    let ran = bench.run_loop(&["--run-id", "R"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(ran.json()["delivery"]["state"], "branched", "{ran:#?}");
    assert_eq!((read(".git/index"), read(".git/HEAD"), read(".git/logs/HEAD")), (index, head, log));
    assert_untouched(&before, &files(&bench));
    assert_eq!(bench.git(&["rev-parse", "loopexec/R^"]), bench.git(&["rev-parse", "HEAD"]));
    let changed = bench.git(&["diff", "--name-only", "HEAD", "loopexec/R"]);
    assert_eq!(changed, "src/a");
    assert_eq!(bench.git(&["show", "loopexec/R:src/a"]), "good");
}

#[test]
fn a_branch_keeps_what_head_tracks_of_ours_and_leaves_other_uncommitted_changes_out() {
    let bench = lock_bench("echo good > src/a; echo new > src/n\n", BRANCH);
    bench.write("src/b", "one\n");
    bench.write(".loop_state.json", "{}\n");
    bench.write(".loopexec/note", "tracked\n");
    bench.git(&["add", "-f", ".loop_state.json", ".loopexec/note"]);
    bench.commit();
    bench.write("src/b", "mine\n");
    bench.write("src/untracked", "mine\n");
    std::fs::remove_file(bench.path("README.md")).unwrap();
    let ran = bench.run_loop(&["--run-id", "R"]);
    assert_eq!(ran.json()["delivery"]["state"], "branched", "{ran:#?}");
    let changed = bench.git(&["diff", "--name-status", "HEAD", "loopexec/R"]);
    assert_eq!(changed, "M\tsrc/a\nA\tsrc/n");
    assert_eq!(bench.git(&["rev-parse", "loopexec/R^"]), bench.git(&["rev-parse", "HEAD"]));
    let patch = bench.fold(&ran).delivery.unwrap()["patch"].clone();
    assert_eq!((&patch["files"], &patch["added"]), (&2.into(), &2.into()));
}

#[test]
fn a_branch_takes_line_endings_as_git_add_would() {
    let bench = Bench::new();
    bench.write(".gitattributes", "a.txt text eol=crlf\n");
    bench.write("a.txt", "one\r\nbad\r\n");
    bench.write("agent.sh", "printf 'one\\r\\ngood\\r\\n' > a.txt\n");
    bench.loop_file(&format!("exec: sh agent.sh\ncheck: grep -q good a.txt\n{BRANCH}"));
    bench.commit();
    let ran = bench.run_loop(&["--run-id", "R"]);
    assert_eq!(ran.json()["delivery"]["state"], "branched", "{ran:#?}");
    assert_eq!(bench.git(&["rev-parse", "loopexec/R^"]), bench.git(&["rev-parse", "HEAD"]));
    assert_eq!(bench.git(&["diff", "--numstat", "HEAD", "loopexec/R"]), "1\t1\ta.txt");
    assert_eq!(bench.git(&["cat-file", "-p", "loopexec/R:a.txt"]), "one\ngood");
}

#[test]
fn a_file_that_was_uncommitted_and_changed_comes_in_two_commits() {
    let exec = "echo good > src/a; sed s/two/TWO/ src/b > b; mv b src/b; rm src/gone\n";
    let bench = lock_bench(exec, BRANCH);
    bench.write("src/b", "one\n");
    bench.commit();
    bench.write("src/b", "one\ntwo\n");
    bench.write("src/gone", "untracked\n");
    bench.write("src/other", "untracked\n");
    let ran = bench.run_loop(&["--run-id", "R"]);
    assert_eq!(ran.json()["delivery"]["state"], "branched", "{ran:#?}");
    let subject = bench.git(&["log", "-1", "--format=%s", "loopexec/R^"]);
    assert_eq!(subject, "loopexec: uncommitted changes at the start");
    assert_eq!(bench.git(&["rev-parse", "loopexec/R~2"]), bench.git(&["rev-parse", "HEAD"]));
    let of = |range: [&str; 2]| bench.git(&["diff", "--numstat", range[0], range[1]]);
    assert_eq!(of(["HEAD", "loopexec/R^"]), "1\t0\tsrc/b\n1\t0\tsrc/gone");
    let last = of(["loopexec/R^", "loopexec/R"]);
    assert_eq!(last, "1\t1\tsrc/a\n1\t1\tsrc/b\n0\t1\tsrc/gone");
    let patch = bench.fold(&ran).delivery.unwrap()["patch"].clone();
    assert_eq!((&patch["files"], &patch["added"]), (&3.into(), &2.into()));
}

#[test]
fn a_change_inside_a_submodule_refuses_the_branch_and_names_it() {
    let bench = lock_bench("echo good > src/a; echo new > module/file\n", BRANCH);
    bench.git(&["init", "-q", "module"]);
    bench.write("module/file", "old\n");
    bench.git(&["-C", "module", "add", "file"]);
    bench.git(&["-C", "module", "commit", "-q", "-m", "m"]);
    bench.commit();
    let ran = bench.run_loop(&["--run-id", "R"]);
    let delivery = ran.json()["delivery"].clone();
    assert_eq!(delivery["state"], "refused", "{ran:#?}");
    assert!(delivery["what"].as_str().unwrap().contains("the submodule module"), "{delivery}");
    assert!(patch_of(&bench, &ran).contains("module/file"));
    assert_eq!(bench.git(&["branch", "--list", "loopexec/*"]), "");
}

#[test]
fn a_branch_that_cannot_be_is_refused_before_anything_is_run() {
    let rest = format!("exec: touch ran\ncheck: touch ran; false\n{BRANCH}");
    let refused = |bench: &Bench, more: &[&str]| {
        let ran = bench.run_loop(more);
        assert_eq!((ran.code, &*ran.reason()), (Some(30), "workspace_invalid"), "{ran:#?}");
        let object = ran.json();
        assert!(object["next"].as_str().unwrap().contains("deliver: patch"), "{object:#}");
        assert_eq!(bench.events(&ran).len(), 2);
        ran.stderr
    };
    let fails = |bench: &Bench| {
        let ran = bench.run(&["doctor", "--json"]);
        let rows = ran.json()["checks"].clone();
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "tree").cloned();
        assert_eq!(row.unwrap()["standing"], "fail", "{ran:#?}");
    };
    let bench = Bench::plain();
    bench.loop_file(&rest);
    refused(&bench, &[]);
    fails(&bench);
    bench.git(&["init", "-q", "-b", "main"]);
    assert!(refused(&bench, &[]).contains("a commit to stand on"));
    fails(&bench);
    bench.commit();
    assert!(refused(&bench, &["--run-id", "a..b"]).contains("git takes no branch"));
    bench.git(&["branch", "loopexec/taken"]);
    assert!(refused(&bench, &["--run-id", "taken"]).contains("exists already"));
    bench.git(&["branch", "-m", "loopexec/taken", "loopexec"]);
    assert!(refused(&bench, &[]).contains("called loopexec"));
    fails(&bench);
}

#[test]
fn a_refused_delivery_says_at_once_that_the_change_is_not_in_the_tree_and_how_to_take_it() {
    let bench = lock_bench("", "");
    bench.write(
        "agent.sh",
        format!("echo good > src/a; echo mine > '{}'\n", bench.beside("b").display()),
    );
    bench.commit();
    // The person's edit reaches the tree while exec runs: through a hard link to a file beside it.
    std::fs::rename(bench.path("src/a"), bench.beside("b")).unwrap();
    std::fs::hard_link(bench.beside("b"), bench.path("src/a")).unwrap();
    let ran = bench.run(&["run", "--run-id", "R"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let first: Vec<&str> = ran.stdout.lines().take(3).collect();
    assert!(first[0].contains("success_condition_met"), "{}", ran.stdout);
    assert!(first[1].contains("NOT in your tree") && first[1].contains("src/a"), "{}", ran.stdout);
    let command = first[2].trim_start_matches("  take it  ");
    assert_eq!(command, "git apply .loopexec/runs/R/patch.diff");
    bench.git(&["checkout", "--", "src/a"]);
    bench.git(&command.split(' ').skip(1).collect::<Vec<_>>());
    assert_eq!(std::fs::read(bench.path("src/a")).unwrap(), b"good\n");
}

#[test]
fn the_command_that_takes_a_branch_over_is_printed_and_works() {
    let bench = lock_bench("echo good > src/a\n", BRANCH);
    let ran = bench.run(&["run", "--run-id", "R"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert!(ran.stdout.contains("  git merge loopexec/R\n"), "{}", ran.stdout);
    bench.git(&["merge", "-q", "loopexec/R"]);
    assert_eq!(std::fs::read(bench.path("src/a")).unwrap(), b"good\n");
}

/// Waits until a run says that it is in a phase.
fn wait_for(bench: &Bench, id: &str, phase: &str) {
    let live = bench.path(&format!(".loopexec/runs/{id}/live.json"));
    let wanted = format!("\"phase\":\"{phase}\"");
    let start = Instant::now();
    while !std::fs::read_to_string(&live).is_ok_and(|text| text.contains(&wanted)) {
        assert!(start.elapsed() < Duration::from_secs(60), "never in {phase}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_file_that_changed_meanwhile_refuses_the_whole_delivery_and_the_patch_is_named() {
    let bench = lock_bench("echo good > src/a; echo good > src/b\n", "");
    bench.write("check.sh", "sleep 0.5; grep -q good src/a\n");
    bench.write("src/b", "bad\n");
    bench.commit();
    let started = bench.start(&["run", "--json", "--run-id", "R"]);
    wait_for(&bench, "R", "confirmation");
    bench.write("src/b", "mine\n");
    let ran = started.wait();
    assert_eq!((ran.code, &*ran.reason()), (Some(10), "success_condition_met"), "{ran:#?}");
    let object = ran.json();
    assert_eq!(object["delivery"]["state"], "refused", "{object:#}");
    assert_eq!(
        (&object["detail"], &object["delivery"]["applied"]),
        (&"not_delivered".into(), &false.into())
    );
    let what = object["delivery"]["what"].as_str().unwrap();
    assert!(what.contains(".loopexec/runs/R/patch.diff") && what.contains("src/b"), "{what}");
    assert!(object["delivery"]["conflicts"][0].as_str().unwrap().starts_with("src/b: "));
    let command = "git apply .loopexec/runs/R/patch.diff";
    assert_eq!(
        (&object["delivery"]["command"], &object["next"]),
        (&command.into(), &command.into())
    );
    assert_eq!(std::fs::read(bench.path("src/a")).unwrap(), b"bad\n");
    assert_eq!(std::fs::read(bench.path("src/b")).unwrap(), b"mine\n");
    let end = bench.fold(&ran);
    assert_eq!(end.delivery.unwrap()["state"], "refused");
    assert!(patch_of(&bench, &ran).contains("src/b"));
}

#[test]
fn in_place_works_on_the_callers_tree_and_says_what_stands_there() {
    let rest = "workspace: { mode: in_place }\nlimits: { iterations: 1 }\n";
    let bench = lock_bench("echo good > src/a\n", rest);
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(status(&bench), set(["M src/a", "?? made.lock"]));
    let delivery = ran.json()["delivery"].clone();
    assert_eq!((&delivery["mode"], &delivery["state"]), (&"in_place".into(), &"in_place".into()));
    let start = &bench.events(&ran)[0];
    assert_eq!(start["isolation"]["in_place"], true);
    assert_eq!(start["isolation"]["degraded"], true);

    let bench = lock_bench("echo worse > src/a; echo more > src/b\n", rest);
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "max_iterations_reached", "{ran:#?}");
    assert_eq!(std::fs::read(bench.path("src/b")).unwrap(), b"more\n");
    let delivery = ran.json()["delivery"].clone();
    assert_eq!((&delivery["of"], &delivery["state"]), (&"last".into(), &"in_place".into()));
    let patch = ran.json()["patch"].as_str().unwrap().to_owned();
    assert!(delivery["what"].as_str().unwrap().contains(&patch), "{delivery}");
    bench.git(&["apply", "-R", &patch]);
    assert_eq!(status(&bench), set([]));
}

#[test]
fn evidence_in_a_folder_of_the_loops_choice_leaves_no_other_folder() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done\ncheck: test -e done\nreceipt: {dir: .evidence}\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "success_condition_met", "{ran:#?}");
    assert!(bench.path(".evidence/runs").is_dir());
    assert!(!bench.path(".loopexec").exists());
    assert_eq!(bench.git(&["status", "--porcelain"]).trim(), "?? .loop_state.json\n?? done");
}

#[test]
fn a_new_run_says_that_half_of_an_earlier_result_stands_in_the_tree() {
    let bench = Bench::new();
    bench.write("f", "bad\n");
    bench.loop_file("exec: echo good > f\ncheck: grep -q good f\n");
    bench.commit();
    let first = bench.run_loop(&[]);
    assert!(!first.stderr.contains("completes it"), "{first:#?}");
    let run = bench.run_of(&first);
    let paths = [std::path::Path::new("f")];
    Journal::new("a", "b", paths.into_iter()).write(run.path()).unwrap();
    let second = bench.run_loop(&[]);
    let told = format!("loopexec run --resume {} completes it", run.id());
    assert!(second.stderr.contains(&told), "{second:#?}");
}

/// Puts a program of this name, which leaves a mark, into `bin` of the tree and that folder first on the path.
fn plant_program(bench: &mut Bench, name: &str) -> std::path::PathBuf {
    let mark = bench.beside(&format!("{name}-ran"));
    bench.script(&format!("bin/{name}"), &format!("echo \"$*\" >> {}", mark.display()));
    bench.commit();
    let path = std::env::var("PATH").unwrap();
    bench.env("PATH", &format!("{}:bin::{path}", bench.path("bin").display()));
    mark
}

#[test]
fn a_git_that_the_tree_holds_delivers_nothing() {
    let mut bench = lock_bench("echo good > src/a; cp check.sh bin/git\n", BRANCH);
    let mark = plant_program(&mut bench, "git");
    let ran = bench.run_loop(&["--run-id", "R"]);
    assert_eq!(ran.json()["delivery"]["state"], "branched", "{ran:#?}");
    assert!(!mark.exists(), "{}", std::fs::read_to_string(mark).unwrap());
}

#[test]
fn a_platforms_program_that_the_tree_holds_is_told_nothing() {
    let mut bench = lock_bench("echo good > src/a\n", "");
    let mark = plant_program(&mut bench, "buildkite-agent");
    let ran = bench.run(&["ci", "--platform", "buildkite"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(!mark.exists(), "{}", std::fs::read_to_string(mark).unwrap());
    // From outside of the tree as well: it may be the current folder that is not the tree.
    let tree = bench.root();
    let mut command = bench.loopexec();
    command.current_dir(bench.beside("tmp")).arg("--workdir").arg(&tree);
    let output = command.args(["ci", "--platform", "buildkite"]).output().unwrap();
    assert!(!mark.exists(), "{output:?}");
}

#[test]
fn a_repository_that_exec_made_in_your_own_folder_is_set_aside() {
    let bench = Bench::plain();
    let mark = bench.beside("ran");
    let filter = format!("git config filter.x.clean 'touch {}; cat'", mark.display());
    bench.write("src/a", "bad\n");
    bench.loop_file(&format!(
        "exec: git init -q .; {filter}; echo '* filter=x' > .gitattributes; git add src; echo good > src/a\n\
         check: grep -q good src/a\nworkspace: {{ mode: in_place }}\n"
    ));
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "blocked_path_modified", "{ran:#?}");
    let _ = std::fs::remove_file(&mark);
    assert!(!bench.path(".git").exists(), "{ran:#?}");
    assert!(bench.run_of(&ran).path().join("set-aside/git-1/config").exists());
    let what = ran.json()["delivery"]["what"].clone();
    assert!(what.as_str().unwrap().contains("nothing of what was changed in .git"), "{what}");
    bench.run(&["doctor"]);
    assert!(!mark.exists());
}

#[test]
fn an_empty_git_folder_of_the_callers_stays() {
    let bench = Bench::plain();
    std::fs::create_dir(bench.path(".git")).unwrap();
    bench.loop_file("exec: touch done\ncheck: test -f done\n");
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "success_condition_met", "{}", ran.stderr);
    assert!(bench.path(".git").is_dir(), "the run took it for its own");
}
