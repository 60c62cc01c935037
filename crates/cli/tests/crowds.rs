//! Many sessions, many watches, and a client that does not read: shown by counters and bounded sizes,
//! never by timing.

mod common;

use std::time::{Duration, Instant};

use common::*;
use zebu_proto::client::EventType;
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, Jute, OpCode, Xid};
use zebu_testing::{Message, RawClient, Received};

const TIME_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn two_thousand_sessions_watch_one_node_and_all_are_told() {
    const SESSIONS: usize = 2_000;
    let server = server().line("maxClientCnxns=0").start().unwrap();
    let (mut writer, _) = open(&server);
    create(&mut writer, "/watched", b"1");
    let mut watchers: Vec<RawClient> = (0..SESSIONS).map(|_| open(&server).0).collect();
    for client in &mut watchers {
        client.send(OpCode::GetData, path_and_watch("/watched", true)).unwrap();
    }
    for client in &mut watchers {
        client.set_patience(TIME_LIMIT);
        assert!(matches!(client.receive_message().unwrap(), Message::Reply { .. }));
    }
    assert_eq!(monitored(&server, "watch_count"), SESSIONS as i64);
    done(&mut writer, OpCode::SetData, set_data_body("/watched", b"2", -1));
    for client in &mut watchers {
        match client.receive_message().unwrap() {
            Message::Event { event, .. } => {
                assert_eq!(event.kind, EventType::NodeDataChanged as i32);
                assert_eq!(event.path.as_deref(), Some("/watched"));
            }
            reply => panic!("{reply:?}"),
        }
    }
    assert_eq!(monitored(&server, "watch_count"), 0, "one-shot watches are gone");
}

#[test]
fn one_session_watches_ten_thousand_paths() {
    const PATHS: usize = 10_000;
    let server = server().start().unwrap();
    let (mut client, _) = open(&server);
    create(&mut client, "/many", b"");
    let paths: Vec<String> = (0..PATHS).map(|number| format!("/many/node-{number:05}")).collect();
    for path in &paths {
        client.queue(OpCode::Create, create_body(path, b"x", Acl::open(), 0));
        client.queue(OpCode::GetData, path_and_watch(path, true));
    }
    client.flush().unwrap();
    client.set_patience(TIME_LIMIT);
    for message in client.receive_messages(2 * PATHS).unwrap() {
        assert!(matches!(message, Message::Reply { header, .. } if header.err == 0));
    }
    assert_eq!(monitored(&server, "watch_count"), PATHS as i64);
    let (mut other, _) = open(&server);
    for path in &paths {
        other.queue(OpCode::SetData, set_data_body(path, b"y", -1));
    }
    other.flush().unwrap();
    other.set_patience(TIME_LIMIT);
    other.receive_messages(PATHS).unwrap();
    let mut told: Vec<String> = Vec::new();
    for message in client.receive_messages(PATHS).unwrap() {
        match message {
            Message::Event { event, .. } => told.push(event.path.unwrap().into()),
            reply => panic!("{reply:?}"),
        }
    }
    assert_eq!(told, paths, "every path once, in the order of the writes");
    assert_eq!(monitored(&server, "watch_count"), 0);

    // The same by setWatches after a reconnect; then the connection goes, and its watches with it.
    client.send(OpCode::SetWatches, set_watches_body(i64::MAX, &paths)).unwrap();
    assert!(matches!(client.receive_message().unwrap(), Message::Reply { header, .. } if header.err == 0));
    assert_eq!(monitored(&server, "watch_count"), PATHS as i64);
    drop(client);
    wait_until(|| monitored(&server, "watch_count") == 0);
}

/// A client asks for far more than it reads. It may wait, or lose its connection; the others notice
/// nothing and the server's memory stays bounded.
#[test]
fn a_client_that_does_not_read_its_replies_costs_a_bounded_amount() {
    let server = server().start().unwrap();
    let (mut writer, _) = open(&server);
    create(&mut writer, "/large", &vec![7; 900_000]);
    let before = resident_kib(&server);
    let (mut deaf, _) = open(&server);
    // Replies of 9 GB. The kernel's buffers fill, then the server stops reading from this client.
    for _ in 0..10_000 {
        deaf.queue(OpCode::GetData, path_and_watch("/large", false));
    }
    deaf.flush().unwrap();
    for round in 0..200 {
        done(&mut writer, OpCode::SetData, set_data_body("/large", format!("{round}").as_bytes(), -1));
        done(&mut writer, OpCode::GetData, path_and_watch("/large", false));
    }
    let grown = resident_kib(&server).saturating_sub(before);
    assert!(grown < 64 * 1024, "one deaf client took {grown} KiB");
    assert!(monitored(&server, "num_alive_connections") >= 1);
}

/// A client that stops reading in the middle of its requests is silent, whatever it has sent before: its
/// session ends and its ephemeral nodes go.
#[test]
fn a_client_that_does_not_read_loses_its_session() {
    let server = server().line("tickTime=100").start().unwrap();
    let (mut other, _) = open(&server);
    create(&mut other, "/large", &vec![7; 900_000]);
    let mut request = zebu_testing::raw::new_session_request();
    request.timeout_ms = 200;
    // Where a client gets stuck depends on the buffers of the system, so they send different amounts of reads
    // before a write.
    let deaf: Vec<(String, RawClient)> = (1..=24)
        .map(|reads| {
            let path = format!("/mine-{reads}");
            let mut client = RawClient::connect(server.address()).unwrap();
            client.handshake(&request).unwrap();
            done(&mut client, OpCode::Create, create_body(&path, b"", Acl::open(), 1));
            for _ in 0..reads {
                client.queue(OpCode::GetData, path_and_watch("/large", false));
            }
            client.queue(OpCode::SetData, set_data_body(&path, b"x", -1));
            client.flush().unwrap();
            (path, client)
        })
        .collect();
    for (path, _) in &deaf {
        wait_until(|| !exists(&mut other, path));
    }
}

