//! Buckets as targets: conditions, lost connections, slow and hostile stores, and crashes between any two
//! writes.

#![cfg(feature = "s3")]
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod s3_store;

use std::collections::BTreeSet;
use std::io::Read;
use std::time::{Duration, Instant};

use s3_store::{S3Store, StoreConditions};
use zebu_backup::core::archive::{Archive, ArchiveError, Continuity, NewBase, all_segments};
use zebu_backup::core::manifest::Manifest;
use zebu_backup::core::retention::{forget, sweep};
use zebu_backup::core::seal::Sealing;
use zebu_backup::core::segment::ClosedSegment;
use zebu_backup::core::target::{Bytes, Target, TargetError};
use zebu_backup::s3::{BucketUse, Conditions, PlainHttp, S3Credentials, S3Settings, S3Target};
use zebu_proto::Zxid;
use zebu_security::secret::SecretText;
use zebu_storage::Compression;

/// The length of a part, short enough for quick tests.
const PART: u64 = 64 << 10;

fn settings(store: &S3Store) -> S3Settings {
    S3Settings {
        endpoint: Some(store.endpoint()),
        region: Some("us-east-1".to_owned()),
        credentials: Some(S3Credentials { key: "key".to_owned(), secret: SecretText::new("secret") }),
        http: PlainHttp::Allowed,
        patience: Duration::from_secs(20),
        part_bytes: PART,
        ..S3Settings::new("b", "zk/one")
    }
}

fn open(store: &S3Store) -> S3Target {
    S3Target::open(&settings(store), BucketUse::Write).unwrap()
}

fn archive(store: &S3Store, run: &str) -> Archive<S3Target> {
    Archive::open(open(store), run).unwrap()
}

fn base(zxid: i64, continuity: Continuity) -> NewBase {
    let compression = Compression::Plain;
    NewBase {
        zxid: Zxid(zxid),
        time_ms: zxid,
        local_time: false,
        nodes: 1,
        digest: 0,
        compression,
        continuity,
    }
}

fn segment(after: i64, last: i64) -> ClosedSegment {
    ClosedSegment {
        after: Zxid(after),
        first: Zxid(after + 1),
        last: Zxid(last),
        first_ms: after,
        last_ms: last,
        transactions: 1,
        since_ms: 0,
        bytes: format!("log behind {after}").into_bytes(),
        sealing: Sealing::Plain,
    }
}

fn read(target: &S3Target, name: &str) -> Result<Vec<u8>, TargetError> {
    let mut bytes = Vec::new();
    let mut reader = target.open(name)?;
    reader.read_to_end(&mut bytes).map_err(|error| TargetError::io("read", error))?;
    Ok(bytes)
}

/// Checks that every object of a manifest is there with its length.
fn check_complete(store: &S3Store) {
    let Some(bytes) = store.object("b/zk/one/manifest.json") else { return };
    let manifest = Manifest::decode(&bytes).unwrap();
    let target = S3Target::open(&settings(store), BucketUse::Read).unwrap();
    let segments = all_segments(&target, &manifest).unwrap();
    let named = manifest.bases.iter().map(|base| (&base.name, base.bytes));
    for (name, bytes) in named.chain(segments.iter().map(|segment| (&segment.name, segment.bytes))) {
        let object = store.object(&format!("b/zk/one/{name}")).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(object.len() as u64, bytes, "{name}");
    }
}

#[test]
fn objects_of_all_lengths_and_pages_of_names() {
    let store = S3Store::start();
    let target = open(&store);
    assert_eq!(target.conditions(), Conditions::Kept);
    // Several parts, and a piece for the reader that is not full.
    let long: Vec<u8> = (0..9 << 20).map(|at: u32| (at >> 8) as u8 ^ at as u8).collect();
    for (name, bytes) in [("log/0", &b""[..]), ("log/1", b"one"), ("base/2.r/snapshot.2", &long)] {
        target.put(name, &Bytes::new(bytes)).unwrap();
        assert!(read(&target, name).unwrap() == bytes, "{name} differs");
    }
    for number in 3..9 {
        target.put(&format!("log/{number}"), &Bytes::new(b"x")).unwrap();
    }
    let names: BTreeSet<String> = target.list().unwrap().into_iter().collect();
    let expected = ["0", "1", "3", "4", "5", "6", "7", "8"].map(|number| format!("log/{number}"));
    let others = ["base/2.r/snapshot.2", "zebu-backup.probe"].map(str::to_owned);
    assert_eq!(names, expected.into_iter().chain(others).collect());
    target.delete("log/1").unwrap();
    target.delete("log/1").unwrap();
    assert!(matches!(read(&target, "log/1"), Err(TargetError::Missing { .. })));
    assert!(matches!(target.get("log/3", 0), Err(TargetError::Damaged(_))));
    assert_eq!(store.open_uploads(), 0);
    assert!(store.requests().contains("PUT partNumber"), "{:?}", store.requests());
    // An object of another prefix is not part of it.
    store.insert("b/zk/one-more/log/1", Vec::new());
    assert!(!target.list().unwrap().iter().any(|name| name.contains("more")));
}

#[test]
fn the_second_writer_stops() {
    for conditions in [StoreConditions::Kept, StoreConditions::Refused, StoreConditions::Ignored] {
        let store = S3Store::start();
        store.set(|faults| faults.conditions = conditions);
        let mut first = archive(&store, "a");
        let mut second = archive(&store, "b");
        let is_kept = first.target().conditions() == Conditions::Kept;
        assert_eq!(is_kept, conditions == StoreConditions::Kept, "{conditions:?}");
        first.add_base(base(5, Continuity::NewChain), 1, &Bytes::new(b"five")).unwrap();
        let refused = second.add_base(base(6, Continuity::NewChain), 1, &Bytes::new(b"six")).unwrap_err();
        assert!(matches!(&refused, ArchiveError::Superseded { run } if run == "a"), "{refused}");
        first.add_segments(&[segment(5, 9)], 1).unwrap();
        check_complete(&store);
    }
}

