//! Followers and observers as real processes: what their clients may rely on while they follow, and how they come
//! back after an absence or with a slow disk.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/ensemble.rs"]
mod processes;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{create_body, path_only, set_data_body};
use processes::{Ensemble, PATIENCE};
use zebu_proto::{Acl, OpCode};
use zebu_testing::RawClient;
use zebu_testing::raw::Message;

/// Pairs that a client has on their way at a time.
const PAIRS: usize = 8;

fn connected(address: SocketAddr) -> RawClient {
    let (mut client, _) = RawClient::open(address).expect("a new session");
    client.set_patience(PATIENCE);
    client
}

fn make_node(address: SocketAddr, path: &str) {
    let mut client = connected(address);
    client.call(OpCode::Create, create_body(path, b"", Acl::open(), 0)).expect("the node is created");
}

/// Sends `sync, set` pairs at one server while another client writes at the leader. A connection that the server closes
/// fails the test.
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
