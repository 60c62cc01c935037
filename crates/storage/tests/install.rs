//! A received state takes the place of everything, and damaged data goes out of the way: with a failure at
//! every step it is the old or the new, never a mixture, for Apache too.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;

use support::chain::{Chain, KnownState, directories, options};
use support::member::{ApacheView, Done, apache_view, every_failure, history, last, load, receive, sections};
use zebu_proto::Zxid;
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::pending_operation::PendingOperation;
use zebu_storage::recovery::RecoveryChanges;
use zebu_storage::{
    Compression, Directories, Disk, Epochs, FileDisk, LogWriter, Missing, RecoveryError, RecoveryOptions,
    Sections, SnapshotInstall, Trust, quarantine, recover, truncate, trust,
};

/// States that a leader may send: ahead, behind, of the same number as an old snapshot, of another epoch.
fn sent() -> [Chain; 4] {
    [Zxid::new(9, 4), Zxid(7), Zxid(5), Zxid::new(2, 8)]
        .map(|last| Chain { hash: 0x1234_5678 ^ last.0 as u64, last })
}

fn names(disk: &CrashDisk) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for directory in [directories().snapshots(), directories().logs()] {
        names.extend(disk.list(&directory).unwrap());
    }
    names
}

#[test]
fn every_failure_leaves_the_old_history_or_the_new_state() {
    let (disk, ledger) = history();
    every_failure_of_an_installation(&disk, &ledger);
    // As Apache leaves it: no note of what was durable.
    disk.remove(&directories().logs().join("zebu.durable")).unwrap();
    every_failure_of_an_installation(&disk, &ledger);
}

fn every_failure_of_an_installation(disk: &CrashDisk, ledger: &KnownState) {
    let was = last(ledger);
    let old = Chain { hash: ledger.chain[&was], last: was };
    for (new, compression) in
        sent().into_iter().zip([Compression::Plain, Compression::Gzip].into_iter().cycle())
    {
        let mut seen = BTreeSet::new();
        every_failure(
            disk,
            |disk| receive_and_commit(disk, new, compression),
            |left, done, what| {
                let what = format!("{}: {what}", new.last);
                match apache_view(left) {
                    ApacheView::State(seen) => {
                        assert!(seen == old || seen == new, "{what}: Apache sees {seen:?}")
                    }
                    ApacheView::Refuses | ApacheView::Empty => {}
                }
                let planned = plan(left);
                let (chain, recovered) = load(left).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(planned, chain, "{what}");
                assert!(chain == new || (chain == old && done == Done::Perhaps), "{what}: {chain:?}");
                // What it had beyond the state of a leader was never decided.
                assert_eq!(recovered.trust, Trust::Trusted, "{what}");
                // Once it is recovered, nothing is left of the other, and the next failure changes nothing.
                let again = left.after(Crash::LoseAll);
                assert!(
                    names(&again).iter().all(|it| !it.starts_with("zebu.install") && it != "zebu.pending")
                );
                assert_eq!(apache_view(&again), ApacheView::State(chain), "{what}");
                assert_eq!(load(&again).unwrap().0, chain, "{what}");
                seen.insert(chain.last);
            },
        );
        assert_eq!(seen, BTreeSet::from([was, new.last]));
    }
}

fn receive_and_commit(
    disk: &CrashDisk,
    new: Chain,
    compression: Compression,
) -> Result<PathBuf, zebu_storage::InstallError> {
    // Failures begin when everything has been fed: what comes before touches a file of its own only.
    let mut receiving = SnapshotInstall::begin(disk.clone(), &directories(), new.last, compression)?;
    receiving.session(zebu_proto::SessionId(7), 4000);
    receiving.acl(1, zebu_proto::Acl::open());
    receiving.node("", Some(&new.hash.to_be_bytes()), 1, &Default::default())?;
    receiving.node("/new", Some(&[9; 700]), 1, &Default::default())?;
    receiving.finish(sections(new))?.commit()
}

fn plan(disk: &CrashDisk) -> Chain {
    let before = (disk.image(), disk.operations());
    let options = RecoveryOptions { changes: RecoveryChanges::Plan, ..RecoveryOptions::member() };
    let mut chain = Chain::default();
    recover(disk, &directories(), options, &mut chain, &mut |_| {}).unwrap();
    assert_eq!((disk.image(), disk.operations()), before);
    chain
}

