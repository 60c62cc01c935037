//! Bad input on the client port: the server closes the connection or refuses the request. Other connections
//! are not affected.

mod common;

use std::time::Duration;

use common::*;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::jute::{encode_bytes, encode_count};
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, SessionId, Xid};
use zebu_testing::raw::new_session_request;
use zebu_testing::{RawClient, Received, ServerProcess, Session};

const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A session from before the bad input, which must still be served after it.
struct UnaffectedClient {
    client: RawClient,
    session: Session,
}

impl UnaffectedClient {
    fn new(server: &ServerProcess) -> UnaffectedClient {
        let (mut client, session) = open(server);
        create(&mut client, "/witness", b"before");
        done(&mut client, OpCode::Create, create_body("/witness/here", b"", Acl::open(), 1));
        UnaffectedClient { client, session }
    }

    fn assert_served(&mut self) {
        let (events, body) = done(&mut self.client, OpCode::GetData, path_and_watch("/witness", false));
        assert_eq!(events, []);
        assert!(body.starts_with(b"\0\0\0\x06before"));
        done(&mut self.client, OpCode::Exists, path_and_watch("/witness/here", false));
    }
}

fn expect_closed(client: &mut RawClient, what: &str) {
    match client.receive(TIME_LIMIT).expect(what) {
        Received::Closed => {}
        other => panic!("{what}: expected a closed connection, got {other:?}"),
    }
}

#[test]
fn frame_lengths_that_are_no_request() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    for length in [-1i32, i32::MIN, 0, 1, 2, 3, 7, 0x10_0000, i32::MAX] {
        let mut fresh = RawClient::connect(server.address()).unwrap();
        fresh.send_bytes(&length.to_be_bytes()).unwrap();
        // A length that may still become a frame is completed with bytes that are no connect request.
        if (0..8).contains(&length) {
            fresh.send_bytes(&vec![0xff; length as usize]).unwrap();
        }
        expect_closed(&mut fresh, &format!("first frame of length {length}"));

        let (mut open, _) = open(&server);
        open.send_bytes(&length.to_be_bytes()).unwrap();
        if (0..8).contains(&length) {
            open.send_bytes(&vec![0xff; length as usize]).unwrap();
        }
        expect_closed(&mut open, &format!("request frame of length {length}"));
    }
    unaffected.assert_served();
}

#[test]
fn slow_and_silent_clients_are_closed_and_cost_little() {
    let server = server().property("zookeeper.nio.sessionlessCnxnTimeout", "400").line("maxClientCnxns=0");
    let server = server.start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    let before = resident_kib(&server);
    let mut slow: Vec<_> = (0..300)
        .map(|_| {
            let mut client = RawClient::connect(server.address()).unwrap();
            // The largest frame that is allowed, announced and never sent.
            client.send_bytes(&0xf_ffffi32.to_be_bytes()).unwrap();
            client.send_bytes(&[0; 20]).unwrap();
            client
        })
        .collect();
    assert!(monitored(&server, "num_alive_connections") <= 302);
    for client in &mut slow {
        expect_closed(client, "half a connect request");
    }
    let grown = resident_kib(&server).saturating_sub(before);
    assert!(grown < 300 * 16, "300 unfinished frames of 1 MiB took {grown} KiB");
    assert!(monitored(&server, "sessionless_connections_expired") >= 300);
    unaffected.assert_served();
}

