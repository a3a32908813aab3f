//! Drives `writer` and `recover` over the simulated disk: full, short, failing, without power.

use super::blobs::BlobStore;
use super::disk::Durability;
use super::format::Head;
use super::reader::{ChainFacts, Events, RECEIPT, check_chain};
use super::recover::{RECOVERED, Recovered, recover_on};
use super::sim::{Ahead, SimDisk};
use super::writer::{Options, Writer};
use crate::error::{Kind, Result};
use serde_json::{Map, Value, json};

fn body(n: usize) -> Map<String, Value> {
    let text = "x".repeat(37 * n % 300);
    json!({"n": n, "text": text}).as_object().cloned().unwrap()
}

fn blobs() -> BlobStore {
    BlobStore::new("never-written", Durability::Event)
}

fn create(disk: &SimDisk) -> Result<Writer> {
    Writer::create_on(Box::new(disk.clone()), blobs(), "R", Options::default())
}

fn recover(disk: &SimDisk, expected: Option<&Head>) -> Result<Recovered> {
    recover_on(Box::new(disk.clone()), blobs(), "R", expected, Options::default())
}

fn chain(bytes: &[u8]) -> (ChainFacts, Vec<String>) {
    let mut kinds = Vec::new();
    let facts = check_chain(&mut Events::new(bytes), |event| kinds.push(event.kind.clone()));
    (facts.unwrap(), kinds)
}

/// Writes events and returns the receipt and the heads with the length after each.
fn written(events: usize) -> (Vec<u8>, Vec<(Head, usize)>) {
    let disk = SimDisk::new(Ahead::Supported);
    let mut writer = create(&disk).unwrap();
    let heads = (0..events)
        .map(|n| (writer.append("observed", body(n)).unwrap(), disk.current(RECEIPT).len()))
        .collect();
    (disk.current(RECEIPT), heads)
}

#[test]
fn a_disk_full_at_any_byte_leaves_whole_events_and_takes_the_final_one() {
    for (ahead, from, to) in
        [(Ahead::Supported, 65_536, 140_000), (Ahead::Unsupported, 65_536, 69_000)]
    {
        for capacity in (from..to).step_by(if ahead == Ahead::Supported { 4001 } else { 29 }) {
            let disk = SimDisk::new(ahead);
            disk.state().capacity = capacity;
            let mut writer = create(&disk).unwrap();
            let mut acknowledged = 0;
            let error = loop {
                let before = disk.current(RECEIPT);
                match writer.append("observed", body(acknowledged)) {
                    Ok(_) => acknowledged += 1,
                    Err(error) => {
                        assert_eq!(disk.current(RECEIPT), before);
                        break error;
                    }
                }
            };
            assert_eq!((error.kind, error.detail), (Kind::StorageExhausted, Some("disk_full")));
            let large = json!({"halt_reason": "storage_exhausted", "why": "y".repeat(99_000)});
            writer.append_final(large.as_object().cloned().unwrap()).unwrap();
            let (facts, _) = chain(&disk.state().files[RECEIPT].synced.clone());
            assert!(facts.ended);
            assert_eq!(facts.events, acknowledged as u64 + 1);
            assert!(writer.append("observed", body(0)).is_err());
        }
    }
}

#[test]
fn a_run_without_room_for_its_final_event_does_not_start() {
    for ahead in [Ahead::Supported, Ahead::Unsupported] {
        let disk = SimDisk::new(ahead);
        disk.state().capacity = 60_000;
        assert_eq!(create(&disk).unwrap_err().kind, Kind::StorageExhausted);
    }
}

#[test]
fn short_writes_are_completed() {
    for largest in [1, 3, 100] {
        let disk = SimDisk::new(Ahead::Supported);
        disk.state().largest_write = largest;
        let mut writer = create(&disk).unwrap();
        for n in 0..5 {
            writer.append("observed", body(n)).unwrap();
        }
        assert_eq!(chain(&disk.current(RECEIPT)).0.events, 5);
    }
}

#[test]
fn after_a_failed_sync_nothing_succeeds_any_more() {
    for failing in 0..5 {
        let disk = SimDisk::new(Ahead::Supported);
        let mut writer = create(&disk).unwrap();
        disk.state().failing_sync = Some(failing);
        let heads: Vec<_> = (0..5).map(|n| writer.append("observed", body(n))).collect();
        let good = heads.iter().take_while(|head| head.is_ok()).count();
        assert_eq!(good, failing as usize);
        assert!(heads[good..].iter().all(|head| head.is_err()));
        assert_eq!(writer.head().map_or(0, |head| head.seq + 1), u64::from(failing));
        assert!(writer.sync().is_err());
        assert!(writer.append_final(Map::new()).is_err());
        let durable = disk.state().files[RECEIPT].synced.clone();
        let held = Events::new(&*durable).filter(|event| event.is_ok()).count();
        assert_eq!(held, good);
    }
}

#[test]
fn a_receipt_that_was_removed_under_the_run_takes_no_event() {
    let disk = SimDisk::new(Ahead::Supported);
    let mut writer = create(&disk).unwrap();
    writer.append("observed", body(1)).unwrap();
    disk.state().files.clear();
    assert_eq!(writer.append("observed", body(2)).unwrap_err().kind, Kind::WorkspaceInvalid);
    assert!(writer.append_final(Map::new()).is_err());
}

