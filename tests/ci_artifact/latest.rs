//! `resume: latest`: the newest bundle of this branch, and of no other.

use crate::project::{bundle, project, text};
use loopexec::ci::artifact::{Latest, Listed, Origin, Shelf, Wanted, fetch_latest};
use loopexec::ci::http::Failed;
use loopexec::domain::hex::sha256;
use loopexec::domain::reason::HaltReason;
use loopexec::error::Kind;
use loopexec::receipt::bundle::Contents;
use loopexec::receipt::rundir::Home;
use std::cell::RefCell;
use std::path::Path;

/// Artifacts in memory.
#[derive(Default)]
struct Memory {
    artifacts: Vec<(Listed, Vec<u8>)>,
    downloaded: RefCell<Vec<u64>>,
}

impl Memory {
    fn put(&mut self, id: u64, name: &str, repository: u64, bytes: &[u8]) {
        let listed = Listed {
            id,
            name: name.to_owned(),
            size: bytes.len() as u64,
            created_at: format!("2026-01-01T00:00:{:02}Z", id % 60),
            digest: Some(format!("sha256:{}", sha256(bytes))),
            head_branch: Some("topic".to_owned()),
            head_repository: Some(repository),
        };
        self.artifacts.push((listed, bytes.to_vec()));
    }
}

impl Shelf for Memory {
    async fn artifacts_named(&self, name: &str) -> Result<Vec<Listed>, Failed> {
        let named = self.artifacts.iter().filter(|(listed, _)| listed.name == name);
        Ok(named.map(|(listed, _)| listed.clone()).collect())
    }

    async fn download_artifact(&self, id: u64, to: &Path) -> Result<(), Failed> {
        self.downloaded.borrow_mut().push(id);
        let (_, bytes) = self.artifacts.iter().find(|(listed, _)| listed.id == id).unwrap();
        std::fs::write(to, bytes).map_err(|e| Failed::new(e.to_string()))
    }
}

fn wanted() -> Wanted {
    Wanted {
        name: "loopexec-loop-test".to_owned(),
        attempt: 1,
        origin: Origin { branch: "topic".to_owned(), repository: 7 },
    }
}

/// Bundles of a run that was interrupted and of one that converged.
fn bundles() -> (Vec<u8>, Vec<u8>) {
    let bench = project("exec: 'echo 1 > a'\n");
    assert_eq!(bench.run_loop(&["--run-id", "done"]).code, Some(10));
    let (zip, _) = bundle(&bench, Contents::Evidence);
    let ended = std::fs::read(&zip).unwrap();
    // Killed behind its baseline: what stands before is a receipt of a run that goes on.
    let path = bench.path(".loopexec/runs/done");
    let receipt = std::fs::read_to_string(path.join("receipt.jsonl")).unwrap();
    let cut = receipt.find(r#","type":"observed""#).unwrap();
    let cut = receipt[..cut].rfind('\n').unwrap() + 1;
    std::fs::write(path.join("receipt.jsonl"), &receipt[..cut]).unwrap();
    std::fs::remove_file(path.join("patch.diff")).unwrap();
    std::fs::remove_file(bench.path(".loop_state.json")).unwrap();
    let (zip, _) = bundle(&bench, Contents::Evidence);
    (ended, std::fs::read(&zip).unwrap())
}

#[tokio::test]
async fn the_newest_of_this_branch_is_taken_in_and_a_forks_never() {
    let (ended, open) = bundles();
    let tree = tempfile::tempdir().unwrap();
    let home = Home::create(tree.path(), Path::new(".loopexec")).unwrap();
    let mut shelf = Memory::default();
    let found = fetch_latest(&shelf, &wanted(), &home).await.unwrap();
    assert!(matches!(found, Latest::None), "{found:?}");
    shelf.put(1, "loopexec-loop-test-1", 7, b"an old one, never looked at");
    shelf.put(2, "loopexec-loop-test-2", 7, &open);
    shelf.put(3, "loopexec-loop-test-1", 8, b"a fork's");
    shelf.put(4, "loopexec-other-test-1", 7, b"another loop's");
    let Latest::Resumable { run, .. } = fetch_latest(&shelf, &wanted(), &home).await.unwrap()
    else {
        panic!("not resumable")
    };
    assert_eq!(run.id(), "done");
    assert!(run.path().starts_with(tree.path()));
    assert_eq!(*shelf.downloaded.borrow(), [2]);
    // The same again is the same run.
    assert!(matches!(
        fetch_latest(&shelf, &wanted(), &home).await.unwrap(),
        Latest::Resumable { .. }
    ));
    let fresh = tempfile::tempdir().unwrap();
    let home = Home::create(fresh.path(), Path::new(".loopexec")).unwrap();
    shelf.put(5, "loopexec-loop-test-1-2", 7, &ended);
    match fetch_latest(&shelf, &wanted(), &home).await.unwrap() {
        Latest::Ended { run_id, reason } => {
            assert_eq!((&*run_id, reason), ("done", HaltReason::SuccessConditionMet));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_changed_on_its_way_is_refused_and_nothing_older_taken() {
    let (ended, open) = bundles();
    let tree = tempfile::tempdir().unwrap();
    let home = Home::create(tree.path(), Path::new(".loopexec")).unwrap();
    let mut shelf = Memory::default();
    shelf.put(1, "loopexec-loop-test-1", 7, &ended);
    shelf.put(2, "loopexec-loop-test-1", 7, &open);
    shelf.artifacts[1].1[100] ^= 1;
    let error = fetch_latest(&shelf, &wanted(), &home).await.unwrap_err();
    assert_eq!(error.kind, Kind::ObjectiveUnverified, "{error}");
    shelf.put(3, "loopexec-loop-test-1", 7, b"no zip");
    let error = fetch_latest(&shelf, &wanted(), &home).await.unwrap_err();
    assert!(error.to_string().contains("no bundle of a run"), "{error}");
    assert_eq!(std::fs::read_dir(tree.path().join(".loopexec/runs")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_bundle_that_was_fetched_is_gone_on_with() {
    let (_, open) = bundles();
    let elsewhere = project("exec: 'echo 1 > a'\n");
    let home = Home::create(&elsewhere.root(), Path::new(".loopexec")).unwrap();
    let mut shelf = Memory::default();
    shelf.put(2, "loopexec-loop-test-1", 7, &open);
    let Latest::Resumable { run, .. } = fetch_latest(&shelf, &wanted(), &home).await.unwrap()
    else {
        panic!("not resumable")
    };
    let ran = elsewhere.run_loop(&["--resume", run.id()]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(ran.json()["iterations"], 1);
    let verified = elsewhere.run(&["verify", "--run-id", text(run.path())]);
    assert_eq!(verified.code, Some(0), "{verified:#?}");
}
