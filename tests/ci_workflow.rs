//! Loops inside workflow files, end to end: which one is meant, where it is wrong, and that it is the
//! same loop wherever it stands.

#[path = "cli/bench.rs"]
#[expect(dead_code, reason = "this target needs a part of the bench")]
mod bench;

use bench::{Bench, Ran};
use serde_json::Value;

const LOOP: &str = "\
version: 1
model: none
goal: |
  Make done.txt appear.

  Two paragraphs.
exec: touch done.txt
check: test -f done.txt
limits: {iterations: 3}
";

const DRY: [&str; 3] = ["run", "--dry-run", "--json"];

fn indented(text: &str, by: usize) -> String {
    let line = |line: &str| {
        if line.is_empty() { "\n".to_owned() } else { format!("{}{line}\n", " ".repeat(by)) }
    };
    text.lines().map(line).collect()
}

/// A workflow with one step that holds a loop.
fn github(text: &str) -> String {
    format!(
        "name: CI\non: push\njobs:\n  fix:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v5\n      - id: repair\n        uses: someone/loopexec@v1\n        with:\n          loop: |\n{}",
        indented(text, 12)
    )
}

fn gitlab(text: &str) -> String {
    format!(
        "fix:\n  variables:\n    LOOPEXEC_LOOP:\n      expand: false\n      value: |\n{}  script: [loopexec ci]\n",
        indented(text, 8)
    )
}

fn dry(bench: &Bench, more: &[&str]) -> Ran {
    bench.run(&[&DRY, more].concat())
}

fn digest(bench: &Bench, more: &[&str]) -> String {
    let ran = dry(bench, more);
    assert_eq!(ran.code, Some(0), "{more:?}: {ran:#?}");
    ran.json()["loop_digest"].as_str().unwrap().to_owned()
}

/// Everything an error says: the sentence, then the hints.
fn said(ran: &Ran) -> String {
    assert_eq!(ran.code, Some(30), "{ran:#?}");
    let object = ran.json();
    assert_eq!(object["halt_reason"], "config_invalid", "{ran:#?}");
    object["errors"].to_string().replace("\\n", "\n").replace("\\\"", "\"")
}

fn refused(bench: &Bench, file: &str, text: &str, more: &[&str]) -> String {
    bench.write(file, text);
    said(&dry(bench, &[&["--workflow", file], more].concat()))
}

#[test]
fn the_same_loop_has_one_digest_wherever_it_stands() {
    let bench = Bench::new();
    bench.write("loop.yml", LOOP);
    let plain = digest(&bench, &[]);
    let inline = LOOP.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
    let files = [
        ("gh.yml", github(LOOP)),
        ("gl.yml", gitlab(LOOP)),
        ("crlf.yml", github(LOOP).replace('\n', "\r\n")),
        ("quoted.yml", format!("jobs: {{a: {{steps: [{{uses: ./loopexec, with: {{loop: \"{inline}\"}}}}]}}}}\n")),
        ("config.yml", "jobs:\n  a:\n    steps:\n      - uses: o/loopexec/sub@v1\n        with: {config: loop.yml}\n".into()),
        ("searched.yml", "jobs:\n  a:\n    steps:\n      - uses: ./\n".into()),
        ("action.yml", format!("runs:\n  using: composite\n  steps:\n    - uses: $/loopexec\n      with:\n        LOOP: |\n{}", indented(LOOP, 10))),
        ("plain.yml", LOOP.to_owned()),
        ("global.yml", format!("variables:\n  LOOPEXEC_LOOP: |\n{}fix:\n  script: loopexec ci\nother:\n  script: make\n", indented(LOOP, 4))),
        ("extends.yml", gitlab(LOOP).replacen("fix:", ".base:", 1) + "fix:\n  extends: .base\n  script: [loopexec ci]\n"),
        ("merge.yml", gitlab(LOOP).replacen("fix:", ".base: &base", 1) + "fix:\n  <<: *base\n  stage: test\n"),
        ("alias.yml", format!("x-loop: &loop |\n{}fix:\n  variables:\n    LOOPEXEC_LOOP: {{value: *loop, expand: false}}\n", indented(LOOP, 2))),
        ("component.yml", format!("include:\n  - component: $CI_SERVER_FQDN/org/loopexec/loopexec@1.2.3\n    inputs:\n      loop: |\n{}", indented(LOOP, 8))),
        ("spec.yml", format!("spec:\n  inputs:\n    a: {{}}\n---\n{}", gitlab(LOOP))),
    ];
    for (file, text) in &files {
        bench.write(&format!("ci/{file}"), text);
        let file = format!("ci/{file}");
        assert_eq!(digest(&bench, &["--workflow", &file]), plain, "{file}");
    }
    // What overrides the loop's manners in CI is not what it does.
    let more = github(LOOP) + "          accept-isolation: none\n          fail-on: integrity\n";
    bench.write("ci/more.yml", more);
    assert_eq!(digest(&bench, &["--workflow", "ci/more.yml"]), plain);
    let other = github(&LOOP.replace("touch", "cp /dev/null"));
    bench.write("ci/other.yml", other);
    assert_ne!(digest(&bench, &["--workflow", "ci/other.yml"]), plain);
}