#[test]
fn a_failure_while_an_installation_is_finished_changes_nothing() {
    let (disk, _) = history();
    let new = sent()[1];
    let trial = disk.after(Crash::KeepAll);
    let received = receive(&trial, new, Compression::Plain).finish(sections(new)).unwrap();
    let before = trial.operations();
    trial.record();
    received.commit().unwrap();
    assert!(before > 0);
    for state in trial.take_record() {
        let left = state.after(Crash::LoseAll);
        let whole = left.after(Crash::KeepAll);
        let (expected, _) = load(&whole).unwrap();
        for point in 0..whole.operations() {
            let again = left.after(Crash::KeepAll);
            again.power_off_after(point);
            let _ = load(&again);
            for crash in [Crash::LoseAll, Crash::KeepAll, Crash::Random(point)] {
                assert_eq!(load(&again.after(crash)).unwrap().0, expected, "{point} {crash:?}");
            }
        }
    }
}

#[test]
fn an_installed_state_is_the_only_one_and_goes_on() {
    for new in sent() {
        let (disk, _) = history();
        let bytes = disk.image()[&directories().snapshots().join("snapshot.300000001")].clone();
        disk.put(&directories().snapshots().join("snapshot.300000001.bak"), &bytes);
        // Another reception that came to nothing, and a snapshot that is being written.
        let other = receive(&disk, sent()[0], Compression::Plain);
        disk.put(&directories().snapshots().join("zebu.snapshot.9"), b"half");
        let received = receive(&disk, new, Compression::Snappy).finish(sections(new)).unwrap();
        assert_eq!(received.zxid(), new.last);
        assert_eq!(load_plan_trust(&disk), Trust::Trusted);
        let path = received.commit().unwrap();
        other.abandon().unwrap();
        let disk = disk.after(Crash::LoseAll);
        let mut expected: BTreeSet<String> = ["acceptedEpoch", "currentEpoch", "kept.snapshot.300000001.bak"]
            .into_iter()
            .map(str::to_owned)
            .collect();
        expected.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
        let (chain, recovered) = load(&disk).unwrap();
        assert_eq!((chain, recovered.finished), (new, None));
        assert_eq!(names(&disk), expected);
        let mut writer = LogWriter::open(disk.clone(), options(), new.last).unwrap();
        let next = new.last.next().unwrap();
        let mut batch = Vec::new();
        zebu_storage::format::log::append_entry(&support::chain::entry(next, 3, b'i'), &mut batch);
        writer.append(next, next, &batch).unwrap();
        writer.sync().unwrap();
        assert_eq!(load(&disk.after(Crash::LoseAll)).unwrap().0.last, next);
        assert_eq!(truncate(&disk, &directories(), new.last).unwrap().was, next);
        assert_eq!(load(&disk.after(Crash::LoseAll)).unwrap().0, new);
    }
}

fn load_plan_trust(disk: &CrashDisk) -> Trust {
    trust::read(disk, &directories().snapshots()).unwrap()
}

#[test]
fn an_empty_state_is_a_state() {
    let (disk, _) = history();
    let receiving =
        SnapshotInstall::begin(disk.clone(), &directories(), Zxid::new(9, 1), Compression::Plain).unwrap();
    receiving.finish(Sections::None).unwrap().commit().unwrap();
    let (chain, recovered) = load(&disk.after(Crash::LoseAll)).unwrap();
    assert_eq!((chain.last, recovered.snapshot.unwrap().summary.nodes), (Zxid::new(9, 1), 0));
}

#[test]
fn a_received_state_that_cannot_be_read_back_replaces_nothing() {
    let (disk, ledger) = history();
    let receiving = receive(&disk, sent()[0], Compression::Plain);
    let path = directories().snapshots().join("zebu.install.1");
    // Someone else writes into the file.
    let file = disk.open(&path, zebu_storage::disk::Access::ReadWrite).unwrap();
    let finished = {
        zebu_storage::DiskFile::write_at(&file, 100_000, &[1]).unwrap();
        receiving.finish(sections(sent()[0]))
    };
    assert!(matches!(finished, Err(zebu_storage::InstallError::Unreadable { .. })));
    assert!(!disk.exists(&path).unwrap());
    assert_eq!(load(&disk).unwrap().0.last, last(&ledger));
}

#[test]
fn a_mark_that_cannot_be_finished_is_an_error_and_setting_aside_the_way_out() {
    let (disk, _) = history();
    for mark in [
        &b"garbage"[..],
        &PendingOperation::Install { received: "zebu.install.1".into(), snapshot: "snapshot.77".into() }
            .encode(),
    ] {
        let disk = disk.after(Crash::KeepAll);
        disk.put(&directories().snapshots().join("zebu.pending"), mark);
        let error = load(&disk).unwrap_err();
        assert!(matches!(error, RecoveryError::Pending(_)), "{error}");
        assert_eq!(quarantine(&disk, &directories()).unwrap(), 1);
        assert_eq!(load(&disk).unwrap().1.trust, Trust::Untrusted);
    }
}

