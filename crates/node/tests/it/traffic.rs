//! Samples, slow requests and large replies, and the limit of watched paths.

use zebu_node::{
    AuthEnforcement, ConnectionId, Node, NotableRequest, Replica, TrafficReport, TrafficSettings,
};
use zebu_proto::{ErrorCode, OpCode};
use zebu_tree::{Policy, Tree};

use crate::client::{
    Ask, add_watch, auth, children_watch, create, exists_watch, get, get_watch, multi, multi_delete,
    multi_set, ping, remove_watches, set, set_watches,
};
use crate::node_fixture::{NodeFixture, START, settings, tree_options};

fn observed(traffic: TrafficSettings) -> (NodeFixture, ConnectionId) {
    let tree = Tree::new(tree_options());
    let replica = Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3).with_traffic(traffic);
    let node = Node::new(settings(), &replica, START);
    let mut fixture = NodeFixture::around(node, replica, settings());
    let client = fixture.client();
    (fixture, client)
}

fn report(fixture: &mut NodeFixture, client: ConnectionId) -> Option<TrafficReport> {
    fixture.connections.0.get_mut(&client).unwrap().take_traffic().map(|report| *report)
}

#[test]
fn nothing_is_observed_by_default() {
    let (mut fixture, client) = observed(TrafficSettings::default());
    fixture.send(client, create("/a", &"x".repeat(100_000), 0));
    fixture.pass(3_600_000);
    fixture.persist();
    fixture.call(client, get_watch("/a"));
    assert!(report(&mut fixture, client).is_none());
}

#[test]
fn samples_name_paths_bytes_watches_and_the_user() {
    let (mut fixture, client) = observed(TrafficSettings { sample_every: 1, ..TrafficSettings::default() });
    fixture.call(client, auth("digest", "ann:secret"));
    fixture.call(client, create("/a", "data", 0));
    fixture.call(client, get_watch("/a"));
    fixture.call(client, multi(&[multi_set("/a", "1"), multi_delete("/b")]));
    fixture.call(client, add_watch("/w", 0));
    fixture.send_as(client, -2, &ping());
    let report = report(&mut fixture, client).unwrap();
    assert_eq!(report.user.as_deref(), Some("ann"), "the secret is no part of it");
    let seen: Vec<_> = report
        .samples
        .iter()
        .map(|sample| {
            let marks = [sample.is_read, sample.is_write, sample.sets_watch, sample.is_continued];
            (sample.path.as_deref().unwrap(), marks.map(u8::from), sample.bytes_out > 0)
        })
        .collect();
    let expected = [
        ("/a", [0, 1, 0, 0], false),
        ("/a", [1, 0, 1, 0], true),
        ("/a", [0, 1, 0, 0], false),
        ("/b", [0, 1, 0, 1], false),
        ("/w", [0, 0, 1, 0], true),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_observations_of_a_connection_are_bounded() {
    let traffic = TrafficSettings { sample_every: 1, large_reply_bytes: 1, ..TrafficSettings::default() };
    let (mut fixture, client) = observed(traffic);
    for _ in 0..500 {
        fixture.call(client, get(&format!("/{}", "x".repeat(5000))));
    }
    let report = report(&mut fixture, client).unwrap();
    assert_eq!((report.samples.len(), report.notable.len(), report.more_large), (64, 8, 492));
    assert!(report.samples.iter().all(|sample| sample.path.as_ref().unwrap().len() == 1024));
}

#[test]
fn slow_requests_and_large_replies_are_reported() {
    let traffic =
        TrafficSettings { slow_request_ms: 500, large_reply_bytes: 10_000, ..TrafficSettings::default() };
    let (mut fixture, client) = observed(traffic);
    fixture.send(client, create("/slow", &"x".repeat(10_000), 0));
    fixture.send(client, get("/slow"));
    fixture.send(client, set("/missing", "x"));
    fixture.pass(499);
    fixture.persist_one();
    let slow_read = fixture.connections.0[&client].has_notable_requests();
    assert!(slow_read, "the reply to the read is large");
    fixture.pass(1);
    fixture.persist();
    let found = report(&mut fixture, client).unwrap();
    let expected = [
        NotableRequest {
            op: Some(OpCode::GetData),
            path: Some("/slow".into()),
            duration_ms: 499,
            reply_bytes: found.notable[0].reply_bytes,
            is_slow: false,
            is_large: true,
        },
        NotableRequest {
            op: Some(OpCode::SetData),
            path: Some("/missing".into()),
            duration_ms: 500,
            reply_bytes: 20,
            is_slow: true,
            is_large: false,
        },
    ];
    assert_eq!(found.notable, expected);
    assert!((10_000..10_200).contains(&found.notable[0].reply_bytes));
    assert!(report(&mut fixture, client).is_none());
}

fn refusals(fixture: &NodeFixture) -> u64 {
    fixture.replica.metrics().watches_refused.total()
}

#[test]
fn a_request_beyond_the_watch_limit_is_refused_as_a_whole() {
    let traffic = TrafficSettings { watched_paths_max: 2, ..TrafficSettings::default() };
    let (mut fixture, client) = observed(traffic);
    for path in ["/a", "/b", "/c"] {
        fixture.call(client, create(path, "", 0));
    }
    let mut error = |ask: Ask| fixture.call(client, ask).error;
    assert_eq!(error(get_watch("/a")), None);
    assert_eq!(error(exists_watch("/missing")), Some(ErrorCode::NoNode), "its watch is set");
    let refused = Some(ErrorCode::BadArguments);
    assert_eq!(error(get_watch("/b")), refused);
    assert_eq!(error(exists_watch("/other")), refused);
    assert_eq!(error(children_watch("/c")), refused);
    assert_eq!(error(add_watch("/c", 1)), refused);
    assert_eq!(error(children_watch("/a")), None, "the path is watched already");
    assert_eq!(error(get("/b")), None, "a read without a watch is not concerned");
    assert_eq!(refusals(&fixture), 4);
    let other = fixture.client();
    assert_eq!(fixture.call(other, get_watch("/b")).error, None, "each connection has its own limit");
    assert_eq!(fixture.call(client, remove_watches("/missing", 3)).error, None);
    assert_eq!(fixture.call(client, get_watch("/b")).error, None);
}

#[test]
fn restored_watches_have_the_same_limit() {
    let traffic = TrafficSettings { watched_paths_max: 2, ..TrafficSettings::default() };
    let (mut fixture, client) = observed(traffic);
    for path in ["/a", "/b", "/c"] {
        fixture.call(client, create(path, "", 0));
    }
    let seen = fixture.replica.last_zxid().0;
    let other = fixture.client();
    let lists: &[&[&str]] = &[&["/a", "/b"], &[], &["/a", "/b"]];
    assert_eq!(fixture.call(other, set_watches(seen, lists)).error, None, "two paths, four watches");
    let third = fixture.client();
    let reply = fixture.call(third, set_watches(0, &[&["/a", "/b", "/c"], &[], &[]]));
    assert_eq!(reply.error, Some(ErrorCode::BadArguments));
    assert_eq!(refusals(&fixture), 1);
    fixture.call(client, set("/a", "new"));
    assert_eq!(fixture.received(third).len(), 0, "no watch of the refused request was set");
    assert_eq!(fixture.received(other).len(), 1);
}
