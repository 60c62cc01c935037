//! What one server says of itself, from the words `srvr` and, where it is allowed, `mntr`.

use std::io;
use std::time::{Duration, Instant};

use zebu_client::TlsConnector;

use crate::console::printable;
use crate::protection::{self, WordLimits};

/// How long a server may take to answer, and the longest answer of these words.
const LIMITS: WordLimits = WordLimits { time: Duration::from_secs(2), answer_bytes: 256 * 1024 };

/// The numbers of one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) mode: String,
    pub(crate) version: String,
    pub(crate) zxid: String,
    pub(crate) connections: u64,
    pub(crate) outstanding: u64,
    /// Packets since the start.
    pub(crate) received: u64,
    /// Milliseconds: least, average, most.
    pub(crate) latency: (String, String, String),
    pub(crate) nodes: u64,
    /// Only `mntr` tells.
    pub(crate) watches: Option<u64>,
    /// Of a leader: followers that are up to date. Only `mntr` tells.
    pub(crate) followers: Option<u64>,
    /// Voters of the config. Only `mntr` tells.
    pub(crate) voters: Option<u64>,
    /// Of a leader: observers that are up to date. Only `mntr` tells.
    pub(crate) observers: Option<u64>,
    /// Only the `mntr` of Zebu tells.
    pub(crate) epoch: Option<u64>,
    /// Milliseconds since the start. Only `mntr` tells.
    pub(crate) uptime_ms: Option<u64>,
    pub(crate) disk: DiskSample,
}

/// The state of a server's files since its start. Only `mntr` tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DiskSample {
    /// Milliseconds of the longest fsync of the log.
    pub(crate) fsync_ms_max: Option<u64>,
    /// Fsyncs above `fsync.warningthresholdms`.
    pub(crate) slow_fsyncs: Option<u64>,
    /// Snapshots that could not be written.
    pub(crate) snapshot_errors: Option<u64>,
    /// Transactions or files whose digest differs from the tree's.
    pub(crate) digest_mismatches: Option<u64>,
    /// 0 with room, 1 with little room, 2 when it is full.
    pub(crate) state: Option<u64>,
    /// Free bytes.
    pub(crate) free_bytes: Option<u64>,
    /// Requests refused because no quorum has room.
    pub(crate) growth_refused: Option<u64>,
    /// Hand-overs because of the disk.
    pub(crate) hand_overs: Option<u64>,
    /// Of a leader: followers with slow ACKs.
    pub(crate) slow_servers: Option<u64>,
}

impl DiskSample {
    fn of_mntr(text: &str) -> DiskSample {
        DiskSample {
            fsync_ms_max: mntr_number(text, "zk_max_fsynctime"),
            slow_fsyncs: mntr_number(text, "zk_fsync_threshold_exceed_count"),
            snapshot_errors: mntr_number(text, "zk_snapshot_error_count"),
            digest_mismatches: mntr_number(text, "zk_digest_mismatches_count"),
            state: mntr_number(text, "zk_disk_state"),
            free_bytes: mntr_number(text, "zk_disk_free_bytes"),
            growth_refused: mntr_number(text, "zk_growth_refused"),
            hand_overs: mntr_number(text, "zk_disk_hand_overs"),
            slow_servers: mntr_number(text, "zk_slow_servers"),
        }
    }
}

/// Asks a server.
pub(crate) fn take(address: &str, tls: Option<&TlsConnector>) -> Result<Sample, String> {
    let srvr = ask(address, "srvr", tls).map_err(|error| error.to_string())?;
    let mut sample = parse_srvr(&srvr, Instant::now())?;
    if let Ok(text) = ask(address, "mntr", tls) {
        sample.watches = mntr_number(&text, "zk_watch_count");
        sample.followers = mntr_number(&text, "zk_synced_followers");
        sample.voters = mntr_number(&text, "zk_quorum_size");
        sample.observers = mntr_number(&text, "zk_synced_observers");
        sample.epoch = mntr_number(&text, "zk_epoch");
        sample.uptime_ms = mntr_number(&text, "zk_uptime");
        sample.disk = DiskSample::of_mntr(&text);
    }
    Ok(sample)
}

/// The number behind `0x`.
pub(crate) fn number_after_0x(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Sends a word and what belongs to it, and returns the whole answer.
pub(crate) fn ask(address: &str, word: &str, tls: Option<&TlsConnector>) -> io::Result<String> {
    let answer = protection::ask(address, word, tls, LIMITS)?;
    // Whatever answers at that port: nothing of it may control the terminal that shows it.
    Ok(printable(&answer.replace('\r', "")))
}

fn parse_srvr(text: &str, at: Instant) -> Result<Sample, String> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let number = |key: &str| value(key).and_then(|text| text.parse().ok()).unwrap_or(0);
    let Some(mode) = value("Mode:") else {
        let first = text.lines().next().unwrap_or("it closed the connection");
        return Err(format!("not serving: {}", first.trim()));
    };
    let latency = value("Latency min/avg/max:").unwrap_or_default();
    let mut parts = latency.split('/').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    Ok(Sample {
        at,
        mode: mode.to_owned(),
        version: value("Zookeeper version:")
            .unwrap_or_default()
            .split([' ', ','])
            .next()
            .unwrap_or("")
            .to_owned(),
        zxid: value("Zxid:").unwrap_or_default().to_owned(),
        connections: number("Connections:"),
        outstanding: number("Outstanding:"),
        received: number("Received:"),
        latency: (part(), part(), part()),
        nodes: number("Node count:"),
        watches: None,
        followers: None,
        voters: None,
        observers: None,
        epoch: None,
        uptime_ms: None,
        disk: DiskSample::default(),
    })
}

fn mntr_number(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().filter_map(|line| line.split_once('\t')).find(|(name, _)| *name == key)?.1;
    value.trim().parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SRVR: &str = "Zookeeper version: 3.9.5-abc, built on 2026-02-11 20:18 UTC\n\
        Latency min/avg/max: 0/1.5/12\nReceived: 1000\nSent: 999\nConnections: 3\nOutstanding: 2\n\
        Zxid: 0x1f\nMode: standalone\nNode count: 42\n";

    /// What [`SRVR`] says.
    pub(crate) fn sample() -> Sample {
        parse_srvr(SRVR, Instant::now()).unwrap()
    }

    #[test]
    fn the_answer_is_read() {
        let sample = parse_srvr(SRVR, Instant::now()).unwrap();
        assert_eq!((sample.mode.as_str(), sample.zxid.as_str()), ("standalone", "0x1f"));
        assert_eq!(sample.version, "3.9.5-abc");
        assert_eq!((sample.connections, sample.outstanding, sample.received, sample.nodes), (3, 2, 1000, 42));
        assert_eq!(sample.latency, ("0".into(), "1.5".into(), "12".into()));
    }

    #[test]
    fn what_does_not_serve_says_so() {
        let error = parse_srvr("This ZooKeeper instance is not currently serving requests\n", Instant::now());
        assert!(error.unwrap_err().starts_with("not serving: This ZooKeeper"));
        assert_eq!(parse_srvr("", Instant::now()).unwrap_err(), "not serving: it closed the connection");
    }

    #[test]
    fn watches_come_from_mntr() {
        assert_eq!(mntr_number("zk_version\t3\nzk_watch_count\t17\n", "zk_watch_count"), Some(17));
        assert_eq!(
            mntr_number("mntr is not executed because it is not in the whitelist.", "zk_watch_count"),
            None
        );
    }
}
