//! The checked configuration: immutable values with their units in the types. Built only by `load`, by
//! `ServerConfig::standalone` and by tests; nothing here reads files, variables or the network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::ServerId;

use super::membership::Membership;
use super::throttle_config::{ConnectionThrottleConfig, RequestThrottleConfig};
use crate::four_letter::Word;

/// Everything a server needs to know before it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Where the settings came from.
    pub source: ConfigSource,
    /// The text of the file as it was read; empty when there was none.
    pub original_text: OriginalText,
    /// Directories, log and snapshots.
    pub storage: StorageConfig,
    /// The client listener.
    pub listen: ListenConfig,
    /// Ticks and session timeouts.
    pub sessions: SessionConfig,
    /// Bounds on what clients may ask for.
    pub limits: LimitConfig,
    /// How fast new sessions are accepted.
    pub connection_throttle: ConnectionThrottleConfig,
    /// How many requests may be in the pipeline.
    pub request_throttle: RequestThrottleConfig,
    /// Node types, quotas and ACL checks.
    pub tree: TreeConfig,
    /// Identities and what is demanded of them.
    pub auth: AuthConfig,
    /// The reaper of container and TTL nodes.
    pub containers: ContainerConfig,
    /// Which four-letter words are answered.
    pub four_letter_words: WordWhitelist,
    /// `readonlymode.enabled`: serve read-only clients while cut off from the ensemble.
    pub read_only_mode: bool,
    /// `reconfigEnabled`.
    pub reconfig_enabled: bool,
    /// Members and quorum rules; empty for a standalone server.
    pub membership: Membership,
}

/// Where the settings came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// A zoo.cfg file.
    File(PathBuf),
    /// `port dataDir [tickTime] [maxClientCnxns]` on the command line.
    Arguments,
    /// Nothing was given.
    BuiltIn,
}

/// The file as the user wrote it. May hold secrets, so `Debug` shows only its length.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OriginalText(pub String);

impl fmt::Debug for OriginalText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// From a number of KiB.
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
    /// `txnLogSizeLimitInKb`: start a new log file at this size; `None` = never for its size.
    pub txn_log_size_limit: Option<ByteCount>,
    /// `preAllocSize`: step in which log files grow.
    pub preallocation: ByteCount,
    /// `forceSync`: wait for the disk before a write is acknowledged.
    pub force_sync: bool,
    /// `fsync.warningthresholdms`: a slower fsync is reported.
    pub fsync_warning_threshold: Duration,
    /// `flushDelay`: how long a batch may wait for more transactions.
    pub flush_delay: Duration,
    /// `maxBatchSize`: transactions per flush.
    pub max_batch_size: u32,
    /// `commitLogCount`: recent transactions kept in memory.
    pub commit_log_count: u32,
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
}

impl StorageConfig {
    /// Where snapshots and epoch files are.
    pub fn snapshot_dir(&self) -> PathBuf {
        self.data_dir.join("version-2")
    }

    /// Where transaction logs are.
    pub fn log_dir(&self) -> PathBuf {
        self.data_log_dir.join("version-2")
    }

    /// The settings of a server whose file names only this directory.
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
            snapshot_compression: SnapshotCompression::None,
            trust_empty_snapshot: false,
            snapshot_zxid_trailer: true,
            digest_enabled: true,
            purge_interval: PurgeInterval::Unset,
            snap_retain_count: 3,
        }
    }
}

/// How snapshot files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotCompression {
    /// Plain.
    None,
    /// gzip, suffix `.gz`.
    Gzip,
    /// Framed snappy, suffix `.snappy`.
    Snappy,
}

/// When old snapshots and logs are deleted. Nothing said is not the same as "off".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeInterval {
    /// The configuration says nothing; the server may choose.
    Unset,
    /// Switched off with 0 or a negative number.
    Off,
    /// At start and then at this rate.
    Every(Duration),
}

/// The client listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenConfig {
    /// `clientPort` and `clientPortAddress`.
    pub client: BindAddress,
    /// `clientPortListenBacklog`; `None` = the system's choice.
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

/// What a listener binds to.
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

