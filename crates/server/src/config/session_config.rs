//! The settings of sessions and of the connections of clients over changes of servers.

use std::time::Duration;

/// Ticks and session timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// `tickTime`: the unit of expiry buckets and of the limits counted in ticks.
    pub tick_time: Duration,
    /// `minSessionTimeout`: a shorter requested timeout is raised to this.
    pub min_timeout: Duration,
    /// `maxSessionTimeout`: a longer requested timeout is lowered to this.
    pub max_timeout: Duration,
    /// `localSessionsEnabled`.
    pub local_sessions: bool,
    /// `localSessionsUpgradingEnabled`.
    pub local_session_upgrade: bool,
    /// `zebu.electionGrace`: longest time for which clients stay connected without a leader, at most
    /// a quarter of their session timeout; zero = off.
    pub election_grace: Duration,
    /// `zebu.drainTime`: time in which a stopping server sends its clients to the others; zero = off.
    pub drain_time: Duration,
}

/// The default of `zebu.electionGrace`. A fail-over takes milliseconds, but a leader whose machine is gone is
/// noticed after `syncLimit` only.
const ELECTION_GRACE_TICKS: u32 = 2;

/// The default of `zebu.drainTime`.
pub const DRAIN_TIME_DEFAULT: Duration = Duration::from_secs(5);

impl SessionConfig {
    /// The default timeouts for a tick.
    pub fn with_tick(tick_time: Duration) -> SessionConfig {
        SessionConfig {
            tick_time,
            min_timeout: tick_time.saturating_mul(2),
            max_timeout: tick_time.saturating_mul(20),
            local_sessions: false,
            local_session_upgrade: false,
            election_grace: tick_time.saturating_mul(ELECTION_GRACE_TICKS),
            drain_time: DRAIN_TIME_DEFAULT,
        }
    }
}
