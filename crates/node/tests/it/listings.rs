//! Pages of children, scans, deltree and the limit of replies: at a server alone, at a learner, and on three
//! servers.

use std::collections::BTreeSet;

use zebu_node::{
    AuthEnforcement, ConnectionId, ConnectionPhase, FreshnessSettings, ListingSettings, Node, Replica,
};
use zebu_proto::client::read::Watch;
use zebu_proto::client::{
    ChildKind, CreateOp, DeleteTreeReply, DeleteTreeRequest, EventType, Freshness, NextPage, PageReply,
    PageRequest, PaginatedReply, PaginatedRequest, ScanReply, ScanRequest,
};
use zebu_proto::quorum::{Capabilities, Packet, PeerAnnouncement};
use zebu_proto::txn::{SubTxn, Txn};
use zebu_proto::{Acl, ErrorCode, Jute, OpCode};
use zebu_tree::{Policy, SortLimits, Tree};

use crate::client::{
    Ask, EPHEMERAL, Frame, Reply, ask, children_watch, children2, create, create_with_acl, delete, get,
    get_watch, hello, multi, multi_create, set,
};
use crate::node_fixture::{NodeFixture, START, settings, tree_options};
use crate::scripted_peer::Member;
use crate::three_nodes::ThreeNodes;

/// Orders of more than three children are prepared in slices of two.
fn small() -> ListingSettings {
    ListingSettings { sort: SortLimits { at_once: 3, per_slice: 2 }, ..ListingSettings::default() }
}

fn server_with(listings: ListingSettings) -> (NodeFixture, ConnectionId) {
    let tree = Tree::new(tree_options());
    let replica = Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3).with_listings(listings);
    let node = Node::new(settings(), &replica, START);
    let mut server = NodeFixture::around(node, replica, settings());
    let connection = server.client();
    (server, connection)
}

fn page(request: &PageRequest) -> Ask {
    ask(OpCode::Page, |out| request.encode(out))
}

fn scan(request: &ScanRequest) -> Ask {
    ask(OpCode::Scan, |out| request.encode(out))
}

fn paginated(path: &str, max: i32, from: NextPage, watch: Watch) -> Ask {
    let request = PaginatedRequest { path: path.into(), max, from, watch };
    ask(OpCode::GetChildrenPaginated, |out| request.encode(out))
}

fn delete_tree(root: &str, max: i32) -> Ask {
    let request = DeleteTreeRequest { root: root.into(), max, keep_root: false, leave_ephemerals: false };
    ask(OpCode::DeleteTree, |out| request.encode(out))
}

/// Calls the node as an edge does until the listing of a connection is answered. Returns the calls.
fn run_listing(server: &mut NodeFixture, connection: ConnectionId) -> usize {
    for calls in 0..1000 {
        let connection = server.connections.0.get_mut(&connection).unwrap();
        if !server.replica.continue_listing(connection, server.now.monotonic_ms) {
            return calls;
        }
    }
    panic!("the listing never ends");
}

/// Sends a listing and returns its reply.
fn list(server: &mut NodeFixture, connection: ConnectionId, ask: Ask) -> Reply {
    server.send(connection, ask);
    run_listing(server, connection);
    server.replies(connection).pop().expect("an answer")
}

fn page_of(reply: &Reply) -> PageReply {
    reply.read(|reader| PageReply::decode(reader).unwrap())
}

fn names(children: &[Box<str>]) -> Vec<&str> {
    children.iter().map(|name| &**name).collect()
}

