//! Holds what is written for users to the code: the README's tables and headings, the examples.
//!
//! `LOOPEXEC_BLESS=1 cargo test --test contract` writes the tables anew. The schema in `dist/` is
//! held by the tests of `config`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

use clap::CommandFactory;
use loopexec::commands::Cli;
use loopexec::domain::decide;
use loopexec::domain::reason::HaltReason;
use loopexec::exit::ExitClass;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// Held while the README is read and written.
static README: Mutex<()> = Mutex::new(());

/// Compares what stands between two markers of the README, or writes it.
fn hold(name: &str, wanted: &str) {
    let _alone = README.lock().unwrap();
    let text = readme();
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let from = text.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
    let to = from + text[from..].find(&end).unwrap_or_else(|| panic!("no {end}"));
    if std::env::var_os("LOOPEXEC_BLESS").is_some() {
        let fresh = format!("{}{wanted}{}", &text[..from], &text[to..]);
        fs::write(root().join("README.md"), fresh).unwrap();
        return;
    }
    assert_eq!(&text[from..to], wanted, "LOOPEXEC_BLESS=1 cargo test --test contract");
}

fn codes(classes: &[ExitClass]) -> String {
    match classes {
        [] => "–".to_owned(),
        some => some
            .iter()
            .map(|class| format!("{} {}", class.code(), class.name()))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn reasons_table() -> String {
    let mut table = "| exit | class | reason | holds when |\n|---|---|---|---|\n".to_owned();
    for class in ExitClass::ALL {
        for reason in HaltReason::ALL.iter().filter(|reason| reason.class() == class) {
            table.push_str(&format!(
                "| {} | {} | `{reason}` | {} |\n",
                class.code(),
                class.name(),
                reason.meaning().trim()
            ));
        }
    }
    table
}

#[test]
fn the_table_of_reasons_is_the_enums() {
    let table = reasons_table();
    assert_eq!(table.lines().count(), 2 + 40);
    hold("reasons", &table);
}

/// The reasons that the end-to-end tests name as not yet possible.
fn later() -> Vec<HaltReason> {
    let file = root().join("tests/cli/reasons/coverage.rs");
    let text = fs::read_to_string(file).unwrap();
    let list = text.split("const LATER").nth(1).unwrap().split("];").next().unwrap();
    list.split('"').skip(1).step_by(2).map(|name| HaltReason::from_name(name).unwrap()).collect()
}

#[test]
fn reasons_that_come_later_are_those_without_an_end_to_end_test() {
    // A defect is no feature.
    let later = later().into_iter().filter(|reason| *reason != HaltReason::InternalError);
    let names: Vec<String> = later.map(|reason| format!("`{reason}`")).collect();
    assert!(names.len() > 1);
    hold("later", &format!("{}.\n", names.join(", ")));
}

#[test]
fn the_table_of_decisions_is_the_engines() {
    let mut table = "| | first that holds | halts with |\n|---|---|---|\n".to_owned();
    for (number, (title, classes)) in decide::rows().into_iter().enumerate() {
        table.push_str(&format!("| {} | {title} | {} |\n", number + 1, codes(classes)));
    }
    hold("decisions", &table);
}

#[test]
fn the_list_of_blocked_paths_is_the_defaults() {
    let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
    for (pattern, what) in loopexec::config::DEFAULT_BLOCKED {
        let pattern = format!("`{pattern}`");
        match lines.iter_mut().find(|(known, _)| known == what) {
            Some((_, patterns)) => patterns.push(pattern),
            None => lines.push((what, vec![pattern])),
        }
    }
    assert!(lines.len() > 5);
    let list = lines.iter().map(|(what, patterns)| format!("- {what}: {}\n", patterns.join(", ")));
    hold("blocked", &list.collect::<String>());
}

#[test]
fn the_runners_of_the_readme_are_those_of_the_loop_file() {
    let table = readme();
    let table = table.split("| `check.runner` |").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split(" |").next().unwrap());
    let named: Vec<&str> = cells.flat_map(|cell| cell.split("`")).collect();
    let named: Vec<&str> =
        named.into_iter().filter(|word| !word.is_empty() && *word != ", ").collect();
    assert!(named.len() > 5, "{named:?}");
    let known = |runner: &str| {
        let results = if runner == "junit" { ", results: [x.xml]" } else { "" };
        let text = format!(
            "version: 1\nmodel: none\nexec: x\ncheck: {{run: x, runner: {runner}{results}}}\n"
        );
        loopexec::config::parse_str(&text, "loop.yml").is_ok()
    };
    for runner in &named {
        assert!(known(runner), "{runner}");
    }
    let schema = fs::read_to_string(root().join("dist/loop.schema.json")).unwrap();
    let all = schema.split("\"unittest\",").nth(1).unwrap().split(']').next().unwrap();
    let others = all.split('"').skip(1).step_by(2).filter(|runner| !named.contains(runner));
    for runner in others {
        assert!(!known(runner), "the README does not name {runner}");
    }
}

#[test]
fn every_class_a_loop_halts_with_can_be_decided() {
    let rows = decide::rows();
    for reason in HaltReason::ALL {
        assert!(
            rows.iter().any(|(_, classes)| classes.contains(&reason.class())),
            "no row halts with {reason}"
        );
    }
}

#[test]
fn every_command_of_the_help_has_its_heading() {
    let text = readme();
    for command in Cli::command().get_subcommands() {
        let heading = format!("\n### `loopexec {}`\n", command.get_name());
        assert!(text.contains(&heading), "the README has no{heading}");
        assert!(command.get_about().is_some(), "{} says nothing in --help", command.get_name());
    }
}

#[test]
fn every_heading_of_a_command_is_a_command() {
    let text = readme();
    let mut headings = text.lines().filter_map(|line| line.strip_prefix("### `loopexec "));
    let unknown = headings.find(|rest| {
        let name = rest.trim_end_matches('`');
        Cli::command().find_subcommand(name).is_none()
    });
    assert_eq!(unknown, None);
}

#[test]
fn the_readme_names_no_command_and_no_flag_that_is_not_there() {
    let mut command = Cli::command();
    command.build();
    let text = readme();
    let shell =
        text.split("```sh\n").skip(1).flat_map(|rest| rest.split("```").next().unwrap().lines());
    for line in shell.filter(|line| line.starts_with("loopexec ")) {
        let words: Vec<&str> =
            line.split('#').next().unwrap_or_default().split_whitespace().skip(1).collect();
        let name = words.first().unwrap();
        let sub = command.find_subcommand(name).unwrap_or_else(|| panic!("no command: {line}"));
        for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
            assert!(
                sub.get_arguments().any(|argument| argument.get_long() == Some(flag)),
                "no --{flag}: {line}"
            );
        }
    }
}

