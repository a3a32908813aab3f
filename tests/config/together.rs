//! What keys must hold together: commands, model and pins, caps, blocked paths.

use crate::support::*;
use loopexec::config::DEFAULT_BLOCKED;

#[test]
fn a_declared_model_needs_its_pins() {
    let head = "version: 1\nexec: a\ncheck: b\n";
    for (model, line) in [
        ("model: openai/i\n", "receipt: {unpinned: [cost, sampling]}"),
        ("model: openai/i\nreceipt: {unpinned: [cost]}\n", "receipt: {unpinned: [cost, sampling]}"),
        (
            "model: openai/i\nreceipt: {unpinned: [identity, sampling]}\n",
            "receipt: {unpinned: [identity, sampling, cost]}",
        ),
        (
            "model: {provider: openai, id: i, sampling: {temperature: 0}}\n",
            "receipt: {unpinned: [cost]}",
        ),
        ("model: {provider: openai, id: i, metering: file}\n", "receipt: {unpinned: [sampling]}"),
        (
            "model: {provider: openai, id: i, metering: none, sampling: {seed: 1}}\n",
            "receipt: {unpinned: [cost]}",
        ),
    ] {
        let error = refused(&format!("{head}{model}"));
        assert_eq!(error.hints, [line], "{model}");
        let mended = match model.split_once("receipt") {
            Some((model, _)) => format!("{head}{model}{line}\n"),
            None => format!("{head}{model}{line}\n"),
        };
        read(&mended);
    }
}

#[test]
fn commands_and_models_must_hold_together() {
    for (text, wanted) in [
        (
            "version: 1\nmodel: none\nexec: {run: [a], shell: bash}\ncheck: b\n",
            "a list runs without a shell",
        ),
        ("version: 1\nmodel: none\nexec: {run: a b, shell: none}\ncheck: b\n", "nothing splits it"),
        ("version: 1\nmodel: none\nexec: {timeout: 5m}\ncheck: b\n", "`exec` says no `run`"),
        ("version: 1\nmodel: none\nexec: a\ncheck: {confirm: 1}\n", "`check` says no `run`"),
        ("version: 1\nmodel: none\nexec:\ncheck: b\n", "`exec` has no value"),
        (
            "version: 1\nmodel: none\nexec: a\ncheck: b\nsetup: {timeout: 5m}\n",
            "`setup` says no `run`",
        ),
        ("version: 1\nmodel: none\nexec: a\n", "what checks the project"),
        ("version: 1\nmodel: none\ncheck: a\n", "what works on the project"),
        ("version: 1\nexec: a\ncheck: a\n", "which model it runs, or that it runs none"),
        ("model: none\nexec: a\ncheck: a\n", "the version of its format"),
        ("version: 1\nmodel: {provider: openai}\nexec: a\ncheck: a\n", "both `provider` and `id`"),
        ("version: 1\nmodel: none\nexec: a\ncheck: a\nlimits: {usd: 5}\n", "a cap needs usage"),
        (
            "version: 1\nmodel: openai/i\nreceipt: {unpinned: [cost, sampling]}\nexec: a\ncheck: a\nlimits: {tokens: 5}\n",
            "a cap needs usage",
        ),
    ] {
        assert!(said(text).contains(wanted), "{text}{}", said(text));
    }
    let (_folder, mut inputs) = folder(&[("loop.yml", BASE)]);
    inputs.env = env(&[("LOOPEXEC_SET_MODEL__METERING", "file")]);
    assert!(fails(&inputs).contains("stands beside `model: none`"), "{}", fails(&inputs));
}

#[test]
fn what_is_about_a_zone_needs_one() {
    for (lines, key) in [
        ("isolation: {backend: none, egress: ['a.com:443']}\n", "isolation.egress"),
        ("isolation: {backend: none, agent: {pids: 10}}\n", "isolation.agent.pids"),
        ("isolation: {backend: none, exec: {memory: 2GiB}}\n", "isolation.exec.memory"),
        ("isolation: {backend: none}\nsetup: {run: make, network: none}\n", "setup.network"),
        ("isolation: {backend: none}\nguards: {hermeticity: strict}\n", "guards.hermeticity"),
    ] {
        let error = refused(&format!("{BASE}{lines}"));
        assert!(error.what.contains(&format!("`{key}` is about a zone")), "{}", error.what);
        assert_eq!(
            error.hints,
            ["isolation: {backend: auto}   # the strongest that holds on the machine"]
        );
        read(&format!(
            "{BASE}{}",
            lines.replace("none", "auto").replace("network: auto", "network: none")
        ));
    }
}

