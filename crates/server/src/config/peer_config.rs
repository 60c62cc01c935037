//! The settings of peer connections: timeouts, keep-alive, retries, election intervals. Checked
//! values; `peers` and `settings.rs` use them.

use std::time::Duration;

use zebu_zab::membership::MultiAddress;

use super::setting_reader::{INT_MAX, NumberUnit, SettingReader};

/// The settings of election and quorum connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// `cnxTimeout`: limit of one connection attempt.
    pub connect_timeout: Duration,
    /// `quorumCnxnTimeoutMs`: how long an election connection may take to identify itself; `None`
    /// uses `syncLimit` ticks.
    pub identification_timeout: Option<Duration>,
    /// `tcpKeepAlive`: keep-alive on election sockets.
    pub tcp_keep_alive: bool,
    /// `electionPortBindRetry`: retries to open a port, one per second; `None` retries without end.
    pub bind_retries: Option<u32>,
    /// `fastleader.minNotificationInterval`: first wait before notifications are sent again.
    pub notification_interval_min: Duration,
    /// `fastleader.maxNotificationInterval`: the wait doubles up to this.
    pub notification_interval_max: Duration,
    /// `multiAddress.enabled`: whether a server may have several addresses.
    pub address_support: MultiAddress,
}

impl Default for PeerConfig {
    fn default() -> PeerConfig {
        PeerConfig {
            connect_timeout: Duration::from_secs(5),
            identification_timeout: None,
            tcp_keep_alive: false,
            bind_retries: Some(3),
            notification_interval_min: Duration::from_millis(200),
            notification_interval_max: Duration::from_secs(60),
            address_support: MultiAddress::Disabled,
        }
    }
}

/// Reads the settings of election and quorum connections.
pub(super) fn read_peers(reader: &mut SettingReader<'_>) -> PeerConfig {
    let default = PeerConfig::default();
    let retries = reader.number("electionPortBindRetry", -INT_MAX - 1..=INT_MAX, NumberUnit::Count);
    let mut peers = PeerConfig {
        connect_timeout: reader.millis("cnxTimeout", 1, default.connect_timeout),
        identification_timeout: reader.optional_millis("quorumCnxnTimeoutMs", None),
        tcp_keep_alive: reader.loose_switch("tcpKeepAlive", default.tcp_keep_alive),
        bind_retries: match retries.map(u32::try_from) {
            None => default.bind_retries,
            Some(Ok(0)) => None,
            Some(Ok(retries)) => Some(retries),
            // ZooKeeper keeps its default for negative numbers.
            Some(Err(_)) => default.bind_retries,
        },
        notification_interval_min: reader.millis(
            "fastleader.minNotificationInterval",
            1,
            default.notification_interval_min,
        ),
        notification_interval_max: reader.millis(
            "fastleader.maxNotificationInterval",
            1,
            default.notification_interval_max,
        ),
        address_support: match reader.strict_switch("multiAddress.enabled", false) {
            true => MultiAddress::Enabled,
            false => MultiAddress::Disabled,
        },
    };
    if peers.notification_interval_max < peers.notification_interval_min {
        let text = format!(
            "fastleader.maxNotificationInterval is shorter than fastleader.minNotificationInterval; {} milliseconds \
             are used for both",
            peers.notification_interval_min.as_millis()
        );
        reader.diagnostics.warn(&reader.origin("fastleader.maxNotificationInterval"), text);
        peers.notification_interval_max = peers.notification_interval_min;
    }
    // Only checked: all addresses are dialed, and the first one that answers is used.
    reader.strict_switch("multiAddress.reachabilityCheckEnabled", true);
    peers
}
