//! `restore` of the admin server: the whole state of a standalone server is replaced for good, or not at all.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]
#![allow(clippy::print_stderr, reason = "the moments of kills are for the reader")]

mod admin_common;
mod common;
#[path = "common/ensemble.rs"]
mod ensemble;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use admin_common::{AS_SUPER, Answer, SUPER_DIGEST, admin_port, connect, eventually, get, get_as, value};
use common::{create, create_body, done, path_and_watch};
use ensemble::Ensemble;
use zebu_proto::{Acl, OpCode, SessionId, StatPersisted};
use zebu_storage::format::snapshot::{SnapshotSummary, SnapshotVisitor};
use zebu_storage::snapshot_file::{MAGIC_SIZE, compression_by_magic, decode};
use zebu_testing::{RawClient, ServerProcess, ServerProcessBuilder, port};

fn server() -> ServerProcessBuilder {
    common::server()
        .line("admin.enableServer=true")
        .line("admin.serverPort=0")
        .line(format!("DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"))
}

fn unlimited() -> ServerProcess {
    server().line("admin.rateLimiterIntervalInMS=0").start().unwrap()
}

/// Sends a body with its length. The server may answer before it has read all of it.
fn post(address: SocketAddr, length: usize, body: &[u8]) -> Answer {
    let mut stream = connect(address);
    let head = format!(
        "POST /commands/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: {AS_SUPER}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Answer::parse(&answer)
}

fn restore(address: SocketAddr, snapshot: &[u8]) -> Answer {
    post(address, snapshot.len(), snapshot)
}

/// Restores a snapshot; returns the last zxid.
fn restored(address: SocketAddr, snapshot: &[u8]) -> i64 {
    let answer = restore(address, snapshot);
    assert_eq!((answer.status, value(&answer, "error")), (200, serde_json::Value::Null), "{}", answer.text());
    value(&answer, "last_zxid").as_i64().unwrap()
}

fn take_snapshot(address: SocketAddr) -> Vec<u8> {
    let answer = get_as(address, "/commands/snapshot", AS_SUPER);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.body
}

type Node = (Option<Vec<u8>>, Vec<Acl>, StatPersisted);

/// The content of a snapshot.
#[derive(Default)]
struct Content {
    sessions: Vec<SessionId>,
    acls: BTreeMap<i64, Vec<Acl>>,
    nodes: BTreeMap<String, Node>,
}

impl SnapshotVisitor for Content {
    fn session(&mut self, id: SessionId, _: i32) {
        self.sessions.push(id);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.insert(id, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        let acl = self.acls.get(&acl).cloned().unwrap_or_else(Acl::open);
        self.nodes.insert(path.to_owned(), (data.map(<[u8]>::to_vec), acl, *stat));
        Ok(())
    }
}

fn content(snapshot: &[u8]) -> (Content, SnapshotSummary) {
    let mut content = Content::default();
    let compression = compression_by_magic(&snapshot[..MAGIC_SIZE]).unwrap();
    let summary = decode(snapshot, compression, &mut content).unwrap();
    (content, summary)
}

fn children(client: &mut RawClient, path: &str) -> Vec<String> {
    let (_, body) = done(client, OpCode::GetChildren, path_and_watch(path, false));
    let (mut at, mut names) = (4, Vec::new());
    while at < body.len() {
        let length = i32::from_be_bytes(body[at..at + 4].try_into().unwrap()) as usize;
        names.push(String::from_utf8(body[at + 4..at + 4 + length].to_vec()).unwrap());
        at += 4 + length;
    }
    names.sort();
    names
}

fn names_after_connect(address: SocketAddr) -> Vec<String> {
    let (mut client, _) = RawClient::open(address).unwrap();
    children(&mut client, "/")
}

fn last_zxid(server: &ServerProcess) -> i64 {
    zebu_testing::four_letter::last_zxid(server.address(), Duration::from_secs(30)).unwrap().0
}

/// Waits until the audit log has so many lines about the whole state; returns the part behind the time.
fn audited(file: &Path, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    eventually("the audit log has all lines", || {
        let text = fs::read_to_string(file).unwrap_or_default();
        let about = text
            .lines()
            .filter(|line| line.contains("operation=snapshot") || line.contains("operation=restore"));
        lines = about.map(|line| line[24..].replace(" o.a.z.a.Slf4jAuditLogger:", "")).collect();
        lines.len() >= count
    });
    lines
}

/// Files of an upload or of an unfinished installation.
fn leftovers(data_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(data_dir.join("version-2")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("zebu.install") || name.starts_with("zebu.pending")).collect()
}

#[test]
fn a_snapshot_of_another_server_is_the_whole_state_and_survives_a_restart() {
    let source = unlimited();
    let (mut client, _) = RawClient::open(source.address()).unwrap();
    for number in 0..50 {
        create(&mut client, &format!("/a{number}"), &[number; 100]);
    }
    let acl = vec![Acl::new(zebu_proto::Permissions::ALL, "digest", "u:h")];
    done(&mut client, OpCode::Create, create_body("/secret", b"s", acl, 0));
    // The session ends first: the state without it is compared.
    done(&mut client, OpCode::CloseSession, |_| ());
    let snapshot = take_snapshot(admin_port(&source));
    let (wanted, wanted_summary) = content(&snapshot);
    assert!(wanted.sessions.is_empty());

    let mut target = unlimited();
    let (mut other, session) = RawClient::open(target.address()).unwrap();
    for number in 0..200 {
        create(&mut other, &format!("/b{number}"), b"x");
    }
    done(&mut other, OpCode::Create, create_body("/b0/lock", b"", Acl::open(), 1));
    let (_, header, _) = other.call(OpCode::GetData, path_and_watch("/b0", true)).unwrap();
    let seen = header.zxid;
    let zxid = restored(admin_port(&target), &snapshot);
    assert!(zxid > seen && zxid > wanted_summary.last_zxid.unwrap().0, "{zxid:#x} {seen:#x}");
    // The client is closed, and its session is gone.
    assert!(other.call(OpCode::Exists, path_and_watch("/", false)).is_err());
    let mut again = RawClient::connect(target.address()).unwrap();
    let resume = zebu_proto::client::ConnectRequest { last_zxid_seen: seen, ..session.resume_request() };
    let answer = again.handshake(&resume).unwrap();
    assert_eq!(answer.session_id, 0, "{answer:?}");
    for round in ["at once", "after a restart", "after a kill"] {
        let (found, summary) = content(&take_snapshot(admin_port(&target)));
        assert_eq!(found.nodes, wanted.nodes, "{round}");
        let digests = [&summary, &wanted_summary].map(|summary| summary.digest.as_ref().unwrap().digest);
        assert_eq!(digests[0], digests[1], "{round}");
        assert!(last_zxid(&target) >= zxid, "{round}");
        assert_eq!(leftovers(&target.data_dir()), Vec::<String>::new(), "{round}");
        match round {
            "at once" => target.restart().unwrap(),
            _ => {
                target.kill().unwrap();
                target.start().unwrap();
            }
        }
    }
    // Writes go on behind it, and survive.
    let (mut client, _) = RawClient::open(target.address()).unwrap();
    create(&mut client, "/after", b"");
    target.kill().unwrap();
    target.start().unwrap();
    let names = names_after_connect(target.address());
    assert!(names.contains(&"after".to_owned()) && names.contains(&"a49".to_owned()), "{names:?}");
}

fn testdata(path: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage/testdata").join(path)).unwrap()
}

/// Snapshots that Apache ZooKeeper wrote, plain and compressed. Their sessions end with the restore.
#[test]
fn snapshots_of_apache_are_restored() {
    let recorded = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../admin/testdata/exchanges/standalone-snapshot-streaming.bin");
    let snapshots = [
        testdata("release-3.9.5/data/version-2/snapshot.34"),
        testdata("gz/data/version-2/snapshot.36.gz"),
        testdata("snappy/data/version-2/snapshot.36.snappy"),
        fs::read(recorded).unwrap(),
    ];
    let (mut server, mut last) = (unlimited(), 0);
    for (number, snapshot) in snapshots.iter().enumerate() {
        let (wanted, _) = content(snapshot);
        let answer = restore(admin_port(&server), snapshot);
        assert_eq!(answer.status, 200, "{number}: {}", answer.text());
        assert!(value(&answer, "last_zxid").as_i64().unwrap() > last, "{number}");
        last = value(&answer, "last_zxid").as_i64().unwrap();
        server.restart().unwrap();
        let (found, _) = content(&take_snapshot(admin_port(&server)));
        let is_ephemeral = |node: &Node| wanted.sessions.contains(&SessionId(node.2.ephemeral_owner));
        let lost: Vec<&String> =
            wanted.nodes.iter().filter(|(_, node)| is_ephemeral(node)).map(|(path, _)| path).collect();
        let parents: Vec<&str> = lost.iter().map(|path| path.rsplit_once('/').unwrap().0).collect();
        assert_eq!(found.nodes.len() + lost.len(), wanted.nodes.len(), "{number}: {lost:?}");
        for (path, node) in &wanted.nodes {
            if path.ends_with("/zookeeper_stats") {
                // It counts the nodes of the sessions, too.
                assert_eq!(found.nodes[path].2, node.2, "{number}: {path}");
            } else if lost.contains(&path) {
                assert!(!found.nodes.contains_key(path), "{number}: {path}");
            } else if parents.contains(&path.as_str()) {
                let (data, acl, _) = &found.nodes[path];
                assert_eq!((data, acl), (&node.0, &node.1), "{number}: {path}");
            } else {
                assert_eq!(&found.nodes[path], node, "{number}: {path}");
            }
        }
        assert!(found.sessions.is_empty(), "{number}");
        let mismatches = common::monitored(&server, "digest_mismatches_count");
        assert_eq!(mismatches, 0, "{number}");
    }
}

#[test]
fn bad_cut_foreign_and_too_large_bodies_change_nothing() {
    let server = server()
        .line("admin.rateLimiterIntervalInMS=0")
        .line("admin.restore.maxBytes=100000")
        .start()
        .unwrap();
    let address = admin_port(&server);
    let (mut client, _) = RawClient::open(server.address()).unwrap();
    create(&mut client, "/kept", b"value");
    let good = testdata("release-3.9.5/data/version-2/snapshot.34");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&good[..16]).unwrap();
    bomb.write_all(&vec![0; 50_000_000]).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let log = testdata("release-3.9.5/data/version-2/log.1");
    for (what, length, body, status) in [
        ("empty", 0, &b""[..], 400),
        ("no snapshot", 14, b"not a snapshot", 400),
        ("cut", good.len() - 60, &good[..good.len() - 60], 400),
        ("flipped", good.len(), &flipped, 400),
        ("a log", log.len(), &log, 400),
        ("too long", 100_001, b"ZKSN", 413),
        ("longer than memory", usize::MAX / 2, b"ZKSN", 413),
        ("a bomb", bomb.len(), &bomb, 400),
    ] {
        let answer = post(address, length, body);
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        let error = value(&answer, "error");
        assert!(error.as_str().unwrap().ends_with("; the state is unchanged"), "{what}: {error}");
    }
    // The connection ends before the body does.
    let head = format!(
        "POST /commands/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {AS_SUPER}\r\nContent-Length: {}\r\n\r\n",
        good.len()
    );
    let mut stream = connect(address);
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&good[..good.len() - 1])).unwrap();
    eventually("the upload has begun", || !leftovers(&server.data_dir()).is_empty());
    stream.shutdown(Shutdown::Both).unwrap();
    eventually("the upload is gone", || leftovers(&server.data_dir()).is_empty());
    let endless = {
        let mut stream = connect(address);
        let head = format!(
            "POST /commands/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {AS_SUPER}\r\nConnection: \
             close\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let chunk = format!("4000\r\n{}\r\n", "Z".repeat(0x4000));
        let mut chunks = 0;
        while chunks < 10_000 && stream.write_all(chunk.as_bytes()).is_ok() {
            chunks += 1;
        }
        chunks
    };
    assert!(endless < 10_000, "a chunked body without end is not taken");
    // The client was never closed.
    let (_, body) = done(&mut client, OpCode::GetData, path_and_watch("/kept", false));
    assert_eq!(&body[4..9], b"value");
    eventually("no file stays", || leftovers(&server.data_dir()).is_empty());
    assert!(common::monitored(&server, "restore_error_count") >= 7);
    let zxid = restored(address, &good);
    assert!(zxid > 0x34);
}

