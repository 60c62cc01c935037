//! The settings of a peer, and the history that it recovered from disk.

use std::collections::BTreeSet;

use zebu_proto::quorum::PeerAnnouncement;
use zebu_proto::{ServerId, Zxid};

use crate::election::{ElectorSettings, MembershipMode};
use crate::membership::Configuration;
use crate::observer_settings::ObserverSettings;
use crate::quorum::QuorumRule;
use crate::role::Role;

/// The settings of a peer.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// The id of this server.
    pub me: ServerId,
    /// The role of this server in the config.
    pub role: Role,
    /// The voters and their quorum rule.
    pub quorum: QuorumRule,
    /// The observers of the config.
    pub observers: BTreeSet<ServerId>,
    /// The config as text.
    pub config: Box<str>,
    /// The version of the config.
    pub config_version: i64,
    /// The length of a tick in milliseconds; the limits count ticks.
    pub tick_ms: i64,
    /// The limit in ticks for discovery and for synchronization (`initLimit`).
    pub init_limit: i64,
    /// The limit in ticks for connecting to the leader (`connectToLearnerMasterLimit`).
    pub connect_limit: i64,
    /// The limit in ticks for silence and for lag (`syncLimit`).
    pub sync_limit: i64,
    /// The first delay before a vote is sent again, in milliseconds.
    pub resend_ms_min: i64,
    /// The largest delay before a vote is sent again, in milliseconds. The delay doubles up to this.
    pub resend_ms_max: i64,
    /// The time without a better vote after which an election ends, in milliseconds.
    pub finalize_ms: i64,
    /// The delay between attempts to connect to a leader, in milliseconds.
    pub retry_ms: i64,
    /// The limits of the recent history in memory.
    pub history: HistoryLimits,
    /// The weight of the packets in one send queue above which the learner handler stops sending.
    pub send_window: usize,
    /// The size of the largest transaction that every learner can read, in bytes. A learner that lacks a
    /// larger one gets a snapshot.
    pub proposal_bytes_max: usize,
    /// The settings of observers.
    pub observer: ObserverSettings,
    /// The last counter of an epoch; [`LAST_COUNTER`] except in tests.
    pub last_counter: u32,
    /// The configs of an ensemble with dynamic reconfiguration. If set, role, quorum, observers and config
    /// text come from the committed one.
    pub dynamic_config: Option<DynamicConfig>,
    /// A leader whose appends take this long at the 99th percentile hands over to a faster follower; in
    /// milliseconds. `None` never.
    pub slow_disk_ms: Option<i64>,
    /// What this server tells its peers about itself; `None` makes it look like Apache ZooKeeper.
    pub announcement: Option<PeerAnnouncement>,
}

/// The configs that a server knew when it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicConfig {
    /// The committed config.
    pub committed: Configuration,
    /// The last proposed config, if it is newer. It may be committed.
    pub last_seen: Option<Configuration>,
}

/// The last counter of an epoch. After it the leader resigns, and the next leader starts a new epoch.
pub const LAST_COUNTER: u32 = 0xffff_fffe;

impl PeerSettings {
    pub(crate) fn elector_settings(&self) -> ElectorSettings {
        ElectorSettings {
            me: self.me,
            role: self.role,
            quorum: self.quorum.clone(),
            pending_quorum: None,
            membership_mode: MembershipMode::Static,
            observers: self.observers.clone(),
            config: self.config.clone(),
            resend_ms_min: self.resend_ms_min,
            resend_ms_max: self.resend_ms_max,
            finalize_ms: self.finalize_ms,
        }
    }
}

/// The limits of the history in memory. Transactions that are not delivered yet always stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// The number of transactions.
    pub entries: usize,
    /// The bytes of the transactions.
    pub bytes: usize,
}

/// Whether the recovered data is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskTrust {
    /// The data contains everything that this server has acknowledged.
    Trusted,
    /// Data was lost. The server does not vote until it is synchronized.
    Untrusted,
}

/// The data that a server recovered from its disk at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredHistory {
    /// The last transaction of the log. The state contains everything up to it.
    pub last: Zxid,
    /// The log is known to have no gap after this transaction, so it can be sent to learners.
    pub contiguous_from: Zxid,
    /// The content of `acceptedEpoch`.
    pub accepted_epoch: i64,
    /// The content of `currentEpoch`.
    pub current_epoch: i64,
    /// Whether the recovered data is complete.
    pub trust: DiskTrust,
}
