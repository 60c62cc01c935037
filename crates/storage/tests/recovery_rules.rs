//! Recovery's rules one by one, on directories made for each.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::PathBuf;

use support::chain::{Chain, KnownState, ModelServer, Step, directories, entry, write_snapshot};
use support::target::Recorded;
use zebu_proto::txn::{Txn, TxnDigest, TxnEntry};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::format::durable::NAME;
use zebu_storage::format::log::{HEADER, append_entry, append_payload};
use zebu_storage::format::snapshot::{Encoder, SnapshotVisitor};
use zebu_storage::recovery::{DigestSource, FuzzyEnd};
use zebu_storage::{
    Compression, Disk, EmptySnapshots, LogOptions, LogWriter, Missing, RecoveredState, RecoveryError,
    RecoveryOptions, RecoveryProgress, RecoveryRepair, RecoveryTarget, Sections, recover,
};

fn empty() -> CrashDisk {
    let disk = CrashDisk::new();
    directories().open(&disk, Missing::Create, "test").unwrap();
    disk
}

fn log_path(name: &str) -> PathBuf {
    directories().logs().join(name)
}

fn snapshot_path(name: &str) -> PathBuf {
    directories().snapshots().join(name)
}

fn log(zxids: &[i64]) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for &zxid in zxids {
        append_entry(&entry(Zxid(zxid), 9, b'l'), &mut bytes);
    }
    bytes
}

fn snapshot(disk: &CrashDisk, zxid: i64) {
    let chain = Chain { hash: zxid as u64, last: Zxid(zxid) };
    write_snapshot(disk, chain, Compression::Plain).unwrap();
}

fn run(disk: &CrashDisk, options: RecoveryOptions) -> Result<(RecoveredState, Recorded), RecoveryError> {
    let before = disk.image();
    let mut target = Recorded::default();
    let result = recover(disk, &directories(), options, &mut target, &mut |_| {});
    if result.is_err() {
        assert_eq!(disk.image(), before, "a refusal changes nothing");
    }
    Ok((result?, target))
}

fn last(disk: &CrashDisk) -> Result<i64, RecoveryError> {
    Ok(run(disk, RecoveryOptions::default())?.0.last_zxid.0)
}

#[test]
fn an_empty_directory_is_an_empty_database() {
    let (recovered, target) = run(&empty(), RecoveryOptions::default()).unwrap();
    assert_eq!((recovered.last_zxid, recovered.snapshot), (Zxid::ZERO, None));
    assert_eq!(target, Recorded::default());
}

#[test]
fn logs_without_a_snapshot_are_trusted_only_on_demand() {
    let trust = RecoveryOptions { empty_snapshots: EmptySnapshots::Trust, ..Default::default() };
    let disk = empty();
    disk.put(&log_path("log.1"), &log(&[1, 2]));
    assert!(matches!(last(&disk), Err(RecoveryError::LogsWithoutSnapshot { .. })));
    assert_eq!(run(&disk, trust).unwrap().0.last_zxid, Zxid(2));
    // Trust is in the logs, not in their absence.
    let disk = empty();
    disk.put(&log_path("log.3"), &log(&[3, 4]));
    assert!(matches!(run(&disk, trust), Err(RecoveryError::Hole { .. })));
    // A damaged snapshot is not the absence of one.
    let disk = empty();
    disk.put(&log_path("log.1"), &log(&[1, 2]));
    disk.put(&snapshot_path("snapshot.1"), b"ZKSN");
    assert!(matches!(run(&disk, trust), Err(RecoveryError::NoUsableSnapshot { .. })));
}

