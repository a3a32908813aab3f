//! Flags over the environment over the file over defaults; finding the file.

use crate::support::*;
use loopexec::config::{Origin, plan_json};
use serde_json::json;
use std::path::PathBuf;

#[test]
fn flags_win_over_the_environment_over_the_file_over_defaults() {
    let text = format!("{BASE}limits: {{iterations: 3, time: 5m, no_progress: 2}}\n");
    let (_folder, mut inputs) = folder(&[("loop.yml", &text)]);
    inputs.env = env(&[
        ("LOOPEXEC_SET_LIMITS__ITERATIONS", "4"),
        ("LOOPEXEC_SET_LIMITS__TIME", "6m"),
        ("LOOPEXEC_SET_CONTEXT__STRATEGY", "[diff]"),
        ("LOOPEXEC_SET_EXEC__ENV", "{A: 1}"),
        ("LOOPEXEC_SET_EXEC__PASS_ENV", "B,C"),
        ("LOOPEXEC_SET_GOAL", "fix: it"),
        ("LOOPEXEC_SET_RECEIPT__DIR", ""),
        ("LOOPEXEC_RUN_ID", "x"),
        ("LOOPEXEC_ACCEPT_ISOLATION", "landlock, none"),
    ]);
    inputs.flags =
        vec![flag("limits.iterations", "5", "--max-iterations"), flag("exec", "./a: b", "--exec")];
    let resolved = loads(&inputs);
    let spec = &resolved.spec;
    assert_eq!(
        (spec.limits.iterations, spec.limits.time.as_secs(), spec.limits.no_progress),
        (5, 360, 2)
    );
    assert_eq!(spec.goal.as_deref(), Some("fix: it"));
    assert_eq!(spec.receipt.dir, ".loopexec");
    let plan = plan_json(&resolved);
    assert_eq!(plan["keys"]["exec.run"]["value"], "./a: b");
    assert_eq!(plan["keys"]["exec.env"]["value"], json!({"A": "1"}));
    assert_eq!(plan["keys"]["exec.pass_env"]["value"], json!(["B", "C"]));
    assert_eq!(plan["keys"]["isolation.accept"]["value"], json!(["landlock", "none"]));
    assert_eq!(resolved.origins["limits.iterations"], Origin::Flag("--max-iterations".to_owned()));
    assert_eq!(
        resolved.origins["limits.time"],
        Origin::Env("LOOPEXEC_SET_LIMITS__TIME".to_owned())
    );
    assert_eq!(resolved.origins["limits.no_progress"], Origin::File { line: 5, column: 48 });
    assert_eq!(resolved.origins["limits.same_failure"], Origin::Default);
}

#[test]
fn an_override_of_a_command_keeps_the_rest_of_it_and_one_of_the_model_replaces_it() {
    let text = "version: 1\nmodel: {provider: openai, id: i, metering: file, sampling: {seed: 1}}\n\
                exec: {run: ./a.sh, shell: bash, timeout: 7m, env: {K: v}}\ncheck: [make, check]\n";
    let (_folder, mut inputs) = folder(&[("loop.yml", text)]);
    inputs.flags = vec![
        flag("exec", "./b.sh", "--exec"),
        flag("check", "./c.sh", "--check"),
        flag("model", "none", "--model"),
        flag("isolation.accept", "none", "--accept-isolation"),
        flag("isolation.accept", "landlock", "--accept-isolation"),
    ];
    let plan = plan_json(&loads(&inputs));
    for (key, wanted) in [
        ("exec.run", json!("./b.sh")),
        ("exec.shell", json!("auto")),
        ("exec.timeout", json!("7m")),
        ("exec.env", json!({"K": "v"})),
        ("check.run", json!("./c.sh")),
        ("model", json!("none")),
        ("isolation.accept", json!(["none", "landlock"])),
    ] {
        assert_eq!(plan["keys"][key]["value"], wanted, "{key}");
    }
}

#[test]
fn the_environment_cannot_reach_the_oracle_and_unknown_overrides_are_errors() {
    let (_folder, mut inputs) = folder(&[("loop.yml", BASE)]);
    for (name, value, wanted) in [
        ("LOOPEXEC_SET_CHECK", "true", "`check` cannot be set from the environment"),
        ("LOOPEXEC_SET_CHECK__CONFIRM", "1", "`check` cannot be set from the environment"),
        ("LOOPEXEC_SET_GUARDS__BLOCKED_PATHS", "[]", "`guards` cannot be set from the environment"),
        ("LOOPEXEC_SET_CHECK__HELD_OUT", "true", "`check` cannot be set from the environment"),
        ("LOOPEXEC_SET_GUARDS__JUDGE__RUN", "true", "`guards` cannot be set from the environment"),
        (
            "LOOPEXEC_SET_ISOLATION__BACKEND",
            "none",
            "`isolation` cannot be set from the environment",
        ),
        ("LOOPEXEC_SET_ISOLATION__ACCEPT", "none", "LOOPEXEC_ACCEPT_ISOLATION"),
        ("LOOPEXEC_SET_LIMITS__TIM", "5m", "did you mean `LOOPEXEC_SET_LIMITS__TIME`?"),
        ("LOOPEXEC_SET_limits__time", "5m", "did you mean `LOOPEXEC_SET_LIMITS__TIME`?"),
        ("LOOPEXEC_SET_LIMITS", "{time: 5m}", "there is no such key"),
        ("LOOPEXEC_SET_", "5m", "there is no such key"),
        (
            "LOOPEXEC_SET_LIMITS__TIME",
            "5",
            "LOOPEXEC_SET_LIMITS__TIME: `limits.time` cannot be `5`",
        ),
        ("LOOPEXEC_SET_LIMITS__ITERATIONS", "[", "not well-formed YAML"),
        ("LOOPEXEC_SET_GATEWAY", "auto", "`gateway` is not available"),
        (
            "LOOPEXEC_ACCEPT_ISOLATION",
            "root",
            "LOOPEXEC_ACCEPT_ISOLATION: `isolation.accept` cannot be `root`",
        ),
    ] {
        inputs.env = env(&[(name, value)]);
        let said = fails(&inputs);
        assert!(said.contains(wanted), "{name}={value}\n{said}");
    }
    inputs.env.clear();
    inputs.flags = vec![flag("limits.usd", "five", "--budget-usd")];
    assert!(
        fails(&inputs).starts_with("--budget-usd: `limits.usd` cannot be `five`"),
        "{}",
        fails(&inputs)
    );
}

