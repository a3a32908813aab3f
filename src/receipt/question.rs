//! The question of a run and the answer to it, as files in the run's folder.
//!
//! What is asked and what an answer means is `domain::gate`'s; an answer counts once it stands in the
//! receipt, which is `run --resume`'s.

use super::disk::{Disk, Folder};
use super::record::Waiting;
use super::strict;
use crate::domain::gate::{Answer, Gate, ProtectedChange, Question};
use crate::domain::observation::PathChange;
use crate::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::path::Path;

/// The question for programs.
pub const QUESTION_JSON: &str = "question.json";

/// The question for people.
pub const QUESTION_MD: &str = "question.md";

/// The version of both files.
const VERSION: u64 = 1;

/// The largest of these files that is read, in bytes.
const MOST: u64 = 256 * 1024;

/// Changed paths that a question names.
pub const MOST_CHANGES: usize = 200;

/// Characters of a name, and of a note, in an answer.
const LONGEST: (usize, usize) = (200, 2000);

/// The patch that a question is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchFile {
    /// Where it stands, from the root of the tree.
    pub path: String,
    /// The sha256 of its bytes.
    pub sha256: String,
    /// Files it changes.
    pub files: u64,
    /// Lines it adds.
    pub added: u64,
    /// Lines it removes.
    pub removed: u64,
}

/// A question as it is put to people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionFile {
    /// The version of this file: 1.
    pub version: u64,
    /// The run.
    pub run_id: String,
    /// The loop's name.
    pub name: String,
    /// The gate.
    pub gate: Gate,
    /// The digest of what is asked about.
    pub subject: String,
    /// What is asked, in one sentence.
    pub asks: String,
    /// The iteration, 0 before the baseline.
    pub iteration: u32,
    /// The patch that would be handed over.
    pub patch: Option<PatchFile>,
    /// What it changes, path by path.
    pub changes: Vec<PathChange>,
    /// Paths that are left out here.
    pub more_changes: usize,
    /// Protected keys of the loop file that differ.
    pub keys: Vec<String>,
    /// The commands that answer, and the one that goes on.
    pub answer: Vec<String>,
}

/// Returns the command that takes up a run, a folder or a bundle of one, with the options that its loop was
/// found by; `caller` is what the run recorded of the tree.
pub fn resume_command(which: &str, caller: &Value) -> String {
    let recorded = |pointer: &str| caller.pointer(pointer).and_then(Value::as_str);
    // What would have to be quoted is named by what it is.
    let shown = |value: &str, stands_for: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._/^~-".contains(c);
        match !value.is_empty() && !value.starts_with('-') && value.chars().all(plain) {
            true => value.to_owned(),
            false => stands_for.to_owned(),
        }
    };
    let mut options = String::new();
    if let Some(workflow) = recorded("/workflow") {
        options.push_str(&format!(" --workflow {}", shown(workflow, "FILE")));
    }
    if let Some(base) = recorded("/base/revision") {
        options.push_str(&format!(" --base {}", shown(base, "REVISION")));
    }
    format!("loopexec run{options} --resume {which}")
}

impl QuestionFile {
    /// Makes the question of a run; patch and changes are filled in by the caller, `caller` is what the
    /// run recorded of the tree.
    pub fn of(
        run_id: &str,
        name: &str,
        question: &Question,
        protected: Option<&ProtectedChange>,
        caller: &Value,
    ) -> Self {
        let gate = question.gate;
        let ack = |reply| {
            format!("loopexec ack --run-id {run_id} --gate {} --{reply} --by NAME", gate.word())
        };
        let asks = match gate {
            Gate::Deliver | Gate::LargePatch => format!(
                "The check passed in iteration {} and every guard held{}. May the result be handed over?",
                question.iteration,
                question.large.map(|large| format!("; {large}")).unwrap_or_default()
            ),
            Gate::ProtectedChange => format!(
                "May this run use the check, the guards and the isolation as its loop file has them? Nothing was run yet: {}.",
                protected.map_or("", |change| &change.why)
            ),
        };
        let keys = protected.filter(|_| gate == Gate::ProtectedChange);
        Self {
            version: VERSION,
            run_id: run_id.to_owned(),
            name: name.to_owned(),
            gate,
            subject: question.subject.clone(),
            asks,
            iteration: question.iteration,
            patch: None,
            changes: Vec::new(),
            more_changes: 0,
            keys: keys.map(|change| change.keys.clone()).unwrap_or_default(),
            answer: vec![ack("yes"), ack("no"), resume_command(run_id, caller)],
        }
    }

