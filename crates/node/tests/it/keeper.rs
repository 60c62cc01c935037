//! The requests of ClickHouse Keeper: at a server alone, at a learner, and on three servers.

use zebu_node::{AuthEnforcement, ConnectionId, ConnectionPhase, KeeperSettings, Node, Replica};
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::client::{CreateOp, EventType, MultiOp};
use zebu_proto::quorum::{Capabilities, Packet, PeerAnnouncement};
use zebu_proto::txn::{CheckTxn, SubTxn, Txn};
use zebu_proto::{Acl, Buffer, ErrorCode, Jute, Permissions, Reader, Stat, Text};
use zebu_tree::{Policy, Tree};

use crate::client::{
    Ask, EPHEMERAL, Frame, Reply, create, create_request, create_with_acl, delete, exists, get, get_acl,
    hello, multi_create, multi_delete, set,
};
use crate::node_fixture::{NodeFixture, START, settings, tree_options};
use crate::scripted_peer::Member;
use crate::three_nodes::ThreeNodes;

fn server_with(keeper: KeeperSettings) -> (NodeFixture, ConnectionId) {
    let tree = Tree::new(tree_options());
    let replica = Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3).with_keeper(keeper);
    let node = Node::new(settings(), &replica, START);
    let mut server = NodeFixture::around(node, replica, settings());
    let connection = server.client();
    (server, connection)
}

fn server() -> (NodeFixture, ConnectionId) {
    server_with(KeeperSettings::default())
}

/// A path with a length in front, then bytes.
fn body(path: &str, rest: &[&[u8]]) -> Vec<u8> {
    let length = (path.len() as u32).to_be_bytes();
    [&[&length[..], path.as_bytes()], rest].concat().concat()
}

pub(crate) fn filtered_list(path: &str, watch: u8, kind: u8) -> Ask {
    Ask::raw(500, &body(path, &[&[watch, kind]]))
}

fn check_not_exists(path: &str, version: i32) -> Ask {
    Ask::raw(501, &body(path, &[&version.to_be_bytes()]))
}

fn create_if_not_exists(path: &str, data: &str, flags: i32) -> Ask {
    let mut body = Vec::new();
    create_request(CreateOp::Create, path, data, flags).encode(&mut body);
    Ask::raw(502, &body)
}

fn remove_recursive(path: &str, limit: u32) -> Ask {
    Ask::raw(503, &body(path, &[&limit.to_be_bytes()]))
}

fn check_stat(path: &str, version: i32, stat: &Stat) -> Ask {
    let mut fields = Vec::new();
    stat.encode(&mut fields);
    Ask::raw(504, &body(path, &[&version.to_be_bytes(), &fields]))
}

fn try_remove(path: &str, version: i32) -> Ask {
    Ask::raw(505, &body(path, &[&version.to_be_bytes()]))
}

pub(crate) fn list_with(path: &str, watch: u8, kind: u8, stats: bool, data: bool) -> Ask {
    Ask::raw(506, &body(path, &[&[watch, kind, u8::from(stats), u8::from(data)]]))
}

pub(crate) fn list_recursive(path: &str, limit: u32) -> Ask {
    Ask::raw(507, &body(path, &[&limit.to_be_bytes()]))
}

/// A multi, or a multiRead, of any parts.
pub(crate) fn parts(op: i32, parts: &[&Ask]) -> Ask {
    let mut body = Vec::new();
    for part in parts {
        MultiHeader { op: part.op, done: false, err: -1 }.encode(&mut body);
        body.extend_from_slice(&part.body);
    }
    MULTI_END.encode(&mut body);
    Ask::raw(op, &body)
}

fn of_op(op: &MultiOp) -> Ask {
    let mut bytes = Vec::new();
    op.encode(&mut bytes);
    Ask { op: op.op_code().wire(), body: bytes.split_off(9) }
}

fn sorted_names(reader: &mut Reader<'_>) -> Vec<String> {
    let mut names: Vec<String> =
        Vec::<Box<str>>::decode(reader).unwrap().into_iter().map(String::from).collect();
    names.sort();
    names
}

/// The names and the stat of filteredList.
fn listed(reply: &Reply) -> (Vec<String>, Stat) {
    reply.read(|reader| (sorted_names(reader), Stat::decode(reader).unwrap()))
}

