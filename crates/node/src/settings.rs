//! What the brain is told about the configuration: checked values, no text.

use zebu_zab::membership::ChangeRules;

use crate::throttle::ThrottleSettings;

/// Whether requests need an authenticated connection.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Anyone may ask; ACLs decide.
    #[default]
    Off,
    /// Only connections with a credential of one of these schemes.
    Schemes(Vec<Box<str>>),
}

/// What a request to change the membership is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigSupport {
    /// It is switched off (`reconfigEnabled`).
    Disabled,
    /// There is no ensemble to change.
    Standalone,
    /// The members may change.
    Ensemble(ChangeRules),
}

/// Whether a leader has clients of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderClients {
    /// As every other member.
    #[default]
    Served,
    /// It leads only; clients go to the others (`leaderServes=no`).
    Refused,
}

/// What a new session of a member is. A standalone server has global ones only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalSessionSupport {
    /// Known to the whole ensemble.
    Off,
    /// Local for ever: it cannot have ephemeral nodes (`localSessionsEnabled`).
    WithoutUpgrade,
    /// Local until it asks for an ephemeral node (`localSessionsUpgradingEnabled` too).
    WithUpgrade,
}

/// Settings of sessions, transactions and their housekeeping.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Goes into the top byte of session ids; 1 for a standalone server.
    pub server_id: u8,
    /// The unit of session expiry.
    pub tick_ms: i64,
    /// Least session timeout that a client can get.
    pub session_timeout_ms_min: i32,
    /// Greatest session timeout that a client can get.
    pub session_timeout_ms_max: i32,
    /// Whether the ensemble hears of new sessions.
    pub local_sessions: LocalSessionSupport,
    /// New sessions per time.
    pub throttle: ThrottleSettings,
    /// Requests that waited longer are answered THROTTLEDOP; zero never.
    pub throttled_op_wait_ms: i64,
    /// How often containers and TTL nodes are looked at.
    pub container_check_ms: i64,
    /// How many of them are removed per minute.
    pub container_max_per_minute: i64,
    /// Age at which a container that never had a child goes; zero never.
    pub container_never_used_ms: i64,
    /// For how long a member that finds no leader serves nobody, before it serves reads; `None` for ever.
    pub read_only_after_ms: Option<i64>,
    /// Transactions after which a snapshot is due, half of it at random.
    pub snap_count: u64,
    /// Log bytes after which a snapshot is due, half of it at random; `None` never.
    pub snap_bytes: Option<u64>,
    /// Whether it takes clients while it leads.
    pub leader_clients: LeaderClients,
    /// What reconfig answers.
    pub reconfig: ReconfigSupport,
    /// Seed of every random choice that the brain makes.
    pub seed: u64,
}