#[test]
fn pages_show_names_stats_and_data() {
    for listings in [ListingSettings::default(), small()] {
        let (mut server, client) = server_with(listings);
        server.call(client, create("/p", "", 0));
        for name in ["d", "a", "c", "e", "b"] {
            server.call(client, create(&format!("/p/{name}"), name, 0));
        }
        let request = PageRequest { stats: true, data: true, ..PageRequest::new("/p", 2) };
        let reply = list(&mut server, client, page(&request));
        assert_eq!(reply.zxid, server.replica.last_zxid().0);
        let first = page_of(&reply);
        assert_eq!(
            (names(&first.children), first.more, first.next.as_deref()),
            (vec!["a", "b"], true, Some("b"))
        );
        assert_eq!(first.data, [Some(b"a".as_slice().into()), Some(b"b".as_slice().into())]);
        assert_eq!(first.stats[1], server.call(client, crate::client::exists("/p/b")).stat());
        assert_eq!(first.stat.num_children, 5);
        let request = PageRequest { after: "c".into(), ..PageRequest::new("/p", 2) };
        let last = page_of(&list(&mut server, client, page(&request)));
        assert_eq!((names(&last.children), last.more, last.next), (vec!["d", "e"], false, None));
        assert!(last.stats.is_empty() && last.data.is_empty());
        let missing = page(&PageRequest::new("/none", 2));
        assert_eq!(list(&mut server, client, missing).error, Some(ErrorCode::NoNode));
    }
}

#[test]
fn a_page_holds_children_of_a_kind_and_hides_what_may_not_be_read() {
    let (mut server, client) = server_with(ListingSettings::default());
    server.call(client, create("/p", "", 0));
    server.call(client, create("/p/own", "x", EPHEMERAL));
    server.call(client, create("/p/plain", "x", 0));
    server.call(client, create_with_acl("/p/secret", vec![Acl::new(0, "world", "anyone")]));
    let mut of_kind = |kind| {
        let request = PageRequest { kind, stats: true, data: true, ..PageRequest::new("/p", 9) };
        page_of(&list(&mut server, client, page(&request)))
    };
    assert_eq!(names(&of_kind(ChildKind::Ephemeral).children), ["own"]);
    let persistent = of_kind(ChildKind::Persistent);
    assert_eq!(names(&persistent.children), ["plain", "secret"]);
    assert_eq!((persistent.stats[1].czxid, persistent.data[1].clone()), (-1, None));
    assert_eq!(of_kind(ChildKind::All).children.len(), 3);
}

/// A filter that finds nothing must not visit all children under one lock, and the client must get on.
#[test]
fn an_empty_page_says_where_the_next_one_begins() {
    let (mut server, client) = server_with(ListingSettings { nodes_max: 2, ..ListingSettings::default() });
    server.call(client, create("/p", "", 0));
    (0..5).for_each(|number| drop(server.call(client, create(&format!("/p/{number}"), "", 0))));
    server.call(client, create("/p/own", "", EPHEMERAL));
    let mut request = PageRequest { kind: ChildKind::Ephemeral, ..PageRequest::new("/p", 9) };
    let mut pages = Vec::new();
    loop {
        let reply = page_of(&list(&mut server, client, page(&request)));
        pages.push(reply.children.len());
        let Some(next) = reply.next else { break };
        request.after = next;
    }
    assert_eq!(pages, [0, 0, 1]);
}

#[test]
fn a_page_ends_before_it_is_too_long() {
    let (mut server, client) =
        server_with(ListingSettings { page_bytes_max: 500, ..ListingSettings::default() });
    server.call(client, create("/p", "", 0));
    (0..4).for_each(|number| drop(server.call(client, create(&format!("/p/{number}"), &"x".repeat(100), 0))));
    server.call(client, create("/p/4", &"x".repeat(1000), 0));
    let mut request = PageRequest { data: true, ..PageRequest::new("/p", 9) };
    let mut pages = Vec::new();
    loop {
        let reply = page_of(&list(&mut server, client, page(&request)));
        pages.push(reply.children.len());
        let Some(next) = reply.next else { break };
        request.after = next;
    }
    assert_eq!(pages, [3, 1, 1], "a single child may be longer");
}

