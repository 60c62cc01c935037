//! Feeds of a server: who may open one, what is pushed, and when a feed ends.

use zebu_node::feed::{FeedCursor, FeedProgress, FeedSettings, FeedSource};
use zebu_node::{AuthEnforcement, ConnectionId, Node, Replica};
use zebu_proto::client::{
    ChangeKind, ClientHello, FEATURE_FEED, FROM_NOW, FeedBatch, FeedCredit, FeedOpen, FeedOpened,
    FeedOptions, FeedPush, ServerHello,
};
use zebu_proto::{Acl, ErrorCode, Id, Jute, OpCode, Permissions, Reader, Xid};
use zebu_tree::{Policy, Tree};

use crate::client::{
    Ask, EPHEMERAL, Frame, ask, close_session, create, create_with_acl, delete, get, multi, multi_check,
    multi_create, multi_set, set,
};
use crate::node_fixture::{NodeFixture, START, settings, tree_options};
use zebu_proto::client::CreateOp;

const ALL: FeedOptions = FeedOptions { data: true, sessions: true, acl_changes: true };

fn server_with(feeds: FeedSettings) -> (NodeFixture, ConnectionId) {
    let tree = Tree::new(tree_options());
    let replica = Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3).with_feeds(feeds);
    let node = Node::new(settings(), &replica, START);
    let mut server = NodeFixture::around(node, replica, settings());
    let connection = server.client();
    (server, connection)
}

fn anyone(feeds_max: usize) -> FeedSettings {
    FeedSettings { feeds_max, readers: [Id::new("world", "anyone")].into() }
}

fn say_hello(server: &mut NodeFixture, connection: ConnectionId, features: i32) -> i32 {
    let reply = server.call(connection, ask(OpCode::Hello, |out| ClientHello { features }.encode(out)));
    reply.read(|reader| ServerHello::decode(reader).unwrap().features)
}

fn open(after: i64, prefixes: &[&str], options: FeedOptions) -> Ask {
    let prefixes = prefixes.iter().map(|&prefix| prefix.into()).collect();
    ask(OpCode::Feed, |out| FeedOpen { after, prefixes, options, credit: 1 << 20 }.encode(out))
}

fn grant(feed: i32, credit: i32) -> Ask {
    ask(OpCode::FeedCredit, |out| FeedCredit { feed, credit }.encode(out))
}

/// Opens a feed and takes its cursor, as the edge does.
fn opened(server: &mut NodeFixture, connection: ConnectionId, ask: Ask) -> (FeedOpened, FeedCursor) {
    let reply = server.call(connection, ask);
    assert_eq!(reply.error, None);
    let opened = reply.read(|reader| FeedOpened::decode(reader).unwrap());
    assert!(server.replica.feeds().take_news());
    let mut begun = server.replica.feeds().take_begun();
    assert_eq!(begun.len(), 1);
    (opened, begun.remove(0))
}

/// Moves the cursor over what the server has in memory, and returns what the client got.
fn run(server: &mut NodeFixture, cursor: &mut FeedCursor) -> Vec<FeedBatch> {
    let id = cursor.key().connection;
    while let FeedSource::Recent(txns) = server.replica.feed_source(cursor) {
        let (push, unnamed) = cursor.advance(txns.iter().map(|txn| &**txn));
        assert_eq!(unnamed, None);
        if let Some(push) = push {
            let connection = server.connections.0.get_mut(&id).unwrap();
            assert_eq!(server.replica.push_feed(cursor, &push, connection), FeedProgress::Pushed);
        }
    }
    batches(server, id)
}

fn batches(server: &mut NodeFixture, connection: ConnectionId) -> Vec<FeedBatch> {
    let batch = |frame| match frame {
        Frame::Reply(reply) if reply.xid == Xid::PUSH.0 => {
            match FeedPush::decode(&mut Reader::new(&reply.body)) {
                Ok(Some(FeedPush::Batch(batch))) => {
                    assert_eq!(reply.zxid, batch.to);
                    Some(batch)
                }
                other => panic!("{other:?}"),
            }
        }
        _ => None,
    };
    server.received(connection).into_iter().filter_map(batch).collect()
}

fn shown(batches: &[FeedBatch]) -> Vec<Vec<(ChangeKind, &str)>> {
    let records = batches.iter().flat_map(|batch| &batch.records);
    records.map(|record| record.changes.iter().map(|it| (it.kind, &*it.path)).collect()).collect()
}

