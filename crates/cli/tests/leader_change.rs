//! Client connections of real server processes over a leader change: they stay open, reads and watches go on,
//! and each write is carried out once and answered.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/ensemble.rs"]
mod processes;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use processes::{Ensemble, TIME_LIMIT};
use zebu_proto::client::connect::ConnectRequest;
use zebu_proto::client::{CreateMode, EventType};
use zebu_proto::{Acl, Jute, OpCode, Reader};
use zebu_testing::raw::{Message, RawClient, new_session_request};

/// A connection is kept for a quarter of this. The machine of a test may be busy for long.
const SESSION_TIMEOUT_MS: i32 = 240_000;

/// Writes of each client, and how many of them are in flight.
const WRITES: usize = 600;
const WINDOW: usize = 16;

fn open(address: SocketAddr) -> RawClient {
    let mut client = RawClient::connect(address).unwrap();
    let request = ConnectRequest { timeout_ms: SESSION_TIMEOUT_MS, ..new_session_request() };
    let response = client.handshake(&request).unwrap();
    assert_eq!(response.timeout_ms, SESSION_TIMEOUT_MS);
    client
}

/// Writes with several requests in flight over one connection.
struct Writer {
    client: RawClient,
    name: char,
    sent: usize,
    answered: usize,
}

impl Writer {
    fn new(address: SocketAddr, name: char) -> Writer {
        Writer { client: open(address), name, sent: 0, answered: 0 }
    }

    fn send(&mut self) {
        let id = format!("{}{}", self.name, self.sent);
        let flags = CreateMode::PersistentSequential.flags();
        let body = common::create_body("/writes/", id.as_bytes(), Acl::open(), flags);
        self.client.send(OpCode::Create, body).unwrap();
        self.sent += 1;
    }

    /// Receives the next reply, which is that of the next request.
    fn receive(&mut self) {
        match self.client.receive_message().unwrap() {
            Message::Reply { header, .. } => {
                assert_eq!((header.err, header.xid), (0, self.answered as i32 + 1));
                self.answered += 1;
            }
            Message::Event { event, .. } => panic!("{event:?} for a client without a watch"),
        }
    }

    /// Writes until so many requests are answered.
    fn write_up_to(&mut self, answered: usize) {
        while self.answered < answered {
            while self.sent < (self.answered + WINDOW).min(WRITES) {
                self.send();
            }
            self.receive();
        }
    }
}

/// The data of all nodes that the writers created.
fn written(client: &mut RawClient) -> Vec<String> {
    let (_, header, body) =
        client.call(OpCode::GetChildren, common::path_and_watch("/writes", false)).unwrap();
    assert_eq!(header.err, 0);
    let names = Vec::<Box<str>>::decode(&mut Reader::new(&body)).unwrap();
    let mut found = Vec::new();
    for name in names {
        let path = format!("/writes/{name}");
        let (_, header, body) = client.call(OpCode::GetData, common::path_and_watch(&path, false)).unwrap();
        assert_eq!(header.err, 0);
        let data = zebu_proto::client::reply::GetDataResponse::decode(&mut Reader::new(&body)).unwrap().data;
        found.push(String::from_utf8(data.unwrap().to_vec()).unwrap());
    }
    found
}

/// Ends a leader while clients of the other servers write, read and watch.
fn clients_of_the_others_do_not_notice(end: impl FnOnce(&mut Ensemble, usize)) {
    let line = format!("initLimit=20\nmaxSessionTimeout={SESSION_TIMEOUT_MS}\nzebu.electionGrace=60000");
    let mut ensemble = Ensemble::start_with(3, &line);
    let leader = ensemble.await_leader(3);
    let others: Vec<SocketAddr> =
        (0..3).filter(|&index| index != leader).map(|index| ensemble.clients[index]).collect();
    let mut watcher = open(others[0]);
    common::create(&mut watcher, "/writes", b"");
    common::create(&mut watcher, "/watched", b"");
    let (_, header, _) = watcher.call(OpCode::GetData, common::path_and_watch("/watched", true)).unwrap();
    assert_eq!(header.err, 0);
    let mut writers = [Writer::new(others[0], 'a'), Writer::new(others[1], 'b')];
    for writer in &mut writers {
        writer.client.set_patience(2 * TIME_LIMIT);
        writer.write_up_to(WRITES / 4);
        // Requests that are in flight when the leader ends.
        while writer.sent < writer.answered + WINDOW {
            writer.send();
        }
    }
    end(&mut ensemble, leader);
    // Requests of the time without a leader.
    for writer in &mut writers {
        (0..WINDOW).for_each(|_| writer.send());
    }
    let (events, header, _) =
        watcher.call(OpCode::GetData, common::path_and_watch("/watched", false)).unwrap();
    assert_eq!((events.len(), header.err), (0, 0), "reads go on");
    for writer in &mut writers {
        writer.write_up_to(WRITES);
    }
    let mut changer = open(others[1]);
    let (_, header, _) = changer.call(OpCode::SetData, common::set_data_body("/watched", b"x", -1)).unwrap();
    assert_eq!(header.err, 0);
    match watcher.receive_message().unwrap() {
        Message::Event { event, .. } => assert_eq!(event.kind, EventType::NodeDataChanged as i32),
        Message::Reply { header, .. } => panic!("{header:?} without a request"),
    }
    let found = written(&mut changer);
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), once.len()), (2 * WRITES, 2 * WRITES), "each write was carried out once");
}

#[test]
fn a_leader_is_killed() {
    clients_of_the_others_do_not_notice(Ensemble::kill);
}

#[test]
fn a_leader_hands_over_and_stops() {
    clients_of_the_others_do_not_notice(|ensemble, leader| {
        let id = ensemble.children[leader].as_ref().unwrap().id();
        assert!(Command::new("kill").args(["-TERM", &id.to_string()]).status().unwrap().success());
    });
}