    /// Returns the question as Markdown: names of files stand in a code block, where nothing in
    /// them means anything.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# A question of loopexec\n\n{}\n\n- run: `{}`\n- loop: `{}`\n- gate: `{}`\n- subject: `{}`\n",
            self.asks,
            self.run_id,
            self.name,
            self.gate.word(),
            self.subject
        );
        if let Some(patch) = &self.patch {
            text.push_str(&format!(
                "- patch: `patch.diff` in the run's folder, sha256 `{}`, {} {}, +{} -{}\n",
                patch.sha256,
                patch.files,
                if patch.files == 1 { "file" } else { "files" },
                patch.added,
                patch.removed
            ));
        }
        if !self.changes.is_empty() {
            text.push_str("\nFiles that change:\n\n");
            for change in &self.changes {
                text.push_str(&format!("    {:<8} {}\n", change.kind, plain(&change.path)));
            }
            if self.more_changes > 0 {
                text.push_str(&format!("    and {} more\n", self.more_changes));
            }
        }
        if !self.keys.is_empty() {
            text.push_str("\nKeys of the loop file that differ:\n\n");
            for key in &self.keys {
                text.push_str(&format!("    {}\n", plain(key)));
            }
        }
        text.push_str("\nAnswer, then go on:\n\n");
        for command in &self.answer {
            text.push_str(&format!("    {command}\n"));
        }
        text
    }
}

/// Returns the text on one line, without anything that is no character to print.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Writes the question into a run's folder, for people and for programs.
///
/// # Errors
/// As the system reports; the question counts as not delivered then.
pub fn write_question(folder: &Path, question: &QuestionFile) -> io::Result<()> {
    let folder = Folder(folder.to_owned());
    let mut json = serde_json::to_vec_pretty(question)?;
    json.push(b'\n');
    folder.write_whole(QUESTION_MD, question.markdown().as_bytes())?;
    folder.write_whole(QUESTION_JSON, &json)
}

/// Reads the question of a run's folder; none where there is none that can be read.
pub fn read_question(folder: &Path) -> Option<QuestionFile> {
    let bytes = Folder(folder.to_owned()).read_whole(QUESTION_JSON, MOST).ok()?;
    serde_json::from_value(strict::parse(&bytes).ok()?).ok()
}

/// The file of an answer.
#[derive(Debug, Serialize, Deserialize)]
struct AnswerFile {
    version: u64,
    run: String,
    answer: Answer,
}

/// Returns the name of the file that answers a gate.
pub fn answer_name(gate: Gate) -> String {
    format!("ack-{}.json", gate.word())
}

