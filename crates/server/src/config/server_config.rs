//! The checked configuration: immutable values with their units in the types. Only `load`,
//! `ServerConfig::standalone` and tests build it; nothing here reads files, variables or the
//! network.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::ServerId;

use super::admin::AdminConfig;
use super::disk_room::DiskRoomConfig;
use super::exporter::ExporterConfig;
use super::feeds::FeedConfig;
use super::freshness::FreshnessConfig;
use super::keeper::KeeperConfig;
use super::listings::ListingConfig;
use super::log_diff_limit::LogDiffLimit;
use super::membership::MembershipConfig;
use super::security::SecurityConfig;
use super::session_config::SessionConfig;
use super::throttle_config::{ConnectionThrottleConfig, RequestThrottleConfig};
use super::traffic::TrafficConfig;
use crate::four_letter::FourLetterWord;

/// The configuration of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Source of the settings.
    pub source: ConfigSource,
    /// The text of the file; empty without a file.
    pub original_text: OriginalText,
    /// All settings in force, as they were written.
    pub written_settings: WrittenSettings,
    /// Directories, log and snapshots.
    pub storage: StorageConfig,
    /// The client listener.
    pub listen: ListenConfig,
    /// Ticks and session timeouts.
    pub sessions: SessionConfig,
    /// Limits for requests of clients.
    pub limits: LimitConfig,
    /// Throttle of new sessions.
    pub connection_throttle: ConnectionThrottleConfig,
    /// Throttle of requests.
    pub request_throttle: RequestThrottleConfig,
    /// Node types, quotas and ACL checks.
    pub tree: TreeConfig,
    /// Authentication.
    pub auth: AuthConfig,
    /// TLS, SASL and the audit log.
    pub security: SecurityConfig,
    /// The reaper of container and TTL nodes.
    pub containers: ContainerConfig,
    /// Samples, log and limits of the requests of clients.
    pub traffic: TrafficConfig,
    /// The metrics exporter.
    pub exporter: ExporterConfig,
    /// Feeds of committed transactions.
    pub feeds: FeedConfig,
    /// Reads that say how fresh they must be.
    pub freshness: FreshnessConfig,
    /// What ClickHouse finds.
    pub keeper: KeeperConfig,
    /// Long lists and long replies.
    pub listings: ListingConfig,
    /// Which four-letter words are answered.
    pub four_letter_words: FourLetterWhitelist,
    /// The admin server; `None` if it is off.
    pub admin: Option<AdminConfig>,
    /// `readonlymode.enabled`: serve read-only clients without a quorum.
    pub read_only_mode: bool,
    /// `reconfigEnabled`.
    pub reconfig_enabled: bool,
    /// Servers and quorum rules; empty for a standalone server.
    pub membership: MembershipConfig,
}

/// The source of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// A zoo.cfg file.
    File(PathBuf),
    /// `port dataDir [tickTime] [maxClientCnxns]` on the command line.
    Arguments,
    /// Defaults only.
    BuiltIn,
}

/// The file as the user wrote it. It may hold secrets, so `Debug` shows only its length.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OriginalText(pub String);

impl fmt::Debug for OriginalText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// Keys and values of the file and of `-D` words. They may hold secrets, so `Debug` shows only their number.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct WrittenSettings(pub BTreeMap<String, String>);

impl fmt::Debug for WrittenSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} settings>", self.0.len())
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// Converts KiB to bytes.
    pub const fn from_kib(kib: u64) -> ByteCount {
        ByteCount(kib.saturating_mul(1024))
    }
}

