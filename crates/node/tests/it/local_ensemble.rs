//! Local sessions in an ensemble with the agreement that ships: at the leader, at followers and at an
//! observer.

use zebu_node::LocalSessionSupport::WithUpgrade;
use zebu_node::{ConnectionId, ConnectionPhase};
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, ServerId, SessionId};
use zebu_zab::HistoryLimits;

use crate::client::{EPHEMERAL, PERSISTENT, close_session, create, get, get_watch, hello, set};
use crate::trio::Trio;

const TIMEOUT_MS: i32 = 30_000;

fn ensemble() -> Trio {
    Trio::with_local_sessions(1, HistoryLimits { entries: 1000, bytes: 1 << 20 }, WithUpgrade)
}

/// The leader, a follower and the observer.
fn one_of_each(trio: &Trio) -> [ServerId; 3] {
    let observer = ServerId(4);
    let follower = trio.learners().into_iter().find(|&id| id != observer).unwrap();
    [trio.leader().unwrap(), follower, observer]
}

fn local(trio: &mut Trio, id: ServerId) -> usize {
    trio.server(id).world.node.local_session_report().unwrap().len()
}

fn global(trio: &mut Trio, id: ServerId) -> usize {
    trio.server(id).world.replica.tree().sessions().len()
}

fn is_refused(trio: &mut Trio, id: ServerId, session: SessionId) -> bool {
    trio.resume(id, session, TIMEOUT_MS).is_none()
}

#[test]
fn sessions_come_and_go_without_a_transaction() {
    let mut trio = ensemble();
    let before = trio.history(ServerId(1)).len();
    for id in one_of_each(&trio) {
        let mut lanes: Vec<ConnectionId> = (0..100).map(|_| trio.client(id, 6000)).collect();
        let stays = lanes.pop().unwrap();
        assert_eq!(trio.call(id, stays, get("/")).error, None);
        for lane in lanes.drain(..50) {
            trio.call(id, lane, close_session());
        }
        assert_eq!(local(&mut trio, id), 50);
        trio.run(5000);
        trio.ping(id, stays);
        trio.run(5000);
        assert_eq!(local(&mut trio, id), 1, "the silent ones have expired");
        assert_eq!(trio.server(id).world.phase(stays), ConnectionPhase::Serving);
        assert_eq!(global(&mut trio, id), 0);
    }
    assert_eq!(trio.history(ServerId(1)).len(), before, "nobody else heard of anything");
    trio.assert_equal();
}

#[test]
fn a_local_session_stays_where_it_is_until_it_has_an_ephemeral_node() {
    let mut trio = ensemble();
    let ids = one_of_each(&trio);
    for home in ids {
        let lane = trio.client(home, TIMEOUT_MS);
        let session = trio.session(home, lane);
        for elsewhere in ids.into_iter().filter(|&id| id != home) {
            assert!(is_refused(&mut trio, elsewhere, session), "{home:?} to {elsewhere:?}");
        }
        let path = format!("/of-{}", home.0);
        assert_eq!(trio.call(home, lane, create(&path, "", PERSISTENT)).path(), path, "it lives on at home");
        let lane = trio.resume(home, session, TIMEOUT_MS).unwrap();
        let path = format!("/e-{}", home.0);
        assert_eq!(trio.call(home, lane, create(&path, "", EPHEMERAL)).path(), path);
        assert_eq!(local(&mut trio, home), 0);
        let mut last = (home, lane);
        for elsewhere in ids {
            let lane = trio.resume(elsewhere, session, TIMEOUT_MS).expect("it is everybody's now");
            assert_eq!(trio.call(elsewhere, lane, set(&path, "here")).error, None);
            last = (elsewhere, lane);
        }
        trio.call(last.0, last.1, close_session());
        assert!(trio.server(home).world.replica.tree().node(&path).is_none());
    }
    trio.assert_equal();
    assert_eq!(global(&mut trio, ids[0]), 0);
    let created =
        trio.history(ids[0]).into_iter().filter(|entry| matches!(entry.txn, Txn::CreateSession { .. }));
    assert_eq!(created.count(), 3, "one upgrade for each");
}

#[test]
fn upgraded_sessions_expire_at_the_leader() {
    let mut trio = ensemble();
    let ids = one_of_each(&trio);
    let lanes = ids.map(|id| (id, trio.client(id, 6000)));
    for (id, lane) in lanes {
        assert_eq!(trio.call(id, lane, create(&format!("/e{}", id.0), "", EPHEMERAL)).error, None);
    }
    for _ in 0..4 {
        trio.run(5000);
        lanes.iter().for_each(|&(id, lane)| trio.ping(id, lane));
    }
    assert_eq!(global(&mut trio, ids[0]), 3, "pings of upgraded sessions reach the leader");
    trio.run(10_000);
    for (id, lane) in lanes {
        assert!(matches!(trio.server(id).world.phase(lane), ConnectionPhase::Closed(_)));
        assert_eq!((global(&mut trio, id), local(&mut trio, id)), (0, 0));
        assert_eq!(trio.server(id).world.replica.tree().ephemerals_count(), 0);
    }
    trio.assert_equal();
}