fn flags_of(reply: &Reply) -> Vec<u8> {
    reply.read(|reader| {
        let flags = reader.buffer().unwrap().unwrap().to_vec();
        Stat::decode(reader).unwrap();
        flags
    })
}

/// The path of a reply that has nothing else.
fn path_of(reply: &Reply) -> String {
    reply.read(|reader| Text::decode(reader).unwrap().unwrap().into())
}

#[test]
fn lists_show_children_of_a_kind() {
    let (mut server, client) = server();
    server.call(client, create("/p", "", 0));
    server.call(client, create("/p/own", "mine", EPHEMERAL));
    server.call(client, create("/p/plain", "", 0));
    let stat = server.call(client, exists("/p")).stat();
    let all = vec!["own".to_owned(), "plain".to_owned()];
    for (kind, names) in [(0, all.clone()), (1, vec![all[1].clone()]), (2, vec![all[0].clone()])] {
        assert_eq!(listed(&server.call(client, filtered_list("/p", 0, kind))), (names, stat), "{kind}");
    }
    assert_eq!(server.call(client, filtered_list("/none", 0, 0)).error, Some(ErrorCode::NoNode));
    for (stats, data) in [(false, false), (true, false), (false, true), (true, true)] {
        let reply = server.call(client, list_with("/p", 0, 2, stats, data));
        let own = server.call(client, exists("/p/own")).stat();
        reply.read(|reader| {
            assert_eq!(sorted_names(reader), ["own"]);
            assert_eq!(Stat::decode(reader).unwrap(), stat);
            let stats_of_children = Vec::<Stat>::decode(reader).unwrap();
            assert_eq!(stats_of_children, if stats { vec![own] } else { Vec::new() });
            let data_of_children = Vec::<Buffer>::decode(reader).unwrap();
            let mine: Buffer = Some(b"mine".as_slice().into());
            assert_eq!(data_of_children, if data { vec![mine] } else { Vec::new() });
            assert_eq!(reader.remaining(), 0);
        });
    }
}

#[test]
fn more_than_names_needs_a_permission_on_every_child() {
    let (mut server, client) = server();
    server.call(client, create("/p", "", 0));
    server.call(client, create("/p/open", "", 0));
    server.call(client, create_with_acl("/p/secret", vec![Acl::new(0, "world", "anyone")]));
    assert_eq!(listed(&server.call(client, filtered_list("/p", 0, 0))).0, ["open", "secret"]);
    assert_eq!(server.call(client, list_with("/p", 0, 0, false, false)).error, None);
    for refused in [
        filtered_list("/p", 1, 1),
        filtered_list("/p", 1, 2),
        list_with("/p", 1, 0, true, false),
        list_with("/p", 1, 0, false, true),
        filtered_list("/p/secret", 1, 0),
    ] {
        assert_eq!(server.call(client, refused).error, Some(ErrorCode::NoAuth));
    }
    // A refused list sets no watch.
    let watcher = zebu_tree::watch::WatcherId(client.0);
    assert_eq!(server.replica.watches().watched_paths(watcher), 0);
}

#[test]
fn a_list_sets_a_watch_of_children() {
    for list in [filtered_list("/p", 1, 2), filtered_list("/p", 1, 0), list_with("/p", 1, 0, true, true)] {
        let (mut server, client) = server();
        server.call(client, create("/p", "", 0));
        assert_eq!(server.call(client, list).error, None);
        server.send(client, create("/p/new", "", 0));
        server.persist();
        let frames = server.received(client);
        let expected = (EventType::NodeChildrenChanged, "/p");
        assert!(
            frames.iter().any(|frame| matches!(frame,
                Frame::Event { kind, path, .. } if (*kind, path.as_str()) == expected)),
            "no event"
        );
    }
}