#[test]
fn one_restore_passes_per_interval_and_only_for_the_super_user() {
    let server = server().start().unwrap();
    let address = admin_port(&server);
    let as_other = |authorization: &str| {
        let line = format!("Authorization: {authorization}");
        admin_common::exchange(
            connect(address),
            &admin_common::request("POST", "/commands/restore", &[&line], "x"),
        )
    };
    assert_eq!(as_other("digest anybody:anything").status, 403);
    assert_eq!(as_other("ip").status, 403);
    assert_eq!(as_other("digest super:wrong").status, 403);
    // A refused caller does not use up the interval; a body that is no snapshot does, as in ZooKeeper.
    assert_eq!(restore(address, b"not a snapshot").status, 400);
    let limited = restore(address, &testdata("release-3.9.5/data/version-2/snapshot.34"));
    assert_eq!(limited.status, 429, "{}", limited.text());
    let seconds: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=301).contains(&seconds), "{seconds}");
    assert_eq!(common::monitored(&server, "restore_rate_limited_count"), 1);
    for status in [200, 429] {
        assert_eq!(get_as(address, "/commands/snapshot?streaming=false", AS_SUPER).status, status);
    }
    assert_eq!(common::monitored(&server, "snapshot_rate_limited_count"), 1);
}

/// Zxids that clients see only grow, although the state is replaced again and again under their writes.
#[test]
fn writes_go_on_around_restores() {
    let server = unlimited();
    let (address, clients) = (admin_port(&server), server.address());
    let snapshot = testdata("release-3.9.5/data/version-2/snapshot.34");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = thread::spawn(move || {
        let (mut seen, mut written, mut closed) = (0, 0, 0);
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let Ok((mut client, _)) = RawClient::open(clients) else {
                closed += 1;
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            for number in 0.. {
                let path = format!("/w{written}-{number}");
                let Ok((_, header, _)) = client.call(OpCode::Create, create_body(&path, b"", Acl::open(), 0))
                else {
                    closed += 1;
                    break;
                };
                assert_eq!(header.err, 0);
                assert!(header.zxid > seen, "{} after {seen}", header.zxid);
                seen = header.zxid;
                written += 1;
                if stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) {
                    return (seen, written, closed);
                }
            }
        }
        (seen, written, closed)
    });
    let mut last = 0;
    for round in 0..5 {
        let known = last_zxid(&server);
        eventually("writes go on", || last_zxid(&server) > known + 10);
        let zxid = restored(address, &snapshot);
        assert!(zxid > last, "{round}");
        last = zxid;
    }
    stop.send(()).unwrap();
    let (seen, written, closed) = writer.join().unwrap();
    assert!(written >= 50 && closed >= 5, "{written} {closed}");
    assert!(last_zxid(&server) >= seen);
    assert_eq!(common::monitored(&server, "outstanding_requests"), 0);
}

