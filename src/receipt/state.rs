//! `.loop_state.json` at the root of the caller's tree: where a run stands, for people and for
//! `--resume`.
//!
//! The receipt is the evidence, this file a summary: where they differ, the receipt is right.
//! When it is written is left to the engine.

use super::disk::{self, Durability};
use super::format::Head;
use super::redact::Redactor;
use super::strict;
use crate::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The version this loopexec writes and reads.
pub const VERSION: u64 = 1;

/// The name of the file.
pub const FILE: &str = ".loop_state.json";

/// The largest state file that is read, in bytes.
const MAX_STATE: u64 = 16 * 1024 * 1024;

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Preparing the workspace.
    Starting,
    /// Running `setup`.
    Setup,
    /// Measuring t0.
    Baseline,
    /// Running exec.
    Exec,
    /// Writing a snapshot.
    Snapshot,
    /// Running the check.
    Check,
    /// Confirming a green.
    Confirmation,
    /// Delivering the result.
    Delivery,
    /// Halted; the receipt has its final event.
    Ended,
}

/// What has been spent since the first exec, over all resumptions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// US dollars as a decimal string.
    pub usd: String,
    /// Tokens in both directions.
    pub tokens: u64,
    /// Calls to a model.
    pub calls: u64,
    /// Wall clock of the loop in milliseconds.
    pub wall_ms: u64,
    /// Whether the figures are all there is; unknown is never zero.
    pub known: bool,
}

impl Default for Spend {
    fn default() -> Self {
        Self { usd: "0".into(), tokens: 0, calls: 0, wall_ms: 0, known: true }
    }
}

/// Where a run stands after its last iteration.
///
/// Keys of the same version that this loopexec does not know are skipped on reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopState {
    /// The version of this file, [`VERSION`].
    pub version: u64,
    /// The run id.
    pub run_id: String,
    /// What the run is doing.
    pub phase: Phase,
    /// The last iteration that ended, 0 before the first.
    pub iteration: u64,
    /// The id of the last accepted state whose check passed.
    #[serde(default)]
    pub last_green_commit: Option<String>,
    /// The tests that fail, or the check itself.
    #[serde(default)]
    pub open_failures: Vec<String>,
    /// What has been spent so far.
    #[serde(default)]
    pub spend: Spend,
    /// The baseline, as its event records it.
    #[serde(default)]
    pub baseline: Option<Value>,
    /// What showed that the check is deterministic.
    #[serde(default)]
    pub determinism: Option<Value>,
    /// The test-determining surface at t0.
    #[serde(default)]
    pub integrity: Option<Value>,
    /// The model's pin.
    #[serde(default)]
    pub model: Option<Value>,
    /// The question that waits for a person.
    #[serde(default)]
    pub escalation: Option<Value>,
    /// The last event of the receipt when this was written.
    #[serde(default)]
    pub receipt_head: Option<Head>,
    /// The digest of the loop that runs.
    pub loop_digest: String,
    /// The folder of the run, from the root of the caller's tree where it is inside.
    pub run_dir: PathBuf,
    /// Why the run halted, once it has.
    #[serde(default)]
    pub halt_reason: Option<String>,
    /// How many tests fail; `open_failures` names the first of them.
    #[serde(default)]
    pub failing: Option<u64>,
    /// The smallest number of tests that were left to pass so far.
    #[serde(default)]
    pub best_failing: Option<u64>,
    /// What the last decision was: `continue`, `revert` or `halt`.
    #[serde(default)]
    pub last_decision: Option<String>,
}

impl LoopState {
    /// Makes the state of a run that starts.
    pub fn new(run_id: &str, loop_digest: &str, run_dir: impl Into<PathBuf>) -> Self {
        Self {
            version: VERSION,
            run_id: run_id.to_owned(),
            phase: Phase::Starting,
            iteration: 0,
            last_green_commit: None,
            open_failures: Vec::new(),
            spend: Spend::default(),
            baseline: None,
            determinism: None,
            integrity: None,
            model: None,
            escalation: None,
            receipt_head: None,
            loop_digest: loop_digest.to_owned(),
            run_dir: run_dir.into(),
            halt_reason: None,
            failing: None,
            best_failing: None,
            last_decision: None,
        }
    }
}

/// Writes the state file whole and durably, or leaves the old one.
///
/// The temporary file stands in `.loopexec`, where a crash leaves nothing that git shows, and
/// beside the state file only where that is no folder on the same disk.
///
/// # Errors
/// `workspace_invalid` when something other than a file stands in its place, `storage_exhausted`
/// when the disk is full, `internal_error` when a part is no strict JSON; the old state stands
/// then.
pub fn write_state(tree: &Path, state: &LoopState, redactor: Option<&Redactor>) -> Result<()> {
    let path = tree.join(FILE);
    let failed = |e| {
        let what = format!("cannot write the state {}", path.display());
        Error::io(Kind::WorkspaceInvalid, what, e).hint("the state of before still stands")
    };
    require_file_or_nothing(&path)?;
    let mut value = serde_json::to_value(state).map_err(|e| failed(e.into()))?;
    if let Some(redactor) = redactor {
        redactor.redact_value(&mut value);
    }
    strict::check(&value).map_err(|why| {
        Error::new(Kind::Internal, format!("the state could not be read back: {why}"))
    })?;
    let mut text = serde_json::to_string_pretty(&value).map_err(|e| failed(e.into()))?;
    text.push('\n');
    let temporary = temporary_folder(tree).join(format!("{FILE}.{}.tmp", state.run_id));
    // The folder is not synced: after a power cut it is the old state or this one, each whole.
    disk::replace_whole(&temporary, &path, text.as_bytes(), Durability::Event).map_err(failed)
}