#[test]
fn a_wrong_key_is_shown_at_its_own_line_of_the_workflow() {
    let bench = Bench::new();
    for (file, text) in [("gh.yml", github(LOOP)), ("gl.yml", gitlab(LOOP))] {
        let text = text.replace("limits: {iterations", "limits: {iteratons");
        let line = text.lines().position(|line| line.contains("iteratons")).unwrap();
        let column = text.lines().nth(line).unwrap().find("iteratons").unwrap();
        bench.write(file, &text);
        let ran = dry(&bench, &["--workflow", file]);
        let place = format!("{file}:{}:{}: ", line + 1, column + 1);
        assert!(said(&ran).contains(&place), "{place}: {ran:#?}");
        let what = ran.json()["errors"][0]["what"]
            .as_str()
            .or(ran.json()["why"].as_str())
            .unwrap()
            .to_owned();
        let lines: Vec<&str> = what.lines().collect();
        let caret = lines[3].find('^').unwrap();
        assert!(lines[2].get(caret..).unwrap().starts_with("iteratons"), "{what}");
        assert!(said(&ran).contains("did you mean `limits.iterations`?"), "{ran:#?}");
    }
    // Not well-formed inside: the place is the outer file's too.
    let text = github("version: 1\nexec: [\ncheck: x\n");
    assert!(refused(&bench, "bad.yml", &text, &[]).contains("bad.yml:1"), "{text}");
    // A folded scalar: the line it starts in.
    let folded = github(LOOP).replace("loop: |", "loop: >");
    assert!(refused(&bench, "folded.yml", &folded, &[]).contains("folded.yml:12:"));
    // Where a value came from is told with the outer line.
    bench.write("gh.yml", github(LOOP));
    let plan = dry(&bench, &["--workflow", "gh.yml"]).json();
    assert_eq!(plan["plan"]["keys"]["check.run"]["from"]["line"], 19, "{plan:#}");
    assert_eq!(plan["plan"]["loop"]["name"], "repair");
    assert_eq!(plan["plan"]["file"], "gh.yml");
    let files = plan["plan"]["loop"]["guards"]["blocked_files"].to_string();
    assert!(files.contains("gh.yml"), "{files}");
}

