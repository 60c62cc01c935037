//! The election port of real server processes, with peers that say what no server says.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod processes;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use processes::{Ensemble, PATIENCE, block_on};
use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{InitialMessage, Notification, PeerState};
use zebu_proto::{ServerId, Zxid};

/// A peer on the election port of a server.
struct Voter {
    stream: TcpStream,
}

impl Voter {
    fn connect(port: u16, server: i64) -> Voter {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = Vec::new();
        let addresses = vec!["127.0.0.1:1".into()];
        InitialMessage { server: ServerId(server), addresses }.encode(&mut bytes);
        stream.write_all(&bytes).unwrap();
        Voter { stream }
    }

    fn say(&mut self, notification: &Notification) {
        let mut bytes = Vec::new();
        notification.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn hear(&mut self) -> Notification {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        Notification::decode(&payload).unwrap()
    }
}

fn vote(leader: i64, round: i64) -> Notification {
    Notification {
        state: PeerState::Looking,
        leader: ServerId(leader),
        zxid: Zxid(0),
        round,
        epoch: 0,
        version: NotificationVersion::V2,
        config: None,
    }
}

/// A round that has no next one is adopted, passed on to all, and survived by all.
#[test]
fn the_largest_round_is_survived() {
    let mut ensemble = Ensemble::prepare(3, "initLimit=20");
    ensemble.run(0);
    let mut voter = Voter::connect(ensemble.ports[0][1], 3);
    voter.say(&vote(1, i64::MAX));
    let deadline = Instant::now() + PATIENCE;
    while voter.hear().round != i64::MAX {
        assert!(Instant::now() < deadline, "{}", ensemble.logs());
    }
    drop(voter);
    ensemble.run(1);
    ensemble.run(2);
    let leader = ensemble.await_leader(3);
    ensemble.kill(leader);
    let next = ensemble.await_leader(2);
    block_on(async {
        let client = ensemble.client(&[next]).await;
        client.create("/after").await.unwrap();
        client.close().await.unwrap();
    });
    ensemble.run(leader);
    ensemble.await_leader(3);
}
