//! Power failures after every change of the disk, with every kind of loss: each state that is left recovers,
//! and nothing that was acknowledged is missing.
//!
//! `ZEBU_CRASH_STATES` sets how many distinct states are looked at.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use support::chain::{KnownState, ModelServer, Step, directories};
use support::handover::assert_apache_can_open;
use zebu_storage::Compression;
use zebu_storage::crash_disk::{Crash, CrashDisk};

/// xorshift64: the same seed lives the same life.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

fn script(seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut steps = Vec::new();
    let mut epoch = 0;
    for index in 0..40 {
        let step = match random.below(20) {
            0 => Step::Roll,
            1 => Step::Snapshot(Compression::Plain),
            2 => Step::Snapshot([Compression::Snappy, Compression::Gzip][usize::from(index == 20)]),
            3 => {
                epoch += 1;
                Step::Epoch(epoch)
            }
            4 => Step::Restart,
            5 => Step::Purge,
            _ => {
                let fill = [0, b'x'][random.below(2) as usize];
                let size_max = [20, 200, 2000][random.below(3) as usize];
                let count = 1 + random.below(7);
                Step::Append((0..count).map(|_| random.below(size_max) as usize).collect(), fill)
            }
        };
        let sync = matches!(step, Step::Append(..)) && random.below(6) > 0;
        steps.push(step);
        if sync {
            steps.push(Step::Sync);
        }
    }
    steps
}

/// A run of the model server, with the known state after each change of the disk.
struct RecordedRun {
    chain: KnownState,
    /// The known states, each with the number of changes from which it holds.
    known: Vec<(usize, KnownState)>,
    disks: Vec<CrashDisk>,
}

impl RecordedRun {
    fn record(seed: u64) -> RecordedRun {
        let disk = CrashDisk::new();
        disk.record();
        let mut ledger = KnownState::default();
        let mut known = vec![(0, ledger.clone())];
        let mut life = ModelServer::start(&disk).unwrap();
        for step in script(seed) {
            if let Step::Epoch(epoch) = step {
                ledger.accepted.1 = epoch;
                known.push((disk.operations() as usize, ledger.clone()));
            }
            life.step(&step, &mut ledger).unwrap();
            known.push((disk.operations() as usize, ledger.clone()));
        }
        RecordedRun { chain: ledger, known, disks: disk.take_record() }
    }

    /// The acknowledged state after this number of changes, with the chain of all attempted ones.
    fn known_state(&self, changes: usize) -> KnownState {
        let known = self.known.iter().rfind(|(from, _)| *from <= changes).expect("begins at zero");
        KnownState { chain: self.chain.chain.clone(), ..known.1 }
    }
}

fn states() -> usize {
    std::env::var("ZEBU_CRASH_STATES").ok().and_then(|it| it.parse().ok()).unwrap_or(3_000)
}

fn fingerprint(disk: &CrashDisk) -> u64 {
    let mut hasher = DefaultHasher::new();
    disk.image().hash(&mut hasher);
    hasher.finish()
}

fn crashes(pieces: usize, seed: u64) -> Vec<Crash> {
    let mut crashes = vec![Crash::LoseAll, Crash::KeepAll];
    crashes
        .extend((0..pieces).flat_map(|it| [Crash::KeepFirst(it), Crash::KeepOnly(it), Crash::LoseOnly(it)]));
    if pieces > 2 {
        crashes.extend((0..pieces as u64).map(|it| Crash::Random(seed * 1_000_003 + it)));
    }
    crashes
}

#[test]
fn every_state_after_a_power_failure_recovers() {
    let wanted = states();
    let mut seen = BTreeSet::new();
    let mut points = 0;
    'enough: for seed in 1..=1_000 {
        let lived = RecordedRun::record(seed);
        points += lived.disks.len();
        for (index, disk) in lived.disks.iter().enumerate() {
            let ledger = lived.known_state(index + 1);
            for crash in crashes(disk.unsynced_pieces(), seed * 1_009 + index as u64) {
                let left = disk.after(crash);
                if seen.insert(fingerprint(&left)) {
                    check(&left, &ledger, &format!("seed {seed}, after {} changes, {crash:?}", index + 1));
                }
                if seen.len() >= wanted {
                    break 'enough;
                }
            }
        }
    }
    println!("{} distinct states at {points} points", seen.len());
    assert!(seen.len() >= wanted, "only {} distinct states", seen.len());
}

fn check(disk: &CrashDisk, ledger: &KnownState, what: &str) {
    let mut ledger = ledger.clone();
    let mut life = ModelServer::start(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    let last = life.recovered.last_zxid;
    assert!(last >= ledger.acknowledged, "{what}: {last} is behind {}", ledger.acknowledged);
    let expected = ledger.chain.get(&last).copied().unwrap_or_default();
    assert_eq!((life.chain.hash, life.chain.last), (expected, last), "{what}");
    let accepted = life.epochs.accepted();
    assert!(accepted >= ledger.accepted.0 && accepted <= ledger.accepted.1, "{what}: {accepted}");
    let (snapshots, logs) = (directories().snapshots(), directories().logs());
    assert_apache_can_open(disk, &snapshots, &logs, last);

    // ModelServer goes on, and the next failure finds what was acknowledged since.
    life.append(&[40, 700], b'z', &mut ledger).unwrap();
    life.step(&Step::Sync, &mut ledger).unwrap_or_else(|error| panic!("{what}: {error}"));
    let again =
        ModelServer::start(&disk.after(Crash::LoseAll)).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(again.chain, life.chain, "{what}");
    assert_eq!(again.recovered.dropped, [], "{what}");
}

/// Recovery repairs; a failure in the middle of a repair must leave something that recovers to the same.
#[test]
fn a_power_failure_during_recovery_changes_nothing() {
    let mut repaired = 0;
    let lived = RecordedRun::record(3);
    for (index, disk) in lived.disks.iter().enumerate().step_by(4) {
        let left = disk.after(Crash::Random(7919 + index as u64));
        let whole = left.after(Crash::KeepAll);
        let life = ModelServer::start(&whole).unwrap();
        repaired += usize::from(!life.recovered.repairs.is_empty());
        for second in 0..whole.operations() {
            let trial = left.after(Crash::KeepAll);
            trial.power_off_after(second);
            let _ = ModelServer::start(&trial);
            for crash in [Crash::LoseAll, Crash::KeepAll, Crash::Random(second)] {
                let again = ModelServer::start(&trial.after(crash)).unwrap();
                assert_eq!(again.chain, life.chain);
            }
        }
    }
    assert!(repaired > 3, "{repaired}");
}
