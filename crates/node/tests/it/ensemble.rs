//! Three brains with the agreement that ships.

use zebu_node::{ConnectionPhase, DisconnectReason};
use zebu_proto::client::EventType;
use zebu_proto::{ErrorCode, ServerId};
use zebu_zab::HistoryLimits;

use crate::client::{
    EPHEMERAL, Frame, SEQUENTIAL, close_session, create, delete, exists, exists_watch, get, multi, multi_set,
    set, sync,
};
use crate::trio::{Logs, Trio};

fn all(trio: &Trio) -> Vec<ServerId> {
    trio.servers.keys().copied().collect()
}

#[test]
fn every_member_serves_its_clients() {
    let mut trio = Trio::new();
    let ids = all(&trio);
    assert!(trio.leader().is_some() && trio.learners().len() == 2);
    let lanes: Vec<_> = ids.iter().map(|&id| (id, trio.client(id, 30_000))).collect();
    for (number, &(id, lane)) in lanes.iter().enumerate() {
        assert_eq!(trio.session(id, lane).0 >> 56, id.0);
        assert_eq!(trio.call(id, lane, create(&format!("/{number}"), "x", 0)).path(), format!("/{number}"));
        assert_eq!(
            trio.call(id, lane, create("/s-", "", SEQUENTIAL)).path(),
            format!("/s-000000000{}", 2 * number + 1)
        );
        assert_eq!(trio.call(id, lane, set("/none", "")).error, Some(ErrorCode::NoNode));
        assert_eq!(trio.call(id, lane, multi(&[multi_set("/0", "y"), multi_set("/none", "")])).error, None);
        assert_eq!(trio.call(id, lane, sync("/p")).path(), "/p");
    }
    for &(id, lane) in &lanes {
        for number in 0..lanes.len() {
            assert_eq!(trio.call(id, lane, get(&format!("/{number}"))).data(), "x");
        }
    }
    trio.assert_equal();
    for &(id, lane) in &lanes {
        trio.call(id, lane, close_session());
        assert_eq!(trio.server(id).world.phase(lane), ConnectionPhase::Draining);
    }
    trio.assert_equal();
    assert!(trio.server(ids[0]).world.replica.tree().sessions().is_empty());
}

#[test]
fn a_watch_at_one_server_fires_for_a_write_at_another() {
    let mut trio = Trio::new();
    let (writer, watcher) = (trio.learners()[0], trio.learners()[1]);
    let (writing, watching) = (trio.client(writer, 30_000), trio.client(watcher, 30_000));
    trio.call(watcher, watching, exists_watch("/w"));
    let zxid = trio.call(writer, writing, create("/w", "", 0)).zxid;
    let event = Frame::Event { zxid, kind: EventType::NodeCreated, path: "/w".into() };
    assert_eq!(trio.server(watcher).world.received(watching), [event]);
}

#[test]
fn a_session_goes_from_server_to_server() {
    let mut trio = Trio::new();
    let leader = trio.leader().unwrap();
    let ids = [trio.learners()[0], trio.learners()[1], leader, trio.learners()[0], leader];
    let first = trio.client(ids[0], 30_000);
    let session = trio.session(ids[0], first);
    trio.call(ids[0], first, create("/e", "", EPHEMERAL));
    let mut before = (ids[0], first);
    for (step, &id) in ids.iter().enumerate().skip(1) {
        let lane = trio.resume(id, session, 30_000).unwrap();
        assert_eq!(trio.call(id, lane, set("/e", &step.to_string())).stat().version, step as i32);
        // The former connection reads on until it wants to write; the leader's own is closed at once.
        let (old_id, old_lane) = before;
        if trio.server(old_id).world.phase(old_lane) == ConnectionPhase::Serving {
            assert_eq!(trio.call(old_id, old_lane, get("/e")).data(), step.to_string());
            trio.send(old_id, old_lane, set("/e", "stale"));
            trio.settle();
            assert!(trio.server(old_id).world.take_bytes(old_lane).is_empty());
        } else {
            assert_eq!(old_id, leader);
        }
        assert_eq!(
            trio.server(old_id).world.phase(old_lane),
            ConnectionPhase::Closed(DisconnectReason::Replaced)
        );
        trio.server(old_id).world.disconnect(old_lane);
        before = (id, lane);
    }
    trio.assert_equal();
    let (id, lane) = before;
    assert_eq!(trio.call(id, lane, get("/e")).data(), "4");
}

#[test]
fn a_client_that_speaks_to_a_learner_keeps_its_session() {
    let mut trio = Trio::new();
    let ids = all(&trio);
    let lanes: Vec<_> = ids.iter().map(|&id| (id, trio.client(id, 5000))).collect();
    let silent = trio.client(trio.learners()[0], 5000);
    let silent_at = trio.learners()[0];
    for &(id, lane) in &lanes {
        trio.call(id, lane, create(&format!("/{}", id.0), "", EPHEMERAL));
    }
    trio.call(silent_at, silent, create("/silent", "", EPHEMERAL));
    for _ in 0..20 {
        trio.run(1500);
        for &(id, lane) in &lanes {
            trio.ping(id, lane);
        }
    }
    for &(id, lane) in &lanes {
        assert!(trio.call(id, lane, exists(&format!("/{}", id.0))).error.is_none());
        assert_eq!(trio.call(id, lane, exists("/silent")).error, Some(ErrorCode::NoNode));
    }
    assert_eq!(
        trio.server(silent_at).world.phase(silent),
        ConnectionPhase::Closed(DisconnectReason::SessionEnded)
    );
    trio.assert_equal();
}

