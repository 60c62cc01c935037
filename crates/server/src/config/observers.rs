//! How observers are kept: whether they write, who serves them, how long they wait. Checked values; what follows from
//! them is decided elsewhere.

use std::time::Duration;

use super::reader::{MAX, Reader, Unit};

/// The settings about observers. A voter has them too: it may serve observers, or become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverConfig {
    /// `syncEnabled`, or `observer.syncEnabled`, which wins: an observer writes its log and snapshots.
    pub writes: bool,
    /// `observerMasterPort`: followers serve observers there, and observers look for them there.
    pub master_port: Option<u16>,
    /// `observerMaster.sizeLimit`: bytes of recent transactions that stay in memory for observers.
    pub recent_bytes: u32,
    /// `observer.election.DelayMs`: the longest wait before an observer that has lost its master looks for a leader.
    pub election_delay: Duration,
    /// `observer.reconnectDelayMs`: the longest wait before it connects.
    pub reconnect_delay: Duration,
}

impl Default for ObserverConfig {
    fn default() -> ObserverConfig {
        ObserverConfig {
            writes: true,
            master_port: None,
            recent_bytes: 32 << 20,
            election_delay: Duration::from_millis(200),
            reconnect_delay: Duration::ZERO,
        }
    }
}

/// Reads them.
pub(super) fn read_observers(reader: &mut Reader<'_>) -> ObserverConfig {
    let default = ObserverConfig::default();
    let writes = reader.strict_switch("syncEnabled", default.writes);
    let port = reader.number("observerMasterPort", -MAX - 1..=i64::from(u16::MAX), Unit::Port);
    ObserverConfig {
        writes: reader.loose_switch("observer.syncEnabled", writes),
        master_port: port.and_then(|port| u16::try_from(port).ok()).filter(|&port| port > 0),
        recent_bytes: reader.count("observerMaster.sizeLimit", 0, Unit::Bytes, default.recent_bytes),
        election_delay: reader.millis("observer.election.DelayMs", 0, default.election_delay),
        reconnect_delay: reader.millis("observer.reconnectDelayMs", 0, default.reconnect_delay),
    }
}
