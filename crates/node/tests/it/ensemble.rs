//! Three nodes with the Zab peer that ships.

use zebu_node::{ConnectionPhase, DisconnectReason};
use zebu_proto::client::EventType;
use zebu_proto::{ErrorCode, ServerId};
use zebu_zab::HistoryLimits;

use crate::client::{
    EPHEMERAL, Frame, SEQUENTIAL, close_session, create, delete, exists, exists_watch, get, multi, multi_set,
    set, sync,
};
use crate::three_nodes::{Logs, ThreeNodes};

fn all(ensemble: &ThreeNodes) -> Vec<ServerId> {
    ensemble.servers.keys().copied().collect()
}

#[test]
fn every_member_serves_its_clients() {
    let mut ensemble = ThreeNodes::new();
    let ids = all(&ensemble);
    assert!(ensemble.leader().is_some() && ensemble.learners().len() == 2);
    let connections: Vec<_> = ids.iter().map(|&id| (id, ensemble.client(id, 30_000))).collect();
    for (number, &(id, connection)) in connections.iter().enumerate() {
        assert_eq!(ensemble.session(id, connection).0 >> 56, id.0);
        assert_eq!(
            ensemble.call(id, connection, create(&format!("/{number}"), "x", 0)).path(),
            format!("/{number}")
        );
        assert_eq!(
            ensemble.call(id, connection, create("/s-", "", SEQUENTIAL)).path(),
            format!("/s-000000000{}", 2 * number + 1)
        );
        assert_eq!(ensemble.call(id, connection, set("/none", "")).error, Some(ErrorCode::NoNode));
        assert_eq!(
            ensemble.call(id, connection, multi(&[multi_set("/0", "y"), multi_set("/none", "")])).error,
            None
        );
        assert_eq!(ensemble.call(id, connection, sync("/p")).path(), "/p");
    }
    for &(id, connection) in &connections {
        for number in 0..connections.len() {
            assert_eq!(ensemble.call(id, connection, get(&format!("/{number}"))).data(), "x");
        }
    }
    ensemble.assert_equal();
    for &(id, connection) in &connections {
        ensemble.call(id, connection, close_session());
        assert_eq!(ensemble.server(id).fixture.phase(connection), ConnectionPhase::Draining);
    }
    ensemble.assert_equal();
    assert!(ensemble.server(ids[0]).fixture.replica.tree().sessions().is_empty());
}

#[test]
fn a_watch_at_one_server_fires_for_a_write_at_another() {
    let mut ensemble = ThreeNodes::new();
    let (writer, watcher) = (ensemble.learners()[0], ensemble.learners()[1]);
    let (writing, watching) = (ensemble.client(writer, 30_000), ensemble.client(watcher, 30_000));
    ensemble.call(watcher, watching, exists_watch("/w"));
    let zxid = ensemble.call(writer, writing, create("/w", "", 0)).zxid;
    let event = Frame::Event { zxid, kind: EventType::NodeCreated, path: "/w".into() };
    assert_eq!(ensemble.server(watcher).fixture.received(watching), [event]);
}

#[test]
fn a_session_goes_from_server_to_server() {
    let mut ensemble = ThreeNodes::new();
    let leader = ensemble.leader().unwrap();
    let ids = [ensemble.learners()[0], ensemble.learners()[1], leader, ensemble.learners()[0], leader];
    let first = ensemble.client(ids[0], 30_000);
    let session = ensemble.session(ids[0], first);
    ensemble.call(ids[0], first, create("/e", "", EPHEMERAL));
    let mut before = (ids[0], first);
    for (step, &id) in ids.iter().enumerate().skip(1) {
        let connection = ensemble.resume(id, session, 30_000).unwrap();
        assert_eq!(ensemble.call(id, connection, set("/e", &step.to_string())).stat().version, step as i32);
        // The former connection can read until its next write; a connection to the leader is closed at once.
        let (old_id, old_lane) = before;
        if ensemble.server(old_id).fixture.phase(old_lane) == ConnectionPhase::Serving {
            assert_eq!(ensemble.call(old_id, old_lane, get("/e")).data(), step.to_string());
            ensemble.send(old_id, old_lane, set("/e", "stale"));
            ensemble.settle();
            assert!(ensemble.server(old_id).fixture.take_bytes(old_lane).is_empty());
        } else {
            assert_eq!(old_id, leader);
        }
        assert_eq!(
            ensemble.server(old_id).fixture.phase(old_lane),
            ConnectionPhase::Closed(DisconnectReason::Replaced)
        );
        ensemble.server(old_id).fixture.disconnect(old_lane);
        before = (id, connection);
    }
    ensemble.assert_equal();
    let (id, connection) = before;
    assert_eq!(ensemble.call(id, connection, get("/e")).data(), "4");
}