/// Directories, transaction log and snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageConfig {
    /// `dataDir`: holds `myid` and `version-2` with the snapshots.
    pub data_dir: PathBuf,
    /// `dataLogDir`: holds `version-2` with the transaction logs; the same as `data_dir` by default.
    pub data_log_dir: PathBuf,
    /// `datadir.autocreate`: create missing directories.
    pub create_directories: bool,
    /// `snapCount`: transactions between snapshots.
    pub snap_count: u32,
    /// `snapSizeLimitInKb`: log bytes between snapshots; `None` = no limit by size.
    pub snap_size_limit: Option<ByteCount>,
    /// `txnLogSizeLimitInKb`: start a new log file at this size; `None` = no limit.
    pub txn_log_size_limit: Option<ByteCount>,
    /// `preAllocSize`: step in which log files grow.
    pub preallocation: ByteCount,
    /// `forceSync`: wait for the disk before a write is acknowledged.
    pub force_sync: bool,
    /// `fsync.warningthresholdms`: a slower fsync is logged.
    pub fsync_warning_threshold: Duration,
    /// `flushDelay`: how long a batch may wait for more transactions.
    pub flush_delay: Duration,
    /// `maxBatchSize`: transactions per flush.
    pub max_batch_size: u32,
    /// `commitLogCount`: recent transactions kept in memory.
    pub commit_log_count: u32,
    /// `snapshotSizeFactor`: most log bytes for a DIFF before a SNAP is cheaper.
    pub log_diff_limit: LogDiffLimit,
    /// `snapshot.compression.method`.
    pub snapshot_compression: SnapshotCompression,
    /// `snapshot.trust.empty`: start from logs without a snapshot.
    pub trust_empty_snapshot: bool,
    /// `serializeLastProcessedZxid.enabled`: the zxid trailer of snapshots.
    pub snapshot_zxid_trailer: bool,
    /// `digest.enabled`: tree digests in transactions and snapshots.
    pub digest_enabled: bool,
    /// `autopurge.purgeInterval`.
    pub purge_interval: PurgeInterval,
    /// `autopurge.snapRetainCount`, at least 3.
    pub snap_retain_count: u32,
    /// `disk.low`, `disk.stop`, `disk.reserve` and `slow.disk`.
    pub room: DiskRoomConfig,
}

impl StorageConfig {
    /// Directory of snapshots and epoch files.
    pub fn snapshot_dir(&self) -> PathBuf {
        self.data_dir.join("version-2")
    }

    /// Directory of transaction logs.
    pub fn log_dir(&self) -> PathBuf {
        self.data_log_dir.join("version-2")
    }

    /// The defaults for a file that names only this directory.
    pub fn with_defaults(data_dir: &Path) -> StorageConfig {
        StorageConfig {
            data_dir: data_dir.to_owned(),
            data_log_dir: data_dir.to_owned(),
            create_directories: true,
            snap_count: 100_000,
            snap_size_limit: Some(ByteCount::from_kib(4_194_304)),
            txn_log_size_limit: None,
            preallocation: ByteCount::from_kib(65_536),
            force_sync: true,
            fsync_warning_threshold: Duration::from_millis(1000),
            flush_delay: Duration::ZERO,
            max_batch_size: 1000,
            commit_log_count: 500,
            log_diff_limit: LogDiffLimit::DEFAULT,
            snapshot_compression: SnapshotCompression::None,
            trust_empty_snapshot: false,
            snapshot_zxid_trailer: true,
            digest_enabled: true,
            purge_interval: PurgeInterval::Unset,
            snap_retain_count: 3,
            room: DiskRoomConfig::default(),
        }
    }
}

/// Compression of snapshot files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotCompression {
    /// No compression.
    None,
    /// gzip, suffix `.gz`.
    Gzip,
    /// Framed snappy, suffix `.snappy`.
    Snappy,
}

/// When old snapshots and logs are deleted. A missing setting differs from "off".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeInterval {
    /// No setting; the server may choose.
    Unset,
    /// Switched off with 0 or a negative number.
    Off,
    /// At start and then at this rate.
    Every(Duration),
}

