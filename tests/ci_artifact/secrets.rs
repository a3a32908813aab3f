//! Secrets of the environment are in no file that leaves, in whatever form they were written down.

use crate::project::{contents, project, redactor, text};
use loopexec::receipt::bundle::{Contents, write};
use loopexec::receipt::manifest::Why;
use std::fs;

const TOKEN: &str = "s3cr3t/value+with=all&kinds";
const LINES: [&str; 3] = [
    "-----BEGIN FUNNY KEY-----",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo",
    "eHl6eHl6eHl6eHl6eHl6eHl6eHl6eHl6eHk",
];

/// The forms in which the agent gives the secrets away.
fn forms() -> Vec<String> {
    let mut forms = vec![
        TOKEN.to_owned(),
        "czNjcjN0L3ZhbHVlK3dpdGg9YWxsJmtpbmRz".to_owned(),
        "s3cr3t%2Fvalue%2Bwith%3Dall%26kinds".to_owned(),
    ];
    forms.extend(LINES[1..].iter().map(|line| (*line).to_owned()));
    forms
}

fn variables() -> [(&'static str, String); 2] {
    [("API_TOKEN", TOKEN.to_owned()), ("SSH_PRIVATE_KEY", LINES.join("\n"))]
}

#[test]
fn what_an_agent_gives_away_leaves_in_no_file() {
    let agent = forms().iter().fold(String::new(), |text, form| {
        format!("{text}echo 'x {form} y'; echo 'x {form} y' >&2; echo 'x {form} y' >> notes; ")
    });
    let mut bench = project(&format!("exec: |\n  {agent}echo 1 > a\n"));
    // What the loop file holds is no secret of the environment; a script outside of git is as good.
    bench.script("agent.sh", &format!("{agent}\necho 1 > a"));
    bench.loop_file("check: {run: ./tests.sh, runner: tap}\nexec: ./agent.sh\n");
    bench.write(".gitignore", "marker\nagent.sh\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "--amend", "--allow-empty", "-m", "work"]);
    for (name, value) in variables() {
        bench.env(name, &value);
    }
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let run = bench.runs().pop().unwrap();
    let known = variables();
    let known: Vec<(&str, &str)> = known.iter().map(|(name, value)| (*name, &**value)).collect();
    let zip = bench.beside("bundle.zip");
    let state = bench.path(".loop_state.json");
    let facts =
        write(run.path(), Some(&state), &zip, Contents::WithOutputs, &redactor(&known)).unwrap();
    for (name, bytes) in contents(&zip) {
        for form in forms() {
            let found = bytes.windows(form.len()).any(|part| part == form.as_bytes());
            assert!(!found, "{form} is in {name}");
        }
    }
    let said = facts.warnings.join("\n");
    assert!(said.contains("the patch") && said.contains("a file of the snapshots"), "{said}");
    assert!(said.contains("API_TOKEN") || said.contains("SSH_PRIVATE_KEY"), "{said}");
    assert!(!forms().iter().any(|form| said.contains(&**form)), "{said}");
    let left: Vec<&str> = facts.left_out.iter().map(|left| &*left.path).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&"patch.diff"), "{left:?}");
    assert!(facts.left_out.iter().all(|left| left.why == Why::Secret));
    // The evidence holds all the same, and says what it cannot be used for.
    let verified = bench.run(&["verify", "--json", "--run-id", text(&zip)]);
    assert_eq!(verified.code, Some(0), "{verified:#?}");
    assert_eq!(verified.json()["patch"], false);
    let replayed = bench.run(&["replay", "--json", "--run-id", text(&zip)]);
    assert_eq!((replayed.code, &replayed.json()["detail"]), (Some(30), &"no_snapshots".into()));
    // Without the variables in mind they would have left: the test sees what it looks for.
    write(run.path(), Some(&state), &zip, Contents::WithOutputs, &redactor(&[])).unwrap();
    let all: Vec<u8> = contents(&zip).into_values().flatten().collect();
    assert!(all.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()));
}

#[test]
fn a_secret_in_the_chain_is_no_bundle_and_one_sentence() {
    let bench = project("exec: 'echo 1 > a'\n");
    // Not committed: what a commit holds is no secret.
    bench.loop_file(
        "check: {run: ./tests.sh, runner: tap}\nexec: 'echo 1 > a'\ngoal: say hunter2hunter2 politely\n",
    );
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let run = bench.runs().pop().unwrap();
    let zip = bench.beside("bundle.zip");
    let known = redactor(&[("LATER_TOKEN", "hunter2hunter2")]);
    let error = write(run.path(), None, &zip, Contents::Evidence, &known).unwrap_err();
    let said = format!("{error} {:?}", error.hints);
    assert!(said.contains("LATER_TOKEN") && !said.contains("hunter2"), "{said}");
    assert!(!zip.exists());
    assert_eq!(
        fs::read_dir(bench.beside("."))
            .unwrap()
            .filter(|entry| {
                entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tmp")
            })
            .count(),
        0
    );
}

#[test]
fn what_the_commit_holds_anyway_is_no_secret() {
    let bench = project("exec: 'echo 1 > a; echo more >> compose.yml'\n");
    bench.write("compose.yml", "environment:\n  POSTGRES_PASSWORD: postgres\n");
    bench.commit();
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let run = bench.runs().pop().unwrap();
    let zip = bench.beside("bundle.zip");
    let known = redactor(&[("POSTGRES_PASSWORD", "postgres")]);
    let facts = write(run.path(), None, &zip, Contents::WithOutputs, &known).unwrap();
    assert_eq!((facts.warnings, facts.left_out), (vec![], vec![]));
    // An untracked file is nobody else's to read.
    bench.write("a", "0\n");
    bench.write("credentials.json", "{\"token\": \"ya29.abcdefgh\"}");
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let run = bench.runs().pop().unwrap();
    let known = redactor(&[("GOOGLE_TOKEN", "ya29.abcdefgh")]);
    let facts = write(run.path(), None, &zip, Contents::WithOutputs, &known).unwrap();
    assert_eq!(facts.left_out.len(), 1, "{facts:?}");
    let all: Vec<u8> = contents(&zip).into_values().flatten().collect();
    assert!(!all.windows(13).any(|part| part == b"ya29.abcdefgh"));
}
