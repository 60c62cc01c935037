//! The load against a server that only pretends: what is sent, when it is sent, and what is counted.
#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use zebu_bench::{Load, Nodes, Pace, fan_out, grow, prepare, run, serve_echo};
use zebu_proto::client::connect::{ConnectResponse, ReadOnlyField};
use zebu_proto::client::{ReplyHeader, RequestHeader};
use zebu_proto::frame::write_frame;
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, SessionId, Xid};

/// Serves one connection: nothing is answered before `held` requests have come, then everything, with the
/// error that `error` gives. Ends with the session and returns the operations in order.
fn pretend(held: usize, error: fn(OpCode, usize) -> i32) -> (String, JoinHandle<Vec<OpCode>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        accept_session(&mut stream);
        let (mut seen, mut out) = (Vec::new(), Vec::new());
        loop {
            let (header, op) = read_request(&mut stream);
            let err = error(op, seen.len());
            write_frame(&mut out, |out| ReplyHeader { xid: header.xid, zxid: 1, err }.encode(out));
            seen.push(op);
            if seen.len() >= held || op == OpCode::CloseSession {
                stream.write_all(&out).unwrap();
                out.clear();
            }
            if op == OpCode::CloseSession {
                return seen;
            }
        }
    });
    (address, server)
}

fn accept_session(stream: &mut TcpStream) {
    read_frame(stream);
    let accepted = ConnectResponse::accepted(SessionId(1), 30_000, ReadOnlyField::Present(false));
    let mut out = Vec::new();
    write_frame(&mut out, |out| accepted.encode(out));
    stream.write_all(&out).unwrap();
}

fn read_request(stream: &mut TcpStream) -> (RequestHeader, OpCode) {
    let frame = read_frame(stream);
    let header = RequestHeader::decode(&mut Reader::new(&frame)).unwrap();
    (header, OpCode::from_wire(header.op).unwrap())
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    frame
}

fn load(address: String, mix: &str, pace: Pace) -> Load {
    Load {
        servers: vec![address.into()],
        sessions: 1,
        pace,
        mix: mix.parse().unwrap(),
        data_bytes: 10,
        nodes: Nodes::flat("/a", 5),
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(1),
        processes: vec![std::process::id()],
    }
}

#[tokio::test]
async fn a_fixed_rate_does_not_wait_for_answers_and_counts_from_when_a_request_was_due() {
    let (address, server) = pretend(50, |_, _| 0);
    let report = run(&load(address, "get", Pace::PerSecond(100)), |_| ()).await.unwrap();
    assert_eq!(server.join().unwrap().len(), 101);
    assert_eq!((report.operations, report.errors), (100, 0));
    // The first was answered when the fiftieth had come, which was due 490 ms later.
    assert!(report.latency_us.max >= 490_000, "{report}");
    assert_eq!(report.each_second.len(), 1);
    let second = report.worst_second().unwrap();
    assert_eq!(second.operations, 100);
    assert!(second.max_us >= 490_000, "{second:?}");
}

#[tokio::test]
async fn creates_and_deletes_take_turns_and_errors_are_counted() {
    let (address, server) =
        pretend(1, |op, number| if op == OpCode::Create && number == 2 { -110 } else { 0 });
    let report = run(&load(address, "create", Pace::InFlight(3)), |_| ()).await.unwrap();
    let mut seen = server.join().unwrap();
    assert_eq!(seen.pop(), Some(OpCode::CloseSession));
    assert_eq!(seen.len() % 2, 0, "the last node was deleted too");
    for pair in seen.chunks(2) {
        assert_eq!(pair, [OpCode::Create, OpCode::Delete]);
    }
    assert_eq!(report.errors, 1);
    assert!(report.cpu_us_per_operation.is_some());
}

#[tokio::test]
async fn a_leaf_that_exists_gets_the_data() {
    // Number 0 is the root, 1 to 5 are the leaves.
    let (address, server) = pretend(1, |_, number| if number < 3 { ErrorCode::NodeExists.wire() } else { 0 });
    prepare(&address, &Nodes::flat("/a", 5), 10, |_| ()).await.unwrap();
    let mut seen = server.join().unwrap();
    assert_eq!(seen.pop(), Some(OpCode::CloseSession));
    assert_eq!(seen.iter().filter(|op| **op == OpCode::Create).count(), 6);
    assert_eq!(seen.iter().filter(|op| **op == OpCode::SetData).count(), 2);
}

