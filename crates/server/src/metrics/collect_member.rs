//! The values that only an ensemble member has, and the memory by table.

use zebu_metrics::{MetricsView, SeriesValue};
use zebu_node::ServingMode;
use zebu_proto::Zxid;
use zebu_zab::{Configuration, LearnerStatus};

use crate::config::membership::Role;
use crate::core::context::ServerContext;
use crate::core::inbox::CoreStatus;

/// Adds them.
pub(super) fn add_member(view: &mut MetricsView, shared: &ServerContext, core: &CoreStatus) {
    let tree_bytes = shared.read_replica().tree().approximate_data_size();
    let memory = [
        ("tree", tree_bytes),
        ("history", core.history_bytes),
        ("disk_queue", shared.disk_backlog.bytes()),
        ("unread_answers", shared.unread_answers.total()),
    ];
    let memory = memory.map(|(table, bytes)| (table.to_owned(), bytes as f64)).to_vec();
    view.set("zebu_memory_bytes", SeriesValue::Labelled { label: "table", values: memory });
    let Some(members) = shared.ensemble_config() else { return };
    let edge = &shared.metrics;
    view.gauge("quorum_size", members.voters().count() as i64);
    view.counter("zebu_quorum_insecure_connections_blocked", &edge.peer_insecure_blocked);
    view.counter("zebu_quorum_unsuccessful_handshakes", &edge.peer_handshakes_failed);
    view.counter("zebu_quorum_auth_failures", &edge.peer_auth_failed);
    view.count("zebu_disk_hand_overs", core.disk_hand_overs);
    if let Some(epoch) = shared.serving_epoch() {
        view.gauge("zebu_epoch", i64::from(epoch));
    }
    match shared.serving_mode() {
        Some(ServingMode::Leader) => add_leader(view, shared, &members, core),
        Some(ServingMode::Follower) if shared.config.membership.observers.master_port.is_some() => {
            let synced = core.learners.iter().filter(|observer| observer.synced).count();
            view.gauge("synced_observers", synced as i64);
        }
        Some(ServingMode::Observer) => {
            view.gauge("observer_master_id", core.learner_master.map_or(-1, |id| id.0));
        }
        Some(ServingMode::Follower | ServingMode::Standalone | ServingMode::ReadOnly) | None => {}
    }
}

fn add_leader(view: &mut MetricsView, shared: &ServerContext, members: &Configuration, core: &CoreStatus) {
    let learners = &core.learners;
    let synced = |role| count_synced(members, learners, role);
    let proposals = shared.metrics.proposals.get();
    for (name, value) in [
        ("learners", learners.len() as i64),
        ("synced_followers", synced(Some(Role::Participant))),
        ("followers", synced(Some(Role::Participant))),
        ("synced_non_voting_followers", synced(None)),
        ("synced_observers", synced(Some(Role::Observer))),
        ("pending_syncs", core.pending_syncs as i64),
        ("zebu_slow_servers", learners.iter().filter(|learner| learner.slow).count() as i64),
        ("leader_uptime", shared.serving_mode_age_ms()),
        ("last_proposal_size", proposals.last),
        ("min_proposal_size", proposals.min),
        ("max_proposal_size", proposals.max),
    ] {
        view.gauge(name, value);
    }
    let lags = learners
        .iter()
        .map(|learner| (learner.server.0.to_string().into_boxed_str(), lag(core.logged, learner.acked)));
    view.set("zebu_learner_lag_zxids", SeriesValue::Gauges(lags.collect()));
    let of_each = |value: fn(&LearnerStatus) -> i64| {
        let named = |learner: &LearnerStatus| (learner.server.0.to_string().into_boxed_str(), value(learner));
        SeriesValue::Gauges(learners.iter().map(named).collect())
    };
    view.set("zebu_learner_disk_state", of_each(|learner| i64::from(learner.room.number())));
    view.set("zebu_learner_ack_p99_ms", of_each(|learner| learner.ack_p99_ms.unwrap_or_default()));
}

/// Transactions between two zxids. A learner of an older epoch lacks at least those of this one.
fn lag(logged: Zxid, acked: Zxid) -> i64 {
    if logged.epoch() == acked.epoch() {
        i64::from(logged.counter()) - i64::from(acked.counter())
    } else {
        i64::from(logged.counter())
    }
}

/// Counts the synchronized learners of this role; `None` counts those that the config does not list.
fn count_synced(members: &Configuration, learners: &[LearnerStatus], role: Option<Role>) -> i64 {
    let has_role =
        |learner: &&LearnerStatus| members.members.get(&learner.server).map(|member| member.role) == role;
    learners.iter().filter(has_role).filter(|learner| learner.synced).count() as i64
}