#[test]
fn several_loops_are_listed_with_their_lines_and_flags_choose() {
    let bench = Bench::new();
    let step = |id: &str, exec: &str| {
        format!(
            "      - {id}uses: o/loopexec@v1\n        with: {{loop: 'version: 1\n\n          model: none\n\n          exec: {exec}\n\n          check: test -f x'}}\n"
        )
    };
    let text = format!(
        "jobs:\n  a:\n    name: First\n    steps:\n{}{}  b:\n    steps:\n{}",
        step("id: one\n        ", "touch 1"),
        step("name: the second\n        ", "touch 2"),
        step("", "touch 3"),
    );
    let all = refused(&bench, "w.yml", &text, &[]);
    assert!(all.contains("3 loops stand here"), "{all}");
    for listed in [
        "w.yml:5: --job a --step one (inline)",
        "w.yml:14: --job a --step 'the second' (inline)",
        "w.yml:25: --job b --step 1 (inline)",
    ] {
        assert!(all.contains(listed), "{listed}: {all}");
    }
    let in_a = refused(&bench, "w.yml", &text, &["--job", "First"]);
    assert!(
        in_a.contains("2 loops stand here in job `First`") && !in_a.contains("--job b"),
        "{in_a}"
    );
    let none = refused(&bench, "w.yml", &text, &["--job", "c"]);
    assert!(none.contains("there is no loop in job `c`") && none.contains("w.yml:25:"), "{none}");
    for (flags, exec) in [
        (vec!["--job", "b"], "touch 3"),
        (vec!["--step", "one"], "touch 1"),
        (vec!["--job", "a", "--step", "2"], "touch 2"),
        (vec!["--step", "the second"], "touch 2"),
    ] {
        let ran = dry(&bench, &[&["--workflow", "w.yml"], flags.as_slice()].concat());
        assert_eq!(ran.json()["plan"]["loop"]["exec"]["run"], exec, "{flags:?}: {ran:#?}");
    }
    let nothing = refused(
        &bench,
        "n.yml",
        "jobs:\n  a:\n    steps:\n      - uses: o/other@v1\n      - run: loopexec\n",
        &[],
    );
    assert!(nothing.contains("no step uses the action loopexec"), "{nothing}");
    let gitlab = refused(&bench, "g.yml", "a: {script: make}\n", &[]);
    assert!(gitlab.contains("LOOPEXEC_LOOP"), "{gitlab}");
    // Somebody else's action at the root of the repository is not ours.
    let foreign = refused(
        &bench,
        "f.yml",
        "jobs:\n  a:\n    steps:\n      - uses: ./\n        with: {who: me}\n",
        &[],
    );
    assert!(foreign.contains("there is no loop in it"), "{foreign}");
    let both = refused(
        &bench,
        "b.yml",
        "jobs:\n  a:\n    steps:\n      - uses: o/loopexec@v1\n        with:\n          loop: x\n          config: y\n",
        &[],
    );
    assert!(both.contains("b.yml:7:19:"), "{both}");
    let usage = bench.run(&["run", "loop.yml", "--workflow", "w.yml"]);
    assert_eq!(usage.code, Some(2), "{usage:#?}");
    assert_eq!(bench.run(&["run", "--job", "a"]).code, Some(2));
}

#[test]
fn an_expression_is_refused_at_its_line_until_it_is_given() {
    let bench = Bench::new();
    let text = github(
        &LOOP
            .replace("done.txt\nlimits", "${{ matrix.file }}\ngoal: \"${{matrix.file}}\"\nlimits")
            .replacen("goal: |\n  Make done.txt appear.\n\n  Two paragraphs.\n", "", 1),
    );
    let error = refused(&bench, "w.yml", &text, &[]);
    assert!(error.contains("w.yml:15:28: the loop holds the expression `matrix.file`"), "{error}");
    assert!(error.contains("--set matrix.file=…"), "{error}");
    let set = ["--workflow", "w.yml", "--set", "matrix.file=done.txt"];
    let ran = dry(&bench, &set);
    let spec = ran.json()["plan"]["loop"].clone();
    assert_eq!(
        (spec["check"]["run"].as_str(), spec["goal"].as_str()),
        (Some("test -f done.txt"), Some("done.txt")),
        "{ran:#?}"
    );
    // A place behind what was given is still the file's own.
    let wrong = text
        .replace(
            "\"${{matrix.file}}\"",
            "${{matrix.file}} # said\n            limits: {a: ${{ matrix.file }}, iteratons: 3}",
        )
        .replace("            limits: {iterations: 3}\n", "");
    bench.write("x.yml", &wrong);
    let error = said(&dry(&bench, &["--workflow", "x.yml", "--set", "matrix.file=a"]));
    assert!(error.contains("x.yml:17:22: there is no key `limits.a`"), "{error}");
    let typo = dry(&bench, &[&set[..], &["--set", "matrix.fil=1"]].concat());
    assert!(
        typo.stderr.contains("note: --set matrix.fil names no expression of the file"),
        "{typo:#?}"
    );
    let usage = dry(&bench, &["--workflow", "w.yml", "--set", "matrix.file"]);
    assert_eq!(usage.code, Some(2), "{usage:#?}");
    // GitLab fills in dollars unless it is told not to.
    let dollars = gitlab(&LOOP.replace("touch done.txt", "touch $NAME"));
    bench.write("gl.yml", &dollars);
    assert_eq!(
        dry(&bench, &["--workflow", "gl.yml"]).json()["plan"]["loop"]["exec"]["run"],
        "touch $NAME"
    );
    let expanded = refused(&bench, "gx.yml", &dollars.replace("      expand: false\n", ""), &[]);
    assert!(expanded.contains("gx.yml:11:") && expanded.contains("expand: false"), "{expanded}");
    let given = dry(&bench, &["--workflow", "gx.yml", "--set", "NAME=done.txt"]);
    assert_eq!(given.json()["plan"]["loop"]["exec"]["run"], "touch done.txt", "{given:#?}");
}

