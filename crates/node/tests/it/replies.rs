//! The bodies of replies to writes, down to the last byte.

use zebu_node::{NodeSettings, ReconfigSupport};
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::client::reply::GetChildren2Response;
use zebu_proto::client::{CreateOp, MultiOp};
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, Reader, Stat};

use crate::client::{
    Ask, EPHEMERAL, Reply, SEQUENTIAL, all_children_number, children2, create, create_container, create_ttl,
    create2, delete, exists, get, get_ephemerals, multi, multi_check, multi_create, multi_delete, multi_set,
    reconfig, set, set_acl, set_if, sync,
};
use crate::node_fixture::{NodeFixture, START_MS, settings};

/// One result of a multi, as a client reads it.
#[derive(Debug, PartialEq)]
enum Part {
    Error(i32),
    Path(OpCode, String),
    PathAndStat(String, Stat),
    Stat(Stat),
    Nothing(OpCode),
}

fn parts(reply: &Reply) -> Vec<Part> {
    reply.read(|reader| {
        let mut parts = Vec::new();
        loop {
            let header = MultiHeader::decode(reader).unwrap();
            if header == MULTI_END {
                return parts;
            }
            parts.push(part(header, reader));
        }
    })
}

fn part(header: MultiHeader, reader: &mut Reader<'_>) -> Part {
    let path = |reader: &mut Reader<'_>| reader.text().unwrap().unwrap().into_owned();
    assert!(!header.done);
    if header.op == -1 {
        assert_eq!(reader.int().unwrap(), header.err);
        return Part::Error(header.err);
    }
    assert_eq!(header.err, 0);
    match OpCode::from_wire(header.op).unwrap() {
        op @ OpCode::Create => Part::Path(op, path(reader)),
        OpCode::Create2 => Part::PathAndStat(path(reader), Stat::decode(reader).unwrap()),
        OpCode::SetData => Part::Stat(Stat::decode(reader).unwrap()),
        op @ (OpCode::Delete | OpCode::Check) => Part::Nothing(op),
        other => panic!("{other:?} is no result of a multi"),
    }
}

fn fixture() -> (NodeFixture, zebu_node::ConnectionId) {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    (fixture, connection)
}

#[test]
fn each_create_has_its_shape() {
    let (mut fixture, connection) = fixture();
    assert_eq!(fixture.call(connection, create("/a", "xy", 0)).path(), "/a");
    assert_eq!(fixture.call(connection, create("/s-", "", SEQUENTIAL)).path(), "/s-0000000001");
    for (ask, path) in [
        (create2("/b", "xyz", 0), "/b"),
        (create2("/s-", "xyz", SEQUENTIAL), "/s-0000000003"),
        (create_container("/c"), "/c"),
        (create_ttl("/t", 5000), "/t"),
    ] {
        let data_length = if path.starts_with("/b") || path.starts_with("/s") { 3 } else { 0 };
        let (found, stat) = fixture.call(connection, ask).path_and_stat();
        let zxid = fixture.replica.last_zxid().0;
        assert_eq!(found, path);
        let expected = Stat {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: START_MS,
            mtime: START_MS,
            data_length,
            ..Stat::default()
        };
        assert_eq!(stat, expected, "{path}");
    }
    let (_, stat) = fixture.call(connection, create2("/e", "", EPHEMERAL)).path_and_stat();
    assert_eq!(stat.ephemeral_owner, fixture.session(connection).0);
}

#[test]
fn changes_answer_the_new_stat_and_deletes_nothing() {
    let (mut fixture, connection) = fixture();
    fixture.call(connection, create("/a", "", 0));
    fixture.pass(17);
    let stat = fixture.call(connection, set("/a", "12345")).stat();
    assert_eq!((stat.version, stat.data_length, stat.mtime), (1, 5, START_MS + 17));
    assert_eq!(stat.mzxid, fixture.replica.last_zxid().0);
    let stat = fixture.call(connection, set_acl("/a", Acl::read_only())).stat();
    assert_eq!((stat.aversion, stat.version), (1, 1));
    assert_eq!(fixture.call(connection, set_if("/a", "", 7)).error, Some(ErrorCode::NoAuth));
    let reply = fixture.call(connection, delete("/a"));
    assert_eq!((reply.error, reply.body.len()), (None, 0));
}

