//! The election port of real server processes, with peers that say what no server says.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod processes;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use processes::{Ensemble, TIME_LIMIT, block_on};
use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{InitialMessage, Notification, ServerState};
use zebu_proto::{ServerId, Zxid};

/// A peer on the election port of a server.
struct Voter {
    stream: TcpStream,
}

impl Voter {
    fn connect(port: u16, server: i64) -> Voter {
        Voter::announce(port, server, "127.0.0.1:1")
    }

    fn announce(port: u16, server: i64, address: &str) -> Voter {
        let deadline = Instant::now() + TIME_LIMIT;
        let mut stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        let mut bytes = Vec::new();
        let addresses = vec![address.into()];
        InitialMessage { server: ServerId(server), addresses }.encode(&mut bytes);
        stream.write_all(&bytes).unwrap();
        Voter { stream }
    }

    fn send(&mut self, notification: &Notification) {
        let mut bytes = Vec::new();
        notification.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> Notification {
        self.try_receive().unwrap()
    }

    /// `None` if the connection was closed.
    fn try_receive(&mut self) -> Option<Notification> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Notification::decode(&payload).ok()
    }
}

fn vote(leader: i64, round: i64) -> Notification {
    Notification {
        state: ServerState::Looking,
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
    voter.send(&vote(1, i64::MAX));
    let deadline = Instant::now() + TIME_LIMIT;
    while voter.receive().round != i64::MAX {
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

/// A server that is not listed is answered; of very many only some are, and those that leave make room.
#[test]
fn servers_that_are_not_listed_are_answered_up_to_a_limit() {
    let mut ensemble = Ensemble::prepare(3, "initLimit=20");
    ensemble.run(0);
    let ask = |server| {
        let mut voter = Voter::connect(ensemble.ports[0][1], server);
        // A connection that was refused may be gone already.
        let mut bytes = Vec::new();
        vote(server, 1).encode(&mut bytes);
        let _ = voter.stream.write_all(&bytes);
        voter.try_receive().map(|answer| (answer, voter))
    };
    let mut answered = Vec::new();
    for server in 100..140 {
        answered.extend(ask(server));
    }
    assert_eq!(answered.len(), 32, "{}", ensemble.logs());
    for (answer, _) in &answered {
        assert_eq!((answer.leader, answer.round), (ServerId(1), 1), "no vote of theirs counts");
    }
    answered.clear();
    let deadline = Instant::now() + TIME_LIMIT;
    while ask(200).is_none() {
        assert!(Instant::now() < deadline, "{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server with a smaller id must be called back: where it came from, whatever it says about itself.
#[test]
fn a_server_that_is_not_listed_is_called_back_where_it_came_from() {
    let mut ensemble = Ensemble::prepare(3, "initLimit=20");
    ensemble.run(0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let announced = format!("another.host.invalid:{}", listener.local_addr().unwrap().port());
    let _voter = Voter::announce(ensemble.ports[0][1], 0, &announced);
    let deadline = Instant::now() + TIME_LIMIT;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}\n{}", ensemble.logs()),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let mut bytes = [0; 16];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes[8..], 1i64.to_be_bytes(), "the server says who it is");
}
