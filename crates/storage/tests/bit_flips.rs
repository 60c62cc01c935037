//! Every single flipped bit in a log and in a snapshot: the state is the same, or recovery refuses and names
//! the place, or the last record is dropped and reported. Nothing else, ever.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::{Path, PathBuf};

use support::chain::{Chain, KnownState, ModelServer, Step, directories};
use zebu_storage::crash_disk::CrashDisk;
use zebu_storage::{Compression, RecoveredState, RecoveryError, RecoveryOptions, recover};

/// A small life with a padded log behind a snapshot, about 4 KiB each with the pieces that matter.
fn base() -> (Vec<(PathBuf, Vec<u8>)>, KnownState) {
    let disk = CrashDisk::new();
    let mut ledger = KnownState::default();
    let mut life = ModelServer::start(&disk).unwrap();
    for step in [
        Step::Append(vec![3, 900, 40], b'a'),
        Step::Roll,
        Step::Snapshot(Compression::Plain),
        Step::Append(vec![7, 600, 0, 90], 0),
        Step::Append(vec![200, 13, 1, 700, 30], b'b'),
        Step::Sync,
        Step::Roll,
    ] {
        life.step(&step, &mut ledger).unwrap();
    }
    let files: Vec<_> = disk.image().into_iter().filter(|(path, _)| !path.ends_with("zebu.lock")).collect();
    (files, ledger)
}

fn recover_files<'a>(
    files: impl Iterator<Item = (&'a PathBuf, &'a [u8])>,
) -> (Result<RecoveredState, RecoveryError>, Chain, CrashDisk) {
    let disk = CrashDisk::new();
    for directory in [directories().snapshots(), directories().logs()] {
        disk.put(&directory.join("unrelated"), b"");
    }
    for (path, bytes) in files {
        disk.put(path, bytes);
    }
    let mut chain = Chain::default();
    let result = recover(&disk, &directories(), RecoveryOptions::default(), &mut chain, &mut |_| {});
    (result, chain, disk)
}

/// How often each outcome was met.
#[derive(Debug, Default)]
struct Outcomes {
    same: usize,
    refused: usize,
    dropped: usize,
}

fn flip_all(files: &[(PathBuf, Vec<u8>)], ledger: &KnownState, path: &Path) -> Outcomes {
    let last = *ledger.chain.last_key_value().unwrap().0;
    let mut outcomes = Outcomes::default();
    let mut flipped = files.iter().find(|(it, _)| it == path).unwrap().1.clone();
    for bit in 0..flipped.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        let image = files.iter().map(|(it, bytes)| (it, if it == path { &flipped[..] } else { bytes }));
        let (result, chain, disk) = recover_files(image);
        let place = format!("{} bit {bit}", path.display());
        match result {
            Err(error) => {
                let text = error.to_string();
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(text.contains(name) && text.contains("offset"), "{place}: {text}");
                let mut before = disk.image();
                before.retain(|path, _| !path.ends_with("unrelated"));
                assert_eq!(before.get(path), Some(&flipped), "{place}");
                assert_eq!(before.len(), files.len(), "{place}");
                outcomes.refused += 1;
            }
            Ok(recovered) => {
                assert_eq!(Some(&chain.hash), ledger.chain.get(&chain.last), "{place}");
                assert_eq!(chain.last, recovered.last_zxid);
                if chain.last == last {
                    outcomes.same += 1;
                } else {
                    assert_eq!(chain.last.next(), Some(last), "{place}");
                    let tail = recovered.dropped.last().unwrap();
                    assert_eq!((tail.path.as_path(), tail.kept), (path, chain.last), "{place}");
                    outcomes.dropped += 1;
                }
            }
        }
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
    println!("{}: {outcomes:?}", path.display());
    outcomes
}

fn log_path(files: &[(PathBuf, Vec<u8>)]) -> PathBuf {
    let mut logs =
        files.iter().filter(|(path, _)| path.file_name().unwrap().to_str().unwrap().starts_with("log."));
    logs.next_back().unwrap().0.clone()
}

#[test]
fn in_a_log_without_a_note() {
    let (mut files, ledger) = base();
    files.retain(|(path, _)| !path.ends_with("zebu.durable"));
    let outcomes = flip_all(&files, &ledger, &log_path(&files));
    // Only the last of nine records can be dropped.
    assert!(outcomes.dropped > 0 && outcomes.dropped < 8 * 200, "{outcomes:?}");
    assert!(outcomes.refused > 8 * 2_000, "{outcomes:?}");
}

#[test]
fn in_a_log_whose_end_was_noted_as_durable() {
    let (files, ledger) = base();
    let outcomes = flip_all(&files, &ledger, &log_path(&files));
    assert_eq!(outcomes.dropped, 0, "what was durable is never dropped");
    assert!(outcomes.same > 8 * 1_000, "{outcomes:?}");
}

#[test]
fn in_the_newest_snapshot() {
    let (files, ledger) = base();
    let snapshot = directories().snapshots().join("snapshot.3");
    // With the older snapshot and all logs nothing is lost.
    let outcomes = flip_all(&files, &ledger, &snapshot);
    assert_eq!((outcomes.refused, outcomes.dropped), (0, 0));
    // Alone, it is intact or refused.
    let alone: Vec<_> = files
        .into_iter()
        .filter(|(path, _)| !path.ends_with("snapshot.0") && !path.ends_with("log.1"))
        .collect();
    let outcomes = flip_all(&alone, &ledger, &snapshot);
    assert_eq!((outcomes.same, outcomes.dropped), (0, 0));
}