/// Returns the bytes of an answer's file.
///
/// # Errors
/// `usage` for a name or note that is too long or holds control characters.
pub fn answer_bytes(run_id: &str, answer: &Answer) -> Result<Vec<u8>> {
    for (what, text, most) in [("--by", &answer.by, LONGEST.0), ("--note", &answer.note, LONGEST.1)]
    {
        if text.chars().count() > most || text.chars().any(|c| c.is_control() && c != '\n') {
            let what = format!("{what} takes up to {most} characters that can be printed");
            return Err(Error::new(Kind::Usage, what));
        }
    }
    let file = AnswerFile { version: VERSION, run: run_id.to_owned(), answer: answer.clone() };
    let mut bytes = serde_json::to_vec_pretty(&file)
        .map_err(|e| Error::new(Kind::Internal, "an answer has no JSON form").because(e))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Writes an answer into a run's folder; an earlier one that was not taken up is replaced.
///
/// # Errors
/// As [`answer_bytes`]; `workspace_invalid` or `storage_exhausted` when it cannot be written.
pub fn write_answer(folder: &Path, run_id: &str, answer: &Answer) -> Result<()> {
    let bytes = answer_bytes(run_id, answer)?;
    let name = answer_name(answer.gate);
    Folder(folder.to_owned()).write_whole(&name, &bytes).map_err(|e| {
        let path = folder.join(&name);
        Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", path.display()), e)
    })
}

/// Reads the answer that fits what a run waits with.
///
/// # Errors
/// One sentence that says why the answer that is there counts for nothing.
pub fn read_answer(
    folder: &Path,
    run_id: &str,
    waiting: &Waiting,
) -> std::result::Result<Option<Answer>, String> {
    let name = answer_name(waiting.question.gate);
    let bytes = match Folder(folder.to_owned()).read_whole(&name, MOST) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("{name} cannot be read ({e})")),
    };
    let value: Value = strict::parse(&bytes).map_err(|why| format!("{name} is broken: {why}"))?;
    let file: AnswerFile =
        serde_json::from_value(value).map_err(|why| format!("{name} is broken: {why}"))?;
    let answer = file.answer;
    let why = if file.version != VERSION {
        "is of another version"
    } else if file.run != run_id {
        "answers another run"
    } else if answer.gate != waiting.question.gate {
        "answers another gate"
    } else if answer.head != waiting.head {
        "answers another end of the run than the one that asks"
    } else if answer.subject != waiting.question.subject {
        "answers about something else than what is asked"
    } else if answer_bytes(run_id, &answer).is_err() {
        "holds a name or a note that is too long"
    } else {
        return Ok(Some(answer));
    };
    Err(format!("{name} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::gate::Reply;

    fn waiting() -> Waiting {
        let question = Question {
            gate: Gate::Deliver,
            subject: "s".into(),
            iteration: 1,
            carried: "c".into(),
            t0: "t".into(),
            tree: "e".into(),
            large: None,
        };
        Waiting { question, head: "h".into() }
    }

    fn answer() -> Answer {
        Answer {
            gate: Gate::Deliver,
            reply: Reply::Yes,
            by: "a person".into(),
            note: "looks right\nto me".into(),
            time: "2026-01-01T00:00:00.000Z".into(),
            head: "h".into(),
            subject: "s".into(),
        }
    }

    #[test]
    fn only_an_answer_to_this_question_of_this_end_of_this_run_counts() {
        let dir = tempfile::tempdir().unwrap();
        let read = |run: &str| read_answer(dir.path(), run, &waiting());
        assert_eq!(read("R"), Ok(None));
        write_answer(dir.path(), "R", &answer()).unwrap();
        assert_eq!(read("R"), Ok(Some(answer())));
        assert!(read("S").unwrap_err().contains("another run"));
        for (other, why) in [
            (Answer { head: "x".into(), ..answer() }, "another end"),
            (Answer { subject: "x".into(), ..answer() }, "something else"),
        ] {
            write_answer(dir.path(), "R", &other).unwrap();
            assert!(read("R").unwrap_err().contains(why), "{why}");
        }
        let moved = Answer { gate: Gate::ProtectedChange, ..answer() };
        let bytes = answer_bytes("R", &moved).unwrap();
        std::fs::write(dir.path().join(answer_name(Gate::Deliver)), bytes).unwrap();
        assert!(read("R").unwrap_err().contains("another gate"));
        std::fs::write(dir.path().join(answer_name(Gate::Deliver)), "{}").unwrap();
        assert!(read("R").unwrap_err().contains("broken"));
    }

    #[test]
    fn a_link_in_the_place_of_an_answer_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, answer_bytes("R", &answer()).unwrap()).unwrap();
        let place = dir.path().join(answer_name(Gate::Deliver));
        std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
        assert!(read_answer(dir.path(), "R", &waiting()).is_err());
    }

    #[test]
    fn hostile_names_and_notes_are_refused() {
        let long = Answer { by: "x".repeat(201), ..answer() };
        assert_eq!(answer_bytes("R", &long).unwrap_err().kind, Kind::Usage);
        let colour = Answer { note: "\u{1b}[2J".into(), ..answer() };
        assert_eq!(answer_bytes("R", &colour).unwrap_err().kind, Kind::Usage);
    }

    #[test]
    fn a_hostile_file_name_stays_in_its_code_block() {
        let mut question = QuestionFile::of("R", "loop", &waiting().question, None, &Value::Null);
        let path = "a\n# @everyone <b>`::error::x".to_owned();
        question.changes.push(PathChange { path, kind: "added".into() });
        let text = question.markdown();
        let line = text.lines().find(|line| line.contains("@everyone")).unwrap();
        assert!(line.starts_with("    added"), "{line}");
        let dir = tempfile::tempdir().unwrap();
        write_question(dir.path(), &question).unwrap();
        assert_eq!(read_question(dir.path()), Some(question.clone()));
        std::fs::remove_file(dir.path().join(QUESTION_JSON)).unwrap();
        std::fs::create_dir(dir.path().join(QUESTION_JSON)).unwrap();
        assert!(write_question(dir.path(), &question).is_err());
    }
}