#[test]
fn what_zones_show_and_give_is_said_for_each() {
    let text = format!(
        "{BASE}isolation: {{agent: {{read: [/srv/data, ~/.m2], pids: 9}}, exec: {{write: [~/out], memory: 2GiB}}}}\n"
    );
    let isolation = read(&text).spec.isolation;
    assert_eq!(isolation.agent.read, ["/srv/data", "~/.m2"]);
    assert_eq!((isolation.agent.pids, isolation.agent.memory), (9, None));
    assert_eq!(isolation.exec.write, ["~/out"]);
    assert_eq!((isolation.exec.pids, isolation.exec.memory), (4096, Some(2 << 30)));
    assert_ne!(read(&text).digest, read(BASE).digest);
}

#[test]
fn a_loop_that_lists_nothing_reaches_where_its_model_is() {
    let text = |model: &str, more: &str| {
        format!(
            "version: 1\nmodel: {{provider: {model}, id: i, metering: file, sampling: {{seed: 1}}}}\nexec: a\ncheck: b\n{more}"
        )
    };
    let egress = |text: &str| {
        let listed = read(text).spec.isolation.egress;
        listed.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(egress(&text("anthropic", "")), ["api.anthropic.com:443"]);
    assert_eq!(egress(&text("openai", "")), ["api.openai.com:443"]);
    assert_eq!(egress(&text("google", "")), ["generativelanguage.googleapis.com:443"]);
    assert_eq!(
        egress(&text("google", "isolation: {backend: root}\n")),
        ["generativelanguage.googleapis.com:443"]
    );
    let none: [&str; 0] = [];
    assert_eq!(egress(&text("google", "isolation: {backend: none}\n")), none);
    assert_eq!(egress(&text("google", "isolation: {egress: []}\n")), none);
    assert_eq!(egress(&text("google", "isolation: {egress: ['a.b:1']}\n")), ["a.b:1"]);
    assert_eq!(egress(BASE), none);
    // Who serves it elsewhere has to say where, before anything is spent.
    let error = refused(&text("somebody", ""));
    assert!(error.what.contains("where the provider `somebody` is reached"), "{}", error.what);
    assert!(error.hints[0].contains("isolation: {egress:"), "{:?}", error.hints);
    assert_eq!(egress(&text("somebody", "isolation: {egress: []}\n")), none);
    assert_eq!(egress(&text("somebody", "isolation: {backend: none}\n")), none);
}

#[test]
fn blocked_paths_are_amended_or_replaced() {
    let guards = |value: &str| {
        let text = format!(
            "version: 1\nmodel: none\nexec: a\ncheck: bash ci/check.sh\nguards: {{blocked_paths: {value}}}\n"
        );
        let (_folder, inputs) = folder(&[("loop.yml", &text)]);
        let resolved = loads(&inputs);
        (resolved.spec.guards, resolved.warnings)
    };
    let (amended, warnings) = guards("{add: ['db/**'], remove: ['infra/**', ./ci/check.sh, nope]}");
    assert_eq!(amended.blocked_paths.len(), DEFAULT_BLOCKED.len());
    assert_eq!(amended.blocked_paths.last().map(String::as_str), Some("db/**"));
    assert!(!amended.blocked_paths.contains(&"infra/**".to_owned()));
    assert_eq!(amended.blocked_files, ["loop.yml"]);
    assert!(warnings.len() == 1 && warnings[0].contains("`nope`"), "{warnings:?}");
    assert!(guards("{remove: [loop.yml]}").0.blocked_files == ["ci/check.sh"]);
    let (replaced, _) = guards("[only/**]");
    assert_eq!(
        (replaced.blocked_paths, replaced.blocked_files),
        (vec!["only/**".to_owned()], vec![])
    );
}

#[test]
fn commands_below_a_group_have_all_three_forms_and_their_scripts_are_blocked() {
    let loops = |held_out: &str, judge: &str| {
        read(&format!(
            "version: 1\nmodel: none\nexec: ./a.sh\ncheck: {{run: ./check.sh, held_out: {held_out}}}\nguards: {{judge: {judge}}}\n"
        ))
    };
    let short = loops("bash ci/sealed.sh", "[./ci/judge.sh, --strict]");
    let long = loops("{run: bash ci/sealed.sh}", "{run: [./ci/judge.sh, --strict], shell: none}");
    assert_eq!(short.digest, long.digest);
    assert_eq!(short.spec.guards.blocked_files, ["check.sh", "ci/sealed.sh", "ci/judge.sh"]);
    let full = loops(
        "{run: ./sealed.sh, shell: sh, cwd: ci, env: {A: b}, pass_env: [C], timeout: 5m}",
        "./check.sh",
    );
    assert_eq!(full.spec.guards.blocked_files, ["check.sh", "ci/sealed.sh"]);
    let held_out = full.spec.check.held_out.clone().unwrap();
    assert_eq!(held_out.timeout.map(|limit| limit.as_secs()), Some(300));
    assert_eq!((held_out.cwd.as_deref(), held_out.env["A"].as_str()), (Some("ci"), "b"));
    assert_eq!(held_out.pass_env, ["C"]);
    let plan = render_plan(&full);
    let row = |key: &str| {
        let line = plan.lines().find(|line| line.split(' ').next() == Some(key));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(row("check.held_out.run").contains("./sealed.sh (loop:4:"), "{plan}");
    assert!(row("check.held_out.cwd").contains("ci (loop:4:"), "{plan}");
    assert!(row("guards.judge.shell").contains("auto (default)"), "{plan}");
    let base = read(BASE);
    assert!(base.spec.check.held_out.is_none() && base.spec.guards.judge.is_none());
    assert!(!render_plan(&base).contains("held_out"));
}

#[test]
fn what_is_guarded_is_shown_whole_in_the_plan() {
    let many: Vec<String> = (0..20).map(|n| format!("tests/a_long_folder_{n}/**")).collect();
    let list = many.join(", ");
    let text = format!("{BASE}guards: {{mutable: [{list}], protected: {{add: [{list}]}}}}\n");
    let plan = render_plan(&read(&text));
    assert_eq!(plan.matches("a_long_folder_19").count(), 2, "{plan}");
}

#[test]
fn a_yes_to_what_is_in_the_tree_already_is_refused() {
    let text = format!("{BASE}workspace: {{mode: in_place}}\nhuman: {{approve: [deliver]}}\n");
    assert!(said(&text).contains("before anybody can say no"), "{}", said(&text));
    read(&text.replace("[deliver]", "[protected_change]"));
    read(&text.replace("in_place", "detached"));
    let text = format!("{BASE}workspace: {{mode: in_place}}\nlimits: {{patch_lines: 5}}\n");
    assert!(said(&text).contains("`limits.patch_lines` stands beside"), "{}", said(&text));
    read(&text.replace("in_place", "detached"));
}

#[test]
fn a_gate_on_the_size_of_a_patch_needs_a_cap() {
    let gated = format!("{BASE}human: {{approve: [deliver, large_patch]}}\n");
    let error = refused(&gated);
    assert_eq!(error.hints, ["limits: {patch_files: 20, patch_lines: 500}"]);
    let digest = |text: &str| read(text).digest;
    let capped = format!("{BASE}limits: {{patch_lines: 5}}\n");
    assert_ne!(digest(&capped), digest(BASE));
    for cap in ["patch_files: 5", "patch_lines: 5"] {
        read(&format!("{gated}limits: {{{cap}}}\n"));
    }
}

#[test]
fn containers_need_an_image_and_an_image_needs_containers() {
    let head = "version: 1\nmodel: none\nexec: a\ncheck: b\nisolation: ";
    for (isolation, said) in [
        ("{backend: oci}", "`isolation.backend: oci` needs the image"),
        ("{backend: oci, engine: podman}", "`isolation.backend: oci` needs the image"),
        (
            "{backend: namespaces, image: a}",
            "`isolation.image` is for containers, and `isolation.backend: namespaces` makes none",
        ),
        (
            "{backend: root, engine: docker}",
            "`isolation.engine` is for containers, and `isolation.backend: root` makes none",
        ),
        ("{backend: none, image: a}", "`isolation.image` is about a zone"),
    ] {
        let error = refused(&format!("{head}{isolation}\n"));
        assert!(error.what.contains(said), "{isolation}: {}", error.what);
    }
    let spec =
        read(&format!("{head}{{backend: oci, image: 'ghcr.io/a/b:1', engine: docker}}\n")).spec;
    assert_eq!(spec.isolation.image.as_deref(), Some("ghcr.io/a/b:1"));
    assert_eq!(spec.isolation.engine.map(loopexec::config::spec::Engine::word), Some("docker"));
    assert!(read(&format!("{head}{{backend: oci, image: a}}\n")).spec.isolation.engine.is_none());
}
