//! Who belongs to the ensemble: the members, groups and weights of a configuration, as checked values.
//! Kept for the quorum protocols; a standalone server has none.

use std::collections::BTreeMap;
use std::path::PathBuf;

use zebu_proto::ServerId;

use super::observers::ObserverConfig;
use super::peer_config::PeerConfig;

pub use zebu_zab::membership::{HostPort, Member, MemberRole as Role, PeerAddress};

/// The ensemble part of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The number in the `myid` file.
    pub my_id: Option<ServerId>,
    /// `server.N` lines.
    pub members: BTreeMap<ServerId, Member>,
    /// How votes are counted.
    pub quorum: QuorumRule,
    /// `initLimit` in ticks.
    pub init_limit: Option<u32>,
    /// `syncLimit` in ticks.
    pub sync_limit: Option<u32>,
    /// `connectToLearnerMasterLimit` in ticks; `None` = as `init_limit`.
    pub connect_limit: Option<u32>,
    /// `standaloneEnabled`.
    pub standalone_enabled: bool,
    /// `quorumListenOnAllIPs`.
    pub listen_on_all_addresses: bool,
    /// `dynamicConfigFile`.
    pub dynamic_file: Option<PathBuf>,
    /// Version of the member list: the hexadecimal end of the dynamic file's name.
    pub version: u64,
    /// `leaderServes`: the leader accepts clients.
    pub leader_serves: bool,
    /// How observers are kept.
    pub observers: ObserverConfig,
    /// How peers are reached.
    pub peers: PeerConfig,
    /// Whether this describes an ensemble.
    pub shape: Shape,
    /// `peerType` of this server, when the file says it.
    pub peer_type: Option<Role>,
}

impl Default for Membership {
    fn default() -> Membership {
        Membership {
            my_id: None,
            members: BTreeMap::new(),
            quorum: QuorumRule::Majority,
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
            shape: Shape::Standalone,
            peer_type: None,
        }
    }
}

impl Membership {
    /// Whether this describes an ensemble.
    pub fn is_ensemble(&self) -> bool {
        self.shape == Shape::Ensemble
    }
}

/// What a configuration describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// One server without peers.
    #[default]
    Standalone,
    /// A member of an ensemble.
    Ensemble,
}

/// How votes are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum QuorumRule {
    /// More than half of the participants.
    #[default]
    Majority,
    /// A majority of weight in a majority of groups.
    Hierarchical {
        /// Group of each participant.
        group_of: BTreeMap<ServerId, i64>,
        /// Weight of each participant, 1 unless it was said; and of others if it was said.
        weight_of: BTreeMap<ServerId, i64>,
    },
    /// Majority, except that two voters ask this file.
    Oracle(PathBuf),
}