/// Reads the state file; none when there is none.
///
/// # Errors
/// `workspace_invalid` when it is a link, no file, of another version, or not what it should be.
pub fn read_state(tree: &Path) -> Result<Option<LoopState>> {
    let path = tree.join(FILE);
    let refuse = |why: String| {
        Error::new(Kind::WorkspaceInvalid, format!("the state {} {why}", path.display()))
            .hint("remove it to start anew; the receipt keeps the evidence")
    };
    require_file_or_nothing(&path)?;
    let text = match disk::read_whole(&path, MAX_STATE) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refuse(format!("cannot be read: {e}"))),
    };
    let value = strict::parse(&text).map_err(|why| refuse(format!("is broken: {why}")))?;
    match value.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => return Err(refuse(format!("has version {other}, not {VERSION}"))),
        None => return Err(refuse("has no version".into())),
    }
    let state: LoopState =
        serde_json::from_value(value).map_err(|why| refuse(format!("is broken: {why}")))?;
    if !super::format::is_run_id(&state.run_id) {
        return Err(refuse("names no run".into()));
    }
    Ok(Some(state))
}

fn require_file_or_nothing(path: &Path) -> Result<()> {
    let what = match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(there) if there.is_symlink() => "is a symbolic link".to_owned(),
        Ok(_) => "is no regular file".to_owned(),
        Err(e) => format!("cannot be looked at: {e}"),
    };
    Err(Error::new(Kind::WorkspaceInvalid, format!("the state {} {what}", path.display()))
        .hint("move it away; loopexec writes through no link and replaces nothing else"))
}

/// Returns a folder from which a file can be renamed into the tree's root.
fn temporary_folder(tree: &Path) -> PathBuf {
    let own = tree.join(super::rundir::DEFAULT_DIR);
    let device =
        |path: &Path| std::fs::symlink_metadata(path).ok().filter(|m| m.is_dir()).map(|m| m.dev());
    let root = std::fs::metadata(tree).ok().map(|m| m.dev());
    if device(&own).is_some_and(|device| Some(device) == root) { own } else { tree.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state() -> LoopState {
        let mut state = LoopState::new("R1", "sha256:00", ".loopexec/runs/R1");
        state.open_failures = vec!["tests/a.py::test_é".into()];
        state.receipt_head = Some(Head { seq: 3, sha256: "ab".into() });
        state.baseline = Some(json!({"failing": 1}));
        state
    }

    #[test]
    fn what_is_written_comes_back_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_state(dir.path()).unwrap(), None);
        write_state(dir.path(), &state(), None).unwrap();
        let mut later = state();
        later.iteration = 2;
        write_state(dir.path(), &later, None).unwrap();
        assert_eq!(read_state(dir.path()).unwrap(), Some(later));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_or_folder_in_its_place_is_neither_followed_nor_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        let path = dir.path().join(FILE);
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let error = write_state(dir.path(), &state(), None).unwrap_err();
        assert_eq!(error.kind, Kind::WorkspaceInvalid);
        assert!(read_state(dir.path()).is_err());
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(write_state(dir.path(), &state(), None).is_err());
        assert!(read_state(dir.path()).is_err());
    }

    #[test]
    fn a_temporary_file_left_by_a_crash_is_replaced_and_a_planted_link_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".loopexec")).unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        let temporary = dir.path().join(".loopexec").join(format!("{FILE}.{}.tmp", state().run_id));
        std::os::unix::fs::symlink(&victim, &temporary).unwrap();
        write_state(dir.path(), &state(), None).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
        assert!(std::fs::symlink_metadata(&temporary).is_err());
    }

    #[test]
    fn a_failing_write_leaves_the_old_state() {
        let dir = tempfile::tempdir().unwrap();
        write_state(dir.path(), &state(), None).unwrap();
        // A folder with content at the temporary name fails the write before the rename.
        let temporary = format!("{FILE}.{}.tmp/x", state().run_id);
        std::fs::create_dir_all(dir.path().join(temporary)).unwrap();
        let mut later = state();
        later.iteration = 9;
        assert!(write_state(dir.path(), &later, None).is_err());
        assert_eq!(read_state(dir.path()).unwrap(), Some(state()));
    }

    #[test]
    fn unknown_keys_are_skipped_and_unknown_versions_and_doubled_keys_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let mut value = serde_json::to_value(state()).unwrap();
        value["later"] = json!(1);
        std::fs::write(&path, value.to_string()).unwrap();
        assert_eq!(read_state(dir.path()).unwrap(), Some(state()));
        value["version"] = json!(2);
        std::fs::write(&path, value.to_string()).unwrap();
        assert!(read_state(dir.path()).unwrap_err().what.contains("version 2"));
        for text in ["", "{}", "[]", "{\"version\":1}", "{\"version\":1,\"version\":1}", "\u{0}"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_state(dir.path()).unwrap_err().kind, Kind::WorkspaceInvalid, "{text}");
        }
    }
}