#[test]
fn literal_variables_reach_what_the_loop_passes_on_and_nothing_else() {
    let mut bench = Bench::new();
    let text = "\
env:
  GREETING: workflow
  UNSEEN: secret-looking
  LOOPEXEC_SET_LIMITS__ITERATIONS: 2
  KEY: ${{ secrets.KEY }}
  WHO: ${{ github.actor }}
jobs:
  fix:
    services:
      db: {image: postgres}
    env: {GREETING: job}
    steps:
      - name: Install things
        run: make deps
      - uses: ./.github/actions/loopexec
        env:
          GREETING: step ${{ env.UNSEEN }}
        with:
          loop: |
            version: 1
            model: none
            exec: {run: \"echo $GREETING ${UNSEEN-none} > said.txt\", pass_env: [GREETING]}
            check: test -f said.txt
";
    bench.write(".github/workflows/w.yml", text);
    bench.commit();
    let args = ["--workflow", ".github/workflows/w.yml"];
    let ran = bench.run_loop(&args);
    assert_eq!(ran.reason(), "success_condition_met", "{ran:#?}");
    assert_eq!(
        std::fs::read_to_string(bench.path("said.txt")).unwrap(),
        "step secret-looking none\n"
    );
    for note in [
        "note: not run here: service `db` (line 10), step `Install things` (line 13)",
        "only the platform knows them: KEY, WHO",
    ] {
        assert_eq!(ran.stderr.matches(note).count(), 1, "{note}: {}", ran.stderr);
    }
    let plan = dry(&bench, &args).json();
    assert_eq!(plan["plan"]["loop"]["limits"]["iterations"], 2);
    // What is passed on must be known; a secret may be the caller's own.
    let passing = |name: &str| text.replace("[GREETING]", &format!("[{name}]"));
    let error = refused(&bench, "p.yml", &passing("WHO"), &[]);
    assert!(error.contains("p.yml:6:8:") && error.contains("--set github.actor=…"), "{error}");
    let error = refused(&bench, "p.yml", &passing("KEY"), &[]);
    assert!(error.contains("set KEY in your environment") && !error.contains("--set"), "{error}");
    bench.env("KEY", "mine");
    assert_eq!(dry(&bench, &["--workflow", "p.yml"]).code, Some(0));
    let set = text.replace(
        "LOOPEXEC_SET_LIMITS__ITERATIONS: 2",
        "LOOPEXEC_SET_LIMITS__ITERATIONS: ${{ inputs.n }}",
    );
    let error = refused(&bench, "s.yml", &set, &[]);
    assert!(error.contains("s.yml:4:"), "{error}");
    assert_eq!(
        dry(&bench, &["--workflow", "s.yml", "--set", "inputs.n=7"]).json()["plan"]["loop"]["limits"]
            ["iterations"],
        7
    );
}

#[test]
fn a_loop_runs_in_the_folder_that_the_platform_would_run_it_in() {
    let bench = Bench::new();
    let body = "version: 1\nmodel: none\nexec: touch here.txt\ncheck: test -f here.txt\n";
    let text = github(body) + "          working-directory: ./app\n";
    bench.write(".github/workflows/w.yml", &text);
    bench.write("app/a", "");
    bench.write("deep/er/x", "");
    bench.commit();
    // Typed in another folder: a job starts at the top.
    let mut command = bench.loopexec();
    command.current_dir(bench.path("deep/er"));
    let output = command
        .args(["run", "--json", "--workflow", "../../.github/workflows/w.yml"])
        .output()
        .unwrap();
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["halt_reason"], "success_condition_met", "{object:#}");
    assert!(bench.path("app/here.txt").exists() && !bench.path("deep/er/here.txt").exists());
    // The file outside of that folder is guarded all the same.
    let plan = dry(&bench, &["--workflow", ".github/workflows/w.yml"]).json();
    let guards = plan["plan"]["loop"]["guards"].to_string();
    assert!(guards.contains("/.github/workflows/w.yml"), "{guards}");
    let outside = refused(&bench, "o.yml", &text.replace("./app", "../app"), &[]);
    assert!(outside.contains("not inside the repository"), "{outside}");
    let expression = text.replace("./app", "${{ matrix.folder }}");
    assert!(refused(&bench, "e.yml", &expression, &[]).contains("--set matrix.folder="));
    // A default of `run` steps does not reach a step that uses an action, on GitHub neither.
    let defaults = format!("defaults: {{run: {{working-directory: app}}}}\n{}", github(body));
    bench.write("d.yml", defaults);
    let ran = dry(&bench, &["--workflow", "d.yml"]);
    assert!(ran.stderr.contains("is for `run` steps"), "{ran:#?}");
    let step =
        github(body).replace("        with:", "        working-directory: app\n        with:");
    assert!(refused(&bench, "s.yml", &step, &[]).contains("takes no `working-directory`"));
}

