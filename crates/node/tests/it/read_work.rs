//! The work of reads is bounded: of the parts of a multiRead together, and under one hold of the replica.

use zebu_node::limits::{HEAVY_READ_WEIGHT, MULTI_READ_BYTES_MAX, WAITING_READS_MAX};
use zebu_node::{
    AuthEnforcement, ConnectionId, ConnectionPhase, FreshnessSettings, KeeperSettings, ListingSettings, Node,
    Replica,
};
use zebu_proto::ErrorCode;
use zebu_proto::client::read::Watch;
use zebu_proto::client::{ChildKind, Freshness, PageRequest};
use zebu_tree::{Policy, Tree};

use crate::client::{Ask, all_children_number, create, get, set};
use crate::freshness::with;
use crate::keeper::{filtered_list, list_recursive, list_with, parts, plain};
use crate::node_fixture::{NodeFixture, START, settings, tree_options};

const CHILDREN: usize = 1_000;

const REFUSED: Option<ErrorCode> = Some(ErrorCode::MarshallingError);

fn server_over(adapt: impl FnOnce(Replica) -> Replica) -> (NodeFixture, ConnectionId) {
    let tree = Tree::new(tree_options());
    let replica = adapt(Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3));
    let node = Node::new(settings(), &replica, START);
    let mut server = NodeFixture::around(node, replica, settings());
    let connection = server.client();
    (server, connection)
}

/// A server with many children below `/p`, and a client as ClickHouse.
fn server_with_children() -> (NodeFixture, ConnectionId) {
    let (mut server, client) = server_over(|replica| replica);
    server.call(client, create("/p", "", 0));
    for number in 0..CHILDREN {
        server.call(client, create(&format!("/p/{number}"), "", 0));
    }
    server.call(client, get("/keeper/feature_flags"));
    (server, client)
}

/// A multiRead that has one part this many times.
fn repeated(part: &Ask, count: usize) -> Ask {
    parts(22, &vec![part; count])
}

fn work_of(server: &mut NodeFixture, client: ConnectionId, ask: Ask) -> usize {
    server.connections.0.get_mut(&client).unwrap().take_read_work();
    server.call(client, ask);
    server.connections.0.get_mut(&client).unwrap().take_read_work() as usize
}

#[test]
fn parts_that_list_nothing_are_bounded_by_the_nodes_they_visit() {
    let (mut server, client) = server_with_children();
    for part in [filtered_list("/p", 0, 2), list_with("/p", 0, 2, true, true)] {
        assert_eq!(server.call(client, repeated(&part, 100)).error, None);
        assert_eq!(server.call(client, repeated(&part, 300)).error, REFUSED);
    }
    assert_eq!(server.call(client, repeated(&list_recursive("/p", u32::MAX), 300)).error, REFUSED);
    assert_eq!(server.call(client, repeated(&plain(3, "/p", 0), 1_000)).error, None);
}

#[test]
fn results_that_are_truncated_count() {
    let listings = ListingSettings { reply_bytes_max: 1 << 20, ..ListingSettings::default() };
    let (mut server, client) = server_over(|replica| replica.with_listings(listings));
    server.call(client, create("/p", "", 0));
    let data = "x".repeat(100_000);
    for number in 0..11 {
        server.call(client, create(&format!("/p/{number}"), &data, 0));
    }
    server.call(client, get("/keeper/feature_flags"));
    let part = list_with("/p", 0, 0, false, true);
    let count = MULTI_READ_BYTES_MAX >> 20;
    assert_eq!(server.call(client, repeated(&part, count / 2)).error, None);
    assert_eq!(server.call(client, repeated(&part, 2 * count)).error, REFUSED);
}

/// The edge gives the replica back when a connection has done enough.
#[test]
fn the_work_of_reads_is_known_to_the_edge() {
    let (mut server, client) = server_with_children();
    for ask in [
        filtered_list("/p", 0, 2),
        list_recursive("/p", u32::MAX),
        all_children_number("/p"),
        Ask::raw(0x5A42_0002, &page_of_ephemerals("/p")),
    ] {
        let op = ask.op;
        assert!(work_of(&mut server, client, ask) >= CHILDREN, "{op}");
    }
    let list = || plain(8, "/p", 0);
    let lists = parts(22, &[&list(), &list(), &list(), &list()]);
    assert!(work_of(&mut server, client, lists) > 4 * CHILDREN / 20, "a long reply is work");
    assert_eq!(work_of(&mut server, client, get("/p")), 0);
}

fn page_of_ephemerals(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    PageRequest {
        path: path.into(),
        after: "".into(),
        max: 10,
        kind: ChildKind::Ephemeral,
        stats: false,
        data: false,
        watch: Watch::None,
    }
    .encode(&mut bytes);
    bytes
}

/// The core runs reads behind a write, so few of those may wait that can be expensive.
#[test]
fn few_expensive_reads_wait_behind_a_write() {
    let (mut server, client) = server_with_children();
    server.send(client, set("/p", "1"));
    let mut waiting = 0;
    while server.connections.0[&client].has_room() {
        server.send(client, repeated(&plain(4, "/p", 0), 2));
        waiting += 1;
    }
    assert_eq!(waiting, WAITING_READS_MAX / usize::from(HEAVY_READ_WEIGHT));
    server.persist();
    assert_eq!(server.replies(client).len(), 1 + waiting);
    assert!(server.connections.0[&client].has_room());
}

#[test]
fn a_read_with_freshness_is_refused_like_the_read_inside() {
    let fresh = |read| with(Freshness::default(), read);
    let multi_read = || fresh(parts(22, &[&filtered_list("/", 0, 0)]));
    let (mut server, client) = server_over(|replica| replica);
    assert_eq!(server.call(client, multi_read()).error, REFUSED, "the client has not read the flags");
    assert_eq!(server.call(client, fresh(parts(22, &[&plain(4, "/", 0)]))).error, None);
    server.call(client, get("/keeper/feature_flags"));
    assert_eq!(server.call(client, multi_read()).error, None);
    let off = KeeperSettings { extensions: false, ..KeeperSettings::default() };
    let (mut server, client) = server_over(|replica| replica.with_keeper(off));
    assert_eq!(server.call(client, multi_read()).error, REFUSED);
    let off = FreshnessSettings { private_requests: false, ..FreshnessSettings::default() };
    let (mut server, client) = server_over(|replica| replica.with_freshness(off));
    server.call(client, get("/keeper/feature_flags"));
    server.send(client, multi_read());
    assert_eq!(server.replies(client)[0].error, Some(ErrorCode::Unimplemented));
    assert_ne!(server.phase(client), ConnectionPhase::Serving);
}