#[test]
fn lengths_inside_a_request() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    let (mut client, _) = open(&server);
    for length in [-2i32, i32::MIN, 100, i32::MAX, i32::MAX - 3] {
        for op in [
            OpCode::GetData,
            OpCode::Exists,
            OpCode::GetChildren,
            OpCode::Sync,
            OpCode::SetData,
            OpCode::Create,
        ] {
            let answer = refused(&mut client, op, |out| {
                length.encode(out);
                out.extend_from_slice(b"/a\0\0\0\0");
            });
            assert_eq!(answer, Some(ErrorCode::MarshallingError), "{op:?} with a path of length {length}");
        }
    }
    // A vector that promises two thousand million watches.
    let answer = refused(&mut client, OpCode::SetWatches, |out| {
        0i64.encode(out);
        i32::MAX.encode(out);
        encode_bytes(b"/a", out);
    });
    assert_eq!(answer, Some(ErrorCode::MarshallingError));
    let answer = refused(&mut client, OpCode::Create, |out| {
        encode_bytes(b"/a", out);
        encode_bytes(b"", out);
        i32::MAX.encode(out);
    });
    assert_eq!(answer, Some(ErrorCode::MarshallingError));
    create(&mut client, "/after", b"the connection is still good");
    unaffected.assert_served();
}

#[test]
fn paths_that_are_no_paths() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    let (mut client, _) = open(&server);
    create(&mut client, "/a", b"");
    let bad: &[&[u8]] = &[
        b"a",
        b"/a/",
        b"/a/../b",
        b"/a/.",
        b"/a/b\0c",
        b"/a/\x01",
        b"/a/\x7f",
        b"/a/\xff\xfe",
        b"/a/\xed\xa0\x80",
        b"/a/\xee\x80\x80",
        b"/a/\xf0\x9f\x98\x80",
    ];
    for path in bad {
        let body = |out: &mut Vec<u8>| {
            encode_bytes(path, out);
            encode_bytes(b"", out);
            Acl::open().encode(out);
            0i32.encode(out);
        };
        let answer = refused(&mut client, OpCode::Create, body);
        let expected = [ErrorCode::BadArguments, ErrorCode::NoNode];
        assert!(answer.is_some_and(|error| expected.contains(&error)), "{path:?}: {answer:?}");
    }
    // As long as a frame allows, and as deep.
    let long = format!("/{}", "x".repeat(1_000_000));
    create(&mut client, &long, b"");
    assert_eq!(
        refused(&mut client, OpCode::GetData, path_and_watch(&"/x".repeat(100_000), true)),
        Some(ErrorCode::NoNode)
    );
    let mut deep = String::new();
    for _ in 0..2_000 {
        deep.push_str("/d");
        client.queue(OpCode::Create, create_body(&deep, b"", Acl::open(), 0));
    }
    client.flush().unwrap();
    client.receive_messages(2_000).unwrap();
    let (_, body) = done(&mut client, OpCode::GetAllChildrenNumber, path_only("/d"));
    assert_eq!(body, 1_999i32.to_be_bytes());
    for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        let answer = refused(&mut client, OpCode::Delete, |out| {
            encode_bytes(path.as_bytes(), out);
            (-1i32).encode(out);
        });
        assert_eq!(answer, Some(ErrorCode::BadArguments), "{path}");
    }
    unaffected.assert_served();
}

#[test]
fn quota_nodes_cannot_poison_the_server() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    let (mut client, _) = open(&server);
    for (path, data) in [
        ("/zookeeper/quota/zookeeper_limits", &b"count=1,bytes=1"[..]),
        ("/zookeeper/quota/zookeeper_stats", b"\xff\xff"),
        ("/zookeeper/quota/a", b""),
        ("/zookeeper/quota/a/zookeeper_limits", b"count=,bytes=99999999999999999999999"),
        ("/zookeeper/quota/a/zookeeper_stats", b"nonsense"),
    ] {
        // Either answer is fine; dying is not.
        let _ = refused(&mut client, OpCode::Create, create_body(path, data, Acl::open(), 0));
    }
    create(&mut client, "/a", b"data");
    create(&mut client, "/a/b", b"data");
    unaffected.assert_served();
}