#[test]
fn the_watch_is_set_with_the_last_page() {
    let (mut server, client) = server_with(ListingSettings::default());
    server.call(client, create("/p", "", 0));
    (0..3).for_each(|number| drop(server.call(client, create(&format!("/p/{number}"), "", 0))));
    let watched = PageRequest { watch: Watch::Set, ..PageRequest::new("/p", 2) };
    let first = |czxid: i64, watch| paginated("/p", 2, NextPage { min_czxid: czxid, offset: 0 }, watch);
    let czxid = server.replica.tree().node("/p/2").unwrap().czxid();
    let writer = server.client();
    for (early, late) in [
        (page(&watched), page(&PageRequest { after: "1".into(), ..watched.clone() })),
        (first(0, Watch::Set), first(czxid, Watch::Set)),
    ] {
        list(&mut server, client, early);
        server.call(writer, create("/p/x", "", 0));
        server.call(writer, delete("/p/x"));
        assert!(server.received(client).is_empty(), "the first page sets no watch");
        list(&mut server, client, late);
        server.call(writer, create("/p/x", "", 0));
        let events = server.received(client);
        assert!(matches!(&events[..], [Frame::Event { kind: EventType::NodeChildrenChanged, .. }]));
        server.call(writer, delete("/p/x"));
    }
}

#[test]
fn pages_by_creation_have_offsets_within_a_transaction() {
    for listings in [ListingSettings::default(), small()] {
        let (mut server, client) = server_with(listings);
        server.call(client, create("/p", "", 0));
        server.call(client, create("/p/z", "", 0));
        let together =
            ["d", "b", "a", "c"].map(|name| multi_create(CreateOp::Create, &format!("/p/{name}"), 0));
        server.call(client, multi(&together));
        server.call(client, create("/p/y", "", 0));
        let (mut from, mut pages, mut offsets) = (NextPage::FIRST, Vec::new(), Vec::new());
        while from != NextPage::NONE {
            let reply = list(&mut server, client, paginated("/p", 2, from, Watch::None));
            let reply = reply.read(|reader| PaginatedReply::decode(reader).unwrap());
            pages.push(names(&reply.children).join(""));
            from = reply.next;
            offsets.push(from.offset);
        }
        assert_eq!((pages, offsets), (vec!["za".into(), "bc".into(), "dy".into()], vec![1, 3, -1]));
        let all = list(&mut server, client, paginated("/p", i32::MAX, NextPage::FIRST, Watch::None));
        let all = all.read(|reader| PaginatedReply::decode(reader).unwrap());
        assert_eq!((all.children.len(), all.next), (6, NextPage::NONE));
    }
}

#[test]
fn a_listing_that_waits_holds_later_requests_back() {
    let (mut server, client) = server_with(small());
    server.call(client, create("/p", "", 0));
    (0..9).for_each(|number| drop(server.call(client, create(&format!("/p/{number}"), "", 0))));
    // Behind a write it waits for the edge, not for the core.
    server.send(client, set("/p", "x"));
    server.send(client, page(&PageRequest::new("/p", 100)));
    assert!(!server.connection(client).has_room(), "nothing behind it is decoded");
    server.persist();
    assert_eq!(server.replies(client).len(), 1);
    assert!(server.connection(client).has_listing_to_run());
    let writer = server.client();
    server.call(writer, create("/p/x", "", 0));
    assert!(run_listing(&mut server, client) > 2);
    let replies = server.replies(client);
    assert_eq!(page_of(&replies[0]).children.len(), 10);
    assert!(server.connection(client).has_room());
    // The order is ready now, so the next page is answered at once.
    let request = page(&PageRequest { after: "7".into(), ..PageRequest::new("/p", 9) });
    assert_eq!(names(&page_of(&server.call(client, request)).children), ["8", "x"]);
}

#[test]
fn listings_can_be_as_fresh_as_other_reads() {
    let (mut server, client) = server_with(small());
    server.call(client, create("/p", "", 0));
    (0..5).for_each(|number| drop(server.call(client, create(&format!("/p/{number}"), "", 0))));
    let zxid = zebu_proto::Zxid(server.replica.last_zxid().0 + 1);
    let freshness = Freshness { min_zxid: Some(zxid), ..Freshness::default() };
    let fresh = ask(OpCode::With, |out| {
        freshness.encode(out);
        OpCode::Page.wire().encode(out);
        PageRequest::new("/p", 9).encode(out);
    });
    server.send(client, fresh);
    assert!(!server.connection(client).has_room() && server.received(client).is_empty());
    let writer = server.client();
    server.call(writer, create("/p/x", "", 0));
    run_listing(&mut server, client);
    assert_eq!(page_of(&server.replies(client)[0]).children.len(), 6);
}

