//! Keys about the traffic of clients: samples for `zebu top`, the log of slow requests and large replies,
//! and the limit of watches. ZooKeeper has none of them.

use std::time::Duration;

use super::setting_reader::{NumberUnit, SettingReader};

/// One of this many requests is sampled by default. A sample costs up to a microsecond, and a pipelined
/// getData 0.7 microseconds, so that sampling costs less than one percent.
const SAMPLE_EVERY_DEFAULT: u32 = 256;

/// Samples, log and limits of the requests of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficConfig {
    /// `zebu.top.sampling`: one of this many requests is sampled for `zebu top`; `None` = off.
    pub sample_every: Option<u32>,
    /// `zebu.slowRequestMs`: slower requests are logged; `None` = off.
    pub slow_request: Option<Duration>,
    /// `zebu.largeReplyBytes`: larger replies are logged; `None` = off.
    pub large_reply_bytes: Option<u32>,
    /// `zebu.maxWatchesPerConnection`: paths that one connection may watch; `None` = no limit.
    pub watches_per_connection_max: Option<u32>,
}

impl Default for TrafficConfig {
    fn default() -> TrafficConfig {
        TrafficConfig {
            sample_every: Some(SAMPLE_EVERY_DEFAULT),
            slow_request: Some(Duration::from_millis(1000)),
            // Clients of ZooKeeper refuse longer replies unless `jute.maxbuffer` is set for them.
            large_reply_bytes: Some(0xf_ffff),
            watches_per_connection_max: None,
        }
    }
}

pub(super) fn read_traffic(reader: &mut SettingReader<'_>) -> TrafficConfig {
    let default = TrafficConfig::default();
    TrafficConfig {
        sample_every: reader.limit("zebu.top.sampling", NumberUnit::Count, default.sample_every),
        slow_request: reader.optional_millis("zebu.slowRequestMs", default.slow_request),
        large_reply_bytes: reader.limit("zebu.largeReplyBytes", NumberUnit::Bytes, default.large_reply_bytes),
        watches_per_connection_max: reader.limit(
            "zebu.maxWatchesPerConnection",
            NumberUnit::Count,
            default.watches_per_connection_max,
        ),
    }
}
