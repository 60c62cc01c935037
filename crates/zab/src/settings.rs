//! What a member is told once: who it is, who the others are, how patient it is; and what its disk holds.

use std::collections::BTreeSet;

use zebu_proto::{ServerId, Zxid};

use crate::election::{ElectorSettings, Members, Role};
use crate::membership::Configuration;
use crate::observing::Observing;
use crate::quorum::QuorumRule;

/// Settings of a member.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// This server.
    pub me: ServerId,
    /// What it is in the configuration.
    pub role: Role,
    /// Who votes, and which sets of them decide.
    pub quorum: QuorumRule,
    /// Who observes.
    pub observers: BTreeSet<ServerId>,
    /// The configuration as text.
    pub config: Box<str>,
    /// Its version.
    pub config_version: i64,
    /// The unit of all limits.
    pub tick_ms: i64,
    /// Ticks until a new leader has its quorum, and until a learner is synchronised.
    pub init_limit: i64,
    /// Ticks until a learner has reached its leader.
    pub connect_limit: i64,
    /// Ticks of silence after which the other side is gone.
    pub sync_limit: i64,
    /// First wait before votes are sent again.
    pub resend_ms_min: i64,
    /// The wait doubles up to this.
    pub resend_ms_max: i64,
    /// Silence that ends an election.
    pub finalize_ms: i64,
    /// Wait between attempts to join a leader.
    pub retry_ms: i64,
    /// Recent transactions that stay in memory for learners that come back.
    pub history: HistoryLimits,
    /// How much may wait on one connection, as a sum of weights, before the learner has to take some.
    pub window: usize,
    /// The longest transaction that every learner reads. A learner that lacks a longer one gets a snapshot.
    pub proposal_bytes_max: usize,
    /// How observers are kept.
    pub observing: Observing,
    /// The last counter that is used in an epoch; [`LAST_COUNTER`] outside of tests.
    pub last_counter: u32,
    /// The configurations of an ensemble whose members may change while it runs. Role, quorum, observers and
    /// the text above are then taken from the one in effect.
    pub dynamic: Option<Dynamic>,
}

/// What a member knew of the membership when it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dynamic {
    /// The configuration in effect.
    pub committed: Configuration,
    /// One that was proposed and may have been decided, if it is newer.
    pub last_seen: Option<Configuration>,
}

/// The last counter of an epoch: behind it a leader hands over, and the next one begins a new epoch.
pub const LAST_COUNTER: u32 = 0xffff_fffe;

impl PeerSettings {
    pub(crate) fn elector(&self) -> ElectorSettings {
        ElectorSettings {
            me: self.me,
            role: self.role,
            quorum: self.quorum.clone(),
            pending: None,
            members: Members::Fixed,
            observers: self.observers.clone(),
            config: self.config.clone(),
            resend_ms_min: self.resend_ms_min,
            resend_ms_max: self.resend_ms_max,
            finalize_ms: self.finalize_ms,
        }
    }
}

/// How much of the history stays in memory. Transactions that are not delivered yet always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Transactions.
    pub entries: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// Whether a server may rely on what its disk says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is what this server had promised.
    Trusted,
    /// Something was lost. Until it was synchronised, this server does not vote.
    Untrusted,
}

/// What a server found on its disk when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The last transaction of the log; the state holds everything up to it.
    pub last: Zxid,
    /// From here on the log is known to have no hole, so that it may be sent to others.
    pub proven: Zxid,
    /// The highest epoch that was promised to a leader.
    pub accepted_epoch: i64,
    /// The highest epoch whose history was accepted.
    pub current_epoch: i64,
    /// Whether all that is so.
    pub trust: Trust,
}