#[test]
fn which_transactions_may_follow_each_other() {
    let e = |epoch: i64, counter: i64| (epoch << 32) | counter;
    for (base, zxids, expected) in [
        (0, vec![1, 2, 3], Ok(3)),
        (0, vec![2], Err(2)),
        (0, vec![1, 3], Err(3)),
        (2, vec![1, 2, 3], Ok(3)),
        (2, vec![1, 2], Ok(2)),
        (2, vec![4], Err(4)),
        // Repeated zxids, as 3.9 writes them for undecodable requests; also at the start of an epoch.
        (0, vec![1, 1, 2, 2, 2, 3], Ok(3)),
        (0, vec![1, e(1, 0), e(1, 1), e(1, 1), e(1, 2)], Ok(e(1, 2))),
        // A new epoch begins with its first transaction.
        (5, vec![4, 5, e(1, 1), e(1, 2)], Ok(e(1, 2))),
        (5, vec![4, 5, e(3, 1)], Ok(e(3, 1))),
        (5, vec![4, 5, e(1, 2)], Err(e(1, 2))),
        (0, vec![e(7, 1)], Ok(e(7, 1))),
        (0, vec![e(7, 4)], Err(e(7, 4))),
        // The snapshot's name may be a change of leader.
        (e(2, 0), vec![e(1, 9), e(2, 1)], Ok(e(2, 1))),
        (e(2, 0), vec![e(1, 9), e(2, 2)], Err(e(2, 2))),
        // Entries below the snapshot need not be complete: the member was brought up to date by a snapshot.
        (e(2, 8), vec![1, 2, e(2, 1), e(2, 9)], Ok(e(2, 9))),
        // The last of an epoch has no next.
        (e(1, 0xffff_ffff), vec![e(2, 1)], Ok(e(2, 1))),
    ] {
        let disk = empty();
        snapshot(&disk, base);
        disk.put(&log_path("log.1"), &log(&zxids));
        match (last(&disk), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{base:#x} {zxids:x?}"),
            (Err(RecoveryError::Hole { found, .. }), Err(expected)) => assert_eq!(found.0, expected),
            (found, expected) => panic!("{base:#x} {zxids:x?}: {found:?}, not {expected:?}"),
        }
    }
}

#[test]
fn the_log_that_begins_right_behind_the_snapshot_is_enough() {
    let disk = empty();
    snapshot(&disk, 2);
    disk.put(&log_path("log.1"), b"ZKLX not a log at all");
    disk.put(&log_path("log.3"), &log(&[3, 4]));
    assert_eq!(last(&disk).unwrap(), 4);
    // Otherwise the one before it is needed.
    let disk = empty();
    snapshot(&disk, 2);
    disk.put(&log_path("log.1"), b"ZKLX not a log at all");
    disk.put(&log_path("log.4"), &log(&[4]));
    assert!(matches!(last(&disk), Err(RecoveryError::NotALog { .. })));
}

#[test]
fn a_log_without_header_is_nothing_only_if_it_is_the_newest() {
    for bytes in [&b""[..], b"ZKLG", &[0; 300]] {
        let disk = empty();
        snapshot(&disk, 0);
        disk.put(&log_path("log.1"), &log(&[1, 2]));
        disk.put(&log_path("log.3"), bytes);
        let (recovered, _) = run(&disk, RecoveryOptions::default()).unwrap();
        assert_eq!(recovered.last_zxid, Zxid(2));
        assert_eq!(recovered.repairs, [RecoveryRepair::Remove { path: log_path("log.3") }]);
        assert!(!disk.exists(&log_path("log.3")).unwrap());

        let disk = empty();
        snapshot(&disk, 0);
        disk.put(&log_path("log.1"), bytes);
        disk.put(&log_path("log.2"), &log(&[2]));
        assert!(matches!(last(&disk), Err(RecoveryError::HeaderLost { .. })));
    }
}

#[test]
fn a_damaged_newer_snapshot_must_still_be_reached() {
    let disk = empty();
    snapshot(&disk, 0);
    snapshot(&disk, 4);
    let mut bytes = disk.image()[&snapshot_path("snapshot.4")].clone();
    bytes[100] ^= 1;
    disk.put(&snapshot_path("snapshot.4"), &bytes);
    disk.put(&log_path("log.1"), &log(&[1, 2, 3, 4, 5]));
    let (recovered, _) = run(&disk, RecoveryOptions::default()).unwrap();
    assert_eq!((recovered.last_zxid, recovered.rejected.len()), (Zxid(5), 1));
    disk.put(&log_path("log.1"), &log(&[1, 2, 3]));
    let refused = last(&disk).unwrap_err();
    assert!(matches!(refused, RecoveryError::BehindSnapshot { .. }), "{refused}");
}

#[test]
fn a_mixed_snapshot_needs_the_log_up_to_its_end() {
    let make = |sections| {
        let disk = empty();
        let nothing: [(i64, &[Acl]); 0] = [];
        let mut encoder = Encoder::begin(Vec::new(), [].into_iter(), nothing.into_iter()).unwrap();
        encoder.node("", Some(b""), -1, &StatPersisted::default()).unwrap();
        disk.put(&snapshot_path("snapshot.2"), &encoder.finish(sections).unwrap());
        disk.put(&log_path("log.1"), &log(&[1, 2, 3]));
        disk
    };
    let both = |end| Sections::DigestAndLastZxid { zxid: Zxid(end), digest: 7, last_zxid: Zxid(end) };
    assert_eq!(last(&make(both(3))).unwrap(), 3);
    let disk = make(both(4));
    assert!(matches!(last(&disk), Err(RecoveryError::FuzzyEnd { .. })));
    let options = RecoveryOptions { fuzzy_end: FuzzyEnd::Report, ..Default::default() };
    assert_eq!(run(&disk, options).unwrap().0.fuzzy_until, Some(Zxid(4)));
    // A change of leader while it was written is no transaction, an older digest none that is missing.
    let leader = Zxid(1 << 32);
    let sections = Sections::DigestAndLastZxid { zxid: Zxid(2), digest: 7, last_zxid: leader };
    assert_eq!(last(&make(sections)).unwrap(), 3);
    assert_eq!(last(&make(Sections::Digest { zxid: Zxid(1), digest: 7 })).unwrap(), 3);
}

/// A torn batch whose sectors reached the disk in the wrong order is dropped where the note allows it, and
/// only there.
#[test]
fn a_lost_sector_inside_the_last_batch() {
    let disk = CrashDisk::new();
    let mut ledger = KnownState::default();
    let mut life = ModelServer::start(&disk).unwrap();
    life.step(&Step::Append(vec![20, 20], b'a'), &mut ledger).unwrap();
    life.step(&Step::Sync, &mut ledger).unwrap();
    let durable = life.writer.size();
    life.step(&Step::Append(vec![300, 700, 300, 300], b'b'), &mut ledger).unwrap();
    let log = log_path("log.1");
    let mut bytes = disk.image()[&log].clone();
    bytes[1024..1536].fill(0);
    disk.put(&log, &bytes);
    let (recovered, _) = run(&disk.after(Crash::KeepAll), RecoveryOptions::default()).unwrap();
    assert_eq!(recovered.last_zxid, Zxid(3));
    assert_eq!(recovered.dropped[0].claimed, Some(Zxid(4)));

    // Without the note it may as well be damage.
    let unnoted = disk.after(Crash::KeepAll);
    unnoted.remove(&log_path(NAME)).unwrap();
    assert!(matches!(last(&unnoted), Err(RecoveryError::Damaged { .. })));
    // Not a whole sector: no disk loses that.
    let mut rotten = disk.image()[&log].clone();
    rotten[1024] = 1;
    let rotten_disk = disk.after(Crash::KeepAll);
    rotten_disk.put(&log, &rotten);
    assert!(matches!(last(&rotten_disk), Err(RecoveryError::Damaged { .. })));
    // Once the batch is durable, a missing sector is damage.
    life.step(&Step::Sync, &mut ledger).unwrap();
    assert!(life.writer.size() > durable + 1600);
    assert!(matches!(last(&disk.after(Crash::KeepAll)), Err(RecoveryError::Damaged { .. })));
}

#[test]
fn what_was_durable_is_not_dropped() {
    let disk = CrashDisk::new();
    let mut ledger = KnownState::default();
    let mut life = ModelServer::start(&disk).unwrap();
    life.step(&Step::Append(vec![20, 20], b'a'), &mut ledger).unwrap();
    life.step(&Step::Sync, &mut ledger).unwrap();
    let log = log_path("log.1");
    let mut bytes = disk.image()[&log].clone();
    bytes[150] ^= 4;
    disk.put(&log, &bytes);
    let refused = last(&disk).unwrap_err();
    assert!(matches!(refused, RecoveryError::DurableLost { .. }), "{refused}");
    assert!(refused.to_string().contains("zebu.durable"));
    disk.remove(&log_path(NAME)).unwrap();
    assert_eq!(last(&disk).unwrap(), 1);
}

#[test]
fn leftovers_are_removed() {
    let disk = empty();
    snapshot(&disk, 0);
    for name in ["snapshot.3.tmp", "zebu.snapshot.4.gz"] {
        disk.put(&snapshot_path(name), b"half");
    }
    for name in ["zebu.log.5", "zebu.durable.tmp", "log.old", "notes.txt"] {
        disk.put(&log_path(name), b"half");
    }
    assert_eq!(last(&disk).unwrap(), 0);
    let after = disk.after(Crash::LoseAll);
    assert_eq!(after.list(&directories().snapshots()).unwrap(), ["snapshot.0"]);
    assert_eq!(after.list(&directories().logs()).unwrap(), ["log.old", "notes.txt"]);
}

/// The digest of a state is here the number of its transactions.
struct Counting {
    digest: i64,
}

impl SnapshotVisitor for Counting {
    fn session(&mut self, _: SessionId, _: i32) {}
    fn acl(&mut self, _: i64, _: Vec<Acl>) {}
    fn node(&mut self, _: &str, _: Option<&[u8]>, _: i64, _: &StatPersisted) -> Result<(), String> {
        Ok(())
    }
}

impl RecoveryTarget for Counting {
    fn reset(&mut self) {
        self.digest = 0;
    }
    fn snapshot_loaded(&mut self, zxid: Zxid) {
        self.digest = zxid.0;
    }
    fn apply(&mut self, _: &TxnEntry) {
        self.digest += 1;
    }
    fn digest(&self) -> Option<i64> {
        Some(self.digest)
    }
}

fn digests(section: (i64, i64), log: &[(i64, i64)]) -> zebu_storage::recovery::DigestReport {
    let disk = empty();
    let nothing: [(i64, &[Acl]); 0] = [];
    let mut encoder = Encoder::begin(Vec::new(), [].into_iter(), nothing.into_iter()).unwrap();
    encoder.node("", Some(b""), -1, &StatPersisted::default()).unwrap();
    let sections = Sections::Digest { zxid: Zxid(section.0), digest: section.1 };
    disk.put(&snapshot_path("snapshot.2"), &encoder.finish(sections).unwrap());
    let mut bytes = HEADER.to_vec();
    for &(zxid, digest) in log {
        let mut entry = entry(Zxid(zxid), 1, b'd');
        entry.txn = Txn::CreateSession { timeout_ms: 1 };
        entry.digest = Some(TxnDigest { version: 2, tree_digest: digest });
        append_entry(&entry, &mut bytes);
    }
    disk.put(&log_path("log.3"), &bytes);
    let mut target = Counting { digest: 0 };
    let options = RecoveryOptions { fuzzy_end: FuzzyEnd::Report, ..Default::default() };
    recover(&disk, &directories(), options, &mut target, &mut |_| {}).unwrap().digests
}

#[test]
fn digests_are_compared_and_reported() {
    let right = [(3, 3), (4, 4), (5, 5)];
    // Right after the load, then with every entry.
    let report = digests((2, 2), &right);
    assert_eq!((report.compared, report.mismatched), (4, 0));
    // A mixed snapshot is compared at its end; the entries up to there are not.
    let report = digests((4, 4), &[(3, 99), (4, 99), (5, 5)]);
    assert_eq!((report.compared, report.mismatched), (2, 0));
    // No digest, and one that is older than the name.
    for section in [(0, 0), (1, 88)] {
        let report = digests(section, &right);
        assert_eq!((report.compared, report.mismatched), (3, 0));
    }
    let report = digests((2, 2), &[(3, 3), (4, 40), (5, 5)]);
    assert_eq!((report.compared, report.mismatched), (4, 1));
    let mismatch = report.first[0];
    assert_eq!((mismatch.zxid, mismatch.expected, mismatch.found), (Zxid(4), 40, 4));
    assert_eq!(mismatch.source, DigestSource::Log);
}

#[test]
fn the_next_entry_decides_about_the_digest_of_a_snapshot() {
    // Apache can note the digest of one transaction and have a node of the next in the file.
    for section in [(2, 77), (4, 77)] {
        let report = digests(section, &[(3, 3), (4, 4), (5, 5)]);
        assert_eq!((report.mismatched, report.first.len()), (0, 0), "{section:?}");
    }
    let report = digests((4, 77), &[(3, 3), (4, 4), (5, 50), (6, 6)]);
    assert_eq!((report.compared, report.mismatched), (3, 2));
    let found: Vec<_> = report.first.iter().map(|first| (first.zxid, first.source)).collect();
    assert_eq!(found, [(Zxid(4), DigestSource::Snapshot), (Zxid(5), DigestSource::Log)]);
    // Nothing follows that could explain it.
    let report = digests((4, 77), &[(3, 3), (4, 4)]);
    assert_eq!((report.compared, report.mismatched), (1, 1));
    assert_eq!((report.first[0].zxid, report.first[0].source), (Zxid(4), DigestSource::Snapshot));
}

#[test]
fn long_loads_report_progress() {
    let disk = empty();
    snapshot(&disk, 0);
    disk.put(&log_path("log.1"), &log(&(1..=10_000).collect::<Vec<_>>()));
    let mut seen = Vec::new();
    let mut chain = Chain::default();
    let mut progress = |progress: RecoveryProgress<'_>| {
        if let RecoveryProgress::Log { zxid, bytes, length, .. } = progress {
            assert!(bytes <= length);
            seen.push(zxid.0);
        }
    };
    recover(&disk, &directories(), RecoveryOptions::default(), &mut chain, &mut progress).unwrap();
    assert_eq!(seen, [4096, 8192]);
}