/// The moment at which a server is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum KillAt {
    /// Half of the body was sent: the state is certainly the old one.
    HalfReceived,
    /// A file with this name is there.
    File(&'static str),
    /// The answer is there: the state is certainly the new one.
    Answered,
}

/// A server that is killed during a restore starts with the old state or with the new one. An answer is never
/// taken back.
#[test]
fn a_kill_leaves_the_old_state_or_the_new_one() {
    let source = unlimited();
    let (mut client, _) = RawClient::open(source.address()).unwrap();
    for number in 0..3000 {
        client.queue(OpCode::Create, create_body(&format!("/n{number}"), &[7; 500], Acl::open(), 0));
    }
    client.flush().unwrap();
    client.receive_messages(3000).unwrap();
    let snapshot = take_snapshot(admin_port(&source));
    let mut server = unlimited();
    let (mut olds, mut news) = (0, 0);
    // The names are those of the upload, of the new snapshot before it counts, and of the mark.
    let files = ["zebu.install.upload.1", "zebu.install.1", "zebu.pending"].map(KillAt::File);
    let moments: Vec<KillAt> = [KillAt::HalfReceived, KillAt::Answered].into_iter().chain(files).collect();
    for (round, &moment) in moments.iter().cycle().take(20).enumerate() {
        // The marker shows the old state; its number tells the round.
        let (mut client, _) = RawClient::open(server.address()).unwrap();
        let marker = format!("old{round}");
        create(&mut client, &format!("/{marker}"), b"");
        let body = if moment == KillAt::HalfReceived { &snapshot[..snapshot.len() / 2] } else { &snapshot };
        let (body, length) = (body.to_vec(), snapshot.len());
        let mut stream = connect(admin_port(&server));
        let sender = thread::spawn(move || {
            let head = format!(
                "POST /commands/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {AS_SUPER}\r\nConnection: \
                 close\r\nContent-Length: {length}\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            answer.starts_with(b"HTTP/1.1 200")
        });
        let directory = server.data_dir().join("version-2");
        let is_there = |name: &str| directory.join(name).exists();
        let deadline = Instant::now() + admin_common::TIME_LIMIT;
        // A short moment may be missed; then the answer comes.
        while !sender.is_finished() && Instant::now() < deadline {
            match moment {
                KillAt::HalfReceived if is_there("zebu.install.upload.1") => break,
                KillAt::File(name) if is_there(name) => break,
                KillAt::HalfReceived | KillAt::File(_) => thread::yield_now(),
                KillAt::Answered => thread::sleep(Duration::from_millis(1)),
            }
        }
        server.kill().unwrap();
        let is_answered = sender.join().unwrap();
        server.start().unwrap();
        let names = names_after_connect(server.address());
        let (is_old, is_new) = (names.contains(&marker), names.len() > 3000 && !names.contains(&marker));
        assert!(is_old != is_new, "{round} {moment:?}: {} nodes, {is_old} {is_new}", names.len());
        assert!(is_new || !is_answered, "{round} {moment:?}: an answer was taken back");
        match moment {
            KillAt::HalfReceived => assert!(is_old, "{round}"),
            KillAt::Answered => assert!(is_new && is_answered, "{round}"),
            KillAt::File(_) => {}
        }
        assert_eq!(leftovers(&server.data_dir()), Vec::<String>::new(), "{round} {moment:?}");
        eprintln!("{round} {moment:?}: {}", if is_old { "old" } else { "new" });
        if is_old {
            olds += 1;
        } else {
            news += 1;
        }
    }
    assert!(olds >= 4 && news >= 4, "{olds} times the old state, {news} times the new one");
}

/// An ensemble refuses, and the procedure of the refusal restores all of its servers.
#[test]
fn an_ensemble_refuses_and_its_procedure_restores_all_servers() {
    let mut ensemble = Ensemble::prepare(
        3,
        &format!("initLimit=20\nDigestAuthenticationProvider.superDigest={SUPER_DIGEST}"),
    );
    let admin: Vec<SocketAddr> = (0..3).map(|_| port::free_address().unwrap()).collect();
    for (index, address) in admin.iter().enumerate() {
        let path = ensemble.home.path().join(format!("zoo{index}.cfg"));
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("admin.enableServer=false", &format!("admin.serverPort={}", address.port()));
        fs::write(&path, text).unwrap();
        ensemble.run(index);
    }
    let leader = ensemble.await_leader(3);
    let (mut client, _) = RawClient::open(ensemble.clients[leader]).unwrap();
    create(&mut client, "/before", b"value");
    let taken = get_as(admin[leader], "/commands/snapshot", AS_SUPER);
    let zxid = taken.header("last_zxid").unwrap().trim_start_matches("0x").to_owned();
    create(&mut client, "/later", b"");
    let (_, header, _) = client.call(OpCode::Exists, path_and_watch("/later", false)).unwrap();
    for address in &admin {
        let refused = restore(*address, &taken.body);
        assert_eq!(refused.status, 409, "{}", refused.text());
        assert!(
            value(&refused, "error").as_str().unwrap().contains("Stop all servers"),
            "{}",
            refused.text()
        );
    }
    done(&mut client, OpCode::Exists, path_and_watch("/later", false));
    drop(client);
    (0..3).for_each(|index| ensemble.kill(index));
    for index in 0..3 {
        let directory = ensemble.data(index).join("version-2");
        let aside = ensemble.data(index).join("aside");
        fs::create_dir(&aside).unwrap();
        for entry in fs::read_dir(&directory).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.starts_with("snapshot.") || name.starts_with("log.") || name == "zebu.durable" {
                fs::rename(directory.join(&name), aside.join(&name)).unwrap();
            }
        }
        fs::write(directory.join(format!("snapshot.{zxid}")), &taken.body).unwrap();
    }
    (0..3).for_each(|index| ensemble.run(index));
    ensemble.await_leader(3);
    eventually("all servers are ready", || admin.iter().all(|address| get(*address, "/ready").status == 200));
    // The session of a new client takes the zxid above those of the old state.
    let (first, _) = RawClient::open(ensemble.clients[0]).unwrap();
    for (index, address) in ensemble.clients.iter().enumerate() {
        // A client that has seen the old state is served.
        let request = zebu_proto::client::ConnectRequest {
            last_zxid_seen: header.zxid,
            ..zebu_testing::raw::new_session_request()
        };
        let mut accepted = None;
        eventually("a client of the old state is served", || {
            let mut client = RawClient::connect(*address).unwrap();
            accepted = client.handshake(&request).is_ok().then_some(client);
            accepted.is_some()
        });
        let mut client = accepted.unwrap();
        assert_eq!(children(&mut client, "/"), ["before", "zookeeper"], "{index}");
        drop(client);
    }
    drop(first);
}

