//! Ensembles of real server processes that get other members by restarts with another list, as it is done
//! where `reconfig` is not enabled: the new members start with the new list, then the old ones are restarted
//! with it.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod processes;

use std::fs;
use std::time::{Duration, Instant};

use processes::{Ensemble, TIME_LIMIT, block_on};

fn starts_with(ensemble: &mut Ensemble, members: &[usize]) -> usize {
    for &index in members {
        ensemble.configure(index, members);
        ensemble.run(index);
    }
    ensemble.await_leader(members.len())
}

fn await_serving(ensemble: &Ensemble, index: usize) {
    let deadline = Instant::now() + TIME_LIMIT;
    while ensemble.mode(index).is_none() {
        assert!(Instant::now() < deadline, "server {index} does not serve\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn await_line(ensemble: &Ensemble, index: usize, part: &str) {
    let deadline = Instant::now() + TIME_LIMIT;
    let path = ensemble.home.path().join(format!("log{index}"));
    while !fs::read_to_string(&path).unwrap().contains(part) {
        assert!(Instant::now() < deadline, "no line {part:?}\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Writes through one server and reads it at another one.
fn write_and_read(ensemble: &Ensemble, path: &str, writer: usize, reader: usize) {
    block_on(async {
        let client = ensemble.client(&[writer]).await;
        client.create(path).await.unwrap();
        client.close().await.unwrap();
        let client = ensemble.client(&[reader]).await;
        client.sync("/").await.unwrap();
        client.get(path).await.unwrap();
        client.close().await.unwrap();
    });
}

/// Starts the new members, then restarts the old ones that stay; the leader last, when those that go are
/// gone. The ensemble serves at each step.
fn change_by_restarts(old: &[usize], new: &[usize]) {
    let mut ensemble = Ensemble::prepare(6, "initLimit=20");
    let leader = starts_with(&mut ensemble, old);
    let mut serving = old.len();
    for &index in new.iter().filter(|index| !old.contains(index)) {
        ensemble.configure(index, new);
        ensemble.run(index);
        await_serving(&ensemble, index);
        serving += 1;
        write_and_read(&ensemble, &format!("/new-{index}"), index, leader);
    }
    let mut stay: Vec<usize> = old.iter().copied().filter(|index| new.contains(index)).collect();
    stay.sort_by_key(|&index| index == leader);
    for index in stay {
        for &index in old.iter().filter(|old| index == leader && !new.contains(old)) {
            ensemble.kill(index);
            serving -= 1;
            ensemble.await_leader(serving);
        }
        ensemble.kill(index);
        ensemble.configure(index, new);
        ensemble.run(index);
        await_serving(&ensemble, index);
        let leader = ensemble.await_leader(serving);
        write_and_read(&ensemble, &format!("/restarted-{index}"), index, leader);
    }
    // All that is there now is needed: a minority may go.
    for &index in new.iter().take((new.len() - 1) / 2) {
        ensemble.kill(index);
        serving -= 1;
    }
    let leader = ensemble.await_leader(serving);
    write_and_read(&ensemble, "/all", *new.last().unwrap(), leader);
}

#[test]
fn three_become_four() {
    change_by_restarts(&[0, 1, 2], &[0, 1, 2, 3]);
}

/// The new server has the smallest id: the others have to call it back.
#[test]
fn the_new_one_has_the_smallest_id() {
    change_by_restarts(&[1, 2, 3], &[0, 1, 2, 3]);
}

#[test]
fn three_become_five() {
    change_by_restarts(&[0, 1, 3], &[0, 1, 2, 3, 4]);
}

/// The one that goes is not the leader: that one has the largest id.
#[test]
fn one_comes_and_one_goes() {
    change_by_restarts(&[0, 1, 2], &[1, 2, 3]);
}

/// A server that the others do not know is told so, and they tell of it.
#[test]
fn both_sides_tell_of_a_server_that_is_not_listed() {
    let mut ensemble = Ensemble::prepare(4, "initLimit=20");
    let leader = starts_with(&mut ensemble, &[0, 1, 2]);
    ensemble.run(3);
    await_serving(&ensemble, 3);
    await_line(&ensemble, 3, "the configuration of another server does not list this server");
    await_line(&ensemble, leader, "a server that is not in the configuration takes part in elections");
    await_line(&ensemble, leader, "a learner that is not in the configuration has connected");
    // Its acknowledgement counts for nothing: with two of three gone there is no quorum.
    for index in (0..3).filter(|&index| index != leader) {
        ensemble.kill(index);
    }
    let deadline = Instant::now() + TIME_LIMIT;
    while ensemble.mode(leader).is_some() || ensemble.mode(3).is_some() {
        assert!(Instant::now() < deadline, "{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
}