#[test]
fn the_stat_of_a_pipelined_write_is_that_of_its_own_moment() {
    let (mut fixture, connection) = fixture();
    fixture.call(connection, create("/a", "", 0));
    fixture.send(connection, set("/a", "1"));
    fixture.send(connection, set("/a", "22"));
    fixture.persist();
    let replies = fixture.replies(connection);
    let stats: Vec<_> =
        replies.iter().map(|reply| (reply.stat().version, reply.stat().data_length)).collect();
    assert_eq!(stats, [(1, 1), (2, 2)]);
    assert_eq!(replies[0].zxid + 1, replies[1].zxid);
}

#[test]
fn a_multi_answers_every_part_in_its_shape() {
    let (mut fixture, connection) = fixture();
    fixture.call(connection, create("/old", "", 0));
    let ops = [
        multi_create(CreateOp::Create, "/a", 0),
        multi_create(CreateOp::Create2, "/b-", SEQUENTIAL),
        multi_create(CreateOp::Container, "/c", 4),
        multi_create(CreateOp::Ttl, "/t", 5),
        multi_set("/a", "longer"),
        multi_check("/a", 1),
        multi_delete("/old"),
    ];
    let reply = fixture.call(connection, multi(&ops));
    let zxid = fixture.replica.last_zxid().0;
    assert_eq!((reply.error, reply.zxid), (None, zxid));
    let parts = parts(&reply);
    assert_eq!(parts[0], Part::Path(OpCode::Create, "/a".into()));
    for (part, expected) in parts[1..4].iter().zip(["/b-0000000002", "/c", "/t"]) {
        let Part::PathAndStat(path, stat) = part else { panic!("{part:?}") };
        assert_eq!((path.as_str(), stat.czxid, stat.ephemeral_owner), (expected, zxid, 0));
    }
    let Part::Stat(stat) = &parts[4] else { panic!("{:?}", parts[4]) };
    assert_eq!((stat.version, stat.data_length, stat.czxid, stat.mzxid), (1, 6, zxid, zxid));
    assert_eq!(parts[5..], [Part::Nothing(OpCode::Check), Part::Nothing(OpCode::Delete)]);
}

#[test]
fn a_failed_multi_has_no_error_in_its_header_and_changes_nothing() {
    let (mut fixture, connection) = fixture();
    let ops = [
        multi_create(CreateOp::Create, "/a", 0),
        multi_create(CreateOp::Create2, "/b", 0),
        multi_set("/missing", ""),
        multi_delete("/a"),
        multi_check("/b", 9),
    ];
    let digest = fixture.replica.tree().digest();
    let reply = fixture.call(connection, multi(&ops));
    assert_eq!((reply.error, reply.zxid), (None, fixture.replica.last_zxid().0));
    let (undone, skipped) = (Part::Error(0), || Part::Error(ErrorCode::RuntimeInconsistency.wire()));
    let failed = Part::Error(ErrorCode::NoNode.wire());
    assert_eq!(parts(&reply), [Part::Error(0), undone, failed, skipped(), skipped()]);
    assert_eq!(fixture.replica.tree().digest(), digest);

    for position in 0..3 {
        let mut ops: Vec<MultiOp> = (0..3).map(|_| multi_check("/", -1)).collect();
        ops[position] = multi_check("/", 99);
        let found = parts(&fixture.call(connection, multi(&ops)));
        for (index, part) in found.iter().enumerate() {
            let code = match index.cmp(&position) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => ErrorCode::BadVersion.wire(),
                std::cmp::Ordering::Greater => ErrorCode::RuntimeInconsistency.wire(),
            };
            assert_eq!(part, &Part::Error(code));
        }
    }
}

#[test]
fn an_empty_multi_takes_a_zxid() {
    let (mut fixture, connection) = fixture();
    let zxid = fixture.replica.last_zxid().0;
    let reply = fixture.call(connection, multi(&[]));
    assert_eq!((parts(&reply), reply.zxid), (vec![], zxid + 1));
}

/// One result may have any length; several may not become very long together.
#[test]
fn a_multi_read_has_a_bounded_answer() {
    let (mut fixture, connection) = fixture();
    let data = "x".repeat(1_000_000);
    fixture.call(connection, create("/large", &data, 0));
    let multi_read = |count: usize| {
        let mut body = Vec::new();
        for _ in 0..count {
            MultiHeader { op: OpCode::GetData.wire(), done: false, err: -1 }.encode(&mut body);
            Some(Box::<str>::from("/large")).encode(&mut body);
            true.encode(&mut body);
        }
        MULTI_END.encode(&mut body);
        Ask::raw(OpCode::MultiRead.wire(), &body)
    };
    let fit = zebu_node::limits::MULTI_READ_BYTES_MAX / 1_000_100;
    assert_eq!(fixture.call(connection, multi_read(fit)).error, None);
    let reply = fixture.call(connection, multi_read(10_000));
    assert_eq!(reply.error, Some(ErrorCode::MarshallingError));
    assert_eq!(fixture.call(connection, multi_read(1)).error, None, "the connection goes on");
}