#[test]
fn a_new_leader_knows_the_upgraded_sessions_only() {
    let mut trio = ensemble();
    let [leader, follower, observer] = one_of_each(&trio);
    let mut kept = Vec::new();
    let mut lost = Vec::new();
    for id in [follower, observer] {
        let (upgraded, local) = (trio.client(id, TIMEOUT_MS), trio.client(id, TIMEOUT_MS));
        trio.call(id, upgraded, create(&format!("/e{}", id.0), "", EPHEMERAL));
        kept.push(trio.session(id, upgraded));
        lost.push((id, trio.session(id, local)));
    }
    trio.crash(leader);
    trio.run(20_000);
    assert!(trio.leader().is_some_and(|new| new != leader));
    for &(home, session) in &lost {
        assert!(is_refused(&mut trio, home, session), "local sessions end with the role of their server");
    }
    for &session in &kept {
        assert!(trio.resume(observer, session, TIMEOUT_MS).is_some());
    }
    assert_eq!(trio.server(observer).world.replica.tree().ephemerals_count(), 2);
    trio.start(leader);
    trio.run(5000);
    trio.assert_equal();
}

#[test]
fn a_restart_forgets_local_sessions() {
    let mut trio = ensemble();
    let [_, follower, _] = one_of_each(&trio);
    let lane = trio.client(follower, TIMEOUT_MS);
    let session = trio.session(follower, lane);
    trio.crash(follower);
    trio.start(follower);
    trio.run(5000);
    assert!(is_refused(&mut trio, follower, session));
    trio.client(follower, TIMEOUT_MS);
    assert_eq!(local(&mut trio, follower), 1);
}

/// The leader goes when this many packets and reports of disks have been seen since the upgrade began.
fn leader_lost_after(deliveries: u64) -> (usize, usize) {
    let mut trio = ensemble();
    let [leader, follower, _] = one_of_each(&trio);
    let lane = trio.client(follower, TIMEOUT_MS);
    let session = trio.session(follower, lane);
    trio.send(follower, lane, create("/e", "", EPHEMERAL));
    trio.send(follower, lane, get_watch("/e"));
    trio.send(follower, lane, create("/f", "", EPHEMERAL));
    trio.deliver_number(deliveries);
    trio.crash(leader);
    trio.run(20_000);
    let answers = trio.server(follower).world.received(lane).len();
    let (sessions, nodes) =
        (global(&mut trio, follower), trio.server(follower).world.replica.tree().ephemerals_count());
    assert!(sessions == 1 || nodes == 0, "no ephemeral node without its session");
    match trio.resume(follower, session, TIMEOUT_MS) {
        Some(lane) => {
            assert_eq!(sessions, 1);
            assert_eq!(trio.call(follower, lane, create("/g", "", EPHEMERAL)).error, None);
        }
        None => assert_eq!((sessions, nodes, answers), (0, 0, 0), "nothing was promised"),
    }
    trio.start(leader);
    trio.run(5000);
    trio.assert_equal();
    (sessions, nodes)
}

#[test]
fn a_leader_lost_during_the_upgrade_leaves_all_or_nothing_of_the_session() {
    let seen: std::collections::BTreeSet<_> = (0..40).map(leader_lost_after).collect();
    assert!(seen.contains(&(0, 0)) && seen.contains(&(1, 2)), "{seen:?}");
}

#[test]
fn a_session_with_a_node_of_another_is_told_so() {
    let mut trio = ensemble();
    let [leader, follower, _] = one_of_each(&trio);
    let (first, second) = (trio.client(leader, TIMEOUT_MS), trio.client(follower, TIMEOUT_MS));
    assert_eq!(trio.call(leader, first, create("/lock", "", EPHEMERAL)).error, None);
    let refused = trio.call(follower, second, create("/lock", "", EPHEMERAL));
    assert_eq!(refused.error, Some(ErrorCode::NodeExists));
    assert_eq!((global(&mut trio, leader), local(&mut trio, follower)), (2, 0), "it is global all the same");
    let lane = trio.knock(follower, hello(TIMEOUT_MS));
    assert!(trio.server(follower).world.greeting(lane).is_some());
}
