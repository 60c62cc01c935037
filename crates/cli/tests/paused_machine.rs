//! A leader on a machine that stands still, its clocks too, as a virtual machine that is stopped and goes on.
//! The other servers elect a leader meanwhile; the old one must not answer as if no time had passed.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/preloaded.rs"]
mod preloaded;
#[path = "common/ensemble.rs"]
mod processes;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{path_and_watch, path_only};
use processes::{Ensemble, TIME_LIMIT, block_on};
use tempfile::TempDir;
use zebu_client::Client;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, OpCode, Reader};
use zebu_testing::{Message, RawClient};

/// Stops of a leader. One that trusts its clock answers with old data in most of them.
const ROUNDS: u32 = 4;

fn signal(ensemble: &Ensemble, index: usize, name: &str) {
    let id = ensemble.children[index].as_ref().unwrap().id();
    assert!(Command::new("kill").args([name, &id.to_string()]).status().unwrap().success());
}

/// Stops a server. Its threads stop one after the other; only when all have, nothing is answered any more.
fn stop(ensemble: &Ensemble, index: usize) {
    signal(ensemble, index, "-STOP");
    let id = ensemble.children[index].as_ref().unwrap().id();
    let is_stopped = |stat: &Path| {
        let stat = fs::read_to_string(stat).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('T'))
    };
    let deadline = Instant::now() + TIME_LIMIT;
    let tasks = || fs::read_dir(format!("/proc/{id}/task")).unwrap();
    while !tasks().all(|task| is_stopped(&task.unwrap().path().join("stat"))) {
        assert!(Instant::now() < deadline, "it does not stop");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until one of these servers leads.
fn await_leader_among(ensemble: &Ensemble, servers: &[usize]) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !servers.iter().any(|&index| ensemble.mode(index).as_deref() == Some("leader")) {
        assert!(Instant::now() < deadline, "no new leader\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The data of a get behind a sync, if both are answered.
fn synced_data(client: &mut RawClient) -> Option<Vec<u8>> {
    let mut replies = Vec::new();
    while replies.len() < 2 {
        match client.receive_message().ok()? {
            Message::Reply { header, body } => {
                assert_eq!(header.err, 0);
                replies.push(body);
            }
            Message::Event { .. } => {}
        }
    }
    let response = GetDataResponse::decode(&mut Reader::new(&replies[1])).unwrap();
    response.data.map(|data| data.to_vec())
}

#[test]
fn a_leader_that_stood_still_with_its_clock_answers_no_sync_with_old_data() {
    let directory = TempDir::new().unwrap();
    let Some(library) = preloaded::build("slow_clock.c", directory.path()) else { return };
    let ensemble = Ensemble::start_preloaded(3, "initLimit=20\nsyncLimit=2", Some(library));
    for round in 0..ROUNDS {
        let leader = ensemble.await_leader(3);
        let others: Vec<usize> = (0..3).filter(|&index| index != leader).collect();
        let path = format!("/n{round}");
        block_on(async {
            let client = ensemble.client(&[leader]).await;
            client.create(&path).data("old").await.unwrap();
            client.close().await.unwrap();
        });
        let (mut asks, _) = RawClient::open(ensemble.clients[leader]).unwrap();
        asks.set_patience(TIME_LIMIT);
        stop(&ensemble, leader);
        let stopped = Instant::now();
        asks.queue(OpCode::Sync, path_only(&path));
        asks.queue(OpCode::GetData, path_and_watch(&path, false));
        asks.flush().unwrap();
        await_leader_among(&ensemble, &others);
        block_on(async {
            let list: Vec<String> = others.iter().map(|&index| ensemble.clients[index].to_string()).collect();
            let builder = Client::builder(&list.join(",")).unwrap().connection_timeout(TIME_LIMIT);
            let client = builder.connect().await.unwrap();
            client.set(&path, "new").idempotent().await.unwrap();
            client.close().await.unwrap();
        });
        let file = ensemble.preloaded_file(leader);
        let behind = fs::read(&file).unwrap();
        let before = i64::from_ne_bytes(behind.try_into().unwrap());
        let stood_still = i64::try_from(stopped.elapsed().as_nanos()).unwrap();
        fs::write(&file, (before + stood_still).to_ne_bytes()).unwrap();
        signal(&ensemble, leader, "-CONT");
        let data = synced_data(&mut asks);
        assert_ne!(data.as_deref(), Some(&b"old"[..]), "round {round}: a sync showed old data");
    }
}