/// The client listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenConfig {
    /// `clientPort` and `clientPortAddress`; `None` only with a `secureClientPort`.
    pub client: Option<BindAddress>,
    /// `clientPortListenBacklog`; `None` uses the system's default.
    pub backlog: Option<u32>,
    /// `maxClientCnxns`: connections per remote address; `None` = no limit.
    pub max_connections_per_address: Option<u32>,
    /// `maxCnxns`: connections of this listener; `None` = no limit.
    pub max_connections: Option<u32>,
    /// `nio.sessionlessCnxnTimeout`: a connection without a session is closed after this time.
    pub sessionless_timeout: Duration,
    /// `clientTcpKeepAlive`.
    pub tcp_keep_alive: bool,
}

/// The address of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindAddress {
    /// Every interface, IPv6 and IPv4 where the system has both.
    AllInterfaces {
        /// TCP port; 0 lets the system choose.
        port: u16,
    },
    /// One address.
    Address(SocketAddr),
}

impl BindAddress {
    /// The TCP port.
    pub fn port(self) -> u16 {
        match self {
            BindAddress::AllInterfaces { port } => port,
            BindAddress::Address(address) => address.port(),
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindAddress::AllInterfaces { port } => write!(f, "*:{port}"),
            BindAddress::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Limits for requests of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitConfig {
    /// `jute.maxbuffer`: longest accepted frame in bytes.
    pub jute_max_buffer: u32,
    /// `jute.maxbuffer.extrasize`: bytes by which a transaction may exceed a frame.
    pub jute_extra_size: u32,
    /// `globalOutstandingLimit`: outstanding requests before reading from clients stops.
    pub global_outstanding_limit: u32,
    /// `largeRequestThreshold`: longer requests count as large, in bytes; `None` = off.
    pub large_request_threshold: Option<u32>,
    /// `largeRequestMaxBytes`: most bytes of large requests in flight.
    pub large_request_max_bytes: u32,
}

impl Default for LimitConfig {
    fn default() -> LimitConfig {
        LimitConfig {
            jute_max_buffer: 0xf_ffff,
            jute_extra_size: 0xf_ffff,
            global_outstanding_limit: 1000,
            large_request_threshold: None,
            large_request_max_bytes: 100 * 1024 * 1024,
        }
    }
}

impl LimitConfig {
    /// The longest transaction that ZooKeeper's servers read with these settings.
    pub fn transaction_bytes_max(&self) -> usize {
        self.jute_max_buffer.saturating_add(self.jute_extra_size).min(i32::MAX as u32) as usize
    }
}

/// Node types, quotas and ACL checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeConfig {
    /// `extendedTypesEnabled`: TTL nodes.
    pub extended_types: bool,
    /// `emulate353TTLNodes`: the owner encoding of release 3.5.3.
    pub emulate_353_ttl: bool,
    /// `enforceQuota`: hard quotas refuse writes.
    pub enforce_quota: bool,
    /// `skipACL`: ACLs are not checked.
    pub skip_acl: bool,
}

/// Authentication settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// `DigestAuthenticationProvider.enabled`.
    pub digest_provider: bool,
    /// `DigestAuthenticationProvider.digestAlg`.
    pub digest_algorithm: AuthDigestAlgorithm,
    /// `DigestAuthenticationProvider.superDigest`.
    pub super_digest: Option<SuperDigest>,
    /// `enforce.auth.schemes` with `enforce.auth.enabled=true`; `None` requires no authentication.
    pub required_schemes: Option<Vec<String>>,
}

impl Default for AuthConfig {
    fn default() -> AuthConfig {
        AuthConfig {
            digest_provider: true,
            digest_algorithm: AuthDigestAlgorithm::Sha1,
            super_digest: None,
            required_schemes: None,
        }
    }
}

/// `user:base64` of the super user. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SuperDigest(pub String);

impl fmt::Debug for SuperDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

/// The hash algorithm of the digest scheme, by its Java names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthDigestAlgorithm {
    /// `MD5`.
    Md5,
    /// `SHA1`, `SHA-1`, `SHA`.
    Sha1,
    /// `SHA-224`.
    Sha224,
    /// `SHA-256`.
    Sha256,
    /// `SHA-384`.
    Sha384,
    /// `SHA-512`.
    Sha512,
    /// `SHA3-224`.
    Sha3With224,
    /// `SHA3-256`.
    Sha3With256,
    /// `SHA3-384`.
    Sha3With384,
    /// `SHA3-512`.
    Sha3With512,
}