#[test]
fn a_subtree_is_listed_level_by_level() {
    let (mut server, client) = server();
    for path in ["/t", "/t/a", "/t/b", "/t/a/c", "/t/a/c/d", "/t/b/e", "/tt"] {
        server.call(client, create(path, "", 0));
    }
    server.call(client, create_with_acl("/t/s", vec![Acl::new(Permissions::CREATE, "world", "anyone")]));
    server.call(client, create("/t/s/below", "", 0));
    let list = |server: &mut NodeFixture, root: &str, limit| {
        server.call(client, list_recursive(root, limit)).read(|reader| {
            let paths = Vec::<Box<str>>::decode(reader).unwrap();
            assert_eq!(reader.remaining(), 0);
            paths.into_iter().map(String::from).collect::<Vec<_>>()
        })
    };
    let all = ["/t/a", "/t/b", "/t/a/c", "/t/b/e", "/t/a/c/d"];
    assert_eq!(list(&mut server, "/t", 100), all);
    assert_eq!(list(&mut server, "/t", u32::MAX), all);
    for limit in 0..=5 {
        assert_eq!(list(&mut server, "/t", limit), all[..limit as usize]);
    }
    assert!(list(&mut server, "/", 100).contains(&"/t/a/c/d".to_owned()));
    assert_eq!(server.call(client, list_recursive("/none", 1)).error, Some(ErrorCode::NoNode));
    assert_eq!(server.call(client, list_recursive("/t/s", 1)).error, Some(ErrorCode::NoAuth));
}

#[test]
fn checks_alone_are_reads() {
    let (mut server, client) = server();
    server.call(client, create("/a", "x", 0));
    let zxid = server.replica.last_zxid();
    let stat = server.call(client, exists("/a")).stat();
    let other = Stat { mzxid: 99, ..stat };
    for (ask, error) in [
        (check_not_exists("/none", -1), None),
        (check_not_exists("/none/b", -1), None),
        (check_not_exists("/a", -1), Some(ErrorCode::NodeExists)),
        (check_not_exists("/a", 0), Some(ErrorCode::NodeExists)),
        (check_not_exists("/a", 1), None),
        (check_not_exists("a", 1), Some(ErrorCode::BadArguments)),
        (check_stat("/a", 0, &stat), None),
        (check_stat("/a", 1, &stat), Some(ErrorCode::BadVersion)),
        (check_stat("/a", -1, &other), Some(ErrorCode::BadVersion)),
        (check_stat("/none", -1, &stat), Some(ErrorCode::NoNode)),
    ] {
        assert_eq!(server.call(client, ask.clone()).error, error, "{ask:?}");
    }
    assert_eq!(server.replica.last_zxid(), zxid, "a read takes no zxid");
    server.call(client, create_with_acl("/s", vec![Acl::new(Permissions::CREATE, "world", "anyone")]));
    assert_eq!(server.call(client, check_not_exists("/s/x", -1)).error, Some(ErrorCode::NoAuth));
    assert_eq!(server.call(client, check_stat("/s", -1, &stat)).error, Some(ErrorCode::NoAuth));
}

#[test]
fn writes_answer_with_the_zxid_of_their_transaction() {
    let (mut server, client) = server();
    for path in ["/a", "/a/b"] {
        let created = server.call(client, create_if_not_exists(path, "x", 0));
        assert_eq!((path_of(&created), created.zxid), (path.to_owned(), server.replica.last_zxid().0));
        assert_eq!(server.call(client, exists(path)).stat().czxid, created.zxid);
    }
    let again = server.call(client, create_if_not_exists("/a", "other", 0));
    assert_eq!((path_of(&again), again.error), ("/a".to_owned(), None));
    assert_eq!(again.zxid, server.replica.last_zxid().0);
    assert_eq!(server.call(client, get("/a")).data(), "x");
    for (ask, error) in [
        (try_remove("/none", -1), None),
        (try_remove("/a", -1), None),
        (try_remove("/a/b", 4), None),
        (remove_recursive("/a", 1), Some(ErrorCode::NotEmpty)),
        (remove_recursive("/zookeeper", 1), Some(ErrorCode::BadArguments)),
        (create_if_not_exists("/a/s", "", 2), Some(ErrorCode::BadArguments)),
    ] {
        let reply = server.call(client, ask.clone());
        assert_eq!((reply.error, reply.body.len()), (error, 0), "{ask:?}");
    }
    assert_eq!(server.call(client, try_remove("/a/b", 0)).error, None);
    assert_eq!(server.call(client, exists("/a/b")).error, Some(ErrorCode::NoNode));
    server.call(client, create("/a/c", "", 0));
    assert_eq!(server.call(client, remove_recursive("/a", 2)).error, None);
    assert_eq!(server.call(client, exists("/a")).error, Some(ErrorCode::NoNode));
    // What changed nothing has no line in the audit log.
    let audited: Vec<_> = server.audit.iter().filter_map(|event| event.path.as_deref()).collect();
    assert_eq!(
        audited,
        ["/a", "/a/b", "/a", "/zookeeper", "/a/s", "/a/b", "/a/c", "/a/c", "/a"],
        "failures are recorded too"
    );
}