#[test]
fn loop_files_that_users_see_are_valid() {
    let mut files: Vec<PathBuf> = ["shell", "rust", "python", "node"]
        .iter()
        .map(|name| root().join("examples").join(name).join("loop.yml"))
        .collect();
    files.extend(
        ["honest", "lying", "trespassing"]
            .iter()
            .map(|name| root().join("src/commands/demo").join(format!("{name}.yml"))),
    );
    let mut texts: Vec<(String, String)> = files
        .iter()
        .map(|file| (file.display().to_string(), fs::read_to_string(file).unwrap()))
        .collect();
    let readme = readme();
    let fenced = readme.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    texts.extend(
        fenced
            .filter(|text| text.starts_with("version:"))
            .map(|text| ("README.md".to_owned(), text.to_owned())),
    );
    assert!(texts.len() > files.len(), "the README shows no loop file");
    for (name, text) in texts {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("loop.yml"), text).unwrap();
        let resolved = loopexec::config::load(&loopexec::config::Inputs {
            start: place.path().to_owned(),
            top: None,
            file: None,
            flags: Vec::new(),
            env: Vec::new(),
        });
        match resolved {
            Ok(resolved) => {
                assert!(resolved.warnings.is_empty(), "{name}: {:?}", resolved.warnings)
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn an_examples_git_ignores_no_loop_state_but_in_one() {
    let ignoring: Vec<&str> = ["shell", "rust", "python", "node"]
        .into_iter()
        .filter(|name| {
            let file = root().join("examples").join(name).join(".gitignore");
            fs::read_to_string(file).unwrap().contains(".loop_state.json")
        })
        .collect();
    assert_eq!(ignoring, ["rust"]);
}

#[test]
fn links_of_the_readme_lead_somewhere() {
    for part in readme().split("](").skip(1) {
        let link = part.split(')').next().unwrap().split('#').next().unwrap();
        if !link.is_empty() && !link.starts_with("https://") {
            assert!(root().join(link).exists(), "no {link}");
        }
    }
}

/// The action as GitHub reads it.
fn action() -> serde_json::Value {
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

/// The names that users of the action rely on.
const INPUTS: &str = "loop config working-directory github-token annotations comment check-run summary \
    artifact artifact-name retention-days fail-on accept-isolation resume pr-number \
    allow-pull-request-target version binary-path matrix";
const OUTPUTS: &str = "halt-reason detail exit-class exit-code converged changed iterations run-id \
    loop-digest spent-usd receipt head artifact-id artifact-url patch report";

#[test]
fn the_tables_of_the_action_are_those_of_the_readme() {
    let action = action();
    let rows = |what: &str, named: &str| {
        let listed = action[what].as_object().unwrap();
        let names: Vec<&str> = listed.keys().map(String::as_str).collect();
        assert_eq!(names, named.split_whitespace().collect::<Vec<_>>(), "{what} of action.yml");
        listed.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut table = "| input | | default |\n|---|---|---|\n".to_owned();
    for (name, input) in rows("inputs", INPUTS) {
        let default = match text(&input["default"]) {
            empty if empty.is_empty() => String::new(),
            default => format!("`{default}`"),
        };
        table.push_str(&format!("| `{name}` | {} | {default} |\n", text(&input["description"])));
    }
    hold("action inputs", &table);
    let mut table = "| output | |\n|---|---|\n".to_owned();
    for (name, output) in rows("outputs", OUTPUTS) {
        table.push_str(&format!("| `{name}` | {} |\n", text(&output["description"])));
    }
    hold("action outputs", &table);
}

#[test]
fn behaviour_inputs_of_the_action_are_empty_by_default() {
    let action = action();
    let inputs = action["inputs"].as_object().unwrap();
    let with_default: Vec<&str> = inputs
        .iter()
        .filter(|(_, input)| input["default"] != "")
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(with_default, ["github-token", "allow-pull-request-target", "matrix"]);
    assert_eq!(inputs["allow-pull-request-target"]["default"], "false");
}

#[test]
fn the_action_uses_no_other_action_and_its_launcher_no_package() {
    let action = action();
    let runs = &action["runs"];
    assert_eq!((runs["using"].as_str(), runs.get("steps")), (Some("node24"), None));
    assert_eq!(runs["post-if"], "always()");
    let mut required = 0;
    for file in
        ["main", "post"].map(|key| runs[key].as_str().unwrap()).iter().chain(&["dist/launcher.js"])
    {
        let text = fs::read_to_string(root().join(file)).unwrap();
        for module in text.split("require('").skip(1) {
            let ours = module.starts_with("node:") || module.starts_with("./launcher.js'");
            assert!(ours, "{file} requires {}", module.split('\'').next().unwrap());
            required += 1;
        }
    }
    assert!(required > 5, "{required}");
}

#[test]
fn the_launcher_runs_the_version_it_ships_with() {
    let text = fs::read_to_string(root().join("dist/launcher.js")).unwrap();
    let version = text.split("const VERSION = '").nth(1).unwrap().split('\'').next().unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_workflow_of_the_readme_gives_the_action_what_it_takes() {
    let readme = readme();
    let fenced = readme.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut seen = 0;
    for text in fenced.filter(|text| text.contains("/loopexec@")) {
        let workflow: serde_json::Value = serde_yaml::from_str(text).unwrap();
        let steps = workflow["jobs"]["mend"]["steps"].as_array().unwrap();
        let uses = |step: &&serde_json::Value| {
            step["uses"].as_str().is_some_and(|name| name.contains("/loopexec@v"))
        };
        let step = steps.iter().find(uses).unwrap();
        let with = step["with"].as_object().unwrap();
        let unknown: Vec<&String> =
            with.keys().filter(|name| action()["inputs"].get(name.as_str()).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        loopexec::config::parse_str(with["loop"].as_str().unwrap(), "inline").unwrap();
        assert_eq!(step["uses"], format!("OWNER/loopexec@v{}", env!("CARGO_PKG_VERSION")));
        seen += 1;
    }
    assert_eq!(seen, 1);
}