#[test]
fn a_refused_workflow_leaves_a_receipt_and_doctor_says_why() {
    let bench = Bench::new();
    bench.write("w.yml", github("version: 1\n"));
    let ran = bench.run_loop(&["--workflow", "w.yml"]);
    assert_eq!(ran.reason(), "config_invalid", "{ran:#?}");
    assert_eq!(bench.runs().len(), 1);
    let doctor = bench.run(&["doctor", "--workflow", "w.yml"]);
    assert!(doctor.code == Some(30) && doctor.stdout.contains("w.yml:12:13"), "{doctor:#?}");
    let missing = bench.run_loop(&["--workflow", "none.yml"]);
    assert_eq!(missing.reason(), "config_invalid", "{missing:#?}");
}

#[test]
fn hostile_files_are_refused_in_one_sentence() {
    let bench = Bench::new();
    let many = "      - uses: o/loopexec@v1\n".repeat(4000);
    let bomb: String =
        (1..30).map(|i| format!("a{i}: &a{i} [*a{p}, *a{p}, *a{p}]\n", p = i - 1)).collect();
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("huge.yml", vec![b'a'; 2 << 20]),
        ("binary.yml", (0..=255).cycle().take(4096).collect()),
        ("bomb.yml", format!("a0: &a0 [x]\n{bomb}").into_bytes()),
        ("deep.yml", "[".repeat(5000).into_bytes()),
        ("tabs.yml", b"jobs:\n\ta:\n\t\tsteps: []\n".to_vec()),
        ("anchor.yml", b"jobs: &j\n  a: *j\n".to_vec()),
        ("empty.yml", b"\n\n".to_vec()),
        ("list.yml", b"- a\n- b\n".to_vec()),
        ("utf16.yml", b"\xff\xfea\0".to_vec()),
        ("many.yml", format!("jobs:\n  a:\n    steps:\n{many}").into_bytes()),
        ("twice.yml", b"jobs:\n  a: {}\n  a: {}\n".to_vec()),
        ("shape.yml", b"jobs:\n  a:\n    steps: {uses: o/loopexec@v1}\n".to_vec()),
        ("null.yml", b"jobs:\n  a:\n    steps:\n      - uses: o/loopexec@v1\n        with: {loop: {version: 1}}\n".to_vec()),
        ("cycle.yml", b"a: {extends: b}\nb: {extends: [a, b]}\nvariables: {LOOPEXEC_LOOP: [1]}\n".to_vec()),
        ("open.yml", github("exec: ${{ a\n").into_bytes()),
        ("esc.yml", b"jobs:\n  \"a\\e[31m\": {steps: [{uses: o/loopexec@v1}, {uses: o/loopexec@v1}]}\n".to_vec()),
    ];
    for (file, bytes) in files {
        bench.write(file, bytes);
        let began = std::time::Instant::now();
        let ran = dry(&bench, &["--workflow", file]);
        assert!(began.elapsed().as_secs() < 20, "{file} took {:?}", began.elapsed());
        let error = said(&ran);
        assert!(error.contains(file), "{file}: {error}");
        assert!(!error.contains('\u{1b}') && !error.contains("\\u001b"), "{file}: {error}");
    }
    std::fs::create_dir(bench.path("folder.yml")).unwrap();
    assert!(said(&dry(&bench, &["--workflow", "folder.yml"])).contains("a folder"));
}