#[test]
fn a_scan_leaves_out_what_may_not_be_read() {
    let (mut server, client) = server_with(small());
    for path in ["/s", "/s/a", "/s/a/b", "/s/c", "/s/c/d", "/s/e", "/s/f"] {
        server.call(client, create(path, path, 0));
    }
    let secret = vec![Acl::new(31 & !1, "world", "anyone")];
    server.call(client, crate::client::set_acl("/s/c", secret));
    let mut walk = |mut request: ScanRequest| {
        let mut paths = Vec::new();
        for _ in 0..100 {
            let reply = list(&mut server, client, scan(&request));
            let reply = reply.read(|reader| ScanReply::decode(reader, request.stats, request.data).unwrap());
            paths.extend(reply.nodes.iter().map(|node| {
                let data = node.data.clone().map(|data| data.unwrap().to_vec());
                assert!(data.is_none_or(|data| data == node.path.as_bytes()));
                node.path.to_string()
            }));
            assert_eq!(reply.more, reply.next.is_some());
            let Some(next) = reply.next else { return paths };
            request.after = next;
        }
        panic!("the scan never ends");
    };
    let expected = ["/s", "/s/a", "/s/a/b", "/s/e", "/s/f"];
    for bytes in [1, 200, 100_000] {
        let request = ScanRequest { stats: true, data: true, ..ScanRequest::new("/s", bytes) };
        assert_eq!(walk(request), expected, "{bytes}");
    }
    assert_eq!(walk(ScanRequest { depth: 1, ..ScanRequest::new("/s", 9) }), ["/s", "/s/a", "/s/e", "/s/f"]);
    for (root, after, error) in [
        ("/s", "/other", ErrorCode::BadArguments),
        ("/s/c", "", ErrorCode::NoAuth),
        ("/none", "", ErrorCode::NoNode),
    ] {
        let request = ScanRequest { after: after.into(), ..ScanRequest::new(root, 9) };
        assert_eq!(list(&mut server, client, scan(&request)).error, Some(error));
    }
}

#[test]
fn a_reply_that_is_too_long_is_an_error_and_sets_no_watch() {
    let (mut server, client) =
        server_with(ListingSettings { reply_bytes_max: 300, ..ListingSettings::default() });
    server.call(client, create("/big", &"x".repeat(400), 0));
    (0..40).for_each(|number| drop(server.call(client, create(&format!("/big/{number:04}"), "", 0))));
    for request in [get_watch("/big"), children_watch("/big"), children2("/big")] {
        assert_eq!(server.call(client, request).error, Some(ErrorCode::MarshallingError));
    }
    let watcher = zebu_tree::watch::WatcherId(client.0);
    assert_eq!(server.replica.watches().watched_paths(watcher), 0);
    assert_eq!(server.call(client, get("/big/0000")).data(), "");
    assert_eq!(server.phase(client), ConnectionPhase::Serving);
}

#[test]
fn without_private_requests_all_are_unknown() {
    let tree = Tree::new(tree_options());
    let freshness = FreshnessSettings { private_requests: false, ..FreshnessSettings::default() };
    let replica = Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3).with_freshness(freshness);
    let node = Node::new(settings(), &replica, START);
    let mut server = NodeFixture::around(node, replica, settings());
    let asks = [
        page(&PageRequest::new("/", 1)),
        scan(&ScanRequest::new("/", 1)),
        paginated("/", 1, NextPage::FIRST, Watch::None),
        delete_tree("/a", 1),
        Ask::raw(71, &[]),
    ];
    for ask in asks {
        let client = server.client();
        server.send(client, ask);
        assert_eq!(server.replies(client)[0].error, Some(ErrorCode::Unimplemented));
        assert_ne!(server.phase(client), ConnectionPhase::Serving);
    }
}