#[test]
fn multis_of_every_ugly_form() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    let (mut client, _) = open(&server);
    let header = |op: i32| MultiHeader { op, done: false, err: -1 };
    let (_, body) = done(&mut client, OpCode::Multi, |out| MULTI_END.encode(out));
    assert_eq!(body.len(), 9, "an empty multi is answered with the end mark");
    let nested = refused(&mut client, OpCode::Multi, |out| {
        header(OpCode::Multi.wire()).encode(out);
        MULTI_END.encode(out);
        MULTI_END.encode(out);
    });
    assert_eq!(nested, Some(ErrorCode::MarshallingError));
    for op in [0, -1, -10, -11, 3, 7, 9, 20, 99, 107, i32::MAX] {
        let answer = refused(&mut client, OpCode::Multi, |out| {
            header(op).encode(out);
            encode_bytes(b"/a", out);
            out.extend_from_slice(&[0; 64]);
            MULTI_END.encode(out);
        });
        assert_eq!(answer, Some(ErrorCode::MarshallingError), "operation {op}");
    }
    let unfinished = refused(&mut client, OpCode::Multi, |out| header(OpCode::Delete.wire()).encode(out));
    assert_eq!(unfinished, Some(ErrorCode::MarshallingError));
    // As many operations as a frame holds: 40,000 checks, of which the last fails.
    create(&mut client, "/many", b"");
    let (_, body) = done(&mut client, OpCode::Multi, |out| {
        for index in 0..40_000 {
            header(OpCode::Check.wire()).encode(out);
            encode_bytes(b"/many", out);
            (if index == 39_999 { 7i32 } else { -1 }).encode(out);
        }
        MULTI_END.encode(out);
    });
    assert_eq!(body.len(), 40_000 * 13 + 9);
    unaffected.assert_served();
}

#[test]
fn unknown_and_internal_operations() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    for op in [0, 10, 13, 20, 23, 99, 108, -1, -2, -10, -12, i32::MAX, i32::MIN] {
        let (mut client, session) = open(&server);
        client.queue_as(Xid(5), op, |out| out.extend_from_slice(&[0; 32]));
        client.flush().unwrap();
        match client.receive_message().unwrap() {
            zebu_testing::Message::Reply { header, .. } => {
                assert_eq!(
                    (header.xid, error(&header)),
                    (5, Some(ErrorCode::Unimplemented)),
                    "operation {op}"
                );
                assert_eq!(header.zxid, -1);
            }
            event => panic!("{event:?}"),
        }
        expect_closed(&mut client, &format!("operation {op}"));
        let (_, response) = RawClient::resume(server.address(), &session).unwrap();
        assert_eq!(response.session_id, session.id.0, "the session lives on after operation {op}");
    }
    unaffected.assert_served();
}

#[test]
fn handshakes_that_are_none() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    let other = unaffected.session;

    let mut wrong = other.resume_request();
    wrong.password = Some(std::sync::Arc::from([9u8; 16]));
    let mut absent = other.resume_request();
    absent.password = None;
    let unknown = Session::of(SessionId(0x0123_4567_89ab_cdef)).resume_request();
    for request in [wrong, absent, unknown] {
        let mut client = RawClient::connect(server.address()).unwrap();
        let response = client.handshake(&request).unwrap();
        assert_eq!((response.session_id, response.timeout_ms), (0, 0));
        expect_closed(&mut client, "a rejected session");
        // A client without the password must not close the session's connection.
        unaffected.assert_served();
    }

    let mut ahead = new_session_request();
    ahead.last_zxid_seen = i64::MAX;
    let mut client = RawClient::connect(server.address()).unwrap();
    client.send_connect(&ahead).unwrap();
    expect_closed(&mut client, "a client from the future");

    let mut old = new_session_request();
    old.read_only = ReadOnlyField::Absent;
    old.protocol_version = 77;
    let mut client = RawClient::connect(server.address()).unwrap();
    let response = client.handshake(&old).unwrap();
    assert!(response.session_id != 0 && response.read_only == ReadOnlyField::Absent);
    // A second connect request is a request with a strange number.
    client.send_connect(&new_session_request()).unwrap();
    let answered = client.receive(TIME_LIMIT).unwrap();
    assert!(!matches!(answered, Received::Nothing));
    unaffected.assert_served();
}

