//! Watches in the machine: registered, fired, registered again, removed.

use zebu_client::core::{EventKind, SessionState, WatchIntent, WatcherId};
use zebu_proto::client::WatcherType;
use zebu_proto::client::read::ReadRequest;
use zebu_proto::client::{Request, SetWatches};
use zebu_proto::{OpCode, Reader};

use crate::rig::{Rig, SentRequest, event};

const NO_NODE: i32 = -101;

fn answer_all(rig: &mut Rig, err: i32) -> Vec<SentRequest> {
    let sent = rig.requests();
    for seen in &sent {
        rig.reply(seen.xid, 5, err, b"");
    }
    sent
}

fn set_watches(seen: &SentRequest) -> SetWatches {
    match Request::decode(seen.op, &mut Reader::new(&seen.body)).unwrap() {
        Request::Read(ReadRequest::SetWatches(watches)) => *watches,
        other => panic!("{other:?}"),
    }
}

fn removed(seen: &SentRequest) -> (String, WatcherType) {
    match Request::decode(seen.op, &mut Reader::new(&seen.body)).unwrap() {
        Request::Read(ReadRequest::RemoveWatches(Some(path), kind)) => (path.into_owned(), kind),
        other => panic!("{other:?}"),
    }
}

#[test]
fn watches_are_registered_again_after_credentials_and_before_calls() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Data, "/data");
    rig.watch(2, WatchIntent::Exists, "/there");
    rig.watch(3, WatchIntent::Children, "/parent");
    answer_all(&mut rig, 0);
    rig.watch(4, WatchIntent::Exists, "/missing");
    rig.watch(5, WatchIntent::Data, "/no-watch");
    answer_all(&mut rig, NO_NODE);
    rig.lose();
    rig.accept();
    rig.call(9, OpCode::GetData, b"");
    let sent = rig.requests();
    assert_eq!(sent.iter().map(|seen| seen.op).collect::<Vec<_>>(), [101, 4]);
    let watches = set_watches(&sent[0]);
    let list = |paths: &[&str]| Some(paths.iter().map(|path| Some((*path).into())).collect::<Vec<_>>());
    assert_eq!(watches.relative_zxid, 5);
    assert_eq!(watches.data, list(&["/data", "/there"]));
    assert_eq!(watches.exist, list(&["/missing"]));
    assert_eq!(watches.child, list(&["/parent"]));

    // Persistent watches need the newer request, and their watchers are told.
    rig.reply(sent[0].xid, 5, 0, b"");
    rig.reply(sent[1].xid, 5, 0, b"");
    rig.watch(6, WatchIntent::Persistent, "/node");
    rig.watch(7, WatchIntent::Recursive, "/tree");
    answer_all(&mut rig, 0);
    rig.lose();
    rig.accept();
    let sent = rig.requests();
    assert_eq!(sent[0].op, 105);
    assert!(rig.events.is_empty());
    rig.reply(sent[0].xid, 5, 0, b"");
    let resynced = |watcher, path: &str| (watcher, EventKind::Resynced, path.to_owned());
    assert_eq!(rig.events, [resynced(6, "/node"), resynced(7, "/tree")]);
}

#[test]
fn a_server_that_refuses_to_restore_a_watch_ends_it() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Recursive, "/tree");
    answer_all(&mut rig, 0);
    rig.lose();
    rig.accept();
    answer_all(&mut rig, -5);
    assert_eq!(rig.events, [(1, EventKind::WatchLost, "/tree".to_owned())]);
    rig.lose();
    rig.accept();
    assert_eq!(rig.requests(), []);
}

#[test]
fn a_watch_fires_before_the_answer_that_follows_it() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Data, "/a");
    answer_all(&mut rig, 0);
    rig.receive(&event(3, "/a", 8));
    rig.receive(&event(3, "/a", 9));
    assert_eq!(rig.events, [(1, EventKind::NodeDataChanged, "/a".to_owned())]);
    rig.lose();
    rig.accept();
    assert_eq!(rig.requests(), [], "it is spent");
}