#[test]
fn a_server_alone_deletes_subtrees() {
    let (mut server, client) = server_with(ListingSettings::default());
    for path in ["/a", "/a/b", "/a/b/c", "/a/d"] {
        server.call(client, create(path, "", 0));
    }
    let reply = |reply: Reply| reply.read(|reader| DeleteTreeReply::decode(reader).unwrap());
    let first = reply(server.call(client, delete_tree("/a", 3)));
    assert_eq!(first, DeleteTreeReply { deleted: 3, more: true });
    let second = reply(server.call(client, delete_tree("/a", 3)));
    assert_eq!(second, DeleteTreeReply { deleted: 1, more: false });
    assert_eq!(server.call(client, delete_tree("/a", 3)).error, Some(ErrorCode::NoNode));
    let audited: Vec<_> = server.audit.iter().filter_map(|event| event.path.as_deref()).collect();
    assert!(audited.ends_with(&["/a/b/c", "/a/b", "/a/d", "/a", "/a"]), "{audited:?}");
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

#[test]
fn a_learner_forwards_a_deltree_and_tells_from_the_transaction_what_it_did() {
    let (mut learner, connection, session) = learner(Some(PeerAnnouncement::CURRENT));
    learner.fixture.send_as(connection, 1, &delete_tree("/a", 5));
    let said = learner.said();
    assert!(
        matches!(&said[..], [Packet::Request { op, .. }] if *op == OpCode::DeleteTree.wire()),
        "{said:?}"
    );
    let check = Txn::Check(zebu_proto::txn::CheckTxn { path: "/a".into(), version: 0 });
    let parts = [Txn::Delete("/a/b".into()), Txn::Delete("/a/c".into()), check].map(SubTxn);
    learner.deliver(session, 1, Txn::Multi(parts.into()));
    let reply = learner.fixture.replies(connection).remove(0);
    let reply = reply.read(|reader| DeleteTreeReply::decode(reader).unwrap());
    // The nodes do not exist here; the count is that of the transaction.
    assert_eq!(reply, DeleteTreeReply { deleted: 2, more: true });
}

#[test]
fn another_leader_never_gets_a_private_write() {
    let old = PeerAnnouncement { version: 1, capabilities: Capabilities::STRICT_SYNC };
    for announcement in [None, Some(old)] {
        let (mut learner, connection, _) = learner(announcement);
        learner.fixture.send_as(connection, 1, &delete_tree("/a", 5));
        assert!(learner.said().is_empty());
        assert_eq!(learner.fixture.replies(connection)[0].error, Some(ErrorCode::Unimplemented));
        assert_eq!(learner.fixture.phase(connection), ConnectionPhase::Serving);
        let features = learner.fixture.call(connection, get("/zookeeper/zebu")).data();
        assert!(features.contains("page,scan") && !features.contains("deltree"), "{features}");
    }
}

#[test]
fn three_servers_delete_and_list_the_same() {
    let mut ensemble = ThreeNodes::new();
    let ids: Vec<_> = ensemble.learners().into_iter().chain(ensemble.leader()).collect();
    let clients: Vec<_> = ids.iter().map(|&id| (id, ensemble.client(id, 30_000))).collect();
    let (first, connection) = clients[0];
    ensemble.call(first, connection, create("/a", "", 0));
    for number in 0..30 {
        let (writer, connection) = clients[number % 3];
        ensemble.call(writer, connection, create(&format!("/a/{}", number * 7 % 30), "", 0));
    }
    for round in 0..11 {
        let (writer, connection) = clients[round % 3];
        let reply = ensemble.call(writer, connection, delete_tree("/a", 3));
        let reply = reply.read(|reader| DeleteTreeReply::decode(reader).unwrap());
        assert_eq!(
            reply,
            if round < 10 {
                DeleteTreeReply { deleted: 3, more: true }
            } else {
                DeleteTreeReply { deleted: 1, more: false }
            }
        );
        if round < 10 {
            let lists: BTreeSet<_> = clients
                .iter()
                .map(|&(reader, connection)| {
                    let reply = ensemble.call(reader, connection, page(&PageRequest::new("/a", 100)));
                    page_of(&reply).children
                })
                .collect();
            assert_eq!(lists.len(), 1, "round {round}");
        }
    }
    ensemble.assert_equal();
}
