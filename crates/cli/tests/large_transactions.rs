//! Requests whose transaction would be longer than other servers read: the request is refused or takes a
//! shorter form, and the ensemble goes on.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/large_log.rs"]
mod large_log;
#[path = "common/ensemble.rs"]
mod processes;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{auth_body, create_body, done, path_and_watch, refused};
use processes::{Ensemble, TIME_LIMIT};
use zebu_proto::client::ConnectRequest;
use zebu_proto::jute::encode_bytes;
use zebu_proto::txn::{Txn, TxnEntry, TxnHeader};
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, Reader, SessionId, Zxid};
use zebu_testing::{Message, RawClient, raw};

/// The flag of an ephemeral node.
const EPHEMERAL: i32 = 1;

/// Ephemeral nodes of one session whose paths do not fit into one transaction.
const EPHEMERALS: usize = 60_000;

/// Creates in one multi.
const MULTI: usize = 2_000;

/// Short enough for a test that waits for the expiry, long enough for a busy machine.
const TIMEOUT_MS: i32 = 8_000;

/// One ensemble at a time, with patience: a busy machine must not be taken for a leader that is gone.
fn start() -> (MutexGuard<'static, ()>, Ensemble) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (turn, Ensemble::start_with(3, "initLimit=60\nsyncLimit=60"))
}

fn connect(ensemble: &Ensemble, member: usize) -> RawClient {
    let mut client = RawClient::connect(ensemble.clients[member]).unwrap();
    client.set_patience(TIME_LIMIT);
    client.handshake(&ConnectRequest { timeout_ms: TIMEOUT_MS, ..raw::new_session_request() }).unwrap();
    client
}

fn create_ephemerals(client: &mut RawClient, parent: &str, count: usize) {
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(MULTI) {
        client.queue(OpCode::Multi, |out| {
            for number in numbers {
                (OpCode::Create.wire(), false, -1i32).encode_all(out);
                let path = format!("{parent}/an-ephemeral-node-of-one-session-{number:06}");
                create_body(&path, b"", Acl::open(), EPHEMERAL)(out);
            }
            (-1i32, true, -1i32).encode_all(out);
        });
    }
    client.flush().unwrap();
    for _ in numbers.chunks(MULTI) {
        let reply = client.receive_message().unwrap();
        assert!(matches!(&reply, Message::Reply { header, .. } if header.err == 0), "{reply:?}");
    }
    assert_eq!(children(client, parent), count);
}

trait EncodeAll {
    fn encode_all(&self, out: &mut Vec<u8>);
}

impl EncodeAll for (i32, bool, i32) {
    fn encode_all(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
        self.2.encode(out);
    }
}

fn children(client: &mut RawClient, path: &str) -> usize {
    let (_, body) = done(client, OpCode::GetChildren, path_and_watch(path, false));
    Reader::new(&body).int().unwrap() as usize
}