/// The reaper of container and TTL nodes (`znode.container.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerConfig {
    /// `checkIntervalMs`: period, and delay before the first run.
    pub check_interval: Duration,
    /// `maxPerMinute`: most deletions per minute; they are spaced evenly.
    pub max_per_minute: u32,
    /// `maxNeverUsedIntervalMs`: a container that never had children is deleted after this time;
    /// `None` = never.
    pub max_never_used: Option<Duration>,
}

impl Default for ContainerConfig {
    fn default() -> ContainerConfig {
        ContainerConfig {
            check_interval: Duration::from_secs(60),
            max_per_minute: 10_000,
            max_never_used: None,
        }
    }
}

/// The answered four-letter words: `4lw.commands.whitelist` and its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FourLetterWhitelist {
    /// `*`, and the listed words that it does not include.
    All(Vec<String>),
    /// Exactly these words; `srvr` is always among them.
    Only(Vec<String>),
}

impl FourLetterWhitelist {
    /// Whether a known word is answered.
    pub(crate) fn allows(&self, word: FourLetterWord) -> bool {
        match self {
            FourLetterWhitelist::All(_) if word.matches_wildcard() => true,
            FourLetterWhitelist::All(words) | FourLetterWhitelist::Only(words) => {
                words.iter().any(|listed| listed == word.name())
            }
        }
    }
}

impl Default for FourLetterWhitelist {
    fn default() -> FourLetterWhitelist {
        FourLetterWhitelist::Only(vec!["srvr".to_owned()])
    }
}

impl ServerConfig {
    /// A standalone server with the defaults of a three-line zoo.cfg (`tickTime=2000`).
    pub fn standalone(data_dir: &Path, client: BindAddress) -> ServerConfig {
        ServerConfig {
            source: ConfigSource::BuiltIn,
            original_text: OriginalText::default(),
            written_settings: WrittenSettings::default(),
            storage: StorageConfig::with_defaults(data_dir),
            listen: ListenConfig {
                client: Some(client),
                backlog: None,
                max_connections_per_address: Some(60),
                max_connections: None,
                sessionless_timeout: Duration::from_secs(10),
                tcp_keep_alive: false,
            },
            sessions: SessionConfig::with_tick(Duration::from_secs(2)),
            limits: LimitConfig::default(),
            connection_throttle: ConnectionThrottleConfig::default(),
            request_throttle: RequestThrottleConfig::default(),
            tree: TreeConfig::default(),
            auth: AuthConfig::default(),
            security: SecurityConfig::default(),
            containers: ContainerConfig::default(),
            traffic: TrafficConfig::default(),
            exporter: ExporterConfig::default(),
            four_letter_words: FourLetterWhitelist::default(),
            admin: None,
            read_only_mode: false,
            reconfig_enabled: false,
            feeds: FeedConfig::default(),
            freshness: FreshnessConfig::default(),
            keeper: KeeperConfig::default(),
            listings: ListingConfig::default(),
            membership: MembershipConfig::default(),
        }
    }

    /// The configuration of `zebu serve` without arguments: only this machine can connect.
    pub fn built_in() -> ServerConfig {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2181);
        ServerConfig::standalone(Path::new("./zebu-data"), BindAddress::Address(address))
    }

    /// The id in `myid`, if the file exists.
    pub fn server_id(&self) -> Option<ServerId> {
        self.membership.my_id
    }
}
