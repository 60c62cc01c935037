//! The values of four-letter words that only an ensemble member has.

use zebu_node::ServingMode;

use crate::config::membership::Role;
use crate::core::context::ServerContext;
use crate::four_letter::{EnsembleSettings, ProposalSizes};

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