/// The codes and bodies of the results of a multi.
fn results(reply: &Reply, mut body_of: impl FnMut(i32, &mut Reader<'_>) -> String) -> Vec<(i32, String)> {
    reply.read(|reader| {
        let mut results = Vec::new();
        loop {
            let MultiHeader { op, done, err } = MultiHeader::decode(reader).unwrap();
            if done {
                assert_eq!(reader.remaining(), 0, "the reply is as long as its content");
                return results;
            }
            if op == -1 {
                assert_eq!(reader.int().unwrap(), err);
                results.push((op, err.to_string()));
            } else {
                let body = body_of(op, reader);
                results.push((op, body));
            }
        }
    })
}

fn write_body(op: i32, reader: &mut Reader<'_>) -> String {
    match op {
        1 | 502 => reader.text().unwrap().unwrap().into_owned(),
        5 => Stat::decode(reader).unwrap().version.to_string(),
        _ => String::new(),
    }
}

#[test]
fn a_multi_answers_with_the_codes_of_its_parts() {
    let (mut server, client) = server();
    for path in ["/a", "/a/b", "/a/b/c", "/x"] {
        server.call(client, create(path, "", 0));
    }
    let any = Stat {
        czxid: -1,
        mzxid: -1,
        ctime: -1,
        mtime: -1,
        version: -1,
        cversion: -1,
        aversion: -1,
        ephemeral_owner: -1,
        data_length: -1,
        num_children: -1,
        pzxid: -1,
    };
    let ops = [
        &check_not_exists("/none", -1),
        &create_if_not_exists("/x", "", 0),
        &remove_recursive("/a", 10),
        &remove_recursive("/a", 10),
        &create_if_not_exists("/a", "", 0),
        &check_stat("/x", 0, &any),
        &try_remove("/x", 3),
        &try_remove("/x", 0),
        &of_op(&multi_create(CreateOp::Create, "/y", 0)),
        &remove_recursive("/y", 1),
        &of_op(&multi_delete("/a")),
    ];
    let text = |value: &str| value.to_owned();
    let reply = server.call(client, parts(14, &ops));
    assert_eq!(
        results(&reply, write_body),
        [
            (501, text("")),
            (502, text("/x")),
            (503, text("")),
            (503, text("")),
            (502, text("/a")),
            (504, text("")),
            (505, text("")),
            (505, text("")),
            (1, text("/y")),
            (503, text("")),
            (2, text(""))
        ]
    );
    // One that fails: those before it are rolled back, those behind it are not tried.
    server.call(client, create("/a", "", 0));
    server.call(client, create("/a/b", "", 0));
    let ops = [
        &remove_recursive("/a", 10),
        &check_not_exists("/zookeeper", -1),
        &remove_recursive("/a", 10),
        &try_remove("/a", -1),
    ];
    let reply = server.call(client, parts(14, &ops));
    let exists_already = ErrorCode::NodeExists.wire().to_string();
    let skipped = ErrorCode::RuntimeInconsistency.wire().to_string();
    assert_eq!(
        results(&reply, write_body),
        [(-1, text("0")), (-1, exists_already), (-1, skipped.clone()), (-1, skipped)]
    );
    assert_eq!(server.call(client, exists("/a/b")).error, None);
}

fn read_body(op: i32, reader: &mut Reader<'_>) -> String {
    let stat = |reader: &mut Reader<'_>| Stat::decode(reader).unwrap();
    match op {
        3 => stat(reader).version.to_string(),
        4 => {
            let data = String::from_utf8(reader.buffer().unwrap().unwrap().to_vec()).unwrap();
            stat(reader);
            data
        }
        8 | 507 => sorted_names(reader).join(","),
        12 | 500 => {
            let names = sorted_names(reader).join(",");
            stat(reader);
            names
        }
        506 => {
            let names = sorted_names(reader).join(",");
            stat(reader);
            let stats = Vec::<Stat>::decode(reader).unwrap().len();
            let data = Vec::<Buffer>::decode(reader).unwrap().len();
            format!("{names} {stats} {data}")
        }
        op => panic!("{op}"),
    }
}

pub(crate) fn plain(op: i32, path: &str, watch: u8) -> Ask {
    Ask::raw(op, &body(path, &[&[watch]]))
}

#[test]
fn a_multi_read_answers_with_the_codes_of_its_parts() {
    let (mut server, client) = server();
    server.call(client, create("/p", "data", 0));
    server.call(client, create("/p/a", "", 0));
    server.call(client, create("/p/b", "", EPHEMERAL));
    let missing = ErrorCode::NoNode.wire().to_string();
    // ZooKeeper's clients get ZooKeeper's multiRead.
    let reply =
        server.call(client, parts(22, &[&plain(4, "/p", 0), &plain(4, "/none", 0), &plain(8, "/p", 0)]));
    let expected = [(4, "data"), (-1, &missing), (8, "a,b")];
    assert_eq!(results(&reply, read_body), expected.map(|(op, body)| (op, body.to_owned())));
    for part in [&plain(3, "/p", 0), &plain(12, "/p", 0), &filtered_list("/p", 0, 2)] {
        let reply = server.call(client, parts(22, &[&plain(4, "/p", 0), part]));
        assert_eq!(reply.error, Some(ErrorCode::MarshallingError));
    }
    server.call(client, get("/keeper/feature_flags"));
    let reads = [
        &plain(4, "/p", 0),
        &plain(3, "/p", 0),
        &plain(8, "/p", 0),
        &plain(12, "/p", 0),
        &filtered_list("/p", 0, 2),
        &list_with("/p", 0, 1, true, false),
        &list_recursive("/p", 1),
    ];
    let reply = server.call(client, parts(22, &reads));
    let expected =
        [(4, "data"), (3, "0"), (8, "a,b"), (12, "a,b"), (500, "b"), (506, "a 1 0"), (507, "/p/a")];
    assert_eq!(results(&reply, read_body), expected.map(|(op, body)| (op, body.to_owned())));
    // A failed read has the code of the read, and no body.
    let reply = server.call(client, parts(22, &[&plain(4, "/none", 0), &plain(3, "/p", 0)]));
    reply.read(|reader| {
        let failed = MultiHeader { op: 4, done: false, err: ErrorCode::NoNode.wire() };
        assert_eq!(MultiHeader::decode(reader).unwrap(), failed);
        assert_eq!(MultiHeader::decode(reader).unwrap(), MultiHeader { op: 3, done: false, err: 0 });
        Stat::decode(reader).unwrap();
        assert_eq!(MultiHeader::decode(reader).unwrap(), MULTI_END);
        assert_eq!(reader.remaining(), 0);
    });
    // A check is no read of a multiRead.
    let reply = server.call(client, parts(22, &[&check_not_exists("/p", 0)]));
    assert_eq!(reply.error, Some(ErrorCode::MarshallingError));
}

#[test]
fn watches_of_a_multi_read_count() {
    for (extensions, events) in [(true, 6), (false, 0)] {
        let (mut server, client) = server_with(KeeperSettings { extensions, ..KeeperSettings::default() });
        for path in ["/a", "/b", "/c", "/d", "/e"] {
            server.call(client, create(path, "", 0));
        }
        let mut reads = vec![plain(4, "/a", 1), plain(8, "/b", 1)];
        if extensions {
            reads.extend([
                plain(3, "/none", 1),
                plain(12, "/c", 1),
                filtered_list("/d", 1, 1),
                list_with("/e", 1, 0, true, true),
            ]);
        }
        let reads: Vec<&Ask> = reads.iter().collect();
        server.call(client, get("/keeper/feature_flags"));
        assert_eq!(server.call(client, parts(22, &reads)).error, None);
        let watcher = zebu_tree::watch::WatcherId(client.0);
        assert_eq!(server.replica.watches().watched_paths(watcher), events);
        server.send(client, set("/a", "x"));
        for path in ["/b/x", "/none", "/c/x", "/d/x", "/e/x"] {
            server.send(client, create(path, "", 0));
        }
        server.persist();
        let frames = server.received(client);
        let fired = frames.iter().filter(|frame| matches!(frame, Frame::Event { .. })).count();
        assert_eq!(fired, events);
    }
}

#[test]
fn virtual_nodes_tell_what_the_server_can_do() {
    let keeper = KeeperSettings { zone: Some("eu-1a".into()), ..KeeperSettings::default() };
    let (mut server, client) = server_with(keeper);
    let flags = server.call(client, get("/keeper/feature_flags"));
    // The tests have TTL nodes.
    assert_eq!(flags_of(&flags), [0xFF, 0xFE]);
    for (name, text) in
        [("api_version", "2"), ("availability_zone", "eu-1a"), ("max_request_size", "1048575")]
    {
        let path = format!("/keeper/{name}");
        assert_eq!(server.call(client, get(&path)).data(), text);
        assert_eq!(server.call(client, exists(&path)).stat().data_length as usize, text.len());
        assert_eq!(server.call(client, get_acl(&path)).error, None);
        assert_eq!(server.call(client, create(&path, "", 0)).error, Some(ErrorCode::BadArguments));
        assert_eq!(server.call(client, delete(&path)).error, Some(ErrorCode::BadArguments));
    }
    let config = server.call(client, get("/zookeeper/config")).data();
    assert_eq!(server.call(client, get("/keeper/config")).data(), config);
    assert_eq!(server.call(client, get("/keeper/other")).error, Some(ErrorCode::NoNode));
    assert_eq!(server.call(client, filtered_list("/", 0, 0)).error, None);
    assert_eq!(listed(&server.call(client, filtered_list("/", 0, 0))).0, ["zookeeper"]);
    let (mut server, client) = self::server();
    assert_eq!(server.call(client, get("/keeper/availability_zone")).error, Some(ErrorCode::NoNode));
}

#[test]
fn without_extensions_all_is_as_at_zookeeper() {
    let off = || server_with(KeeperSettings { extensions: false, ..KeeperSettings::default() });
    for ask in [
        filtered_list("/", 0, 0),
        check_not_exists("/a", 0),
        create_if_not_exists("/a", "", 0),
        remove_recursive("/a", 1),
        try_remove("/a", 1),
        list_with("/", 0, 0, false, false),
        list_recursive("/", 1),
        Ask::raw(504, &[]),
    ] {
        let (mut server, client) = off();
        server.send(client, ask);
        assert_eq!(server.replies(client)[0].error, Some(ErrorCode::Unimplemented));
        assert_ne!(server.phase(client), ConnectionPhase::Serving);
    }
    let (mut server, client) = off();
    assert_eq!(server.call(client, get("/keeper/feature_flags")).error, Some(ErrorCode::NoNode));
    for (op, part) in [(14, try_remove("/a", -1)), (22, filtered_list("/", 0, 0)), (22, plain(3, "/", 0))] {
        let reply = server.call(client, parts(op, &[&part]));
        assert_eq!(reply.error, Some(ErrorCode::MarshallingError));
    }
}

/// A learner with a client under a leader with these capabilities; `None` is Apache ZooKeeper.
fn learner(announcement: Option<PeerAnnouncement>) -> (Member, ConnectionId, zebu_proto::SessionId) {
    let mut learner = Member::new();
    learner.script().announcement = announcement;
    learner.follow();
    let connection = learner.fixture.open();
    learner.fixture.connect(connection, hello(8000));
    let Some(Packet::Request { session, .. }) = learner.said().pop() else { panic!("no new session") };
    learner.deliver(session, 0, Txn::CreateSession { timeout_ms: 8000 });
    learner.fixture.greeting(connection).unwrap();
    learner.said();
    (learner, connection, session)
}

fn check(path: &str) -> Txn {
    Txn::Check(CheckTxn { path: path.into(), version: 0 })
}

fn multi_of(parts: Vec<Txn>) -> Txn {
    Txn::Multi(parts.into_iter().map(SubTxn).collect())
}

#[test]
fn a_learner_forwards_writes_and_tells_from_the_transaction_what_they_did() {
    let created = |path: &str| {
        let request = create_request(CreateOp::Create, path, "", 0);
        Txn::Create(zebu_proto::txn::CreateTxn {
            path: path.into(),
            data: request.data,
            acl: request.acl,
            ephemeral: false,
            parent_cversion: 1,
        })
    };
    let deletes = || multi_of(vec![Txn::Delete("/a/b".into()), Txn::Delete("/a".into())]);
    let cases = [
        (create_if_not_exists("/a", "", 0), created("/a"), Some("/a")),
        (create_if_not_exists("/a", "", 0), multi_of(vec![check("/a")]), Some("/a")),
        (try_remove("/a", -1), Txn::Delete("/a".into()), None),
        (try_remove("/a", -1), multi_of(vec![check("/a")]), None),
        (remove_recursive("/a", 5), deletes(), None),
        (remove_recursive("/a", 5), multi_of(vec![check("/a")]), None),
    ];
    for (ask, txn, path) in cases {
        let (mut learner, connection, session) = learner(Some(PeerAnnouncement::CURRENT));
        if matches!(txn, Txn::Delete(_)) {
            learner.deliver(zebu_proto::SessionId(99), 0, created("/a"));
        }
        learner.fixture.send_as(connection, 1, &ask);
        let said = learner.said();
        assert!(matches!(&said[..], [Packet::Request { op, .. }] if *op == ask.op), "{said:?}");
        learner.deliver(session, 1, txn);
        let reply = learner.fixture.replies(connection).remove(0);
        assert_eq!(reply.error, None);
        assert_eq!((!reply.body.is_empty()).then(|| path_of(&reply)).as_deref(), path, "{ask:?}");
        assert_eq!(learner.fixture.phase(connection), ConnectionPhase::Serving);
    }
    // Another leader would never get to this transaction: it belongs to an older request with this xid.
    let (mut learner, connection, session) = learner(Some(PeerAnnouncement::CURRENT));
    let ask = parts(14, &[&remove_recursive("/a", 5), &try_remove("/x", -1)]);
    learner.fixture.send_as(connection, 1, &ask);
    learner.said();
    learner.deliver(session, 1, multi_of(vec![Txn::Delete("/b".into())]));
    assert_ne!(learner.fixture.phase(connection), ConnectionPhase::Serving);
}

#[test]
fn another_leader_gets_no_keeper_write_and_its_clients_start_anew() {
    let old = PeerAnnouncement { version: 1, capabilities: Capabilities::STRICT_SYNC };
    for announcement in [None, Some(old)] {
        for ask in [
            create_if_not_exists("/a", "", 0),
            remove_recursive("/a", 5),
            try_remove("/a", -1),
            parts(14, &[&of_op(&multi_create(CreateOp::Create, "/y", 0)), &try_remove("/x", -1)]),
        ] {
            let (mut learner, connection, _) = learner(announcement);
            let flags = learner.fixture.call(connection, get("/keeper/feature_flags"));
            assert_eq!(flags_of(&flags), [0b1100_0101, 0b1011_1110], "reads only");
            assert_eq!(learner.fixture.call(connection, filtered_list("/", 0, 0)).error, None);
            assert_eq!(learner.fixture.call(connection, check_not_exists("/a", -1)).error, None);
            learner.fixture.send_as(connection, 7, &ask);
            assert!(learner.said().is_empty(), "{ask:?}");
            assert_eq!(learner.fixture.replies(connection)[0].error, Some(ErrorCode::Unimplemented));
            assert_ne!(learner.fixture.phase(connection), ConnectionPhase::Serving);
        }
    }
}

#[test]
fn three_servers_do_the_same() {
    let mut ensemble = ThreeNodes::new();
    let ids: Vec<_> = ensemble.learners().into_iter().chain(ensemble.leader()).collect();
    let clients: Vec<_> = ids.iter().map(|&id| (id, ensemble.client(id, 30_000))).collect();
    for round in 0..3 {
        for (index, &(id, connection)) in clients.iter().enumerate() {
            let path = format!("/k{round}");
            let reply = ensemble.call(id, connection, create_if_not_exists(&path, &index.to_string(), 0));
            assert_eq!((path_of(&reply), reply.error), (path.clone(), None));
            let below = format!("{path}/{index}");
            ensemble.call(id, connection, create(&below, "", 0));
            assert_eq!(ensemble.call(id, connection, try_remove(&path, -1)).error, None);
        }
        let (id, connection) = clients[round];
        let multi = parts(
            14,
            &[
                &check_not_exists("/none", -1),
                &remove_recursive(&format!("/k{round}"), 4),
                &create_if_not_exists("/kept", "", 0),
            ],
        );
        let reply = ensemble.call(id, connection, multi);
        let codes: Vec<i32> = results(&reply, write_body).iter().map(|(op, _)| *op).collect();
        assert_eq!(codes, [501, 503, 502]);
    }
    for &(id, connection) in &clients {
        ensemble.call(id, connection, crate::client::sync("/"));
        let reply = ensemble.call(id, connection, filtered_list("/", 0, 1));
        assert_eq!(listed(&reply).0, ["kept", "zookeeper"]);
    }
}
