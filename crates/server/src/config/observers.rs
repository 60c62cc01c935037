//! Checked observer settings: storage, observer masters and delays.

use std::time::Duration;

use super::setting_reader::{INT_MAX, NumberUnit, SettingReader};

/// The observer settings. A voter has them too, because it may serve observers or become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverConfig {
    /// `syncEnabled`, or `observer.syncEnabled`, which wins: an observer writes its log and
    /// snapshots.
    pub sync_enabled: bool,
    /// `observerMasterPort`: the port on which followers serve observers.
    pub master_port: Option<u16>,
    /// `observerMaster.sizeLimit`: bytes of recent transactions kept in memory for observers.
    pub master_history_bytes: u32,
    /// `observer.election.DelayMs`: longest wait before an observer that lost its master looks for
    /// a leader.
    pub election_delay: Duration,
    /// `observer.reconnectDelayMs`: longest wait before it connects.
    pub reconnect_delay: Duration,
}

impl Default for ObserverConfig {
    fn default() -> ObserverConfig {
        ObserverConfig {
            sync_enabled: true,
            master_port: None,
            master_history_bytes: 32 << 20,
            election_delay: Duration::from_millis(200),
            reconnect_delay: Duration::ZERO,
        }
    }
}

/// Reads the observer settings.
pub(super) fn read_observers(reader: &mut SettingReader<'_>) -> ObserverConfig {
    let default = ObserverConfig::default();
    let writes = reader.strict_switch("syncEnabled", default.sync_enabled);
    let port = reader.number("observerMasterPort", -INT_MAX - 1..=i64::from(u16::MAX), NumberUnit::Port);
    ObserverConfig {
        sync_enabled: reader.loose_switch("observer.syncEnabled", writes),
        master_port: port.and_then(|port| u16::try_from(port).ok()).filter(|&port| port > 0),
        master_history_bytes: reader.count(
            "observerMaster.sizeLimit",
            0,
            NumberUnit::Bytes,
            default.master_history_bytes,
        ),
        election_delay: reader.millis("observer.election.DelayMs", 0, default.election_delay),
        reconnect_delay: reader.millis("observer.reconnectDelayMs", 0, default.reconnect_delay),
    }
}
