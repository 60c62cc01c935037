//! The order of replies on one connection, with a slow disk.

use zebu_node::ConnectionPhase;
use zebu_proto::ErrorCode;
use zebu_proto::client::EventType::{NodeCreated, NodeDataChanged};

use crate::client::{
    Ask, Frame, auth, create, create2, exists, exists_watch, get, get_watch, ping, set, set_watches, sync,
};
use crate::node_fixture::NodeFixture;

/// A node that holds "0", and two clients.
fn two_clients() -> (NodeFixture, zebu_node::ConnectionId, zebu_node::ConnectionId) {
    let mut fixture = NodeFixture::new();
    let (mine, other) = (fixture.client(), fixture.client());
    fixture.call(mine, create("/a", "0", 0));
    (fixture, mine, other)
}

#[test]
fn a_read_waits_for_the_writes_of_its_own_session_only() {
    let (mut fixture, mine, other) = two_clients();
    fixture.send(mine, set("/a", "1"));
    fixture.send(mine, get("/a"));
    fixture.send(mine, set("/a", "2"));
    fixture.send(mine, get("/a"));
    fixture.send(mine, ping());
    assert_eq!(fixture.received(mine), []);

    fixture.send(other, get("/a"));
    assert_eq!(fixture.replies(other)[0].data(), "0", "another session does not wait");

    fixture.persist_one();
    let first = fixture.replies(mine);
    assert_eq!(first.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(first[1].data(), "1", "run before the next write is applied");
    fixture.persist_one();
    let second = fixture.replies(mine);
    assert_eq!(second.iter().map(|reply| reply.xid).collect::<Vec<_>>(), [4, 5, -2]);
    assert_eq!(second[1].data(), "2");
}

#[test]
fn a_read_between_two_writes_of_one_batch_sees_the_first_only() {
    let (mut fixture, mine, _) = two_clients();
    let frames = [set("/a", "1"), get_watch("/a"), set("/a", "2"), get("/a")];
    let submissions: Vec<_> =
        frames.iter().zip(10..).map(|(ask, xid)| fixture.receive(mine, &ask.frame(xid))).collect();
    submissions.into_iter().for_each(|submission| fixture.submit(submission));
    // Both are durable before either is applied.
    let last = fixture.disk.back().unwrap().last;
    assert_eq!(fixture.commit(last), 2);
    let received = fixture.received(mine);
    let zxid = last.0;
    assert_eq!(received[1].clone().reply().data(), "1");
    assert_eq!(received[1].clone().reply().zxid, zxid - 1);
    assert_eq!(received[2], Frame::Event { zxid, kind: NodeDataChanged, path: "/a".into() });
    assert_eq!(received[3].clone().reply().xid, 12, "the event comes before the answer of its cause");
    assert_eq!(received[4].clone().reply().data(), "2");
    assert_eq!(received.len(), 5);
}

#[test]
fn a_write_that_fails_keeps_its_turn_and_takes_a_zxid() {
    let (mut fixture, mine, _) = two_clients();
    let zxid = fixture.replica.last_zxid().0;
    fixture.send(mine, create("/a", "", 0));
    fixture.send(mine, create2("/b", "", 0));
    fixture.send(mine, exists("/b"));
    fixture.persist();
    let replies = fixture.replies(mine);
    assert_eq!((replies[0].error, replies[0].zxid), (Some(ErrorCode::NodeExists), zxid + 1));
    assert_eq!(replies[1].path_and_stat().1.czxid, zxid + 2);
    assert_eq!(replies[2].stat().czxid, zxid + 2);
}

#[test]
fn every_kind_of_answer_waits_for_its_turn() {
    let (mut fixture, mine, _) = two_clients();
    fixture.send_as(mine, 10, &set("/a", "1"));
    fixture.send_as(mine, 11, &auth("digest", "me:secret"));
    fixture.send_as(mine, 12, &Ask::raw(4, &[9]));
    fixture.send_as(mine, 13, &sync("/a"));
    fixture.send_as(mine, -8, &set_watches(0, &[&["/a"], &[], &[]]));
    fixture.send_as(mine, 16, &Ask::raw(777, &[]));
    fixture.send_as(mine, 17, &get("/a"));
    assert_eq!(fixture.received(mine), []);
    assert_eq!(fixture.connection(mine).outstanding(), 5, "setWatches has a negative xid");
    assert_eq!(
        fixture.phase(mine),
        ConnectionPhase::Draining,
        "nothing behind an unknown request is looked at"
    );
    fixture.persist();
    let zxid = fixture.replica.last_zxid().0;
    let received = fixture.received(mine);
    assert_eq!(received[4], Frame::Event { zxid: -1, kind: NodeDataChanged, path: "/a".into() });
    let replies: Vec<_> =
        received.into_iter().filter(|frame| matches!(frame, Frame::Reply(_))).map(Frame::reply).collect();
    let seen: Vec<_> = replies.iter().map(|reply| (reply.xid, reply.zxid, reply.error)).collect();
    let expected = [
        (10, zxid, None),
        (11, 0, None),
        (12, zxid, Some(ErrorCode::MarshallingError)),
        (13, zxid, None),
        (-8, zxid, None),
        (16, -1, Some(ErrorCode::Unimplemented)),
    ];
    assert_eq!(seen, expected);
    assert!(fixture.connection(mine).is_drained());
}

#[test]
fn an_undecodable_request_costs_no_zxid_but_an_undecodable_multi_does() {
    let (mut fixture, mine, _) = two_clients();
    let before = fixture.history.len();
    for op in [1, 2, 5, 7, 15, 16, 19, 21] {
        let reply = fixture.call(mine, Ask::raw(op, &[0, 0]));
        assert_eq!(reply.error, Some(ErrorCode::MarshallingError), "{op}");
    }
    assert_eq!(fixture.history.len(), before);
    let zxid = fixture.replica.last_zxid().0;
    let reply = fixture.call(mine, Ask::raw(14, &[0, 0]));
    assert_eq!((reply.error, reply.zxid), (Some(ErrorCode::MarshallingError), zxid + 1));
}

#[test]
fn a_ping_is_answered_with_the_ping_xid() {
    let (mut fixture, mine, _) = two_clients();
    fixture.send_as(mine, 5, &ping());
    let reply = fixture.replies(mine).remove(0);
    assert_eq!((reply.xid, reply.zxid, reply.body.len()), (-2, fixture.replica.last_zxid().0, 0));
}

#[test]
fn the_event_of_a_write_comes_before_its_answer_on_every_connection() {
    let (mut fixture, mine, other) = two_clients();
    fixture.call(mine, exists_watch("/new"));
    fixture.call(other, exists_watch("/new"));
    fixture.send(mine, create("/new", "", 0));
    fixture.persist_one();
    let zxid = fixture.replica.last_zxid().0;
    let event = Frame::Event { zxid, kind: NodeCreated, path: "/new".into() };
    let received = fixture.received(mine);
    assert_eq!((&received[0], received.len()), (&event, 2));
    assert_eq!(fixture.received(other), [event]);
}

#[test]
fn nothing_of_a_connection_is_answered_before_the_disk_has_the_write_before_it() {
    let (mut fixture, mine, other) = two_clients();
    fixture.send(other, set("/a", "x"));
    fixture.send(mine, set("/a", "y"));
    fixture.send(mine, sync("/"));
    fixture.persist_one();
    assert_eq!(fixture.xids(other).len(), 1);
    assert_eq!(fixture.received(mine), []);
    fixture.persist_one();
    assert_eq!(fixture.xids(mine), [2, 3]);
}
