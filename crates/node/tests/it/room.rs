//! Requests that make the tree larger while the disk is full: they are refused, all others go on.

use zebu_node::{ConnectionPhase, DisconnectReason, ServeContext};
use zebu_proto::ErrorCode;
use zebu_proto::client::CreateOp;
use zebu_proto::quorum::DiskRoom;
use zebu_zab::PeerEvent;

use crate::client::{create, delete, get, multi, multi_check, multi_create, multi_delete, multi_set, set};
use crate::node_fixture::NodeFixture;

const REFUSED: Option<ErrorCode> = Some(ErrorCode::SystemError);

/// The number of refusals per second.
const REFUSALS: usize = 100;

fn set_room(fixture: &mut NodeFixture, room: DiskRoom) {
    let NodeFixture { node, replica, connections, now, .. } = fixture;
    node.handle_peer(PeerEvent::DiskRoom { room }, &mut ServeContext { replica, connections, now: *now });
}

#[test]
fn what_makes_the_tree_larger_is_refused() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    for (path, data) in [("/a", "12345"), ("/b", "1"), ("/c", "")] {
        fixture.call(connection, create(path, data, 0));
    }
    set_room(&mut fixture, DiskRoom::Low);
    assert_eq!(fixture.call(connection, create("/d", "", 0)).error, None, "low is a warning");
    set_room(&mut fixture, DiskRoom::Full);
    assert!(!fixture.node.has_room_to_grow());
    let mut error = |ask| fixture.call(connection, ask).error;
    assert_eq!(error(create("/e", "", 0)), REFUSED);
    assert_eq!(error(set("/a", "123456")), REFUSED);
    assert_eq!(error(set("/a", "54321")), None);
    assert_eq!(error(set("/a", "5")), None);
    assert_eq!(error(set("/a", "54")), REFUSED, "compared with the data before");
    assert_eq!(error(set("/none", "5")), Some(ErrorCode::NoNode), "its own error");
    assert_eq!(error(multi(&[multi_delete("/c"), multi_create(CreateOp::Create, "/f", 0)])), REFUSED);
    assert_eq!(error(multi(&[multi_set("/a", "55555")])), REFUSED);
    assert_eq!(error(multi(&[multi_check("/a", -1), multi_delete("/c"), multi_set("/a", "")])), None);
    assert_eq!(error(delete("/b")), None);
    assert_eq!(error(get("/a")), None);
    set_room(&mut fixture, DiskRoom::Enough);
    assert_eq!(fixture.call(connection, create("/e", "", 0)).error, None);
}

#[test]
fn a_new_session_is_refused_and_an_old_one_resumed() {
    let mut fixture = NodeFixture::new();
    let old = fixture.client();
    set_room(&mut fixture, DiskRoom::Full);
    let new = fixture.open();
    fixture.connect(new, crate::client::hello(30_000));
    assert_eq!(fixture.phase(new), ConnectionPhase::Closed(DisconnectReason::NoRoom));
    let request = fixture.hello_again(old);
    fixture.disconnect(old);
    let again = fixture.open();
    fixture.connect(again, request);
    fixture.persist();
    assert!(fixture.greeting(again).is_some_and(|response| response.session_id != 0));
}

#[test]
fn refusals_wait_for_the_next_second_and_keep_their_order() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    let other = fixture.client();
    fixture.call(connection, create("/a", "", 0));
    set_room(&mut fixture, DiskRoom::Full);
    for number in 0..REFUSALS {
        assert_eq!(fixture.call(other, create(&format!("/b{number}"), "", 0)).error, REFUSED);
    }
    let refused = fixture.send(connection, create("/c", "", 0));
    let behind = fixture.send(connection, delete("/a"));
    assert!(fixture.node.in_flight() == 0, "neither is proposed in this second");
    fixture.run_until(fixture.now.monotonic_ms + 1_000);
    fixture.persist();
    let replies = fixture.replies(connection);
    let answers: Vec<_> = replies.iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(answers, [(refused, REFUSED), (behind, None)]);
}

#[test]
fn a_request_that_waits_for_its_refusal_is_carried_out_when_there_is_room() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    set_room(&mut fixture, DiskRoom::Full);
    for number in 0..REFUSALS {
        fixture.call(connection, create(&format!("/b{number}"), "", 0));
    }
    fixture.send(connection, create("/c", "", 0));
    set_room(&mut fixture, DiskRoom::Enough);
    fixture.run_until(fixture.now.monotonic_ms + 1_000);
    fixture.persist();
    assert_eq!(fixture.replies(connection).pop().unwrap().error, None);
}
