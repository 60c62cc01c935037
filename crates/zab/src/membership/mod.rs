//! Who belongs to an ensemble: a configuration with its version, as text, and what may be made of it by a
//! change. Knows what a configuration means; when one takes effect is said by `activation.rs`.

mod activation;
mod change;
mod hearsay;
mod java_order;
mod member_line;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::{ServerId, Zxid};

use crate::election::Role;
use crate::quorum::{Hierarchy, HierarchyError, QuorumRule};

pub(crate) use activation::{Activation, Refused};
pub use change::{Change, ChangeError, ChangeRules, NO_ID};
pub use hearsay::vote_text;
pub use member_line::{Addresses, parse_member, parse_role};
pub use text::ConfigurationError;

/// One `server.N` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// At least one address.
    pub addresses: Vec<PeerAddress>,
    /// Votes or only listens.
    pub role: MemberRole,
    /// Where it serves clients.
    pub client: Option<HostPort>,
    /// Where it serves clients over TLS.
    pub secure_client: Option<HostPort>,
}

/// One address of a member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerAddress {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port of the quorum links.
    pub quorum_port: u16,
    /// Port of the election links.
    pub election_port: u16,
}

/// A host (name or address, without brackets) and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Whether a member votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRole {
    /// Votes.
    Participant,
    /// Only listens.
    Observer,
}

/// Groups of voters and their weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Group of each participant.
    pub group_of: BTreeMap<ServerId, i64>,
    /// Weight of each participant, 1 unless it was said; and of others if it was said.
    pub weight_of: BTreeMap<ServerId, i64>,
}

impl Groups {
    /// A participant weighs 1 unless something else was said.
    pub fn weigh(&mut self, members: &BTreeMap<ServerId, Member>) {
        let voters = members.iter().filter(|(_, member)| member.role == MemberRole::Participant);
        for (&server, _) in voters {
            self.weight_of.entry(server).or_insert(1);
        }
    }

    /// Groups and weights as a rule, when these have a vote.
    ///
    /// # Errors
    /// They make no hierarchy.
    pub fn hierarchy(&self, voters: &BTreeSet<ServerId>) -> Result<Hierarchy, HierarchyError> {
        let mut groups: BTreeMap<i64, Vec<ServerId>> = BTreeMap::new();
        for (server, group) in &self.group_of {
            if !voters.contains(server) && !self.weight_of.contains_key(server) {
                return Err(HierarchyError::NoParticipant(*server));
            }
            groups.entry(*group).or_default().push(*server);
        }
        // Who is in no group may have a weight; it means nothing.
        let weights = self.weight_of.iter().filter(|(server, _)| self.group_of.contains_key(server));
        let hierarchy = Hierarchy::new(groups, weights.map(|(server, weight)| (*server, *weight)))?;
        Ok(hierarchy.with_voters(voters))
    }
}

/// The members of an ensemble, at one time of its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The transaction that made it; zero if it was never changed.
    pub version: i64,
    /// All members.
    pub members: BTreeMap<ServerId, Member>,
    /// How votes are counted if not by heads.
    pub groups: Option<Groups>,
}

impl Configuration {
    /// The version as a place in the history. A leader that is the first to lead a configuration gives it one
    /// that no transaction has.
    pub fn zxid(&self) -> Zxid {
        Zxid(self.version)
    }

    /// Members with a vote.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.of_role(MemberRole::Participant)
    }

    /// Members without one.
    pub fn observers(&self) -> BTreeSet<ServerId> {
        self.of_role(MemberRole::Observer).collect()
    }

    fn of_role(&self, role: MemberRole) -> impl Iterator<Item = ServerId> + '_ {
        self.members.iter().filter(move |(_, member)| member.role == role).map(|(id, _)| *id)
    }

    /// Which sets of members decide.
    pub fn quorum(&self) -> QuorumRule {
        let voters = self.voters().collect();
        match self.groups.as_ref().map(|groups| groups.hierarchy(&voters)) {
            Some(Ok(hierarchy)) => QuorumRule::Hierarchy(hierarchy),
            // A configuration whose groups make no rule is never made: it is refused when it is read.
            Some(Err(_)) | None => QuorumRule::majority(self.voters()),
        }
    }

    /// What a server is in it. One that is not in it behaves like a voter, but has no vote.
    pub fn role_of(&self, server: ServerId) -> Role {
        match self.members.get(&server).map(|member| member.role) {
            Some(MemberRole::Observer) => Role::Observer,
            Some(MemberRole::Participant) | None => Role::Voter,
        }
    }

    /// Whether a server votes in both at the same addresses.
    pub(crate) fn keeps_voter(&self, server: ServerId, before: &Configuration) -> bool {
        let voter = |configuration: &Configuration| {
            let member = configuration.members.get(&server)?;
            (member.role == MemberRole::Participant).then(|| {
                let quorum = |address: &PeerAddress| (address.host.clone(), address.quorum_port);
                member.addresses.iter().map(quorum).collect::<BTreeSet<_>>()
            })
        };
        voter(self).is_some_and(|addresses| voter(before).is_none_or(|old| old == addresses))
    }
}