#[cfg(unix)]
#[test]
fn an_override_that_is_not_utf8_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let (_folder, mut inputs) = folder(&[("loop.yml", BASE)]);
    inputs.env = vec![(OsString::from("LOOPEXEC_SET_GOAL"), OsString::from_vec(vec![0xff]))];
    assert!(fails(&inputs).contains("LOOPEXEC_SET_GOAL: the value is not UTF-8"));
}

#[test]
fn the_file_is_found_and_two_are_an_error() {
    for name in ["loop.yml", "loop.yaml", ".loopexec.yml", ".github/loop.yml"] {
        let (_folder, inputs) = folder(&[(name, BASE)]);
        let resolved = loads(&inputs);
        assert_eq!(resolved.file, Some(PathBuf::from(name)));
        assert_eq!(resolved.spec.guards.blocked_files, [name]);
    }
    let (_folder, inputs) = folder(&[("loop.yaml", BASE), (".github/loop.yml", BASE)]);
    let said = fails(&inputs);
    assert!(said.contains("`loop.yaml` and `.github/loop.yml`"), "{said}");
    let (_folder, inputs) = folder(&[]);
    assert!(fails(&inputs).contains("`loopexec init`"), "{}", fails(&inputs));
}

#[test]
fn a_file_that_is_named_is_read_and_a_missing_or_odd_one_is_an_error() {
    let (folder, mut inputs) =
        folder(&[("ci/fix it.yml", BASE), ("loop.yml", "nonsense: 1"), ("sub/x", "")]);
    inputs.file = Some(PathBuf::from("ci/fix it.yml"));
    assert_eq!(loads(&inputs).spec.name, "fix-it");
    inputs.file = Some(folder.path().join("./ci/fix it.yml"));
    assert_eq!(loads(&inputs).spec.guards.blocked_files, ["ci/fix it.yml"]);
    inputs.file = Some(PathBuf::from("none.yml"));
    assert!(
        fails(&inputs).contains("none.yml: the loop file cannot be found"),
        "{}",
        fails(&inputs)
    );
    inputs.file = Some(PathBuf::from("sub"));
    assert!(fails(&inputs).contains("sub: the loop file is a folder"), "{}", fails(&inputs));
}

#[test]
fn with_exec_check_and_model_by_flag_no_file_is_needed() {
    let (_folder, mut inputs) = folder(&[]);
    inputs.flags = vec![flag("exec", "./a.sh", "--exec"), flag("check", "./b.sh", "--check")];
    assert!(fails(&inputs).contains("--model"), "{}", fails(&inputs));
    inputs.flags.push(flag("model", "none", "--model"));
    let resolved = loads(&inputs);
    assert_eq!((resolved.spec.name.as_str(), resolved.file), ("loop", None));
    assert_eq!(resolved.spec.guards.blocked_files, ["b.sh"]);
}

#[test]
fn the_plan_shows_every_key_with_where_it_came_from_and_ends_with_the_digest() {
    let text = format!(
        "{BASE}goal: |\n  fix\n  it\nlimits: {{time: 5m}}\nguards: {{blocked_paths: {{remove: [nope]}}}}\n"
    );
    let (_folder, mut inputs) = folder(&[("loop.yml", &text)]);
    inputs.env = env(&[("LOOPEXEC_SET_LIMITS__ITERATIONS", "4")]);
    inputs.flags = vec![flag("exec", "./b.sh", "--exec")];
    let resolved = loads(&inputs);
    let plan = render_plan(&resolved);
    let row = |key: &str| {
        let line =
            plan.lines().find(|line| line.split(' ').next() == Some(key)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("version"), "version = 1 (loop.yml:1:10)");
    assert_eq!(row("exec.run"), "exec.run = ./b.sh (--exec)");
    assert_eq!(row("goal"), "goal = fix⏎it (loop.yml:6:3)");
    assert_eq!(row("limits.time"), "limits.time = 5m (loop.yml:8:16)");
    assert_eq!(row("limits.iterations"), "limits.iterations = 4 (LOOPEXEC_SET_LIMITS__ITERATIONS)");
    assert_eq!(row("limits.same_failure"), "limits.same_failure = 3 (default)");
    assert_eq!(row("check.timeout"), "check.timeout = – (default)");
    assert!(plan.contains("\nwarning: `guards.blocked_paths` removes `nope`"), "{plan}");
    assert_eq!(plan.lines().last(), Some(format!("loop digest {}", resolved.digest).as_str()));
    let equals: Vec<Option<usize>> = plan.lines().take(20).map(|line| line.find(" = ")).collect();
    assert!(equals.iter().all(|at| at.is_some() && *at == equals[0]), "{plan}");
}
