//! Local sessions in an ensemble with the Zab peer that ships: at the leader, at followers and at an
//! observer.

use zebu_node::LocalSessionSupport::WithUpgrade;
use zebu_node::{ConnectionId, ConnectionPhase};
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, ServerId, SessionId};
use zebu_zab::HistoryLimits;

use crate::client::{EPHEMERAL, PERSISTENT, close_session, create, get, get_watch, hello, set};
use crate::three_nodes::ThreeNodes;

const TIMEOUT_MS: i32 = 30_000;

fn with_local_sessions() -> ThreeNodes {
    ThreeNodes::with_local_sessions(1, HistoryLimits { entries: 1000, bytes: 1 << 20 }, WithUpgrade)
}

/// The leader, a follower and the observer.
fn one_of_each(ensemble: &ThreeNodes) -> [ServerId; 3] {
    let observer = ServerId(4);
    let follower = ensemble.learners().into_iter().find(|&id| id != observer).unwrap();
    [ensemble.leader().unwrap(), follower, observer]
}

fn local(ensemble: &mut ThreeNodes, id: ServerId) -> usize {
    ensemble.server(id).fixture.node.local_session_report().unwrap().len()
}

fn global(ensemble: &mut ThreeNodes, id: ServerId) -> usize {
    ensemble.server(id).fixture.replica.tree().sessions().len()
}

fn is_refused(ensemble: &mut ThreeNodes, id: ServerId, session: SessionId) -> bool {
    ensemble.resume(id, session, TIMEOUT_MS).is_none()
}

#[test]
fn sessions_come_and_go_without_a_transaction() {
    let mut ensemble = with_local_sessions();
    let before = ensemble.history(ServerId(1)).len();
    for id in one_of_each(&ensemble) {
        let mut connections: Vec<ConnectionId> = (0..100).map(|_| ensemble.client(id, 6000)).collect();
        let stays = connections.pop().unwrap();
        assert_eq!(ensemble.call(id, stays, get("/")).error, None);
        for connection in connections.drain(..50) {
            ensemble.call(id, connection, close_session());
        }
        assert_eq!(local(&mut ensemble, id), 50);
        ensemble.run(5000);
        ensemble.ping(id, stays);
        ensemble.run(5000);
        assert_eq!(local(&mut ensemble, id), 1, "the silent ones have expired");
        assert_eq!(ensemble.server(id).fixture.phase(stays), ConnectionPhase::Serving);
        assert_eq!(global(&mut ensemble, id), 0);
    }
    assert_eq!(ensemble.history(ServerId(1)).len(), before, "nobody else heard of anything");
    ensemble.assert_equal();
}

#[test]
fn a_local_session_stays_where_it_is_until_it_has_an_ephemeral_node() {
    let mut ensemble = with_local_sessions();
    let ids = one_of_each(&ensemble);
    for home in ids {
        let connection = ensemble.client(home, TIMEOUT_MS);
        let session = ensemble.session(home, connection);
        for elsewhere in ids.into_iter().filter(|&id| id != home) {
            assert!(is_refused(&mut ensemble, elsewhere, session), "{home:?} to {elsewhere:?}");
        }
        let path = format!("/of-{}", home.0);
        assert_eq!(
            ensemble.call(home, connection, create(&path, "", PERSISTENT)).path(),
            path,
            "it lives on at home"
        );
        let connection = ensemble.resume(home, session, TIMEOUT_MS).unwrap();
        let path = format!("/e-{}", home.0);
        assert_eq!(ensemble.call(home, connection, create(&path, "", EPHEMERAL)).path(), path);
        assert_eq!(local(&mut ensemble, home), 0);
        let mut last = (home, connection);
        for elsewhere in ids {
            let connection = ensemble.resume(elsewhere, session, TIMEOUT_MS).expect("it is everybody's now");
            assert_eq!(ensemble.call(elsewhere, connection, set(&path, "here")).error, None);
            last = (elsewhere, connection);
        }
        ensemble.call(last.0, last.1, close_session());
        assert!(ensemble.server(home).fixture.replica.tree().node(&path).is_none());
    }
    ensemble.assert_equal();
    assert_eq!(global(&mut ensemble, ids[0]), 0);
    let created =
        ensemble.history(ids[0]).into_iter().filter(|entry| matches!(entry.txn, Txn::CreateSession { .. }));
    assert_eq!(created.count(), 3, "one upgrade for each");
}

#[test]
fn upgraded_sessions_expire_at_the_leader() {
    let mut ensemble = with_local_sessions();
    let ids = one_of_each(&ensemble);
    let connections = ids.map(|id| (id, ensemble.client(id, 6000)));
    for (id, connection) in connections {
        assert_eq!(ensemble.call(id, connection, create(&format!("/e{}", id.0), "", EPHEMERAL)).error, None);
    }
    for _ in 0..4 {
        ensemble.run(5000);
        connections.iter().for_each(|&(id, connection)| ensemble.ping(id, connection));
    }
    assert_eq!(global(&mut ensemble, ids[0]), 3, "pings of upgraded sessions reach the leader");
    ensemble.run(10_000);
    for (id, connection) in connections {
        assert!(matches!(ensemble.server(id).fixture.phase(connection), ConnectionPhase::Closed(_)));
        assert_eq!((global(&mut ensemble, id), local(&mut ensemble, id)), (0, 0));
        assert_eq!(ensemble.server(id).fixture.replica.tree().ephemerals_count(), 0);
    }
    ensemble.assert_equal();
}