#[test]
fn setting_aside_leaves_the_old_history_or_nothing_that_is_trusted() {
    let (disk, ledger) = history();
    let was = last(&ledger);
    let old = Chain { hash: ledger.chain[&was], last: was };
    let mut seen = BTreeSet::new();
    every_failure(
        &disk,
        |disk| quarantine(disk, &directories()),
        |left, done, what| {
            match apache_view(left) {
                ApacheView::State(seen) => assert_eq!(seen, old, "{what}"),
                ApacheView::Refuses | ApacheView::Empty => {}
            }
            assert_eq!(plan(left), load(&left.after(Crash::KeepAll)).unwrap().0, "{what}");
            let (chain, recovered) = load(left).unwrap_or_else(|error| panic!("{what}: {error}"));
            if chain.last == Zxid::ZERO {
                assert_eq!(recovered.trust, Trust::Untrusted, "{what}");
                assert_eq!(apache_view(left), ApacheView::Empty, "{what}");
                // Nothing is destroyed.
                let kept = left.image().keys().filter(|it| it.to_str().unwrap().contains("aside.1")).count();
                let there = disk
                    .image()
                    .keys()
                    .filter(|it| it.to_str().unwrap().contains(".d") || is_data(it))
                    .count();
                assert_eq!(kept, there, "{what}");
            } else {
                assert_eq!((chain, done), (old, Done::Perhaps), "{what}");
            }
            let epochs = Epochs::load(left, directories().snapshots(), chain.last).unwrap();
            assert_eq!((epochs.current(), epochs.accepted()), (3, 3), "{what}");
            seen.insert((chain.last, recovered.trust == Trust::Trusted));
        },
    );
    assert_eq!(seen, BTreeSet::from([(was, true), (was, false), (Zxid::ZERO, false)]));
}

fn is_data(path: &std::path::Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.starts_with("log.") || name.starts_with("snapshot.")
}

#[test]
fn an_untrusted_member_is_trusted_when_it_has_accepted_an_epoch() {
    let (disk, ledger) = history();
    let (_, recovered) = load(&disk).unwrap();
    let mut epochs = Epochs::load(&disk, directories().snapshots(), recovered.last_zxid).unwrap();
    assert_eq!(quarantine(&disk, &directories()).unwrap(), 1);
    assert_eq!(quarantine(&disk, &directories()).unwrap(), 2);
    // A standalone server does not serve such a directory.
    let refused =
        recover(&disk, &directories(), RecoveryOptions::default(), &mut Chain::default(), &mut |_| {});
    assert!(matches!(refused, Err(RecoveryError::Untrusted { .. })));
    epochs.save_accepted(&disk, 4).unwrap();
    // A received state alone is not enough: what follows it up to the leader's last has not come yet.
    let new = sent()[0];
    let received = receive(&disk, new, Compression::Plain).finish(sections(new)).unwrap();
    received.commit().unwrap();
    assert_eq!(load(&disk.after(Crash::LoseAll)).unwrap().1.trust, Trust::Untrusted);
    epochs.save_current(&disk, 4).unwrap();
    let (chain, recovered) = load(&disk.after(Crash::LoseAll)).unwrap();
    assert_eq!((chain, recovered.trust), (new, Trust::Trusted));
    let _ = ledger;
}

#[test]
fn on_the_real_disk() {
    let root = tempfile::tempdir().unwrap();
    support::copy_tree(&support::testdata().join("ensemble-1/data"), root.path());
    let directories = Directories::new(root.path(), root.path());
    let _locks = directories.open(&FileDisk, Missing::Refuse, "test").unwrap();
    let load = || {
        let mut chain = support::target::Recorded::default();
        recover(&FileDisk, &directories, RecoveryOptions::member(), &mut chain, &mut |_| {}).unwrap()
    };
    let was = load().last_zxid;
    let to = Zxid::new(1, 0x10);
    assert_eq!(truncate(&FileDisk, &directories, to).unwrap().was, was);
    assert_eq!(load().last_zxid, to);
    let mut receiving =
        SnapshotInstall::begin(FileDisk, &directories, Zxid::new(2, 5), Compression::Gzip).unwrap();
    receiving.node("", None, -1, &Default::default()).unwrap();
    receiving.finish(Sections::None).unwrap().commit().unwrap();
    assert_eq!(load().last_zxid, Zxid::new(2, 5));
    assert_eq!(quarantine(&FileDisk, &directories).unwrap(), 1);
    assert_eq!((load().last_zxid, load().trust), (Zxid::ZERO, Trust::Untrusted));
    assert!(root.path().join("version-2/aside.1/snapshot.200000005.gz").exists());
    assert_eq!(quarantine(&FileDisk, &directories).unwrap(), 2);
}