#[test]
fn acls_that_grant_nothing_sensible() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    let (mut client, _) = open(&server);
    for acl in [
        vec![],
        vec![Acl::new(31, "nosuch", "anyone")],
        vec![Acl::new(31, "world", "notanyone")],
        vec![Acl::new(31, "auth", "")],
        vec![Acl::new(31, "super", "")],
        vec![Acl::new(31, "ip", "999.1.1.1")],
        vec![Acl::new(31, "digest", "nocolon")],
    ] {
        let answer = refused(&mut client, OpCode::Create, create_body("/acl", b"", acl.clone(), 0));
        assert_eq!(answer, Some(ErrorCode::InvalidAcl), "{acl:?}");
    }
    // Any bits are stored; what they do not name they do not grant.
    done(
        &mut client,
        OpCode::Create,
        create_body("/locked", b"", vec![Acl::new(-1 << 5, "world", "anyone")], 0),
    );
    assert_eq!(
        refused(&mut client, OpCode::GetData, path_and_watch("/locked", false)),
        Some(ErrorCode::NoAuth)
    );
    // A multi with one forbidden part changes nothing.
    let before = monitored(&server, "znode_count");
    done(&mut client, OpCode::Multi, |out| {
        MultiHeader { op: OpCode::Create.wire(), done: false, err: -1 }.encode(out);
        create_body("/allowed", b"", Acl::open(), 0)(out);
        MultiHeader { op: OpCode::Create.wire(), done: false, err: -1 }.encode(out);
        create_body("/locked/child", b"", Acl::open(), 0)(out);
        MULTI_END.encode(out);
    });
    assert_eq!(monitored(&server, "znode_count"), before);
    unaffected.assert_served();
}

#[test]
fn floods_of_credentials() {
    let server = server().start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    let before = resident_kib(&server);
    let (mut client, _) = open(&server);
    // The same one again and again is one credential.
    for _ in 0..10_000 {
        client.queue(OpCode::Auth, auth_body("digest", b"user:pass"));
    }
    client.flush().unwrap();
    assert_eq!(client.receive_messages(10_000).unwrap().len(), 10_000);
    done(&mut client, OpCode::WhoAmI, |_| ());
    // Ever new ones are too many at some point; that costs the connection.
    let mut refusals = 0;
    for number in 0..10_000 {
        client.queue(OpCode::Auth, auth_body("digest", format!("user{number}:pass").as_bytes()));
    }
    let _ = client.flush();
    while let Ok(Received::Frame(frame)) = client.receive(TIME_LIMIT) {
        refusals += i32::from(frame[12..16] == ErrorCode::AuthFailed.wire().to_be_bytes());
    }
    assert_eq!(refusals, 1);
    for (scheme, auth) in [("nosuch", &b"x"[..]), ("sasl", b"x"), ("world", b"anyone")] {
        let (mut client, _) = open(&server);
        assert_eq!(refused(&mut client, OpCode::Auth, auth_body(scheme, auth)), Some(ErrorCode::AuthFailed));
        expect_closed(&mut client, scheme);
    }
    let grown = resident_kib(&server).saturating_sub(before);
    assert!(grown < 20 * 1024, "{grown} KiB");
    unaffected.assert_served();
}

#[test]
fn sasl_that_is_not_configured_is_refused() {
    let server = server().start().unwrap();
    let (mut client, _) = open(&server);
    let (_, header, body) = client.call(OpCode::Sasl, |out| encode_bytes(b"token", out)).unwrap();
    assert_eq!((error(&header), body), (Some(ErrorCode::AuthFailed), vec![0xff; 4]), "no token");
    expect_closed(&mut client, "SASL without users");
}

