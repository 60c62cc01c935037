//! A disk that cannot read something, once: whoever looks at the files says so, and takes nothing for damaged
//! that can be read the next time.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use support::chain::directories;
use support::member::{history, last, load, receive, sections};
use zebu_proto::Zxid;
use zebu_storage::model::{Crash, ModelDisk};
use zebu_storage::{
    Compression, Epochs, InstallError, RecoveryError, TruncateError, purge, read_after, set_aside, truncate,
};

/// Runs `work` with every one of its reads failing once; `refused` sees what becomes of each.
fn every_read<T, E>(
    disk: &ModelDisk,
    work: impl Fn(&ModelDisk) -> Result<T, E>,
    refused: impl Fn(&E, &ModelDisk),
) {
    let mut reads = 0;
    loop {
        let trial = disk.after(Crash::KeepAll);
        trial.fail_read_after(reads);
        let result = work(&trial);
        if trial.has_unreadable() {
            break;
        }
        let Err(error) = result else { panic!("read {reads} failed and nobody said so") };
        refused(&error, &trial);
        reads += 1;
    }
    assert!(reads > 3, "only {reads} reads");
}

#[test]
fn recovery_takes_no_file_for_damaged() {
    let (disk, ledger) = history();
    every_read(&disk, load, |error, trial| {
        assert!(matches!(error, RecoveryError::Io(_)), "{error}");
        assert_eq!(load(trial).unwrap().0.last, last(&ledger), "it can be read the next time");
    });
}

#[test]
fn a_change_that_was_under_way_is_finished_the_next_time() {
    let (disk, _) = history();
    let new = support::chain::Chain { hash: 5, last: Zxid::new(9, 4) };
    let received = receive(&disk, new, Compression::Plain).finish(sections(new)).unwrap();
    disk.record();
    received.commit().unwrap();
    for state in disk.take_record() {
        let left = state.after(Crash::KeepAll);
        let expected = load(&left.after(Crash::KeepAll)).unwrap().0;
        every_read(&left, load, |error, trial| {
            assert!(matches!(error, RecoveryError::Io(_)), "{error}");
            assert_eq!(load(trial).unwrap().0, expected);
        });
    }
}

#[test]
fn nothing_is_cut_that_was_not_seen() {
    let (disk, ledger) = history();
    for to in ledger.chain.keys() {
        every_read(
            &disk,
            |disk| truncate(disk, &directories(), *to),
            |error, trial| {
                assert!(matches!(error, TruncateError::Io(_)), "{to}: {error}");
                let left = load(trial).unwrap().0;
                assert!(left.last >= *to, "{to}: {} is left", left.last);
                assert_eq!(left.hash, ledger.chain[&left.last], "{to}: what is left is the beginning of it");
            },
        );
    }
}

#[test]
fn every_other_work_says_so() {
    let (disk, ledger) = history();
    let new = support::chain::Chain { hash: 5, last: Zxid::new(9, 4) };
    every_read(
        &disk,
        |disk| {
            let mut receiving =
                zebu_storage::Receiving::begin(disk.clone(), &directories(), new.last, Compression::Gzip)?;
            receiving.node("", Some(&new.hash.to_be_bytes()), 1, &Default::default())?;
            receiving.finish(sections(new))?.commit()
        },
        |error, trial| {
            assert!(matches!(error, InstallError::Io(_)), "{error}");
            let found = load(trial).unwrap().0.last;
            assert!(found == last(&ledger) || found == new.last, "{found}");
        },
    );
    every_read(
        &disk,
        |disk| set_aside(disk, &directories()),
        |_, trial| {
            let (chain, recovered) = load(trial).unwrap();
            assert!(chain.last == last(&ledger) || recovered.trust == zebu_storage::Trust::Untrusted);
        },
    );
    every_read(
        &disk,
        |disk| purge(disk, &directories(), 3),
        |_, trial| {
            assert_eq!(load(trial).unwrap().0.last, last(&ledger));
        },
    );
    let epochs = directories().snapshots();
    every_read(
        &disk,
        |disk| Epochs::load(disk, epochs.clone(), last(&ledger)),
        |error, _| assert!(error.is_io()),
    );
    every_read(&disk, |disk| Epochs::salvage(disk, epochs.clone(), last(&ledger)), |_, _| ());
    let (from, to) = (Zxid(5), last(&ledger));
    every_read(&disk, |disk| read_after(disk, &directories(), from, to, 10_000), |_, _| ());
}