/// Each attempt at the whole state has a line with the identity of its caller.
#[test]
fn snapshots_and_restores_are_in_the_audit_log() {
    let home = tempfile::tempdir().unwrap();
    let start = |name: &str, extra: bool| {
        let server = server().line("admin.rateLimiterIntervalInMS=0").line("audit.enable=true");
        let file = home.path().join(name);
        let server = server.line(format!("zebu.audit.file={}", file.display()));
        (server.line(format!("zebu.audit.extraEvents={extra}")).start().unwrap(), file)
    };
    let (server, file) = start("extra.log", true);
    let address = admin_port(&server);
    let snapshot = take_snapshot(address);
    assert_eq!(get_as(address, "/commands/snapshot", "digest eve:pw").status, 403);
    assert_eq!(get(address, "/commands/snapshot").status, 401);
    assert_eq!(restore(address, b"no snapshot").status, 400);
    restored(address, &snapshot);
    let line = |level: &str, user: &str, operation: &str, result: &str| {
        format!("{level} user=127.0.0.1{user}\tip=127.0.0.1\toperation={operation}\tresult={result}")
    };
    let mut expected = vec![
        line("INFO", ",super", "snapshot", "success"),
        line("ERROR", ",eve", "snapshot", "failure"),
        line("ERROR", "", "snapshot", "failure"),
        line("ERROR", ",super", "restore", "failure"),
        line("INFO", ",super", "restore", "success"),
    ];
    assert_eq!(audited(&file, 5), expected);
    // A caller that leaves in the middle of its body leaves a line, too.
    let mut stream = connect(address);
    let head = format!(
        "POST /commands/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {AS_SUPER}\r\n\
         Content-Length: 1000\r\n\r\nbegun"
    );
    stream.write_all(head.as_bytes()).unwrap();
    eventually("the upload has begun", || !leftovers(&server.data_dir()).is_empty());
    drop(stream);
    expected.push(line("ERROR", ",super", "restore", "failure"));
    assert_eq!(audited(&file, 6), expected);

    // ZooKeeper has no such lines.
    let (plain, file) = start("plain.log", false);
    restored(admin_port(&plain), &take_snapshot(admin_port(&plain)));
    let (mut client, _) = RawClient::open(plain.address()).unwrap();
    create(&mut client, "/last", b"");
    let text = || fs::read_to_string(&file).unwrap_or_default();
    eventually("the write has its line", || text().contains("znode=/last"));
    assert!(!text().contains("operation=snapshot") && !text().contains("operation=restore"), "{}", text());
}
