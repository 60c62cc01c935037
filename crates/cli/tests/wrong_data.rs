//! Real server processes with wrong files: data of another ensemble, and epochs that no leader proposed.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod processes;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use processes::{Ensemble, TIME_LIMIT, block_on};

fn await_line(ensemble: &Ensemble, index: usize, part: &str) {
    let deadline = Instant::now() + TIME_LIMIT;
    let path = ensemble.home.path().join(format!("log{index}"));
    while !fs::read_to_string(&path).unwrap().contains(part) {
        assert!(Instant::now() < deadline, "no line {part:?} of server {index}\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn await_mode(ensemble: &Ensemble, index: usize, mode: &str) {
    let deadline = Instant::now() + TIME_LIMIT;
    while ensemble.mode(index).as_deref() != Some(mode) {
        assert!(Instant::now() < deadline, "server {index} is no {mode}\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Creates nodes, each in a session of its own, and returns their paths.
fn create(ensemble: &Ensemble, at: usize, names: impl IntoIterator<Item = String>) {
    block_on(async {
        let client = ensemble.client(&[at]).await;
        for name in names {
            client.create(&name).await.unwrap();
        }
        client.close().await.unwrap();
    });
}

/// Waits until a server has applied, and so logged, the creation of a node.
fn await_node(ensemble: &Ensemble, index: usize, path: &str) {
    block_on(async {
        let client = ensemble.client(&[index]).await;
        client.sync("/").await.unwrap();
        client.get(path).await.unwrap();
        client.close().await.unwrap();
    });
}

fn replace_files(from: &Path, to: &Path) {
    fs::remove_dir_all(to).unwrap();
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn set_epoch(ensemble: &Ensemble, index: usize, file: &str, epoch: i64) {
    fs::write(ensemble.data(index).join("version-2").join(file), epoch.to_string()).unwrap();
}

/// Its last transaction exists in the other ensemble too, so it gets what follows; the digests tell the
/// difference.
#[test]
fn a_member_with_data_of_another_ensemble_takes_the_state_of_the_leader() {
    let mut other = Ensemble::start(3);
    let at = other.await_leader(3);
    create(&other, at, (0..3).map(|number| format!("/theirs-{number}")));
    // A quorum has the nodes; the server whose files are taken may be the third one.
    (0..3).for_each(|index| await_node(&other, index, "/theirs-2"));
    (0..3).for_each(|index| other.kill(index));

    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    let wrong = (leader + 1) % 3;
    create(&ensemble, leader, (0..10).map(|number| format!("/ours-{number}")));
    ensemble.kill(wrong);
    replace_files(&other.data(wrong).join("version-2"), &ensemble.data(wrong).join("version-2"));
    ensemble.run(wrong);
    await_mode(&ensemble, wrong, "follower");
    await_line(&ensemble, wrong, "the state differs from the leader's");
    create(&ensemble, leader, (0..20).map(|number| format!("/later-{number}")));
    await_line(&ensemble, wrong, "the data of this member is set aside");
    await_line(&ensemble, wrong, "the whole state of the leader was taken over");
    await_mode(&ensemble, wrong, "follower");
    block_on(async {
        let client = ensemble.client(&[wrong]).await;
        client.sync("/").await.unwrap();
        client.get("/ours-0").await.unwrap();
        client.get("/later-19").await.unwrap();
        assert!(client.get("/theirs-0").await.is_err());
        client.close().await.unwrap();
    });
    assert!(ensemble.data(wrong).join("version-2").join("aside.1").exists(), "{}", ensemble.logs());
    assert!(!ensemble.data(wrong).join("version-2").join("zebu.untrusted").exists());
}

/// Epoch files that do not fit each other make a member untrusted. What they speak of may have been promised,
/// so the member learns without being counted, and has its vote again after the next election.
#[test]
fn an_untrusted_member_with_a_later_epoch_comes_back() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    let late = (leader + 1) % 3;
    create(&ensemble, leader, ["/before".to_owned()]);
    ensemble.kill(late);
    set_epoch(&ensemble, late, "currentEpoch", 50);
    ensemble.run(late);
    await_mode(&ensemble, late, "observer");
    await_line(&ensemble, late, "the leader's epoch is older than the one that this server has promised");
    await_line(&ensemble, leader, "a server has promised a later epoch than this leader's");
    create(&ensemble, late, ["/without-a-vote".to_owned()]);
    ensemble.kill(leader);
    ensemble.await_leader(2);
    ensemble.run(leader);
    ensemble.await_leader(3);
    assert!((0..3).all(|index| ensemble.mode(index).as_deref() != Some("observer")), "{}", ensemble.logs());
    create(&ensemble, late, ["/with-a-vote".to_owned()]);
}

/// A promise that came to nothing: the ensemble has gone on in an earlier epoch.
#[test]
fn a_member_that_has_promised_a_later_epoch_learns_without_a_vote() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    let late = (leader + 1) % 3;
    ensemble.kill(late);
    set_epoch(&ensemble, late, "acceptedEpoch", 9);
    ensemble.run(late);
    await_mode(&ensemble, late, "observer");
    // The other follower is needed: without it there is no quorum in this epoch, and the next one is above
    // the promise.
    let other = 3 - leader - late;
    ensemble.kill(other);
    ensemble.await_leader(2);
    create(&ensemble, late, ["/after".to_owned()]);
    assert_eq!(fs::read_to_string(ensemble.data(late).join("version-2/acceptedEpoch")).unwrap(), "10");
}

#[test]
fn a_member_whose_history_is_of_a_later_epoch_says_why_it_stays_out() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    let late = (leader + 1) % 3;
    ensemble.kill(late);
    set_epoch(&ensemble, late, "acceptedEpoch", 1000);
    set_epoch(&ensemble, late, "currentEpoch", 1000);
    ensemble.run(late);
    await_line(&ensemble, late, "the leader's epoch is older than the history of this server");
    await_line(&ensemble, leader, "a server has promised a later epoch than this leader's");
    ensemble.await_leader(2);
}

/// Numbers that no leader has ever proposed are no promise.
#[test]
fn an_epoch_out_of_range_is_a_damaged_file() {
    for epoch in [i64::from(i32::MAX), 1 << 32, i64::MAX] {
        let mut ensemble = Ensemble::start(3);
        let leader = ensemble.await_leader(3);
        let late = (leader + 1) % 3;
        ensemble.kill(late);
        set_epoch(&ensemble, late, "acceptedEpoch", epoch);
        ensemble.run(late);
        await_mode(&ensemble, late, "follower");
        await_line(&ensemble, late, "so no leader has ever proposed it");
    }
}

#[test]
fn epochs_out_of_range_on_all_members_are_told() {
    let mut ensemble = Ensemble::start(3);
    ensemble.await_leader(3);
    (0..3).for_each(|index| ensemble.kill(index));
    for index in 0..3 {
        set_epoch(&ensemble, index, "acceptedEpoch", 4_294_967_295);
        ensemble.run(index);
    }
    for index in 0..3 {
        await_line(&ensemble, index, "if the files of all members are wrong, none can vote");
    }
}