#[test]
fn words_that_are_not_for_everyone() {
    let plain = ServerProcess::builder(env!("CARGO_BIN_EXE_zebu")).start().unwrap();
    let mut unaffected = UnaffectedClient::new(&plain);
    for word in ["ruok", "wchp", "wchc", "dump", "cons", "envi", "stmk"] {
        let answer = zebu_testing::four_letter::ask(plain.address(), word, TIME_LIMIT).unwrap();
        assert_eq!(answer, format!("{word} is not executed because it is not in the whitelist.\n"));
    }
    assert!(
        zebu_testing::four_letter::ask(plain.address(), "srvr", TIME_LIMIT)
            .unwrap()
            .starts_with("Zookeeper version: 3.9")
    );
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"xxxx", b"RUOK"] {
        let mut client = RawClient::connect(plain.address()).unwrap();
        client.send_bytes(bytes).unwrap();
        expect_closed(&mut client, "not a word");
    }
    // Inside a session a word is a length, and a bad one.
    let (mut client, _) = open(&plain);
    client.send_bytes(b"srvr").unwrap();
    expect_closed(&mut client, "a word inside a session");
    unaffected.assert_served();
}

#[test]
fn stmk_waits_for_its_argument_only_so_long() {
    let server = server().property("zookeeper.nio.sessionlessCnxnTimeout", "300").start().unwrap();
    let mut client = RawClient::connect(server.address()).unwrap();
    client.send_bytes(b"stmk").unwrap();
    assert_eq!(client.receive_to_end(TIME_LIMIT).unwrap(), Some(vec![]), "closed without an answer");
    let mut client = RawClient::connect(server.address()).unwrap();
    client.send_bytes(b"stmk\0\0\0\0\0\0\0\x05").unwrap();
    assert_eq!(client.receive_to_end(TIME_LIMIT).unwrap(), Some(b"5".to_vec()));
}

#[test]
fn storms_of_words_do_not_stop_the_server() {
    let server = server().line("maxClientCnxns=0").start().unwrap();
    let mut unaffected = UnaffectedClient::new(&server);
    std::thread::scope(|scope| {
        for word in ["wchp", "wchc", "dump", "cons", "mntr", "stat"] {
            let address = server.address();
            scope.spawn(move || {
                for _ in 0..50 {
                    zebu_testing::four_letter::ask(address, word, TIME_LIMIT).unwrap();
                }
            });
        }
        for _ in 0..100 {
            unaffected.assert_served();
        }
    });
}

#[test]
fn null_vectors_and_unknown_watch_kinds() {
    let server = server().start().unwrap();
    let (mut client, _) = open(&server);
    let answer = refused(&mut client, OpCode::SetWatches, |out| {
        0i64.encode(out);
        (-1i32).encode(out);
        encode_count(0, out);
        encode_count(0, out);
    });
    assert_eq!(answer, Some(ErrorCode::MarshallingError));
    // What stands before the null is carried out.
    create(&mut client, "/there", b"");
    let (events, header, _) = client
        .call(OpCode::SetWatches, |out| {
            0i64.encode(out);
            encode_count(1, out);
            encode_bytes(b"/there", out);
            (-1i32).encode(out);
            encode_count(0, out);
        })
        .unwrap();
    assert_eq!((events.len(), error(&header)), (1, Some(ErrorCode::MarshallingError)));
    // A watch on a null path is kept, though nothing ever happens there.
    let null_path = |number: i32| {
        move |out: &mut Vec<u8>| {
            (-1i32).encode(out);
            number.encode(out);
        }
    };
    assert_eq!(refused(&mut client, OpCode::CheckWatches, null_path(4)), Some(ErrorCode::NoWatcher));
    done(&mut client, OpCode::AddWatch, null_path(0));
    done(&mut client, OpCode::RemoveWatches, null_path(4));
    for (op, number) in [(OpCode::AddWatch, 2), (OpCode::RemoveWatches, 9), (OpCode::CheckWatches, 0)] {
        let answer = refused(&mut client, op, |out| {
            encode_bytes(b"/a", out);
            number.encode(out);
        });
        assert_eq!(answer, Some(ErrorCode::MarshallingError), "{op:?} {number}");
    }
}
