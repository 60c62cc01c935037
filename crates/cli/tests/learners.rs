//! Followers and observers as real processes: what their clients may rely on while they follow, and how they
//! come back after an absence or with a slow disk.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/ensemble.rs"]
mod processes;

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{create_body, path_only, set_data_body};
use processes::{Ensemble, TIME_LIMIT};
use zebu_proto::{Acl, OpCode};
use zebu_testing::raw::Message;
use zebu_testing::{RawClient, four_letter};

/// Pairs that a client has on their way at a time.
const PAIRS: usize = 8;

fn connected(address: SocketAddr) -> RawClient {
    let (mut client, _) = RawClient::open(address).expect("a new session");
    client.set_patience(TIME_LIMIT);
    client
}

fn make_node(address: SocketAddr, path: &str) {
    let mut client = connected(address);
    client.call(OpCode::Create, create_body(path, b"", Acl::open(), 0)).expect("the node is created");
}

/// Sends `sync, set` pairs at one server while another client writes at the leader. A connection that the
/// server closes fails the test.
fn pipeline_syncs_and_writes(ensemble: &Ensemble, server: usize, leader: usize) {
    make_node(ensemble.clients[leader], "/paired");
    make_node(ensemble.clients[leader], "/other");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = connected(ensemble.clients[leader]);
            let mut written = 0;
            while !done.load(Ordering::Relaxed) {
                client
                    .call(OpCode::SetData, set_data_body("/other", b"x", -1))
                    .expect("the write is answered");
                written += 1;
            }
            written
        });
        let mut client = connected(ensemble.clients[server]);
        for round in 0..150 {
            let mut asked = Vec::new();
            for _ in 0..PAIRS {
                asked.push(client.queue(OpCode::Sync, path_only("/paired")));
                asked.push(client.queue(OpCode::SetData, set_data_body("/paired", b"y", -1)));
            }
            client.flush().unwrap();
            let answers = client.receive_messages(asked.len());
            let answers = answers.unwrap_or_else(|error| {
                done.store(true, Ordering::Relaxed);
                panic!("round {round}: {error}\n{}", ensemble.logs())
            });
            let order = answers.iter().map(|answer| match answer {
                Message::Reply { header, .. } | Message::Event { header, .. } => header.xid,
            });
            assert_eq!(order.collect::<Vec<_>>(), asked.iter().map(|xid| xid.0).collect::<Vec<_>>());
        }
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 0, "another client writes meanwhile");
    });
}

#[test]
fn a_follower_answers_syncs_and_writes_that_are_sent_together() {
    let ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    pipeline_syncs_and_writes(&ensemble, (leader + 1) % 3, leader);
}

#[test]
fn an_observer_answers_syncs_and_writes_that_are_sent_together() {
    let ensemble = Ensemble::start_as(&["participant", "participant", "observer"], "initLimit=20");
    let leader = ensemble.await_leader(3);
    pipeline_syncs_and_writes(&ensemble, 2, leader);
}

/// Sets a node of 10,000 bytes so often.
fn write_much(address: SocketAddr, count: usize) {
    let mut client = connected(address);
    let data = vec![b'x'; 10_000];
    for _ in 0..count / 100 {
        for _ in 0..100 {
            client.queue(OpCode::SetData, set_data_body("/large", &data, -1));
        }
        client.flush().unwrap();
        client.receive_messages(100).expect("the writes are answered");
    }
}

/// Waits until a server serves and has everything that the leader has.
fn await_caught_up(ensemble: &Ensemble, server: usize, leader: usize) {
    let deadline = Instant::now() + TIME_LIMIT;
    let last = |index: usize| four_letter::last_zxid(ensemble.clients[index], Duration::from_secs(5)).ok();
    loop {
        let mode = ensemble.mode(server);
        if mode.is_some() && last(server) >= last(leader) {
            return;
        }
        assert!(Instant::now() < deadline, "server {server} is {mode:?}\n{}", ensemble.logs());
        thread::sleep(Duration::from_millis(50));
    }
}

