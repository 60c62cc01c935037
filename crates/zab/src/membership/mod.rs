//! The config of an ensemble: its meaning, its text, and changes of it. `reconfig_state.rs` decides when a
//! config becomes active.

mod change;
mod java_order;
mod reconfig_state;
mod server_spec;
mod text;
mod vote_config;

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::{ServerId, Zxid};

use crate::quorum::{Hierarchy, HierarchyError, QuorumRule};
use crate::role::Role;

pub use change::{ConfigChange, ConfigChangeError, ConfigChangeRules, NO_ID};
pub(crate) use reconfig_state::ReconfigState;
pub use server_spec::{MultiAddress, parse_role, parse_server_spec};
pub use text::ConfigParseError;
pub use vote_config::vote_config_text;

/// One `server.N` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// The addresses for quorum and election connections; at least one.
    pub addresses: Vec<PeerAddress>,
    /// Whether the server votes.
    pub role: Role,
    /// The client address.
    pub client: Option<HostPort>,
    /// The client address for TLS.
    pub secure_client: Option<HostPort>,
}

/// One address of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerAddress {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// The port for quorum connections.
    pub quorum_port: u16,
    /// The port for election connections.
    pub election_port: u16,
}

/// A host name or IP address without brackets, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Host name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Groups of voters and their weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The group of each server.
    pub group_of: BTreeMap<ServerId, i64>,
    /// The weight of each server. Participants without a line have weight 1.
    pub weight_of: BTreeMap<ServerId, i64>,
}

impl Groups {
    /// Gives every participant without a weight the weight 1.
    pub fn set_default_weights(&mut self, members: &BTreeMap<ServerId, ServerSpec>) {
        let voters = members.iter().filter(|(_, member)| member.role == Role::Participant);
        for (&server, _) in voters {
            self.weight_of.entry(server).or_insert(1);
        }
    }

    /// The quorum rule of these groups for these voters.
    ///
    /// # Errors
    /// The groups and weights are not a valid hierarchy.
    pub fn hierarchy(&self, voters: &BTreeSet<ServerId>) -> Result<Hierarchy, HierarchyError> {
        let mut groups: BTreeMap<i64, Vec<ServerId>> = BTreeMap::new();
        for (server, group) in &self.group_of {
            if !voters.contains(server) && !self.weight_of.contains_key(server) {
                return Err(HierarchyError::NotParticipant(*server));
            }
            groups.entry(*group).or_default().push(*server);
        }
        // A weight of a server without a group is ignored.
        let weights = self.weight_of.iter().filter(|(server, _)| self.group_of.contains_key(server));
        let hierarchy = Hierarchy::new(groups, weights.map(|(server, weight)| (*server, *weight)))?;
        Ok(hierarchy.with_voters(voters))
    }
}

/// The servers of an ensemble, with a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The zxid of the transaction that created the config; zero if it was never changed.
    pub version: i64,
    /// All servers by id.
    pub members: BTreeMap<ServerId, ServerSpec>,
    /// The groups of a hierarchical quorum; `None` for majorities.
    pub groups: Option<Groups>,
}

impl Configuration {
    /// The version as a zxid. The first leader of a config assigns a zxid that no transaction has.
    pub fn zxid(&self) -> Zxid {
        Zxid(self.version)
    }

    /// The servers with a vote.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.of_role(Role::Participant)
    }

    /// The servers without a vote.
    pub fn observers(&self) -> BTreeSet<ServerId> {
        self.of_role(Role::Observer).collect()
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = ServerId> + '_ {
        self.members.iter().filter(move |(_, member)| member.role == role).map(|(id, _)| *id)
    }

    /// The quorum rule of the config.
    pub fn quorum(&self) -> QuorumRule {
        let voters = self.voters().collect();
        match self.groups.as_ref().map(|groups| groups.hierarchy(&voters)) {
            Some(Ok(hierarchy)) => QuorumRule::Hierarchy(hierarchy),
            // The parser refuses groups that are not a valid hierarchy, so this case does not occur.
            Some(Err(_)) | None => QuorumRule::majority(self.voters()),
        }
    }

    /// The role of a server. A server outside the config acts as a participant, but has no vote.
    pub fn role_of(&self, server: ServerId) -> Role {
        self.members.get(&server).map_or(Role::Participant, |member| member.role)
    }

    /// Whether a server is a voter in both configs with the same quorum addresses, or a new voter.
    pub(crate) fn keeps_voter_address(&self, server: ServerId, before: &Configuration) -> bool {
        let voter = |configuration: &Configuration| {
            let member = configuration.members.get(&server)?;
            (member.role == Role::Participant).then(|| {
                let quorum = |address: &PeerAddress| (address.host.clone(), address.quorum_port);
                member.addresses.iter().map(quorum).collect::<BTreeSet<_>>()
            })
        };
        voter(self).is_some_and(|addresses| voter(before).is_none_or(|old| old == addresses))
    }
}
