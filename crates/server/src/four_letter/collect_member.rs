//! The values of four-letter words that only an ensemble member has.

use zebu_node::ServingMode;
use zebu_proto::ServerId;
use zebu_zab::{Configuration, LearnerStatus};

use crate::config::membership::Role;
use crate::core::context::ServerContext;
use crate::four_letter::{EnsembleSettings, MetricsReport, ProposalSizes};

/// The values of `conf`; `None` for a standalone server. They show the committed config. A server
/// outside of it shows the ports of its file.
pub(crate) fn collect_member_settings(shared: &ServerContext) -> Option<EnsembleSettings> {
    let membership = &shared.config.membership;
    let members = shared.ensemble_config()?;
    let me = membership.my_id?;
    let own = members.members.get(&me).or_else(|| membership.members.get(&me))?;
    let address = own.addresses.first()?;
    Some(EnsembleSettings {
        init_limit: membership.init_limit.unwrap_or(0),
        sync_limit: membership.sync_limit.unwrap_or(0),
        election_port: address.election_port,
        quorum_port: address.quorum_port,
        is_observer: own.role == Role::Observer,
        config: (shared.serving_mode() != Some(ServingMode::ReadOnly)).then(|| members.to_string()),
    })
}

/// The sizes of proposals; only a leader has them.
pub(crate) fn collect_proposal_sizes(shared: &ServerContext) -> Option<ProposalSizes> {
    if shared.serving_mode() != Some(ServingMode::Leader) {
        return None;
    }
    let proposals = shared.metrics.proposals.get();
    Some(ProposalSizes { last: proposals.last, min: proposals.min, max: proposals.max })
}

/// Adds the values of `mntr`.
pub(crate) fn add_member_metrics(
    shared: &ServerContext,
    master: Option<ServerId>,
    learners: &[LearnerStatus],
    metrics: &mut MetricsReport,
) {
    let Some(members) = shared.ensemble_config() else { return };
    let Some((mode, epoch)) = shared.serving_mode().zip(shared.serving_epoch()) else { return };
    // ZooKeeper does not report the epoch; operators of an ensemble need it.
    metrics.integer("epoch", i64::from(epoch));
    let edge = &shared.metrics;
    metrics.integer("quorum_size", members.voters().count() as i64);
    // ZooKeeper counts both together: a truncated learner gets the rest as transactions, too.
    metrics.integer("diff_count", (edge.diffs_sent.get() + edge.truncations_sent.get()) as i64);
    metrics.integer("snap_count", edge.snapshots_sent.get() as i64);
    metrics.integer("proposal_count", edge.proposals.get().count as i64);
    match mode {
        ServingMode::Follower if shared.config.membership.observers.master_port.is_some() => {
            let synced = learners.iter().filter(|observer| observer.synced).count();
            metrics.integer("synced_observers", synced as i64);
        }
        ServingMode::Observer => metrics.integer("observer_master_id", master.map_or(-1, |id| id.0)),
        ServingMode::Follower | ServingMode::Leader | ServingMode::Standalone | ServingMode::ReadOnly => {}
    }
    let Some(sizes) = collect_proposal_sizes(shared) else { return };
    let synced = |role| count_synced(&members, learners, role);
    for (name, value) in [
        ("learners", learners.len() as i64),
        ("synced_followers", synced(Some(Role::Participant))),
        ("synced_non_voting_followers", synced(None)),
        ("synced_observers", synced(Some(Role::Observer))),
        ("leader_uptime", shared.serving_mode_age_ms()),
        ("last_proposal_size", sizes.last),
        ("min_proposal_size", sizes.min),
        ("max_proposal_size", sizes.max),
    ] {
        metrics.integer(name, value);
    }
}

/// Counts the synchronized learners of this role; `None` counts those that the config does not
/// list.
fn count_synced(members: &Configuration, learners: &[LearnerStatus], role: Option<Role>) -> i64 {
    let has_role =
        |learner: &&LearnerStatus| members.members.get(&learner.server).map(|member| member.role) == role;
    learners.iter().filter(has_role).filter(|learner| learner.synced).count() as i64
}