#[test]
fn lost_answers_do_not_stop_the_writer() {
    let store = S3Store::start();
    let mut archive = archive(&store, "a");
    archive.add_base(base(5, Continuity::NewChain), 1, &Bytes::new(b"five")).unwrap();
    // The answer of the object, and in the second round that of the manifest.
    for (round, skipped) in [0, 1].into_iter().enumerate() {
        let at = 5 + round as i64;
        let new = [segment(at, at + 1)];
        store.set(|faults| faults.lost_answers = skipped + 1);
        let mut attempts = 0;
        while let Err(error) = archive.add_segments(&new, 1) {
            assert!(error.is_temporary(), "{error}");
            attempts += 1;
            assert!(attempts < 5, "{error}");
        }
        check_complete(&store);
    }
    assert_eq!(archive.end().unwrap().zxid, Zxid(7));
    assert_eq!(archive.manifest().segments.len(), 2);
}

#[test]
fn lost_connections_and_busy_stores_are_tried_again() {
    let store = S3Store::start();
    let target = open(&store);
    let long = vec![7; 65 << 10];
    store.set(|faults| faults.lost_requests = 2);
    target.put("log/1", &Bytes::new(b"one")).unwrap();
    store.set(|faults| faults.busy = 2);
    target.put("base/1.r/snapshot.1", &Bytes::new(&long)).unwrap();
    store.set(|faults| faults.cut_bodies = 3);
    assert!(read(&target, "base/1.r/snapshot.1").unwrap() == long);
    store.set(|faults| faults.lost_requests = 3);
    assert_eq!(read(&target, "log/1").unwrap(), b"one");
}

#[test]
fn a_silent_store_is_an_error_and_no_wait_for_ever() {
    let store = S3Store::start();
    let patience = Duration::from_millis(300);
    let target =
        S3Target::open(&S3Settings { patience, retries: 2, ..settings(&store) }, BucketUse::Write).unwrap();
    store.set(|faults| faults.silent = 1);
    target.put("log/1", &Bytes::new(b"one")).unwrap();
    assert_eq!(store.object("b/zk/one/log/1").unwrap(), b"one");
    store.set(|faults| faults.silent = u32::MAX);
    let begun = Instant::now();
    let error = target.put("log/2", &Bytes::new(b"two")).unwrap_err().to_string();
    assert!(error.contains("no answer within") && error.contains("s3://b/zk/one/log/2"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// A process that dies after each possible number of writes leaves a backup that the next process continues.
#[test]
fn a_crash_between_any_two_writes_leaves_a_valid_manifest() {
    let work = |archive: &mut Archive<S3Target>, from: i64| -> Result<(), ArchiveError> {
        let continuity = if from == 0 { Continuity::NewChain } else { Continuity::Continues };
        if from == 0 {
            archive.add_base(base(1, continuity), 1, &Bytes::new(&vec![1; 65 << 10]))?;
        }
        let end = archive.end().unwrap().zxid.0;
        archive.add_segments(&[segment(end, end + 1), segment(end + 1, end + 2)], 1)?;
        archive.add_base(base(end + 2, Continuity::Continues), 1, &Bytes::new(b"later"))?;
        forget(archive, end + 2)?;
        sweep(archive).map(drop).map_err(|error| match error {
            zebu_backup::core::retention::SweepError::Archive(error) => error,
            other => panic!("{other}"),
        })
    };
    let complete = {
        let store = S3Store::start();
        let mut archive = archive(&store, "a");
        let before = store.writes();
        work(&mut archive, 0).unwrap();
        store.writes() - before
    };
    assert!(complete > 10, "{complete}");
    for writes in 0..complete {
        let store = S3Store::start();
        let hasty = S3Settings { retries: 0, ..settings(&store) };
        let target = S3Target::open(&hasty, BucketUse::Write).unwrap();
        let mut first = Archive::open(target, "a").unwrap();
        store.set(|faults| faults.writes_left = Some(writes));
        assert!(work(&mut first, 0).is_err(), "{writes}");
        drop(first);
        store.set(|faults| faults.writes_left = None);
        check_complete(&store);
        let mut next = archive(&store, "b");
        let end = next.end().map_or(0, |end| end.zxid.0);
        work(&mut next, end).unwrap();
        check_complete(&store);
        let manifest = next.manifest();
        let named = manifest.bases.len() + manifest.segments.len() + 2;
        assert_eq!(store.names().len(), named, "after {writes} writes: {:?}", store.names());
    }
}

#[test]
fn wrong_settings_and_refusals_have_clear_errors() {
    let store = S3Store::start();
    let text =
        |settings: &S3Settings| S3Target::open(settings, BucketUse::Write).map(drop).unwrap_err().to_string();
    let error = text(&S3Settings { http: PlainHttp::Refused, ..settings(&store) });
    assert!(error.contains("--s3-allow-http"), "{error}");
    let error = text(&S3Settings { ca: Some("/missing.pem".into()), ..settings(&store) });
    assert!(error.contains("/missing.pem"), "{error}");
    store.set(|faults| faults.forbidden = true);
    let error = text(&settings(&store));
    assert!(error.contains("refused the credentials") && error.contains("AccessDenied"), "{error}");
    assert!(!format!("{:?}", settings(&store)).contains("secret"));
}
