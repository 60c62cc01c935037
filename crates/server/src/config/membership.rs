//! The servers, groups and weights of an ensemble as checked values. A standalone server has none.

use std::collections::BTreeMap;
use std::path::PathBuf;

use zebu_proto::ServerId;

use super::observers::ObserverConfig;
use super::peer_config::PeerConfig;

pub use zebu_zab::Role;
pub use zebu_zab::membership::{Configuration, HostPort, PeerAddress, ServerSpec};

/// The ensemble part of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipConfig {
    /// The id in the `myid` file.
    pub my_id: Option<ServerId>,
    /// `server.N` lines.
    pub members: BTreeMap<ServerId, ServerSpec>,
    /// Quorum rule.
    pub quorum_rule: QuorumRuleConfig,
    /// `initLimit` in ticks.
    pub init_limit: Option<u32>,
    /// `syncLimit` in ticks.
    pub sync_limit: Option<u32>,
    /// `connectToLearnerMasterLimit` in ticks. `None` uses the longer of `sync_limit` and one
    /// connection attempt, at most `init_limit`.
    pub connect_limit: Option<u32>,
    /// `standaloneEnabled`.
    pub standalone_enabled: bool,
    /// `quorumListenOnAllIPs`.
    pub listen_on_all_addresses: bool,
    /// `dynamicConfigFile`.
    pub dynamic_file: Option<PathBuf>,
    /// Version of the config: the hexadecimal suffix of the dynamic file's name.
    pub version: u64,
    /// `leaderServes`: the leader accepts clients.
    pub leader_serves: bool,
    /// Observer settings.
    pub observers: ObserverConfig,
    /// Settings of peer connections.
    pub peers: PeerConfig,
    /// Standalone or ensemble.
    pub deployment: DeploymentMode,
    /// `peerType` of this server, if set.
    pub peer_type: Option<Role>,
}

impl Default for MembershipConfig {
    fn default() -> MembershipConfig {
        MembershipConfig {
            my_id: None,
            members: BTreeMap::new(),
            quorum_rule: QuorumRuleConfig::Majority,
            init_limit: None,
            sync_limit: None,
            connect_limit: None,
            standalone_enabled: true,
            listen_on_all_addresses: false,
            dynamic_file: None,
            version: 0,
            leader_serves: true,
            observers: ObserverConfig::default(),
            peers: PeerConfig::default(),
            deployment: DeploymentMode::Standalone,
            peer_type: None,
        }
    }
}

impl MembershipConfig {
    /// Whether this is the configuration of an ensemble.
    pub fn is_ensemble(&self) -> bool {
        self.deployment == DeploymentMode::Ensemble
    }
}

/// The kind of deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeploymentMode {
    /// One server without peers.
    #[default]
    Standalone,
    /// A member of an ensemble.
    Ensemble,
}

/// The quorum rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum QuorumRuleConfig {
    /// More than half of the participants.
    #[default]
    Majority,
    /// A majority of weight in a majority of groups.
    Hierarchical {
        /// Group of each participant.
        group_of: BTreeMap<ServerId, i64>,
        /// Weight of each participant, 1 by default; and of other servers if it was set.
        weight_of: BTreeMap<ServerId, i64>,
    },
    /// Majority, except that an ensemble of two voters reads this file.
    Oracle(PathBuf),
}
