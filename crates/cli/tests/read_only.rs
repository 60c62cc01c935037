//! Real servers in read-only mode: two of three are killed, the last one serves reads to those who asked for
//! it, and everything goes on when one comes back.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/ensemble.rs"]
mod processes;

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{create_body, done, error, path_and_watch, path_only, refused, set_data_body, set_watches_body};
use processes::{Ensemble, TIME_LIMIT};
use zebu_proto::client::ConnectRequest;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::multi::MULTI_END;
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, SessionId};
use zebu_testing::raw::new_session_request;
use zebu_testing::{RawClient, Session, four_letter};

fn reading(request: ConnectRequest) -> ConnectRequest {
    ConnectRequest { read_only: ReadOnlyField::Present(true), ..request }
}

fn word(address: SocketAddr, word: &str) -> String {
    four_letter::ask(address, word, TIME_LIMIT).unwrap()
}

/// Waits until `isro` says this.
fn await_word(ensemble: &Ensemble, index: usize, expected: &str) {
    let deadline = Instant::now() + TIME_LIMIT;
    while word(ensemble.clients[index], "isro") != expected {
        assert!(Instant::now() < deadline, "never {expected}\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A session at a server that takes no writes.
fn connect(address: SocketAddr, request: ConnectRequest) -> (RawClient, Session) {
    let mut client = RawClient::connect(address).unwrap();
    let response = client.handshake(&reading(request)).unwrap();
    assert_eq!(response.read_only, ReadOnlyField::Present(true));
    assert_ne!(response.session_id, 0);
    (client, Session::of(SessionId(response.session_id)))
}

/// An ensemble of which one member is left, with what a client did before and the session that it has.
fn last_of_three() -> (Ensemble, usize, Session) {
    let mut ensemble = Ensemble::start_with(3, "initLimit=20\nreadonlymode.enabled=true");
    let leader = ensemble.await_leader(3);
    assert_eq!(word(ensemble.clients[leader], "isro"), "rw");
    let last = (leader + 1) % 3;
    let (mut client, session) = RawClient::open(ensemble.clients[last]).unwrap();
    done(&mut client, OpCode::Create, create_body("/a", b"x", Acl::open(), 0));
    done(&mut client, OpCode::Create, create_body("/e", b"", Acl::open(), 1));
    (0..3).filter(|&index| index != last).for_each(|index| ensemble.kill(index));
    await_word(&ensemble, last, "ro");
    (ensemble, last, session)
}

fn expect_reads(client: &mut RawClient) {
    let (_, body) = done(client, OpCode::GetData, path_and_watch("/a", true));
    assert!(body.starts_with(&[0, 0, 0, 1, b'x']));
    for op in [OpCode::Exists, OpCode::GetChildren, OpCode::GetChildren2] {
        done(client, op, path_and_watch("/a", true));
    }
    for op in [OpCode::GetAcl, OpCode::GetAllChildrenNumber, OpCode::GetEphemerals] {
        done(client, op, path_only("/a"));
    }
    done(client, OpCode::WhoAmI, |_| ());
    done(client, OpCode::MultiRead, |out| MULTI_END.encode(out));
    done(client, OpCode::AddWatch, |out| {
        encode_bytes(b"/a", out);
        1i32.encode(out);
    });
    for op in [OpCode::CheckWatches, OpCode::RemoveWatches] {
        done(client, op, |out| {
            encode_bytes(b"/a", out);
            2i32.encode(out);
        });
    }
    // It has seen nothing and watches a node that is there: the event comes before the answer.
    let (events, _) = done(client, OpCode::SetWatches, set_watches_body(0, &["/a".to_owned()]));
    assert_eq!(events.len(), 1);
    assert_eq!(refused(client, OpCode::GetData, path_and_watch("/none", false)), Some(ErrorCode::NoNode));
}

/// Writes what follows a header.
type Body = Box<dyn FnOnce(&mut Vec<u8>)>;

fn expect_no_writes(client: &mut RawClient) {
    let mut refuse = |op, body: Body| {
        let (_, header, body) = client.call(op, body).unwrap();
        assert_eq!(error(&header), Some(ErrorCode::NotReadOnly), "{op:?}");
        assert!(body.is_empty());
    };
    for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer, OpCode::CreateTtl] {
        refuse(op, Box::new(create_body("/n", b"", Acl::open(), 0)));
    }
    refuse(OpCode::SetData, Box::new(set_data_body("/a", b"y", -1)));
    refuse(OpCode::Delete, Box::new(set_data_body("/a", b"", -1)));
    refuse(OpCode::SetAcl, Box::new(path_only("/a")));
    refuse(OpCode::Sync, Box::new(path_only("/a")));
    refuse(OpCode::Multi, Box::new(|out| MULTI_END.encode(out)));
    refuse(OpCode::Reconfig, Box::new(path_only("/a")));
}

#[test]
fn the_last_of_three_serves_reads_and_goes_on_when_another_is_back() {
    let (mut ensemble, last, session) = last_of_three();
    let address = ensemble.clients[last];

    // Who did not ask for it is closed without a word, with or without a session.
    for request in [new_session_request(), session.resume_request()] {
        let mut stranger = RawClient::connect(address).unwrap();
        stranger.send_connect(&request).unwrap();
        assert_eq!(stranger.receive_to_end(TIME_LIMIT).unwrap(), Some(Vec::new()));
    }

    let (mut own, own_session) = connect(address, new_session_request());
    expect_reads(&mut own);
    expect_no_writes(&mut own);
    let (mut real, real_session) = connect(address, session.resume_request());
    assert_eq!(real_session.id, session.id);
    expect_reads(&mut real);
    expect_no_writes(&mut real);
    assert_eq!(refused(&mut real, OpCode::CloseSession, |_| ()), Some(ErrorCode::NotReadOnly));
    expect_no_writes(&mut real);

    // An unknown session.
    let mut unknown = RawClient::connect(address).unwrap();
    let rejected = unknown.handshake(&reading(Session::of(SessionId(7)).resume_request())).unwrap();
    assert_eq!((rejected.session_id, rejected.read_only), (0, ReadOnlyField::Present(true)));

    words_of_a_read_only_server(address);
    shell_beside(address);

    // One comes back: the connections go, and the session of the ensemble takes writes again, everywhere.
    let other = (last + 1) % 3;
    ensemble.run(other);
    for client in [&mut own, &mut real] {
        let closed = loop {
            match client.receive_message() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(closed.to_string().contains("closed"), "{closed}");
    }
    ensemble.await_leader(2);
    for address in [address, ensemble.clients[other]] {
        assert_eq!(word(address, "isro"), "rw");
        let (mut client, response) = RawClient::resume(address, &session).unwrap();
        assert_eq!(response.read_only, ReadOnlyField::Present(false));
        done(&mut client, OpCode::SetData, set_data_body("/e", b"mine", -1));
        let (_, response) = RawClient::resume(address, &own_session).unwrap();
        assert_eq!(response.session_id, 0, "it was never one of the ensemble's");
    }
    let logs = ensemble.logs();
    assert!(logs.contains("Read-only server started"), "{logs}");
}

fn words_of_a_read_only_server(address: SocketAddr) {
    let srvr = word(address, "srvr");
    assert_eq!(srvr.lines().nth(1), Some("READ-ONLY mode; serving only read-only clients"), "{srvr}");
    assert!(srvr.contains("\nMode: read-only\n"), "{srvr}");
    let stat = word(address, "stat");
    assert!(stat.contains("\nClients:\n") && stat.contains("\nMode: read-only\n"), "{stat}");
    let mntr = word(address, "mntr");
    assert!(mntr.contains("zk_server_state\tread-only\n") && !mntr.contains("zk_peer_state"), "{mntr}");
    let conf = word(address, "conf");
    assert!(conf.ends_with("peerType=0\n"), "{conf}");
    assert!(word(address, "cons").contains("lop="));
    assert!(word(address, "wchs").contains("connections watching"));
    assert!(word(address, "dump").contains("Session Sets"));
    assert_eq!(word(address, "ruok"), "imok");
}

fn shell_beside(address: SocketAddr) {
    let run = |words: &[&str]| {
        let mut shell = Command::new(env!("CARGO_BIN_EXE_zebu"));
        let output = shell.args(["shell", "-server", &address.to_string(), "--quiet"]).args(words).output();
        let output = output.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for option in ["-r", "--readonly"] {
        assert_eq!(run(&[option, "get", "/a"]), (Some(0), "x\n".into(), String::new()));
    }
    let (status, _, error) = run(&["-r", "set", "/a", "y"]);
    assert_eq!((status, error.trim_end()), (Some(1), "Not a read-only call: /a"));
    let (status, ..) = run(&["-timeout", "1000", "get", "/a"]);
    assert_eq!(status, Some(1), "without the option there is no server");
}