#[test]
fn with_durability_iteration_only_what_was_synced_is_promised() {
    let disk = SimDisk::new(Ahead::Supported);
    let options = Options { durability: Durability::Iteration, ..Options::default() };
    let mut writer = Writer::create_on(Box::new(disk.clone()), blobs(), "R", options).unwrap();
    writer.append("observed", body(1)).unwrap();
    assert!(disk.state().files[RECEIPT].synced.is_empty());
    writer.sync().unwrap();
    assert_eq!(chain(&disk.state().files[RECEIPT].synced.clone()).0.events, 1);
    writer.append_final(Map::new()).unwrap();
    assert!(chain(&disk.state().files[RECEIPT].synced.clone()).0.ended);
}

#[test]
fn a_power_cut_at_any_byte_keeps_every_acknowledged_event() {
    let (bytes, heads) = written(6);
    for cut in 0..=bytes.len() {
        let whole = heads.iter().take_while(|(_, len)| *len <= cut).count();
        let good = whole.checked_sub(1).map_or(0, |last| heads[last].1);
        let mut contents = vec![bytes[..cut].to_vec()];
        if cut > good {
            // A file system may keep the length and lose the content, or keep what was there.
            let filled = |byte| [&bytes[..good], &vec![byte; cut - good]].concat();
            contents.extend([filled(0), filled(b'z')]);
        }
        for content in contents {
            let disk = SimDisk::holding(RECEIPT, &content);
            let expected = whole.checked_sub(1).map(|last| &heads[last].0);
            let mut recovered = recover(&disk, expected).unwrap();
            assert_eq!(recovered.facts.as_ref().map_or(0, |f| f.events), whole as u64);
            assert_eq!(recovered.torn.len(), usize::from(cut > good), "{cut}");
            if let Some(torn) = recovered.torn.first() {
                assert_eq!(disk.current(&torn.file), content[good..]);
                assert_eq!(torn.bytes, (cut - good) as u64);
            }
            recovered.writer.append_final(Map::new()).unwrap();
            let (facts, kinds) = chain(&disk.current(RECEIPT));
            assert!(facts.ended);
            assert_eq!(kinds.iter().any(|kind| kind == RECOVERED), cut > good);
        }
    }
}

#[test]
fn a_power_cut_inside_the_repair_is_repaired_and_every_tail_recorded() {
    let (bytes, heads) = written(3);
    for cut in [1, heads[0].1 + 5, bytes.len() - 1] {
        let mut survived = 0;
        for operations in 0.. {
            let first = SimDisk::holding(RECEIPT, &bytes[..cut]);
            first.state().operations_left = operations;
            let done = recover(&first, None).is_ok();
            let second = first.after_power_cut();
            let mut recovered = recover(&second, None).unwrap();
            recovered.writer.append_final(Map::new()).unwrap();
            let (_, kinds) = chain(&second.current(RECEIPT));
            assert_eq!(kinds.iter().filter(|kind| *kind == RECOVERED).count(), 1);
            assert_eq!(second.current("receipt.torn-1").len() + good_before(&heads, cut), cut);
            survived += 1;
            if done {
                break;
            }
        }
        assert!(survived > 4);
    }
}

fn good_before(heads: &[(Head, usize)], cut: usize) -> usize {
    heads.iter().map(|(_, len)| *len).take_while(|len| *len <= cut).last().unwrap_or(0)
}

#[test]
fn damage_before_the_last_line_is_refused_and_left_as_it_is() {
    let (bytes, heads) = written(4);
    for place in 0..heads[2].1 {
        let mut content = bytes.clone();
        content[place] ^= 1;
        let disk = SimDisk::holding(RECEIPT, &content);
        assert_eq!(recover(&disk, None).unwrap_err().kind, Kind::ObjectiveUnverified, "{place}");
        assert_eq!(disk.current(RECEIPT), content);
        assert_eq!(disk.state().files.len(), 1);
    }
}

#[test]
fn a_last_line_that_is_whole_but_damaged_is_torn_unless_the_state_knows_it() {
    let (mut bytes, heads) = written(4);
    bytes[heads[2].1 + 20] ^= 1;
    let disk = SimDisk::holding(RECEIPT, &bytes);
    let error = recover(&disk, Some(&heads[3].0)).unwrap_err();
    assert_eq!(error.kind, Kind::ObjectiveUnverified);
    assert_eq!(disk.current(RECEIPT), bytes);
    let recovered = recover(&disk, Some(&heads[2].0)).unwrap();
    assert_eq!(recovered.facts.unwrap().events, 3);
    assert_eq!(recovered.torn.len(), 1);
}

#[test]
fn another_runs_receipt_is_not_taken_up() {
    let (bytes, _) = written(2);
    let disk = SimDisk::holding(RECEIPT, &bytes);
    let other = recover_on(Box::new(disk), blobs(), "S", None, Options::default());
    assert_eq!(other.unwrap_err().kind, Kind::ObjectiveUnverified);
}