#[test]
fn a_client_that_speaks_to_a_learner_keeps_its_session() {
    let mut ensemble = ThreeNodes::new();
    let ids = all(&ensemble);
    let connections: Vec<_> = ids.iter().map(|&id| (id, ensemble.client(id, 5000))).collect();
    let silent = ensemble.client(ensemble.learners()[0], 5000);
    let silent_at = ensemble.learners()[0];
    for &(id, connection) in &connections {
        ensemble.call(id, connection, create(&format!("/{}", id.0), "", EPHEMERAL));
    }
    ensemble.call(silent_at, silent, create("/silent", "", EPHEMERAL));
    for _ in 0..20 {
        ensemble.run(1500);
        for &(id, connection) in &connections {
            ensemble.ping(id, connection);
        }
    }
    for &(id, connection) in &connections {
        assert!(ensemble.call(id, connection, exists(&format!("/{}", id.0))).error.is_none());
        assert_eq!(ensemble.call(id, connection, exists("/silent")).error, Some(ErrorCode::NoNode));
    }
    assert_eq!(
        ensemble.server(silent_at).fixture.phase(silent),
        ConnectionPhase::Closed(DisconnectReason::SessionEnded)
    );
    ensemble.assert_equal();
}

#[test]
fn when_the_leader_is_lost_the_others_go_on_with_all_sessions() {
    let mut ensemble = ThreeNodes::new();
    let old_leader = ensemble.leader().unwrap();
    let learner = ensemble.learners()[0];
    let (at_leader, at_learner) = (ensemble.client(old_leader, 10_000), ensemble.client(learner, 10_000));
    let sessions = [ensemble.session(old_leader, at_leader), ensemble.session(learner, at_learner)];
    ensemble.call(old_leader, at_leader, create("/a", "", EPHEMERAL));
    ensemble.call(learner, at_learner, create("/b", "", EPHEMERAL));
    ensemble.crash(old_leader);
    ensemble.send(learner, at_learner, create("/unanswered", "", 0));
    ensemble.settle();
    assert_eq!(
        ensemble.server(learner).fixture.phase(at_learner),
        ConnectionPhase::Closed(DisconnectReason::NotServing)
    );
    ensemble.run(5000);
    let leader = ensemble.leader().unwrap();
    assert_ne!(leader, old_leader);
    let other = ensemble.learners()[0];
    let connection = ensemble.resume(other, sessions[1], 10_000).unwrap();
    assert_eq!(
        ensemble.call(other, connection, exists("/a")).error,
        None,
        "every session has a full timeout again"
    );
    ensemble.start(old_leader);
    ensemble.run(3000);
    ensemble.ping(other, connection);
    ensemble.assert_equal();
    // The other client does not reconnect.
    for _ in 0..10 {
        ensemble.run(2000);
        ensemble.ping(other, connection);
    }
    assert_eq!(ensemble.call(other, connection, exists("/a")).error, Some(ErrorCode::NoNode));
    assert_eq!(ensemble.call(other, connection, exists("/b")).error, None);
    assert_eq!(ensemble.resume(leader, sessions[0], 10_000), None);
    ensemble.assert_equal();
}