/// Waits until a node has no children at a member, which may have lost its leader meanwhile.
fn await_empty(ensemble: &Ensemble, member: usize, path: &str) {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let count = RawClient::open(ensemble.clients[member]).and_then(|(mut client, _)| {
            client.call(OpCode::Sync, common::path_only(path))?;
            let (_, _, body) = client.call(OpCode::GetChildren, path_and_watch(path, false))?;
            Ok(Reader::new(&body).int().unwrap())
        });
        if matches!(count, Ok(0)) {
            return;
        }
        assert!(Instant::now() < deadline, "{path} has {count:?} children\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Every member serves, and clients of every member write.
fn assert_goes_on(ensemble: &Ensemble, name: &str) {
    ensemble.await_leader(3);
    for member in 0..3 {
        let (mut client, _) = RawClient::open(ensemble.clients[member]).unwrap();
        client.set_patience(TIME_LIMIT);
        common::create(&mut client, &format!("/{name}-{member}"), b"x");
    }
}

/// A listed close would be two and a half megabytes long. The watched parent's last change must be the same
/// on all.
#[test]
fn a_session_with_very_many_ephemerals_closes_and_expires() {
    let (_turn, ensemble) = start();
    let leader = ensemble.await_leader(3);
    for (way, member) in [("/closes", (leader + 1) % 3), ("/expires", leader)] {
        common::create(&mut connect(&ensemble, leader), way, b"");
        let mut client = connect(&ensemble, member);
        done(&mut client, OpCode::Sync, common::path_only(way));
        create_ephemerals(&mut client, way, EPHEMERALS);
        if way == "/closes" {
            done(&mut client, OpCode::CloseSession, |_| {});
        }
        drop(client);
        (0..3).for_each(|member| await_empty(&ensemble, member, way));
        assert_goes_on(&ensemble, &way[1..]);
        let stats: Vec<Vec<u8>> = (0..3)
            .map(|member| {
                let mut client = connect(&ensemble, member);
                done(&mut client, OpCode::Sync, common::path_only(way));
                done(&mut client, OpCode::Exists, path_and_watch(way, false)).1
            })
            .collect();
        assert!(stats.iter().all(|stat| *stat == stats[0]), "{stats:?}");
    }
    let logs = ensemble.logs();
    assert!(logs.contains("a session ends without a list of its ephemeral nodes"), "{logs}");
    for member in 0..3 {
        let text = zebu_testing::four_letter::ask(ensemble.clients[member], "mntr", TIME_LIMIT).unwrap();
        assert!(text.contains("zk_digest_mismatches_count\t0\n"), "{text}");
    }
}

#[test]
fn three_ephemerals_with_very_long_names_go_with_their_session() {
    let (_turn, ensemble) = start();
    let leader = ensemble.await_leader(3);
    let (mut other, _) = RawClient::open(ensemble.clients[leader]).unwrap();
    common::create(&mut other, "/long", b"");
    let mut client = connect(&ensemble, (leader + 1) % 3);
    done(&mut client, OpCode::Sync, common::path_only("/long"));
    for letter in ["a", "b", "c"] {
        let path = format!("/long/{}", letter.repeat(900_000));
        done(&mut client, OpCode::Create, create_body(&path, b"", Acl::open(), EPHEMERAL));
    }
    done(&mut client, OpCode::CloseSession, |_| {});
    (0..3).for_each(|member| await_empty(&ensemble, member, "/long"));
    assert_goes_on(&ensemble, "after");
}

#[test]
fn a_create_whose_acl_becomes_too_long_is_refused() {
    let (_turn, ensemble) = start();
    ensemble.await_leader(3);
    for member in 0..3 {
        let mut client = connect(&ensemble, member);
        for letter in ["a", "b", "c"] {
            done(
                &mut client,
                OpCode::Auth,
                auth_body("digest", format!("{}:x", letter.repeat(300_000)).as_bytes()),
            );
        }
        let auth = |count: i32| (1..=count).map(|perms| Acl::new(perms, "auth", "")).collect::<Vec<_>>();
        let path = format!("/owned-{member}");
        let code = refused(&mut client, OpCode::Create, create_body(&path, b"", auth(3), 0));
        assert_eq!(code, Some(ErrorCode::MarshallingError));
        let many = |out: &mut Vec<u8>| {
            for number in 0..3 {
                (OpCode::Create.wire(), false, -1i32).encode_all(out);
                create_body(&format!("{path}-{number}"), b"", auth(1), 0)(out);
            }
            (-1i32, true, -1i32).encode_all(out);
        };
        assert_eq!(refused(&mut client, OpCode::Multi, many), Some(ErrorCode::MarshallingError));
        done(&mut client, OpCode::Create, create_body(&path, b"", auth(2), 0));
        let too_long = |out: &mut Vec<u8>| {
            encode_bytes(path.as_bytes(), out);
            auth(3).encode(out);
            (-1i32).encode(out);
        };
        assert_eq!(refused(&mut client, OpCode::SetAcl, too_long), Some(ErrorCode::MarshallingError));
    }
    assert_goes_on(&ensemble, "after");
    let logs = ensemble.logs();
    assert!(logs.contains("a request was refused: its transaction would be too long"), "{logs}");
}

/// As releases without a limit leave it behind: one member has logged ten megabytes that no other could read.
#[test]
fn an_ensemble_with_a_transaction_that_is_too_long_in_a_log_recovers() {
    let (_turn, mut ensemble) = start();
    let leader = ensemble.await_leader(3);
    let (mut client, session) = RawClient::open(ensemble.clients[leader]).unwrap();
    common::create(&mut client, "/e", b"");
    done(&mut client, OpCode::Create, create_body("/e/one", b"", Acl::open(), EPHEMERAL));
    drop(client);
    (0..3).for_each(|member| ensemble.kill(member));
    let zxid = large_log::append_transaction(&last_log(&ensemble, leader), |zxid| {
        let header = TxnHeader { session: session.id, cxid: 0, zxid: Zxid(zxid), time_ms: 1 };
        let mut paths: Vec<Box<str>> = vec!["/e/one".into()];
        paths.extend((0..10).map(|number| format!("/e/{number}{}", "x".repeat(1 << 20)).into()));
        let mut bytes = Vec::new();
        TxnEntry { header, txn: Txn::CloseSession(Some(paths)), digest: None }.encode(&mut bytes);
        bytes
    });
    assert!(zxid > 0 && session.id != SessionId::NONE);
    // With two of three there is no quorum without that member.
    ensemble.run(leader);
    ensemble.run((leader + 1) % 3);
    assert_eq!(ensemble.await_leader(2), leader);
    ensemble.run((leader + 2) % 3);
    assert_goes_on(&ensemble, "after");
    (0..3).for_each(|member| await_empty(&ensemble, member, "/e"));
    // A member that was away comes back, and one that has nothing.
    let away = (ensemble.await_leader(3) + 1) % 3;
    ensemble.kill(away);
    std::fs::remove_dir_all(ensemble.data(away).join("version-2")).unwrap();
    ensemble.run(away);
    assert_goes_on(&ensemble, "again");
}

fn last_log(ensemble: &Ensemble, member: usize) -> PathBuf {
    let files = std::fs::read_dir(ensemble.data(member).join("version-2")).unwrap();
    let logs = files.map(|file| file.unwrap().path());
    logs.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log.")).max().unwrap()
}