#[test]
fn when_the_leader_is_lost_the_others_go_on_with_all_sessions() {
    let mut trio = Trio::new();
    let old_leader = trio.leader().unwrap();
    let learner = trio.learners()[0];
    let (at_leader, at_learner) = (trio.client(old_leader, 10_000), trio.client(learner, 10_000));
    let sessions = [trio.session(old_leader, at_leader), trio.session(learner, at_learner)];
    trio.call(old_leader, at_leader, create("/a", "", EPHEMERAL));
    trio.call(learner, at_learner, create("/b", "", EPHEMERAL));
    trio.crash(old_leader);
    trio.send(learner, at_learner, create("/unanswered", "", 0));
    trio.settle();
    assert_eq!(
        trio.server(learner).world.phase(at_learner),
        ConnectionPhase::Closed(DisconnectReason::NotServing)
    );
    trio.run(5000);
    let leader = trio.leader().unwrap();
    assert_ne!(leader, old_leader);
    let other = trio.learners()[0];
    let lane = trio.resume(other, sessions[1], 10_000).unwrap();
    assert_eq!(trio.call(other, lane, exists("/a")).error, None, "every session has a full timeout again");
    trio.start(old_leader);
    trio.run(3000);
    trio.ping(other, lane);
    trio.assert_equal();
    // The other client never comes back.
    for _ in 0..10 {
        trio.run(2000);
        trio.ping(other, lane);
    }
    assert_eq!(trio.call(other, lane, exists("/a")).error, Some(ErrorCode::NoNode));
    assert_eq!(trio.call(other, lane, exists("/b")).error, None);
    assert_eq!(trio.resume(leader, sessions[0], 10_000), None);
    trio.assert_equal();
}

#[test]
fn a_leader_without_its_quorum_closes_its_clients_and_forgets_what_they_asked_for() {
    let mut trio = Trio::new();
    let old_leader = trio.leader().unwrap();
    let lane = trio.client(old_leader, 30_000);
    trio.call(old_leader, lane, create("/kept", "", 0));
    trio.cut_off(old_leader);
    trio.send(old_leader, lane, create("/forgotten", "", 0));
    trio.send(old_leader, lane, sync("/"));
    trio.run(20_000);
    assert_eq!(
        trio.server(old_leader).world.phase(lane),
        ConnectionPhase::Closed(DisconnectReason::NotServing)
    );
    let leader = trio.leader().unwrap();
    assert_ne!(leader, old_leader);
    let other = trio.client(leader, 30_000);
    trio.call(leader, other, create("/new", "", 0));
    trio.heal();
    trio.run(20_000);
    trio.assert_equal();
    let tree = trio.server(old_leader).world.replica.tree();
    assert!(tree.node("/kept").is_some() && tree.node("/new").is_some() && tree.node("/forgotten").is_none());
}

#[test]
fn a_member_that_was_away_catches_up() {
    let much = HistoryLimits { entries: 1000, bytes: 1 << 20 };
    let little = HistoryLimits { entries: 2, ..much };
    for (limits, logs, installed) in
        [(much, Logs::Kept, 0), (little, Logs::Kept, 0), (little, Logs::Purged, 1)]
    {
        let mut trio = Trio::with(3, 1, limits);
        trio.logs = logs;
        let away = [trio.learners()[0], ServerId(4)];
        away.into_iter().for_each(|id| trio.crash(id));
        let id = trio.leader().unwrap();
        let lane = trio.client(id, 30_000);
        for number in 0..20 {
            trio.call(id, lane, create(&format!("/{number}"), "", 0));
        }
        trio.call(id, lane, delete("/3"));
        away.into_iter().for_each(|id| trio.start(id));
        trio.run(3000);
        trio.call(id, lane, create("/after", "", 0));
        trio.assert_equal();
        for id in away {
            assert_eq!(trio.server(id).installed, installed);
            let lane = trio.client(id, 30_000);
            assert_eq!(trio.call(id, lane, exists("/19")).error, None);
            assert_eq!(trio.call(id, lane, exists("/3")).error, Some(ErrorCode::NoNode));
            trio.call(id, lane, create(&format!("/by-{}", id.0), "", 0));
        }
        trio.assert_equal();
    }
}

#[test]
fn an_observer_serves_clients_too() {
    let mut trio = Trio::with(3, 1, HistoryLimits { entries: 100, bytes: 1 << 20 });
    let observer = ServerId(4);
    let lane = trio.client(observer, 5000);
    assert_eq!(trio.call(observer, lane, create("/o", "1", EPHEMERAL)).path(), "/o");
    assert_eq!(trio.call(observer, lane, sync("/o")).path(), "/o");
    for _ in 0..10 {
        trio.run(2000);
        trio.ping(observer, lane);
    }
    assert_eq!(trio.call(observer, lane, get("/o")).data(), "1");
    trio.assert_equal();
}

#[test]
fn an_ensemble_of_one_agrees_with_itself() {
    let mut trio = Trio::with(1, 0, HistoryLimits { entries: 100, bytes: 1 << 20 });
    let lane = trio.client(ServerId(1), 5000);
    trio.call(ServerId(1), lane, create("/a", "", 0));
    trio.crash(ServerId(1));
    trio.start(ServerId(1));
    trio.run(3000);
    let lane = trio.client(ServerId(1), 5000);
    assert_eq!(trio.call(ServerId(1), lane, exists("/a")).error, None);
    trio.assert_equal();
}