#[test]
fn a_new_leader_knows_the_upgraded_sessions_only() {
    let mut ensemble = with_local_sessions();
    let [leader, follower, observer] = one_of_each(&ensemble);
    let mut kept = Vec::new();
    let mut lost = Vec::new();
    for id in [follower, observer] {
        let (upgraded, local) = (ensemble.client(id, TIMEOUT_MS), ensemble.client(id, TIMEOUT_MS));
        ensemble.call(id, upgraded, create(&format!("/e{}", id.0), "", EPHEMERAL));
        kept.push(ensemble.session(id, upgraded));
        lost.push((id, ensemble.session(id, local)));
    }
    ensemble.crash(leader);
    ensemble.run(20_000);
    assert!(ensemble.leader().is_some_and(|new| new != leader));
    for &(home, session) in &lost {
        assert!(is_refused(&mut ensemble, home, session), "local sessions end with the role of their server");
    }
    for &session in &kept {
        assert!(ensemble.resume(observer, session, TIMEOUT_MS).is_some());
    }
    assert_eq!(ensemble.server(observer).fixture.replica.tree().ephemerals_count(), 2);
    ensemble.start(leader);
    ensemble.run(5000);
    ensemble.assert_equal();
}

#[test]
fn a_restart_forgets_local_sessions() {
    let mut ensemble = with_local_sessions();
    let [_, follower, _] = one_of_each(&ensemble);
    let connection = ensemble.client(follower, TIMEOUT_MS);
    let session = ensemble.session(follower, connection);
    ensemble.crash(follower);
    ensemble.start(follower);
    ensemble.run(5000);
    assert!(is_refused(&mut ensemble, follower, session));
    ensemble.client(follower, TIMEOUT_MS);
    assert_eq!(local(&mut ensemble, follower), 1);
}

/// The leader goes when this many packets and reports of disks have been seen since the upgrade began.
fn leader_lost_after(deliveries: u64) -> (usize, usize) {
    let mut ensemble = with_local_sessions();
    let [leader, follower, _] = one_of_each(&ensemble);
    let connection = ensemble.client(follower, TIMEOUT_MS);
    let session = ensemble.session(follower, connection);
    ensemble.send(follower, connection, create("/e", "", EPHEMERAL));
    ensemble.send(follower, connection, get_watch("/e"));
    ensemble.send(follower, connection, create("/f", "", EPHEMERAL));
    ensemble.deliver_number(deliveries);
    ensemble.crash(leader);
    ensemble.run(20_000);
    let answers = ensemble.server(follower).fixture.received(connection).len();
    let (sessions, nodes) = (
        global(&mut ensemble, follower),
        ensemble.server(follower).fixture.replica.tree().ephemerals_count(),
    );
    assert!(sessions == 1 || nodes == 0, "no ephemeral node without its session");
    match ensemble.resume(follower, session, TIMEOUT_MS) {
        Some(connection) => {
            assert_eq!(sessions, 1);
            assert_eq!(ensemble.call(follower, connection, create("/g", "", EPHEMERAL)).error, None);
        }
        None => assert_eq!((sessions, nodes, answers), (0, 0, 0), "nothing was promised"),
    }
    ensemble.start(leader);
    ensemble.run(5000);
    ensemble.assert_equal();
    (sessions, nodes)
}

#[test]
fn a_leader_lost_during_the_upgrade_leaves_all_or_nothing_of_the_session() {
    let seen: std::collections::BTreeSet<_> = (0..40).map(leader_lost_after).collect();
    assert!(seen.contains(&(0, 0)) && seen.contains(&(1, 2)), "{seen:?}");
}

#[test]
fn a_session_with_a_node_of_another_is_told_so() {
    let mut ensemble = with_local_sessions();
    let [leader, follower, _] = one_of_each(&ensemble);
    let (first, second) = (ensemble.client(leader, TIMEOUT_MS), ensemble.client(follower, TIMEOUT_MS));
    assert_eq!(ensemble.call(leader, first, create("/lock", "", EPHEMERAL)).error, None);
    let refused = ensemble.call(follower, second, create("/lock", "", EPHEMERAL));
    assert_eq!(refused.error, Some(ErrorCode::NodeExists));
    assert_eq!(
        (global(&mut ensemble, leader), local(&mut ensemble, follower)),
        (2, 0),
        "it is global all the same"
    );
    let connection = ensemble.knock(follower, hello(TIMEOUT_MS));
    assert!(ensemble.server(follower).fixture.greeting(connection).is_some());
}