#[test]
fn init_takes_check_setup_and_services_from_a_job() {
    let bench = Bench::new();
    bench.write(
        "ci.yml",
        "\
on: push
env: {A: workflow, TOKEN: '${{ secrets.T }}'}
defaults: {run: {working-directory: app}}
jobs:
  lint:
    steps: [{run: ruff check}]
  test:
    strategy: {matrix: {x: [1]}}
    container: debian
    runs-on: windows-latest
    services:
      db: {image: 'postgres:16', ports: ['5433:5432']}
      cache: {image: redis}
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v5
        with: {python-version: '3.13'}
      - run: echo X=1 >> $GITHUB_ENV
      - run: pip install -r requirements.txt pytest
      - name: Build
        working-directory: .
        run: |
          set -x
          make build
      - run: ./install ${{ matrix.x }}
      - name: Tests
        env: {B: \"it's\"}
        run: |
          export C=1
          python -m pytest -q
      - run: make upload
        if: always()
",
    );
    let ran = bench.run(&["init", "--json", "--from-workflow", "ci.yml"]);
    assert_eq!((ran.code, ran.json()["job"].as_str()), (Some(0), Some("test")), "{ran:#?}");
    let text = std::fs::read_to_string(bench.path("loop.yml")).unwrap();
    for part in [
        "# From ci.yml, line 7: job test.",
        "check:\n  run: |\n    export C=1\n    python -m pytest -q\n  cwd: \"app\"\n  env:\n    A: \"workflow\"\n    B: \"it's\"\n",
        "localhost:5433",
        "localhost:6379",
        "setup:\n  run: |\n    (\n    cd 'app'\n    pip install -r requirements.txt pytest\n    )\n    (\n    set -x\n    make build\n    )\n",
        "# not taken: uses actions/setup-python@v5 (line 16)",
        "# not taken: `strategy` (line 8)",
        "# not taken: `container` (line 9)",
        "# not taken: runs-on windows-latest (line 10)",
        "# not taken: `if` of step `make upload` (line 31)",
        "it writes to GITHUB_ENV",
        "# not taken: variable `TOKEN`: an expression",
        "`./install ${{ matrix.x }}` (line 25): it holds an expression",
        "`make upload` (line 31): it stands after the check",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
    let plan = bench.run(&DRY);
    assert_eq!(plan.code, Some(0), "{plan:#?}");
    assert_eq!(plan.json()["plan"]["loop"]["check"]["cwd"], "app");
    assert_eq!(bench.run(&["init", "--from-workflow", "ci.yml"]).code, Some(30), "one is there");
}

#[test]
fn init_takes_a_gitlab_job_and_lists_jobs_where_several_fit() {
    let bench = Bench::new();
    bench.write(
        ".gitlab-ci.yml",
        "\
image: python:3.13
variables: {PIP: quiet, BOTH: $PIP}
.base:
  before_script:
    - python -m venv venv
    - source venv/bin/activate
    - pip install pytest
unit:
  extends: .base
  services: [{name: 'mysql:8', alias: db}]
  script:
    - cd app
    - pytest -q
    - echo done
other:
  script: [tox]
",
    );
    let init = ["init", "--json", "--force", "--from-workflow", ".gitlab-ci.yml"];
    let error = said(&bench.run(&init));
    assert!(
        error.contains(".gitlab-ci.yml:8: --job unit")
            && error.contains(".gitlab-ci.yml:15: --job other"),
        "{error}"
    );
    let ran = bench.run(&[&init[..], &["--job", "unit"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let text = std::fs::read_to_string(bench.path("loop.yml")).unwrap();
    for part in [
        "check:\n  run: |\n    source venv/bin/activate\n    cd app\n    pytest -q\n  env:\n    PIP: \"quiet\"\n",
        "    python -m venv venv\n    source venv/bin/activate\n    pip install pytest\n    cd app\n",
        "localhost:3306",
        "# not taken: image python:3.13",
        "variable `BOTH`",
        "`echo done`: it stands after",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
    assert_eq!(bench.run(&DRY).code, Some(0));
    let none = said(&bench.run(&[&init[..], &["--job", "x"]].concat()));
    assert!(none.contains("there is no job `x`"), "{none}");
    bench.write(
        "m.yml",
        "jobs:\n  t:\n    steps:\n      - run: pytest ${{ matrix.a }}\n      - run: make deploy\n",
    );
    let error = said(&bench.run(&["init", "--json", "--force", "--from-workflow", "m.yml"]));
    assert!(error.contains("holds an expression") && error.contains("line 4"), "{error}");
    bench.write("e.yml", "jobs:\n  t:\n    steps: [{uses: a/b@v1}]\n");
    assert!(
        said(&bench.run(&["init", "--json", "--force", "--from-workflow", "e.yml"]))
            .contains("e.yml:2:")
    );
}

/// Lays the project of `examples/shell` into a folder.
fn lay_project(bench: &Bench, folder: &str) {
    let from = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shell");
    for name in ["agent.sh", "duration.sh", "test.sh"] {
        let text = std::fs::read_to_string(from.join(name)).unwrap();
        bench.write(&format!("{folder}{name}"), text);
    }
}

fn example(path: &str) -> String {
    std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(path),
    )
    .unwrap()
}

#[test]
fn every_example_runs_here_as_its_readme_says() {
    let plain = "version: 1\nmodel: none\ngoal: Make the tests of duration.sh pass.\nexec: sh agent.sh\ncheck: sh test.sh\nlimits: {iterations: 5}\n";
    let cases: [(&str, &str, &[&str]); 5] = [
        ("workflows/push.yml", "", &[]),
        ("workflows/config.yml", "", &[]),
        ("workflows/matrix.yml", "clock/", &["--set", "matrix.package=clock"]),
        ("workflows/matrix.yml", "timer/", &["--set", "matrix.package=timer"]),
        ("gitlab/.gitlab-ci.yml", "", &[]),
    ];
    for (path, folder, more) in cases {
        let bench = Bench::new();
        lay_project(&bench, folder);
        bench.write("loop.yml", plain);
        let file = match path.strip_prefix("workflows/") {
            Some(name) => format!(".github/workflows/{name}"),
            None => ".gitlab-ci.yml".to_owned(),
        };
        bench.write(&file, example(path));
        bench.commit();
        let ran = bench.run_loop(&[&["--workflow", &file], more].concat());
        assert_eq!(
            (ran.reason().as_str(), ran.code),
            ("success_condition_met", Some(10)),
            "{path}: {ran:#?}"
        );
        assert_eq!(bench.git(&["diff", "--name-only"]), format!("{folder}duration.sh"), "{path}");
        if folder.is_empty() && !path.ends_with("config.yml") {
            let digest = ran.json()["loop_digest"].as_str().unwrap().to_owned();
            assert_eq!(digest, self::digest(&bench, &["loop.yml"]), "{path}");
        }
    }
}

#[test]
fn the_text_that_a_runner_hands_over_is_found_at_its_place_again() {
    use loopexec::config::{Inline, Inputs, load_text, workflow::standing};
    let bench = Bench::new();
    let body = format!("{LOOP}nonsense: 1\n");
    let file = github(&body);
    let inputs = Inputs { start: bench.root(), ..Inputs::default() };
    let inline = standing(".github/workflows/w.yml", &file, &body, "repair").unwrap();
    let error = load_text(&inputs, &inline).unwrap_err();
    let place = error.place.unwrap();
    assert_eq!(
        (place.file.as_str(), place.line, place.column),
        (".github/workflows/w.yml", 21, 13)
    );
    assert!(standing("w.yml", &file, "other", "repair").is_none());
    // Without the file, the text is the input's own.
    let alone = load_text(&inputs, &Inline::new("input loop", &body, "repair")).unwrap_err();
    assert!(alone.what.starts_with("input loop:10:1:"), "{alone}");
    let good = load_text(&inputs, &Inline::new("input loop", LOOP, "Re Pair")).unwrap();
    assert_eq!(good.spec.name, "re-pair");
    bench.write("loop.yml", LOOP);
    assert_eq!(good.digest, digest(&bench, &[]));
}
