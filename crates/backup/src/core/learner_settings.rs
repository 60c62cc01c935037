//! How the backup joins: as an observer that finds its leader without an election.

use std::collections::BTreeSet;

use zebu_proto::ServerId;
use zebu_proto::quorum::PeerAnnouncement;
use zebu_zab::{
    HistoryLimits, LAST_COUNTER, ObserverLog, ObserverMasters, ObserverSettings, PeerSettings, QuorumRule,
    Role,
};

/// The backup connects to one server at a time, so its name for the leader needs no meaning.
pub(super) const LEADER: ServerId = ServerId(1);

/// The transactions that the peer keeps after they were applied. The backup serves no learner.
const HISTORY: HistoryLimits = HistoryLimits { entries: 1000, bytes: 4 << 20 };

/// How the backup joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerSettings {
    /// The id of the backup. No server of the ensemble may have it.
    pub id: ServerId,
    /// The length of a tick, milliseconds; the limits count ticks.
    pub tick_ms: i64,
    /// The limit in ticks for the synchronization.
    pub init_limit: i64,
    /// The limit in ticks for a silent leader.
    pub sync_limit: i64,
}

impl LearnerSettings {
    /// ZooKeeper's usual limits.
    pub fn new(id: ServerId) -> LearnerSettings {
        LearnerSettings { id, tick_ms: 2000, init_limit: 30, sync_limit: 10 }
    }
}

/// The settings of the shipped peer.
pub(super) fn peer_settings(settings: LearnerSettings) -> PeerSettings {
    PeerSettings {
        me: settings.id,
        role: Role::Observer,
        quorum: QuorumRule::majority([LEADER]),
        observers: BTreeSet::new(),
        config: "".into(),
        config_version: 0,
        tick_ms: settings.tick_ms,
        init_limit: settings.init_limit,
        connect_limit: settings.sync_limit,
        sync_limit: settings.sync_limit,
        slow_disk_ms: None,
        resend_ms_min: 1000,
        resend_ms_max: 60_000,
        finalize_ms: 200,
        retry_ms: 100,
        history: HISTORY,
        send_window: 1 << 20,
        proposal_bytes_max: usize::MAX,
        observer: ObserverSettings {
            log: ObserverLog::OnDisk,
            masters: ObserverMasters::LeaderOnly,
            election_delay_ms: 0,
            reconnect_delay_ms: 0,
            seed: 0,
        },
        last_counter: LAST_COUNTER,
        dynamic_config: None,
        announcement: Some(PeerAnnouncement::CURRENT),
    }
}