#[test]
fn an_expired_session_takes_one_shot_watches_along() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Data, "/a");
    rig.watch(2, WatchIntent::Persistent, "/a");
    answer_all(&mut rig, 0);
    rig.lose();
    rig.pass(crate::rig::TIMEOUT * 2);
    assert_eq!(rig.state(), SessionState::Expired);
    assert_eq!(rig.events, [(1, EventKind::WatchLost, "/a".to_owned())]);
    rig.accept();
    let sent = answer_all(&mut rig, 0);
    assert_eq!(sent.len(), 1);
    assert_eq!(rig.events[1], (2, EventKind::Resynced, "/a".to_owned()));
}

#[test]
fn the_last_watcher_removes_the_watch() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Data, "/a");
    rig.watch(2, WatchIntent::Data, "/a");
    answer_all(&mut rig, 0);
    rig.session.unwatch(rig.now, WatcherId(1));
    assert_eq!(rig.requests(), []);
    // Another one is on its way: the removal would take it along.
    rig.watch(3, WatchIntent::Data, "/a");
    rig.session.unwatch(rig.now, WatcherId(2));
    let sent = rig.requests();
    assert_eq!(sent.len(), 1);
    rig.reply(sent[0].xid, 5, 0, b"");
    rig.session.unwatch(rig.now, WatcherId(3));
    let sent = rig.requests();
    assert_eq!(removed(&sent[0]), ("/a".to_owned(), WatcherType::Data));
    rig.reply(sent[0].xid, 5, -121, b"");
    assert_eq!(rig.state(), SessionState::Connected);
    rig.session.unwatch(rig.now, WatcherId(3));
    assert_eq!(rig.requests(), []);
}

#[test]
fn a_watcher_that_goes_before_its_answer_is_removed_after_it() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Children, "/a");
    let sent = rig.requests();
    rig.session.unwatch(rig.now, WatcherId(1));
    assert_eq!(rig.requests(), []);
    rig.reply(sent[0].xid, 5, 0, b"");
    let sent = rig.requests();
    assert_eq!(removed(&sent[0]), ("/a".to_owned(), WatcherType::Children));
    rig.lose();
    rig.accept();
    assert_eq!(rig.requests(), []);
    // A failed registration leaves nothing to remove.
    rig.watch(2, WatchIntent::Data, "/b");
    let sent = rig.requests();
    rig.session.unwatch(rig.now, WatcherId(2));
    rig.reply(sent[0].xid, 5, NO_NODE, b"");
    assert_eq!(rig.requests(), []);
}

#[test]
fn older_servers_remove_all_watches_of_a_node_or_none() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Recursive, "/a");
    rig.watch(2, WatchIntent::Persistent, "/b");
    rig.watch(3, WatchIntent::Data, "/b");
    answer_all(&mut rig, 0);
    rig.session.unwatch(rig.now, WatcherId(1));
    let sent = answer_all(&mut rig, -5);
    assert_eq!(removed(&sent[0]), ("/a".to_owned(), WatcherType::PersistentRecursive));
    let sent = answer_all(&mut rig, 0);
    assert_eq!(removed(&sent[0]), ("/a".to_owned(), WatcherType::Any));
    rig.session.unwatch(rig.now, WatcherId(2));
    answer_all(&mut rig, -5);
    assert_eq!(rig.requests(), [], "the data watch of the same node must stay");
}

#[test]
fn a_server_that_cannot_remove_watches_is_asked_once() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Data, "/a");
    rig.watch(2, WatchIntent::Data, "/b");
    answer_all(&mut rig, 0);
    rig.session.unwatch(rig.now, WatcherId(1));
    answer_all(&mut rig, -6);
    rig.lose();
    rig.accept();
    answer_all(&mut rig, 0);
    rig.session.unwatch(rig.now, WatcherId(2));
    assert_eq!(rig.requests(), []);
}

/// A client that received a watch event does not connect to a server that has not applied the change. Other
/// events of the same change may be in flight: setWatches uses the zxid of the last reply.
#[test]
fn an_event_counts_as_seen() {
    let mut rig = Rig::connected();
    rig.watch(1, WatchIntent::Data, "/data");
    rig.watch(2, WatchIntent::Children, "/parent");
    answer_all(&mut rig, 0);
    rig.receive(&event(3, "/data", 9));
    rig.lose();
    assert_eq!(rig.accept().last_zxid_seen, 9);
    assert_eq!(set_watches(&rig.requests()[0]).relative_zxid, 5);
}