/// Ticks and session timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// `tickTime`: the unit of expiry buckets and of the limits counted in ticks.
    pub tick_time: Duration,
    /// `minSessionTimeout`: shorter wishes are raised to this.
    pub min_timeout: Duration,
    /// `maxSessionTimeout`: longer wishes are cut to this.
    pub max_timeout: Duration,
    /// `localSessionsEnabled`.
    pub local_sessions: bool,
    /// `localSessionsUpgradingEnabled`.
    pub local_session_upgrade: bool,
}

impl SessionConfig {
    /// The timeouts that follow from a tick.
    pub fn with_tick(tick_time: Duration) -> SessionConfig {
        SessionConfig {
            tick_time,
            min_timeout: tick_time.saturating_mul(2),
            max_timeout: tick_time.saturating_mul(20),
            local_sessions: false,
            local_session_upgrade: false,
        }
    }
}

/// Bounds on what clients may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitConfig {
    /// `jute.maxbuffer`: longest frame that is accepted.
    pub jute_max_buffer: u32,
    /// `jute.maxbuffer.extrasize`: how much longer than a frame a transaction may be.
    pub jute_extra_size: u32,
    /// `globalOutstandingLimit`: requests in process before reading from clients stops.
    pub global_outstanding_limit: u32,
    /// `largeRequestThreshold`: longer requests count as large; `None` = no request does.
    pub large_request_threshold: Option<u32>,
    /// `largeRequestMaxBytes`: sum of the large requests in flight.
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
    /// `skipACL`: no ACL is checked.
    pub skip_acl: bool,
}

/// Identities and what is demanded of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// `DigestAuthenticationProvider.enabled`.
    pub digest_provider: bool,
    /// `DigestAuthenticationProvider.digestAlg`.
    pub digest_algorithm: DigestAlgorithm,
    /// `DigestAuthenticationProvider.superDigest`.
    pub super_digest: Option<SuperDigest>,
    /// `enforce.auth.schemes` while `enforce.auth.enabled=true`; `None` = nobody has to authenticate.
    pub required_schemes: Option<Vec<String>>,
}

impl Default for AuthConfig {
    fn default() -> AuthConfig {
        AuthConfig {
            digest_provider: true,
            digest_algorithm: DigestAlgorithm::Sha1,
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

/// The hash of the digest scheme, by its Java names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestAlgorithm {
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
    /// `maxPerMinute`: deletions are spaced so that no more than this many happen.
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

/// Which four-letter words are answered: `4lw.commands.whitelist` and the rules around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordWhitelist {
    /// `*`, and these that it does not mean.
    All(Vec<String>),
    /// Exactly these; `srvr` is always among them.
    Only(Vec<String>),
}

impl WordWhitelist {
    /// Whether a known word is answered.
    pub fn allows(&self, word: Word) -> bool {
        match self {
            WordWhitelist::All(_) if word.is_in_all() => true,
            WordWhitelist::All(words) | WordWhitelist::Only(words) => {
                words.iter().any(|listed| listed == word.name())
            }
        }
    }
}

impl Default for WordWhitelist {
    fn default() -> WordWhitelist {
        WordWhitelist::Only(vec!["srvr".to_owned()])
    }
}

impl ServerConfig {
    /// A standalone server with the defaults of a three-line zoo.cfg (`tickTime=2000`).
    pub fn standalone(data_dir: &Path, client: BindAddress) -> ServerConfig {
        ServerConfig {
            source: ConfigSource::BuiltIn,
            original_text: OriginalText::default(),
            storage: StorageConfig::with_defaults(data_dir),
            listen: ListenConfig {
                client,
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
            containers: ContainerConfig::default(),
            four_letter_words: WordWhitelist::default(),
            read_only_mode: false,
            reconfig_enabled: false,
            membership: Membership::default(),
        }
    }

    /// What `zebu serve` uses when it is told nothing: only this machine can connect.
    pub fn built_in() -> ServerConfig {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2181);
        ServerConfig::standalone(Path::new("./zebu-data"), BindAddress::Address(address))
    }

    /// The number in `myid`, if there is one.
    pub fn server_id(&self) -> Option<ServerId> {
        self.membership.my_id
    }
}