#[test]
fn a_leader_without_its_quorum_closes_its_clients_and_forgets_what_they_asked_for() {
    let mut ensemble = ThreeNodes::new();
    let old_leader = ensemble.leader().unwrap();
    let connection = ensemble.client(old_leader, 30_000);
    ensemble.call(old_leader, connection, create("/kept", "", 0));
    ensemble.cut_off(old_leader);
    ensemble.send(old_leader, connection, create("/forgotten", "", 0));
    ensemble.send(old_leader, connection, sync("/"));
    ensemble.run(20_000);
    assert_eq!(
        ensemble.server(old_leader).fixture.phase(connection),
        ConnectionPhase::Closed(DisconnectReason::NotServing)
    );
    let leader = ensemble.leader().unwrap();
    assert_ne!(leader, old_leader);
    let other = ensemble.client(leader, 30_000);
    ensemble.call(leader, other, create("/new", "", 0));
    ensemble.heal();
    ensemble.run(20_000);
    ensemble.assert_equal();
    let tree = ensemble.server(old_leader).fixture.replica.tree();
    assert!(tree.node("/kept").is_some() && tree.node("/new").is_some() && tree.node("/forgotten").is_none());
}

#[test]
fn a_member_that_was_away_catches_up() {
    let much = HistoryLimits { entries: 1000, bytes: 1 << 20 };
    let little = HistoryLimits { entries: 2, ..much };
    for (limits, logs, installed) in
        [(much, Logs::Kept, 0), (little, Logs::Kept, 0), (little, Logs::Purged, 1)]
    {
        let mut ensemble = ThreeNodes::with(3, 1, limits);
        ensemble.logs = logs;
        let away = [ensemble.learners()[0], ServerId(4)];
        away.into_iter().for_each(|id| ensemble.crash(id));
        let id = ensemble.leader().unwrap();
        let connection = ensemble.client(id, 30_000);
        for number in 0..20 {
            ensemble.call(id, connection, create(&format!("/{number}"), "", 0));
        }
        ensemble.call(id, connection, delete("/3"));
        away.into_iter().for_each(|id| ensemble.start(id));
        ensemble.run(3000);
        ensemble.call(id, connection, create("/after", "", 0));
        ensemble.assert_equal();
        for id in away {
            assert_eq!(ensemble.server(id).installed, installed);
            let connection = ensemble.client(id, 30_000);
            assert_eq!(ensemble.call(id, connection, exists("/19")).error, None);
            assert_eq!(ensemble.call(id, connection, exists("/3")).error, Some(ErrorCode::NoNode));
            ensemble.call(id, connection, create(&format!("/by-{}", id.0), "", 0));
        }
        ensemble.assert_equal();
    }
}

#[test]
fn an_observer_serves_clients_too() {
    let mut ensemble = ThreeNodes::with(3, 1, HistoryLimits { entries: 100, bytes: 1 << 20 });
    let observer = ServerId(4);
    let connection = ensemble.client(observer, 5000);
    assert_eq!(ensemble.call(observer, connection, create("/o", "1", EPHEMERAL)).path(), "/o");
    assert_eq!(ensemble.call(observer, connection, sync("/o")).path(), "/o");
    for _ in 0..10 {
        ensemble.run(2000);
        ensemble.ping(observer, connection);
    }
    assert_eq!(ensemble.call(observer, connection, get("/o")).data(), "1");
    ensemble.assert_equal();
}

#[test]
fn an_ensemble_of_one_agrees_with_itself() {
    let mut ensemble = ThreeNodes::with(1, 0, HistoryLimits { entries: 100, bytes: 1 << 20 });
    let connection = ensemble.client(ServerId(1), 5000);
    ensemble.call(ServerId(1), connection, create("/a", "", 0));
    ensemble.crash(ServerId(1));
    ensemble.start(ServerId(1));
    ensemble.run(3000);
    let connection = ensemble.client(ServerId(1), 5000);
    assert_eq!(ensemble.call(ServerId(1), connection, exists("/a")).error, None);
    ensemble.assert_equal();
}
