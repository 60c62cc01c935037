//! The settings of a node: checked values, no text.

use zebu_zab::membership::ConfigChangeRules;

use crate::throttle::ThrottleSettings;

/// Whether requests need an authenticated connection.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum AuthEnforcement {
    /// Every connection may send requests; ACLs apply.
    #[default]
    Off,
    /// A connection needs a credential of one of these schemes.
    Schemes(Vec<Box<str>>),
}

/// Whether reconfig requests are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigSupport {
    /// Reconfig is switched off (`reconfigEnabled`).
    Disabled,
    /// A standalone server has no ensemble to change.
    Standalone,
    /// Reconfig is accepted under these rules.
    Ensemble(ConfigChangeRules),
}

/// Whether a leader serves clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderClients {
    /// The leader serves clients like every other server.
    #[default]
    Served,
    /// The leader serves no clients (`leaderServes=no`).
    Refused,
}

/// Whether new sessions of an ensemble member are local. A standalone server has global sessions only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalSessionSupport {
    /// New sessions are global.
    Off,
    /// Sessions stay local and cannot have ephemeral nodes (`localSessionsEnabled`).
    WithoutUpgrade,
    /// A session is local until it creates an ephemeral node (`localSessionsUpgradingEnabled` too).
    WithUpgrade,
}

/// Settings of sessions, transactions, snapshots and container removal.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The top byte of session ids; 1 for a standalone server.
    pub server_id: u8,
    /// The tick in milliseconds; sessions expire at multiples of it.
    pub tick_ms: i64,
    /// Minimum negotiated session timeout in milliseconds.
    pub session_timeout_ms_min: i32,
    /// Maximum negotiated session timeout in milliseconds.
    pub session_timeout_ms_max: i32,
    /// Whether new sessions are local.
    pub local_sessions: LocalSessionSupport,
    /// Limits the rate of new sessions.
    pub throttle: ThrottleSettings,
    /// Requests that waited longer are answered with THROTTLEDOP; zero disables it.
    pub throttled_op_wait_ms: i64,
    /// Interval between two checks for expired containers and TTL nodes.
    pub container_check_ms: i64,
    /// Containers and TTL nodes that are removed per minute.
    pub container_max_per_minute: i64,
    /// Age at which a container that never had a child is removed; zero disables it.
    pub container_never_used_ms: i64,
    /// Time without a leader after which a server serves reads only; `None` disables read-only mode.
    pub read_only_after_ms: Option<i64>,
    /// The longest time for which a learner keeps its client connections without a leader; zero disables it.
    /// A leader records the moves of sessions in the log if it is not zero.
    pub election_grace_ms: i64,
    /// Transactions after which a snapshot is due. Half of the number is random.
    pub snap_count: u64,
    /// Log bytes after which a snapshot is due. Half of the number is random; `None` disables it.
    pub snap_bytes: Option<u64>,
    /// Whether a leader serves clients.
    pub leader_clients: LeaderClients,
    /// Whether reconfig requests are accepted.
    pub reconfig: ReconfigSupport,
    /// Seed of all random choices of the node.
    pub seed: u64,
}