#[test]
fn a_multi_read_answers_each_part_for_itself() {
    let (mut fixture, connection) = fixture();
    fixture.call(connection, create("/a", "data", 0));
    fixture.call(connection, create("/a/x", "", 0));
    let mut body = Vec::new();
    for (op, path) in [(OpCode::GetData, "/a"), (OpCode::GetChildren, "/a"), (OpCode::GetData, "/none")] {
        MultiHeader { op: op.wire(), done: false, err: -1 }.encode(&mut body);
        Some(Box::<str>::from(path)).encode(&mut body);
        true.encode(&mut body);
    }
    MULTI_END.encode(&mut body);
    let reply = fixture.call(connection, Ask::raw(OpCode::MultiRead.wire(), &body));
    reply.read(|reader| {
        assert_eq!(MultiHeader::decode(reader).unwrap().op, OpCode::GetData.wire());
        assert_eq!(reader.buffer().unwrap(), Some(&b"data"[..]));
        assert_eq!(Stat::decode(reader).unwrap().num_children, 1);
        assert_eq!(MultiHeader::decode(reader).unwrap().op, OpCode::GetChildren.wire());
        assert_eq!(Vec::<Box<str>>::decode(reader).unwrap(), ["x".into()]);
        let error = ErrorCode::NoNode.wire();
        assert_eq!(MultiHeader::decode(reader).unwrap(), MultiHeader { op: -1, done: false, err: error });
        assert_eq!(reader.int().unwrap(), error);
        assert_eq!(MultiHeader::decode(reader).unwrap(), MULTI_END);
    });
    assert!(fixture.replica.watches().is_empty(), "its watch flags are ignored");
}

#[test]
fn reconfig_is_refused_as_configured() {
    for (support, error) in [
        (ReconfigSupport::Disabled, ErrorCode::ReconfigDisabled),
        (ReconfigSupport::Standalone, ErrorCode::Unimplemented),
    ] {
        let mut fixture = NodeFixture::with(NodeSettings { reconfig: support, ..settings() });
        let connection = fixture.client();
        let zxid = fixture.replica.last_zxid().0;
        let reply = fixture.call(connection, reconfig());
        assert_eq!((reply.error, reply.zxid), (Some(error), zxid + 1));
    }
}

#[test]
fn reads_answer_what_the_tree_holds() {
    let (mut fixture, connection) = fixture();
    fixture.call(connection, create("/a", "data", 0));
    for name in ["/a/x", "/a/y", "/a/y/z", "/b"] {
        fixture.call(connection, create(name, "", 0));
    }
    fixture.call(connection, create("/a/e1", "", EPHEMERAL));
    fixture.call(connection, create("/b/e2", "", EPHEMERAL));
    assert_eq!(fixture.call(connection, get("/a")).data(), "data");
    assert_eq!(fixture.call(connection, exists("/a")).stat().num_children, 3);
    assert_eq!(fixture.call(connection, exists("/a\0")).error, Some(ErrorCode::BadArguments));
    assert_eq!(fixture.call(connection, get("")).error, None, "the empty path is the root");
    let response = fixture.call(connection, children2("/a"));
    let response = response.read(|reader| GetChildren2Response::decode(reader).unwrap());
    let mut children = response.children;
    children.sort();
    assert_eq!(children, ["e1", "x", "y"].map(Box::from));
    assert_eq!(response.stat.cversion, 3);
    let number = |fixture: &mut NodeFixture, path: &str| {
        fixture.call(connection, all_children_number(path)).read(|reader| reader.int().unwrap())
    };
    assert_eq!(
        (number(&mut fixture, "/a"), number(&mut fixture, "/a/y"), number(&mut fixture, "/b")),
        (4, 1, 1)
    );
    assert_eq!(number(&mut fixture, "/"), fixture.replica.tree().node_count() as i32 - 1);
    assert_eq!(fixture.call(connection, get_ephemerals("")).names(), ["/a/e1", "/b/e2"]);
    assert_eq!(fixture.call(connection, get_ephemerals("/a")).names(), ["/a/e1"]);
    assert_eq!(
        fixture.call(connection, get_ephemerals("/b/e")).names(),
        ["/b/e2"],
        "by letters, not by nodes"
    );
    assert_eq!(fixture.call(connection, sync("/anything")).path(), "/anything");
    let other = fixture.client();
    assert_eq!(fixture.call(other, get_ephemerals("/")).names(), [""; 0]);
}
