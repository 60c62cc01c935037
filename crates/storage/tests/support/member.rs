//! A member's directory with everything in it: several logs, epochs and snapshots, and what is known of it.

use std::path::Path;

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::crash_disk::{Crash, CrashDisk};
use zebu_storage::{
    Compression, RecoveredState, RecoveryError, RecoveryOptions, Sections, SnapshotInstall, recover,
};

use super::chain::{Chain, KnownState, ModelServer, Step, directories};

/// The directory, everything in it durable, and the number after every transaction.
pub fn history() -> (CrashDisk, KnownState) {
    let disk = CrashDisk::new();
    let mut ledger = KnownState::default();
    ledger.chain.insert(Zxid::ZERO, 0);
    let mut life = ModelServer::start(&disk).unwrap();
    let plain = Compression::Plain;
    for step in [
        Step::Append(vec![20, 700, 3], b'a'),
        Step::Sync,
        Step::Append(vec![90, 10], 0),
        Step::Sync,
        Step::Snapshot(plain),
        Step::Roll,
        Step::Append(vec![5, 600, 7, 8], b'b'),
        Step::Sync,
        Step::Roll,
        Step::Epoch(1),
        Step::Append(vec![40, 41, 42], b'c'),
        Step::Sync,
        Step::Snapshot(Compression::Gzip),
        Step::Append(vec![50, 900], b'd'),
        Step::Sync,
        Step::Roll,
        Step::Epoch(3),
        Step::Append(vec![1], b'e'),
        Step::Sync,
        Step::Snapshot(plain),
        Step::Append(vec![2, 3], b'f'),
        Step::Sync,
    ] {
        life.step(&step, &mut ledger).unwrap();
    }
    (disk.after(Crash::LoseAll), ledger)
}

/// The last transaction of [`history`].
pub fn last(ledger: &KnownState) -> Zxid {
    *ledger.chain.keys().max().unwrap()
}

/// Recovers as a member does.
pub fn load(disk: &CrashDisk) -> Result<(Chain, RecoveredState), RecoveryError> {
    let mut chain = Chain::default();
    let recovered = recover(disk, &directories(), RecoveryOptions::member(), &mut chain, &mut |_| {})?;
    Ok((chain, recovered))
}

/// Writes a state as it comes from a leader.
pub fn receive(disk: &CrashDisk, chain: Chain, compression: Compression) -> SnapshotInstall<CrashDisk> {
    let mut receiving =
        SnapshotInstall::begin(disk.clone(), &directories(), chain.last, compression).unwrap();
    receiving.session(SessionId(7), 4000);
    receiving.acl(1, Acl::open());
    let stat = StatPersisted::default();
    receiving.node("", Some(&chain.hash.to_be_bytes()), 1, &stat).unwrap();
    receiving.node("/new", Some(&[9; 700]), 1, &stat).unwrap();
    receiving
}

/// The sections of [`receive`].
pub fn sections(chain: Chain) -> Sections {
    Sections::DigestAndLastZxid { zxid: chain.last, digest: 0, last_zxid: chain.last }
}

/// What Apache makes of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApacheView {
    /// It does not start.
    Refuses,
    /// It starts with nothing, and knows that it has nothing.
    Empty,
    State(Chain),
}

/// Apache sees logs, snapshots and epochs, and none of Zebu's own files.
pub fn apache_view(disk: &CrashDisk) -> ApacheView {
    let seen = CrashDisk::new();
    for (path, bytes) in disk.image() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("zebu.") && path.parent().is_some_and(|it| it.ends_with("version-2")) {
            seen.put(&path, &bytes);
        }
    }
    for directory in [directories().snapshots(), directories().logs()] {
        seen.put(&Path::new(&directory).join("unrelated"), b"");
    }
    match load(&seen) {
        Err(RecoveryError::LogsWithoutSnapshot { .. }) => ApacheView::Refuses,
        Err(error) => panic!("Apache would go on with a broken history: {error}"),
        Ok((_, recovered)) if recovered.snapshot.is_none() => ApacheView::Empty,
        Ok((chain, _)) => ApacheView::State(chain),
    }
}

/// Every kind of loss for so many unsynced pieces.
pub fn crashes(pieces: usize, seed: u64) -> Vec<Crash> {
    let mut crashes = vec![Crash::LoseAll, Crash::KeepAll];
    crashes
        .extend((0..pieces).flat_map(|it| [Crash::KeepFirst(it), Crash::KeepOnly(it), Crash::LoseOnly(it)]));
    if pieces > 2 {
        crashes.extend((0..pieces as u64).map(|it| Crash::Random(seed * 1_000_003 + it)));
    }
    crashes
}

/// Runs `work` on copies of `disk` and hands every state that a power failure in it can leave to `check`, and
/// also what is left when one of its changes fails and the server stops. `check` is told whether the work
/// had been done.
pub fn every_failure<T, E: std::fmt::Debug>(
    disk: &CrashDisk,
    mut work: impl FnMut(&CrashDisk) -> Result<T, E>,
    mut check: impl FnMut(&CrashDisk, Done, &str),
) {
    let trial = disk.after(Crash::KeepAll);
    trial.record();
    work(&trial).unwrap();
    let operations = trial.operations();
    for (index, state) in trial.take_record().iter().enumerate() {
        for crash in crashes(state.unsynced_pieces(), index as u64 + 1) {
            // The last change is the last sync: what follows it is durable.
            let done = if index as u64 + 1 == operations { Done::Yes } else { Done::Perhaps };
            check(&state.after(crash), done, &format!("{crash:?} after {} changes", index + 1));
        }
    }
    for failing in 0..operations {
        for kind in [std::io::ErrorKind::Other, std::io::ErrorKind::StorageFull] {
            let trial = disk.after(Crash::KeepAll);
            trial.fail_after(failing, kind);
            assert!(work(&trial).is_err(), "change {failing} failed and nobody said so");
            for crash in crashes(trial.unsynced_pieces().min(6), failing) {
                check(&trial.after(crash), Done::Perhaps, &format!("change {failing} fails, {crash:?}"));
            }
        }
    }
}

/// Whether the work had returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Yes,
    Perhaps,
}