/// The most memory that a server has had, in MiB.
fn peak_memory_mib(ensemble: &Ensemble, server: usize) -> usize {
    let id = ensemble.children[server].as_ref().unwrap().id();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

/// The transactions of several epochs, far more than the tree is worth, are not sent: neither does the
/// learner keep them in memory, nor does an Apache ZooKeeper learner with a small heap.
#[test]
fn a_follower_that_was_away_for_long_gets_a_snapshot() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    make_node(ensemble.clients[leader], "/large");
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    ensemble.kill(away);
    for _ in 0..3 {
        write_much(ensemble.clients[leader], 2500);
        // Without a quorum the leader steps down. The same process leads the next epoch, because it has the
        // longest log.
        ensemble.kill(other);
        let deadline = Instant::now() + TIME_LIMIT;
        while ensemble.mode(leader).is_some() {
            assert!(Instant::now() < deadline, "{}", ensemble.logs());
            thread::sleep(Duration::from_millis(50));
        }
        ensemble.run(other);
        ensemble.await_leader(2);
    }
    let leader = ensemble.await_leader(2);
    ensemble.run(away);
    await_caught_up(&ensemble, away, leader);
    let log = fs::read_to_string(ensemble.home.path().join(format!("log{away}"))).unwrap();
    assert!(log.contains("kind=\"SNAP\""), "{log}");
    let peak = peak_memory_mib(&ensemble, away);
    assert!(peak < 60, "{peak} MiB");
}

/// A DIFF may be as long as the operator allows. The learner applies it as it comes, from its own log.
#[test]
fn a_long_diff_does_not_stay_in_the_memory_of_a_follower() {
    let lines = "initLimit=20\nsnapshotSizeFactor=0\nobserverMaster.sizeLimit=1000000";
    let mut ensemble = Ensemble::start_with(3, lines);
    let leader = ensemble.await_leader(3);
    make_node(ensemble.clients[leader], "/large");
    let away = (leader + 1) % 3;
    ensemble.kill(away);
    write_much(ensemble.clients[leader], 8000);
    ensemble.run(away);
    await_caught_up(&ensemble, away, leader);
    let log = fs::read_to_string(ensemble.home.path().join(format!("log{away}"))).unwrap();
    assert!(log.contains("kind=\"DIFF\""), "{log}");
    let peak = peak_memory_mib(&ensemble, away);
    assert!(peak < 120, "{peak} MiB");
}

/// Values of 10,000 bytes at a server until told to stop; a lost connection is replaced, for a leader may
/// change.
fn write_until(done: &AtomicBool, addresses: &[SocketAddr]) -> usize {
    let data = vec![b'x'; 10_000];
    let mut written = 0;
    for address in addresses.iter().cycle() {
        let Ok((mut client, _)) = RawClient::open(*address) else {
            if done.load(Ordering::Relaxed) {
                return written;
            }
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        client.set_patience(TIME_LIMIT);
        loop {
            if done.load(Ordering::Relaxed) {
                return written;
            }
            for _ in 0..50 {
                client.queue(OpCode::SetData, set_data_body("/large", &data, -1));
            }
            if client.flush().is_err() || client.receive_messages(50).is_err() {
                break;
            }
            written += 50;
        }
    }
    written
}

/// One server's disk becomes far slower than the ensemble writes. It must not serve ever older data, nor keep
/// in memory what its disk does not take; when the disk is as before, it follows again.
fn slow_disk_ends_service(roles: &[&'static str], slow: usize) {
    let mut ensemble = Ensemble::start_as(roles, "initLimit=20");
    ensemble.await_leader(3);
    ensemble.kill(slow);
    ensemble.run_with_slow_disk(slow);
    let leader = ensemble.await_leader(3);
    assert_ne!(leader, slow, "it came last");
    make_node(ensemble.clients[leader], "/large");
    await_caught_up(&ensemble, slow, leader);
    let others: Vec<SocketAddr> =
        (0..3).filter(|index| *index != slow).map(|index| ensemble.clients[index]).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(&done, &others));
        ensemble.slow_down(slow, Duration::from_millis(2500));
        // syncLimit is 5 seconds. It may be back for a moment when the disk has finished: its log tells.
        let log = ensemble.home.path().join(format!("log{slow}"));
        let deadline = Instant::now() + TIME_LIMIT;
        let has_stopped = loop {
            let has_stopped = fs::read_to_string(&log).unwrap().contains("this member serves no more");
            if has_stopped || Instant::now() >= deadline {
                break has_stopped;
            }
            thread::sleep(Duration::from_millis(100));
        };
        done.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        assert!(has_stopped, "{written} writes\n{}", ensemble.logs());
    });
    ensemble.slow_down(slow, Duration::ZERO);
    let leader = ensemble.await_leader(3);
    await_caught_up(&ensemble, slow, leader);
    let peak = peak_memory_mib(&ensemble, slow);
    assert!(peak < 150, "{peak} MiB");
}

#[test]
fn a_follower_with_a_slow_disk_stops_serving_and_comes_back() {
    slow_disk_ends_service(&["participant"; 3], 0);
}

#[test]
fn an_observer_with_a_slow_disk_stops_serving_and_comes_back() {
    slow_disk_ends_service(&["observer", "participant", "participant"], 0);
}