#[test]
fn a_feed_shows_each_transaction_once_and_a_multi_as_one() {
    let (mut server, reader) = server_with(anyone(4));
    let writer = server.client();
    assert_eq!(say_hello(&mut server, reader, FEATURE_FEED), FEATURE_FEED);
    server.call(writer, create("/before", "", 0));
    let (answer, mut cursor) = opened(&mut server, reader, open(FROM_NOW, &["/a"], ALL));
    assert_eq!(answer.last, server.replica.last_zxid().0);
    server.call(writer, create("/a", "1", 0));
    server.call(writer, create("/b", "1", 0));
    server.call(writer, set("/a", "2"));
    let parts = [multi_create(CreateOp::Create, "/a/x", 0), multi_set("/b", "3"), multi_set("/a", "4")];
    server.call(writer, multi(&parts));
    server.call(writer, multi(&[multi_set("/a", "5"), multi_check("/a", 99)]));
    server.call(writer, create("/a/e", "", EPHEMERAL));
    server.send(writer, close_session());
    server.persist();
    let first = run(&mut server, &mut cursor);
    use ChangeKind::{Created, DataChanged, Deleted, SessionEnded};
    let expected = vec![
        vec![(Created, "/a")],
        vec![(DataChanged, "/a")],
        vec![(Created, "/a/x"), (DataChanged, "/a")],
        vec![(Created, "/a/e")],
        vec![(Deleted, "/a/e"), (SessionEnded, "")],
    ];
    assert_eq!(shown(&first), expected);
    assert_eq!(first[0].from, answer.last);
    assert_eq!(first[0].records[1].changes[0].data.as_deref(), Some(&b"2"[..]));
    assert!(run(&mut server, &mut cursor).is_empty());
    // A second feed begins where the first one is, and at an earlier place of the memory.
    let second = server.client();
    say_hello(&mut server, second, FEATURE_FEED);
    let place = first[0].records[1].zxid;
    let (_, mut cursor) = opened(&mut server, second, open(place, &["/a"], ALL));
    let batches = run(&mut server, &mut cursor);
    assert_eq!(shown(&batches)[..3], expected[2..]);
    assert_eq!(shown(&batches)[3..], [[(ChangeKind::SessionOpened, "")]], "the second reader");
    let (_, cursor) = opened(&mut server, second, open(answer.last - 1, &["/a"], ALL));
    assert!(
        matches!(server.replica.feed_source(&cursor), FeedSource::Log { up_to } if up_to.0 == answer.last)
    );
    let metrics = server.replica.metrics();
    assert_eq!((metrics.feeds_opened.total(), metrics.feed_records.total()), (3, 9));
}

#[test]
fn credit_bounds_what_is_pushed() {
    let (mut server, reader) = server_with(anyone(1));
    say_hello(&mut server, reader, FEATURE_FEED);
    let request = FeedOpen { after: FROM_NOW, prefixes: vec![], options: FeedOptions::default(), credit: 1 };
    let (answer, mut cursor) = opened(&mut server, reader, ask(OpCode::Feed, |out| request.encode(out)));
    let writer = server.client();
    server.call(writer, create("/a", "", 0));
    assert_eq!(run(&mut server, &mut cursor).len(), 1, "one push may exceed the credit");
    server.call(writer, create("/b", "", 0));
    assert!(matches!(server.replica.feed_source(&cursor), FeedSource::NoCredit));
    assert_eq!(server.call(reader, grant(answer.feed, 1 << 10)).error, None);
    assert!(server.replica.feeds().take_news());
    assert_eq!(shown(&run(&mut server, &mut cursor)), [[(ChangeKind::Created, "/b")]]);
    // Zero closes; what is unknown or closed is answered the same way.
    for _ in 0..2 {
        assert_eq!(server.call(reader, grant(answer.feed, 0)).error, None);
        assert!(matches!(server.replica.feed_source(&cursor), FeedSource::Closed));
    }
    server.call(writer, delete("/b"));
    assert_eq!(server.replica.feeds().open_feeds(), 0);
}

#[test]
fn a_push_waits_for_the_reply_that_opens_the_feed() {
    let (mut server, reader) = server_with(anyone(1));
    say_hello(&mut server, reader, FEATURE_FEED);
    // A write is in flight, so the reply to the open waits behind it.
    server.send(reader, create("/a", "", 0));
    server.send(reader, open(FROM_NOW, &[], ALL));
    let mut cursor = server.replica.feeds().take_begun().remove(0);
    let mark = cursor.mark();
    let connection = server.connections.0.get_mut(&reader).unwrap();
    assert_eq!(server.replica.push_feed(&cursor, &mark, connection), FeedProgress::Later);
    server.persist();
    assert_eq!(shown(&run(&mut server, &mut cursor)), [[(ChangeKind::Created, "/a")]]);
    server.send(reader, close_session());
    server.persist();
    let connection = server.connections.0.get_mut(&reader).unwrap();
    assert_eq!(server.replica.push_feed(&cursor, &mark, connection), FeedProgress::Closed);
    server.replica.remove_connection(connection);
    assert!(matches!(server.replica.feed_source(&cursor), FeedSource::Closed));
}

#[test]
fn only_readers_of_the_prefixes_open_feeds() {
    let refused = |server: &mut NodeFixture, connection, ask| server.call(connection, ask).error;
    let (mut server, client) = server_with(anyone(2));
    let request = || open(FROM_NOW, &[], ALL);
    assert_eq!(refused(&mut server, client, request()), Some(ErrorCode::BadArguments), "no hello");
    say_hello(&mut server, client, FEATURE_FEED);
    assert_eq!(refused(&mut server, client, open(0, &["a"], ALL)), Some(ErrorCode::BadArguments));
    let hidden = vec![Acl::new(Permissions::ALL, "ip", "10.9.9.9")];
    server.call(client, create_with_acl("/hidden", hidden));
    for prefix in ["/hidden", "/hidden/not/there"] {
        let error = refused(&mut server, client, open(0, &["/", prefix], ALL));
        assert_eq!(error, Some(ErrorCode::NoAuth), "{prefix}");
    }
    for _ in 0..2 {
        assert_eq!(refused(&mut server, client, open(0, &["/", "/none/yet"], ALL)), None);
    }
    assert_eq!(refused(&mut server, client, request()), Some(ErrorCode::TooManyFeeds));
    // The connection serves on.
    assert_eq!(server.call(client, get("/")).error, None);
    let (mut server, client) = server_with(FeedSettings::default());
    say_hello(&mut server, client, FEATURE_FEED);
    assert_eq!(refused(&mut server, client, request()), Some(ErrorCode::NoAuth), "not a reader");
    let (mut server, client) = server_with(anyone(0));
    assert_eq!(say_hello(&mut server, client, FEATURE_FEED), 0);
    assert_eq!(refused(&mut server, client, request()), Some(ErrorCode::Unimplemented), "turned off");
}
