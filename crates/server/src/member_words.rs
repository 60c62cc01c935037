//! What four-letter words show of a member of an ensemble, beyond what they show of any server.

use zebu_proto::ServerId;
use zebu_zab::{Configuration, LearnerStatus, Serving};

use crate::config::membership::Role;
use crate::four_letter::{MemberSettings, Metrics, ProposalSizes};
use crate::shared::{Shared, Standing};

/// The lines of `conf`; `None` without an ensemble. The members are those in effect; a server that is none of them
/// any more has the ports that its file gave it.
pub(crate) fn settings(shared: &Shared) -> Option<MemberSettings> {
    let membership = &shared.config.membership;
    let members = shared.members()?;
    let me = membership.my_id?;
    let own = members.members.get(&me).or_else(|| membership.members.get(&me))?;
    let address = own.addresses.first()?;
    Some(MemberSettings {
        init_limit: membership.init_limit.unwrap_or(0),
        sync_limit: membership.sync_limit.unwrap_or(0),
        election_port: address.election_port,
        quorum_port: address.quorum_port,
        is_observer: own.role == Role::Observer,
        membership: (shared.standing() != Standing::ReadOnly).then(|| members.to_string()),
    })
}

/// The sizes of proposals, shown by a leader.
pub(crate) fn proposals(shared: &Shared) -> Option<ProposalSizes> {
    let Standing::Serving(Serving::Leading { .. }) = shared.standing() else { return None };
    let proposals = shared.metrics.proposals.get();
    Some(ProposalSizes { last: proposals.last, min: proposals.min, max: proposals.max })
}

/// The lines of `mntr`.
pub(crate) fn add_metrics(
    shared: &Shared,
    master: Option<ServerId>,
    learners: &[LearnerStatus],
    metrics: &mut Metrics,
) {
    let Some(members) = shared.members() else { return };
    let Standing::Serving(serving) = shared.standing() else { return };
    let epoch = match serving {
        Serving::Leading { epoch } | Serving::Following { epoch, .. } | Serving::Observing { epoch, .. } => {
            epoch
        }
    };
    // Apache does not tell; whoever looks at an ensemble wants to know.
    metrics.integer("epoch", i64::from(epoch));
    let edge = &shared.metrics;
    metrics.integer("quorum_size", members.voters().count() as i64);
    // Apache has one number for both: whoever has to cut something gets the rest by transactions too.
    metrics.integer("diff_count", (edge.diffs_sent.get() + edge.truncations_sent.get()) as i64);
    metrics.integer("snap_count", edge.snapshots_sent.get() as i64);
    metrics.integer("proposal_count", edge.proposals.get().count as i64);
    match serving {
        Serving::Following { .. } if shared.config.membership.observers.master_port.is_some() => {
            let synced = learners.iter().filter(|observer| observer.synced).count();
            metrics.integer("synced_observers", synced as i64);
        }
        Serving::Observing { .. } => metrics.integer("observer_master_id", master.map_or(-1, |id| id.0)),
        Serving::Following { .. } | Serving::Leading { .. } => {}
    }
    let Some(sizes) = proposals(shared) else { return };
    let synced = |role| synced(&members, learners, role);
    for (name, value) in [
        ("learners", learners.len() as i64),
        ("synced_followers", synced(Some(Role::Participant))),
        ("synced_non_voting_followers", synced(None)),
        ("synced_observers", synced(Some(Role::Observer))),
        ("leader_uptime", shared.standing_ms()),
        ("last_proposal_size", sizes.last),
        ("min_proposal_size", sizes.min),
        ("max_proposal_size", sizes.max),
    ] {
        metrics.integer(name, value);
    }
}

/// How many learners with this role have everything; those without one are not on the list, not yet or no more.
fn synced(members: &Configuration, learners: &[LearnerStatus], role: Option<Role>) -> i64 {
    let has_role =
        |learner: &&LearnerStatus| members.members.get(&learner.server).map(|member| member.role) == role;
    learners.iter().filter(has_role).filter(|learner| learner.synced).count() as i64
}