/// The last entry of an epoch is damaged after the next epoch has begun in another log: the numbers show no
/// hole.
#[test]
fn a_damaged_end_of_an_older_log_is_not_taken_for_a_torn_one() {
    let disk = empty();
    snapshot(&disk, 0);
    let mut options = LogOptions::new(directories().logs(), directories().snapshots());
    options.preallocate = 0;
    let mut writer = LogWriter::open(disk.clone(), options, Zxid::ZERO).unwrap();
    for zxid in [Zxid::new(1, 1), Zxid::new(1, 2), Zxid::new(2, 1)] {
        let mut bytes = Vec::new();
        append_entry(&entry(zxid, 9, b'l'), &mut bytes);
        writer.append(zxid, zxid, &bytes).unwrap();
        if zxid == Zxid::new(1, 2) {
            writer.roll().unwrap();
        }
    }
    writer.close().unwrap();
    assert_eq!(last(&disk).unwrap(), Zxid::new(2, 1).0);
    let path = log_path("log.100000001");
    let mut bytes = disk.image()[&path].clone();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    disk.put(&path, &bytes);
    assert!(matches!(last(&disk), Err(RecoveryError::DurableLost { .. })));
}

/// A power failure may lose the last notes. What recovery finds and accepts is noted again, so that damage
/// that comes later is not taken for a torn end.
#[test]
fn what_recovery_has_found_is_noted() {
    let disk = empty();
    snapshot(&disk, 0);
    let mut options = LogOptions::new(directories().logs(), directories().snapshots());
    options.preallocate = 0;
    let mut writer = LogWriter::open(disk.clone(), options, Zxid::ZERO).unwrap();
    let mut bytes = Vec::new();
    append_entry(&entry(Zxid(1), 9, b'l'), &mut bytes);
    writer.append(Zxid(1), Zxid(1), &bytes).unwrap();
    writer.sync().unwrap();
    let disk = disk.after(Crash::LoseAll);
    assert_eq!(last(&disk).unwrap(), 1);
    let path = log_path("log.1");
    let mut bytes = disk.image()[&path].clone();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    disk.put(&path, &bytes);
    assert!(matches!(last(&disk), Err(RecoveryError::DurableLost { .. })));
}

/// Its checksum is right, so it was written like that.
#[test]
fn an_entry_that_is_too_short_for_a_transaction_is_refused() {
    for length in [1, 19, 31] {
        let disk = empty();
        snapshot(&disk, 0);
        let mut bytes = log(&[1]);
        let at = bytes.len() as u64;
        append_payload(&vec![7; length], &mut bytes);
        disk.put(&log_path("log.1"), &bytes);
        match run(&disk, RecoveryOptions::default()) {
            Err(RecoveryError::Undecodable { at: found, .. }) => assert_eq!((found, length < 20), (at, true)),
            Err(RecoveryError::Hole { .. }) => assert!(length >= 20, "what is no number in order"),
            other => panic!("{length}: {other:?}"),
        }
    }
}