#[tokio::test]
async fn a_node_that_cannot_be_created_is_named() {
    let (address, _server) = pretend(1, |_, _| ErrorCode::NoAuth.wire());
    let error = prepare(&address, &Nodes::flat("/a", 1), 10, |_| ()).await.unwrap_err();
    assert!(error.to_string().starts_with("/a cannot be created"), "{error}");
}

/// A server that answers everything.
async fn echo() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(serve_echo(listener, 0));
    address
}

#[tokio::test]
async fn growth_is_told_in_steps() {
    let steps = grow(&echo().await, &Nodes::flat("/a", 99), 10, &[50, 1_000]).await.unwrap();
    // The node above the leaves counts too.
    let nodes: Vec<u64> = steps.iter().map(|step| step.nodes).collect();
    assert_eq!(nodes, [50, 100]);
    assert!(steps.iter().all(|step| step.create_us.max > 0 && step.creates_per_second > 0.0), "{steps:?}");
}

#[tokio::test]
async fn more_sessions_than_tallies_are_all_counted() {
    let sessions = 200;
    let load = Load { sessions, ..load(echo().await, "get", Pace::PerSecond(1_000)) };
    let report = run(&load, |_| ()).await.unwrap();
    assert_eq!((report.operations, report.errors), (1_000, 0));
    assert!(report.generator_share.is_some() || report.generator_cpu_seconds == 0.0);
    assert_eq!(report.worst_second_share, 1.0);
}

/// Serves connections, and tells all who have read something since the last change of the next one.
fn tell_watchers(tell: fn(&mut TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let watching: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, watching) = (stream.unwrap(), watching.clone());
            thread::spawn(move || {
                accept_session(&mut stream);
                loop {
                    let (header, op) = read_request(&mut stream);
                    match op {
                        OpCode::GetData => watching.lock().unwrap().push(stream.try_clone().unwrap()),
                        OpCode::SetData => {
                            let watchers = std::mem::take(&mut *watching.lock().unwrap());
                            watchers.into_iter().for_each(|mut watcher| tell(&mut watcher));
                        }
                        _ => {}
                    }
                    answer(&mut stream, header.xid);
                    if op == OpCode::CloseSession {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn answer(stream: &mut TcpStream, xid: i32) {
    let mut out = Vec::new();
    write_frame(&mut out, |out| ReplyHeader { xid, zxid: 1, err: 0 }.encode(out));
    stream.write_all(&out).unwrap();
}

#[tokio::test]
async fn watchers_are_told_of_every_change() {
    let report = fan_out(&[tell_watchers(|watcher| answer(watcher, Xid::NOTIFICATION.0))], "/a", 5, 3, &[])
        .await
        .unwrap();
    assert_eq!((report.watchers, report.rounds), (5, 3));
    assert!(report.each_told_us.max > 0, "{report:?}");
    assert_eq!(report.each_told_us.max, report.all_told_us.max, "the last of them");
}

/// An event with a long path comes in pieces.
#[tokio::test]
async fn a_watcher_is_told_when_the_whole_event_has_come() {
    let in_pieces = |watcher: &mut TcpStream| {
        let mut out = Vec::new();
        write_frame(&mut out, |out| {
            ReplyHeader { xid: Xid::NOTIFICATION.0, zxid: 1, err: 0 }.encode(out);
            out.extend_from_slice(&[b'x'; 10_000]);
        });
        watcher.write_all(&out).unwrap();
    };
    let report = fan_out(&[tell_watchers(in_pieces)], "/a", 2, 2, &[]).await.unwrap();
    assert_eq!((report.watchers, report.rounds), (2, 2));
}

#[tokio::test]
async fn what_comes_instead_of_an_event_is_noticed() {
    let something_else = tell_watchers(|watcher| answer(watcher, 9));
    let nothing = tell_watchers(|watcher| watcher.shutdown(Shutdown::Both).unwrap());
    for (server, expected) in [
        (something_else, "the server sent bytes that are no reply"),
        (nothing, "the server closed a connection while the load was running; see its log (maxClientCnxns?)"),
    ] {
        let error = fan_out(&[server], "/a", 2, 1, &[]).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