fn exists(client: &mut RawClient, path: &str) -> bool {
    refused(client, OpCode::Exists, path_and_watch(path, false)).is_none()
}

/// Events cannot wait: a client that lets them pile up loses its connection, and others do not.
#[test]
fn a_client_that_does_not_read_its_events_loses_its_connection() {
    let server = server().start().unwrap();
    let (mut writer, _) = open(&server);
    let parent = format!("/{}", "p".repeat(100_000));
    create(&mut writer, &parent, b"");
    let before = resident_kib(&server);
    let (mut deaf, session) = open(&server);
    done(&mut deaf, OpCode::AddWatch, |out| {
        encode_bytes(parent.as_bytes(), out);
        0i32.encode(out);
    });
    assert_eq!(monitored(&server, "watch_count"), 2, "a persistent watch stands in both tables");
    // Each event carries the long path; 2,000 of them are 200 MB.
    let mut rounds = 0;
    while monitored(&server, "watch_count") > 0 {
        rounds += 1;
        assert!(rounds <= 40, "the connection was never closed");
        for _ in 0..50 {
            writer.queue(OpCode::SetData, set_data_body(&parent, b"x", -1));
        }
        writer.flush().unwrap();
        writer.receive_messages(50).unwrap();
    }
    let grown = resident_kib(&server).saturating_sub(before);
    assert!(grown < 96 * 1024, "unread events took {grown} KiB");
    let (_, response) = RawClient::resume(server.address(), &session).unwrap();
    assert_eq!(response.session_id, session.id.0, "only the connection is lost, not the session");
}

/// A client may send thousands of requests before it reads the first reply.
#[test]
fn thousands_of_requests_in_flight_are_answered_in_order() {
    let server = server().start().unwrap();
    let (mut client, _) = open(&server);
    create(&mut client, "/p", b"0");
    const REQUESTS: i32 = 20_000;
    for xid in 10..10 + REQUESTS {
        match xid % 4 {
            0 => client.queue_as(
                Xid(xid),
                OpCode::SetData.wire(),
                set_data_body("/p", xid.to_string().as_bytes(), -1),
            ),
            1 => client.queue_as(Xid(xid), OpCode::GetData.wire(), path_and_watch("/p", false)),
            2 => client.queue_as(Xid(xid), OpCode::Ping.wire(), |_| ()),
            _ => client.queue_as(Xid(xid), OpCode::Exists.wire(), path_and_watch("/missing", false)),
        }
    }
    // Sent from a thread of its own: the client reads only after everything is on its way.
    client.flush().unwrap();
    client.set_patience(TIME_LIMIT);
    let mut written = String::new();
    for xid in 10..10 + REQUESTS {
        let Message::Reply { header, body } = client.receive_message().unwrap() else { panic!("an event") };
        match xid % 4 {
            0 => written = xid.to_string(),
            1 if !written.is_empty() => {
                let length = i32::from_be_bytes(body[..4].try_into().unwrap()) as usize;
                assert_eq!(
                    body[4..4 + length],
                    *written.as_bytes(),
                    "a read sees the write before it, and no later one"
                );
            }
            _ => {}
        }
        assert_eq!(header.xid, if xid % 4 == 2 { Xid::PING.0 } else { xid });
    }
}

/// Write, read with a watch, write again, all at once: the read sees the first value, the event tells of
/// the second.
#[test]
fn a_pipelined_read_stands_between_its_writes() {
    let server = server().start().unwrap();
    let (mut client, _) = open(&server);
    create(&mut client, "/p", b"0");
    for round in 0..200 {
        client.queue(OpCode::SetData, set_data_body("/p", format!("first {round}").as_bytes(), -1));
        client.queue(OpCode::GetData, path_and_watch("/p", true));
        client.queue(OpCode::SetData, set_data_body("/p", format!("second {round}").as_bytes(), -1));
    }
    client.flush().unwrap();
    for round in 0..200 {
        let replies = client.receive_messages(4).unwrap();
        assert!(matches!(&replies[0], Message::Reply { .. }));
        let Message::Reply { body, .. } = &replies[1] else { panic!("{replies:?}") };
        let expected = format!("first {round}");
        assert_eq!(&body[4..4 + expected.len()], expected.as_bytes());
        assert!(matches!(&replies[2], Message::Event { event, .. } if event.path.as_deref() == Some("/p")));
        assert!(matches!(&replies[3], Message::Reply { .. }));
    }
}

#[test]
fn connections_per_address_are_limited() {
    let server = server().line("maxClientCnxns=5").start().unwrap();
    let held: Vec<_> = (0..5).map(|_| open(&server).0).collect();
    let mut sixth = RawClient::connect(server.address()).unwrap();
    assert_eq!(sixth.receive(TIME_LIMIT).unwrap(), Received::Closed);
    drop(held);
    wait_until(|| RawClient::open(server.address()).is_ok());
}

/// Waits for something that must happen soon. The time is a limit for a broken server, not a measure.
fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "it never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}
