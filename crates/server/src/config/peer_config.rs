//! How a server reaches its peers: timeouts, keep-alive, retries, election intervals. Checked values; the effects are in
//! `peers` and in `settings.rs`.

use std::time::Duration;

use zebu_zab::membership::Addresses;

use super::reader::{MAX, Reader, Unit};

/// The settings of election and quorum connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// `cnxTimeout`: how long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// `quorumCnxnTimeoutMs`: how long an election connection may take to say who it is; `None` = `syncLimit` ticks.
    pub introduction_timeout: Option<Duration>,
    /// `tcpKeepAlive`: keep-alive on election sockets.
    pub tcp_keep_alive: bool,
    /// `electionPortBindRetry`: attempts after the first one to open a port, a second apart; `None` = for ever.
    pub bind_retries: Option<u32>,
    /// `fastleader.minNotificationInterval`: first wait before votes are sent again.
    pub notification_interval_min: Duration,
    /// `fastleader.maxNotificationInterval`: the wait doubles up to this.
    pub notification_interval_max: Duration,
    /// `multiAddress.enabled`: whether a server may have several addresses.
    pub addresses: Addresses,
}

impl Default for PeerConfig {
    fn default() -> PeerConfig {
        PeerConfig {
            connect_timeout: Duration::from_secs(5),
            introduction_timeout: None,
            tcp_keep_alive: false,
            bind_retries: Some(3),
            notification_interval_min: Duration::from_millis(200),
            notification_interval_max: Duration::from_secs(60),
            addresses: Addresses::One,
        }
    }
}

/// Reads the settings of election and quorum connections.
pub(super) fn read_peers(reader: &mut Reader<'_>) -> PeerConfig {
    let default = PeerConfig::default();
    let retries = reader.number("electionPortBindRetry", -MAX - 1..=MAX, Unit::Count);
    let mut peers = PeerConfig {
        connect_timeout: reader.millis("cnxTimeout", 1, default.connect_timeout),
        introduction_timeout: reader.optional_millis("quorumCnxnTimeoutMs", None),
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
        addresses: match reader.strict_switch("multiAddress.enabled", false) {
            true => Addresses::Many,
            false => Addresses::One,
        },
    };
    if peers.notification_interval_max < peers.notification_interval_min {
        let text = format!(
            "fastleader.maxNotificationInterval is shorter than fastleader.minNotificationInterval; {} milliseconds \
             are used for both",
            peers.notification_interval_min.as_millis()
        );
        reader.findings.warn(&reader.origin("fastleader.maxNotificationInterval"), text);
        peers.notification_interval_max = peers.notification_interval_min;
    }
    // Checked only: connections are attempted to all addresses, and the first one that answers is used.
    reader.strict_switch("multiAddress.reachabilityCheckEnabled", true);
    peers
}
