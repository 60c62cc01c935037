//! Converts the configuration to the settings of the pure crates. It takes no decision.

use std::time::Duration;

use zebu_node::feed::FeedSettings;
use zebu_node::{
    AuthEnforcement, FreshnessSettings, KeeperSettings, LeaderClients, ListingSettings, LocalSessionSupport,
    NodeSettings, ReconfigSupport, SaslFailedClients, SaslSettings, ThrottleSettings, TrafficSettings,
};
use zebu_proto::ServerId;
use zebu_proto::quorum::PeerAnnouncement;
use zebu_runtime::{DiskSettings, SnapshotSections, SnapshotStore};
use zebu_storage::{Compression, Directories, FileDisk, ForceSync, LogOptions};
use zebu_tree::access::{
    self, AclChecks, AuthSettings, DigestScheme, EnsembleScheme, QuotaEnforcement, SaslScheme, X509Scheme,
};
use zebu_tree::{DigestMode, Policy, TreeOptions, TtlNodes};
use zebu_zab::membership::ConfigChangeRules;
use zebu_zab::{DynamicConfig, HistoryLimits, ObserverLog, ObserverMasters, ObserverSettings, PeerSettings};

use crate::config::membership::{MembershipConfig, Role};
use crate::config::{AuthDigestAlgorithm, ByteCount, ServerConfig, SnapshotCompression, StorageConfig};
use crate::dynamic_config;

/// The server id in session ids of a standalone server without a `myid`.
const STANDALONE_SERVER_ID: u8 = 1;

/// Least time without a leader before a server serves reads only; otherwise one tick.
const READ_ONLY_AFTER_MS_MIN: i64 = 2000;

/// Largest preallocation step. Zeros are really written, and a batch waits for them, so it is much
/// smaller than ZooKeeper's.
const PREALLOCATE_MAX: u64 = 256 << 10;

/// Batches are joined up to about this many bytes per write; one fsync may cover several writes.
const WRITE_BYTES: usize = 1 << 20;

pub(crate) fn tree_options(config: &ServerConfig, hash_seed: u64) -> TreeOptions {
    TreeOptions {
        ttl_nodes: match (config.tree.extended_types, config.tree.emulate_353_ttl) {
            (false, _) => TtlNodes::Disabled,
            (true, false) => TtlNodes::Enabled,
            (true, true) => TtlNodes::Emulate353,
        },
        digest: if config.storage.digest_enabled { DigestMode::On } else { DigestMode::Off },
        hash_seed,
    }
}

pub(crate) fn policy(config: &ServerConfig) -> Policy {
    let (auth, sasl) = (&config.auth, &config.security.client_sasl);
    Policy {
        acl_checks: if config.tree.skip_acl { AclChecks::Skipped } else { AclChecks::Enforced },
        quota: if config.tree.enforce_quota { QuotaEnforcement::On } else { QuotaEnforcement::Off },
        auth: AuthSettings {
            digest: if auth.digest_provider { DigestScheme::Enabled } else { DigestScheme::Disabled },
            algorithm: digest_algorithm(auth.digest_algorithm),
            super_digest: auth.super_digest.as_ref().map(|digest| digest.0.as_str().into()),
            x509: match sasl.providers.x509 {
                true => X509Scheme::Enabled,
                false => X509Scheme::Disabled,
            },
            sasl: sasl
                .providers
                .sasl
                .then(|| SaslScheme { any_user_id: sasl.any_user_id.as_deref().map(Into::into) }),
            ensemble: sasl
                .providers
                .ensemble
                .then(|| EnsembleScheme { names: sasl.ensemble_names.as_ref().map(|names| boxed(names)) }),
        },
        container_never_used_ms: config.containers.max_never_used.map_or(0, millis),
        transaction_bytes_max: config.limits.transaction_bytes_max(),
        keeper_nodes: config.keeper.extensions,
    }
}

/// What the replica observes of requests.
pub(crate) fn traffic(config: &ServerConfig) -> TrafficSettings {
    let (traffic, off) = (&config.traffic, TrafficSettings::default());
    let bytes = |limit: u32| limit as usize;
    TrafficSettings {
        sample_every: traffic.sample_every.unwrap_or(off.sample_every),
        slow_request_ms: traffic.slow_request.map_or(off.slow_request_ms, millis),
        large_reply_bytes: traffic.large_reply_bytes.map_or(off.large_reply_bytes, bytes),
        watched_paths_max: traffic.watches_per_connection_max.map_or(off.watched_paths_max, bytes),
    }
}

/// SASL for clients; `None` without a login, which refuses every token.
pub(crate) fn client_sasl(config: &ServerConfig) -> Option<SaslSettings> {
    let sasl = &config.security.client_sasl;
    sasl.login.as_ref()?;
    Some(SaslSettings {
        rules: sasl.rules.clone(),
        super_users: boxed(&sasl.super_users),
        failed_clients: match sasl.allow_failed_clients {
            true => SaslFailedClients::Kept,
            false => SaslFailedClients::Closed,
        },
    })
}

fn boxed(texts: &[String]) -> Vec<Box<str>> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

pub(crate) fn enforcement(config: &ServerConfig) -> AuthEnforcement {
    match &config.auth.required_schemes {
        None => AuthEnforcement::Off,
        Some(schemes) => {
            AuthEnforcement::Schemes(schemes.iter().map(|scheme| scheme.as_str().into()).collect())
        }
    }
}

pub(crate) fn node_settings(config: &ServerConfig, seed: u64) -> NodeSettings {
    let server_id = config.server_id().map_or(STANDALONE_SERVER_ID, |id| id.0 as u8);
    NodeSettings {
        server_id,
        tick_ms: millis(config.sessions.tick_time),
        session_timeout_ms_min: millis_i32(config.sessions.min_timeout),
        session_timeout_ms_max: millis_i32(config.sessions.max_timeout),
        local_sessions: match (config.sessions.local_sessions, config.sessions.local_session_upgrade) {
            (false, _) => LocalSessionSupport::Off,
            (true, false) => LocalSessionSupport::WithoutUpgrade,
            (true, true) => LocalSessionSupport::WithUpgrade,
        },
        throttle: throttle_settings(config),
        throttled_op_wait_ms: config.request_throttle.throttled_op_wait_time.map_or(0, millis),
        container_check_ms: millis(config.containers.check_interval),
        container_max_per_minute: i64::from(config.containers.max_per_minute),
        read_only_after_ms: (config.read_only_mode && config.membership.is_ensemble())
            .then(|| millis(config.sessions.tick_time).max(READ_ONLY_AFTER_MS_MIN)),
        election_grace_ms: millis(config.sessions.election_grace),
        container_never_used_ms: config.containers.max_never_used.map_or(0, millis),
        snap_count: u64::from(config.storage.snap_count),
        snap_bytes: config.storage.snap_size_limit.map(|limit| limit.0),
        leader_clients: if config.membership.leader_serves {
            LeaderClients::Served
        } else {
            LeaderClients::Refused
        },
        reconfig: match (config.reconfig_enabled, config.membership.is_ensemble()) {
            (false, _) => ReconfigSupport::Disabled,
            (true, false) => ReconfigSupport::Standalone,
            (true, true) => ReconfigSupport::Ensemble(ConfigChangeRules {
                voters_min: if config.membership.standalone_enabled { 2 } else { 1 },
                addresses: config.membership.peers.address_support,
            }),
        },
        seed,
    }
}

/// Most outstanding requests of this server. All requests meet at the leader, so each voter has a
/// share of the limit.
pub(crate) fn outstanding_requests_max(config: &ServerConfig) -> usize {
    let limit = config.limits.global_outstanding_limit;
    let MembershipConfig { members, my_id, .. } = &config.membership;
    let voters = members.values().filter(|member| member.role == Role::Participant).count() as u32;
    let has_vote = my_id.and_then(|me| members.get(&me)).is_some_and(|me| me.role == Role::Participant);
    let share = if has_vote && voters > 2 { limit / (voters - 1) } else { limit };
    let throttled = config.request_throttle.max_requests.unwrap_or(u32::MAX);
    share.min(throttled).max(1) as usize
}

/// Most bytes of outstanding requests of this server: `largeRequestMaxBytes`, and at least one
/// request.
pub(crate) fn request_bytes_max(config: &ServerConfig) -> u32 {
    config.limits.large_request_max_bytes.max(config.limits.jute_max_buffer)
}

/// With weights the bucket counts in new global sessions.
fn throttle_settings(config: &ServerConfig) -> ThrottleSettings {
    let throttle = &config.connection_throttle;
    let (cost_new, cost_new_local, cost_resume) = match &throttle.weights {
        Some(weights) => (
            i64::from(weights.global_session),
            i64::from(weights.local_session),
            i64::from(weights.renew_session),
        ),
        None => (1, 1, 1),
    };
    ThrottleSettings {
        tokens: throttle.tokens.map_or(0, i64::from) * cost_new,
        fill_time_ms: millis(throttle.fill_time),
        fill_count: i64::from(throttle.fill_count) * cost_new,
        freeze_time_ms: throttle.freeze_time.map_or(-1, millis),
        drop_increase: throttle.drop_increase,
        drop_decrease: throttle.drop_decrease,
        decrease_ratio: throttle.decrease_ratio,
        cost_new,
        cost_new_local,
        cost_resume,
    }
}

fn digest_algorithm(algorithm: AuthDigestAlgorithm) -> access::DigestAlgorithm {
    match algorithm {
        AuthDigestAlgorithm::Md5 => access::DigestAlgorithm::Md5,
        AuthDigestAlgorithm::Sha1 => access::DigestAlgorithm::Sha1,
        AuthDigestAlgorithm::Sha224 => access::DigestAlgorithm::Sha224,
        AuthDigestAlgorithm::Sha256 => access::DigestAlgorithm::Sha256,
        AuthDigestAlgorithm::Sha384 => access::DigestAlgorithm::Sha384,
        AuthDigestAlgorithm::Sha512 => access::DigestAlgorithm::Sha512,
        AuthDigestAlgorithm::Sha3With224 => access::DigestAlgorithm::Sha3_224,
        AuthDigestAlgorithm::Sha3With256 => access::DigestAlgorithm::Sha3_256,
        AuthDigestAlgorithm::Sha3With384 => access::DigestAlgorithm::Sha3_384,
        AuthDigestAlgorithm::Sha3With512 => access::DigestAlgorithm::Sha3_512,
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn millis_i32(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// How clients may use reads that say how fresh they must be.
pub(crate) fn freshness(config: &ServerConfig) -> FreshnessSettings {
    let paths = config.freshness.linearizable_paths.iter().map(|path| path.as_str().into());
    FreshnessSettings {
        private_requests: config.freshness.private_requests,
        linearizable_paths: paths.collect(),
    }
}

/// How ClickHouse may use this server.
pub(crate) fn keeper(config: &ServerConfig) -> KeeperSettings {
    KeeperSettings {
        extensions: config.keeper.extensions,
        zone: config.keeper.zone.as_deref().map(Into::into),
        request_bytes_max: config.limits.jute_max_buffer,
    }
}

/// How many feeds clients may have, and who may open one.
pub(crate) fn feeds(config: &ServerConfig) -> FeedSettings {
    FeedSettings { feeds_max: config.feeds.feeds_max as usize, readers: config.feeds.readers.clone().into() }
}

/// The data directories.
pub(crate) fn directories(config: &ServerConfig) -> Directories {
    Directories::new(&config.storage.data_dir, &config.storage.data_log_dir)
}

/// Limits of pages, scans and replies. A page fits the packets of clients with default settings.
pub(crate) fn listings(config: &ServerConfig) -> ListingSettings {
    let default = ListingSettings::default();
    let reply_bytes_max = config.listings.reply_bytes_max.map_or(usize::MAX, |bytes| bytes as usize);
    let packet_max =
        (config.limits.jute_max_buffer as usize).min(default.page_bytes_max).min(reply_bytes_max);
    ListingSettings {
        page_bytes_max: packet_max,
        scan_bytes_max: (config.listings.scan_bytes_max as usize).min(reply_bytes_max),
        reply_bytes_max,
        ..default
    }
}

/// The Zab settings of a member; `dynamic` with `reconfigEnabled`.
pub(crate) fn peer_settings(
    config: &ServerConfig,
    dynamic: Option<DynamicConfig>,
    seed: u64,
) -> PeerSettings {
    let membership = &config.membership;
    let me = membership.my_id.unwrap_or(ServerId(0));
    let configuration = dynamic_config::ensemble_config(config);
    let init_limit = membership.init_limit.map_or(10, i64::from);
    let sync_limit = membership.sync_limit.map_or(5, i64::from);
    let tick_ms = millis(config.sessions.tick_time);
    // A running leader accepts a connection at once. A leader elected by votes that only arrive
    // from it never does. One attempt may use its whole timeout.
    let attempt_limit = (millis(membership.peers.connect_timeout) - 1).max(0) / tick_ms.max(1) + 1;
    let connect_limit = init_limit.min(sync_limit.max(attempt_limit));
    PeerSettings {
        me,
        role: configuration.role_of(me),
        quorum: configuration.quorum(),
        observers: configuration.observers(),
        config: configuration.to_string().into(),
        config_version: configuration.version,
        tick_ms,
        init_limit,
        connect_limit: membership.connect_limit.map_or(connect_limit, i64::from),
        sync_limit,
        resend_ms_min: millis(membership.peers.notification_interval_min),
        resend_ms_max: millis(membership.peers.notification_interval_max),
        finalize_ms: 200,
        retry_ms: 100,
        history: HistoryLimits {
            entries: config.storage.commit_log_count as usize,
            bytes: membership.observers.master_history_bytes as usize,
        },
        send_window: 1 << 20,
        proposal_bytes_max: config.limits.transaction_bytes_max(),
        observer: observer_settings(config, seed),
        last_counter: zebu_zab::LAST_COUNTER,
        dynamic_config: dynamic,
        slow_disk_ms: config.storage.room.slow.map(millis),
        announcement: Some(PeerAnnouncement::CURRENT),
    }
}

/// The observer settings, for this server if it is an observer, and for those that it serves.
fn observer_settings(config: &ServerConfig, seed: u64) -> ObserverSettings {
    let observers = &config.membership.observers;
    ObserverSettings {
        log: if observers.sync_enabled { ObserverLog::OnDisk } else { ObserverLog::InMemory },
        masters: match observers.master_port {
            Some(_) => ObserverMasters::Followers,
            None => ObserverMasters::LeaderOnly,
        },
        election_delay_ms: millis(observers.election_delay),
        reconnect_delay_ms: millis(observers.reconnect_delay),
        seed,
    }
}

/// The options of the transaction log.
fn log_options(storage: &StorageConfig, directories: &Directories) -> LogOptions {
    let mut options = LogOptions::new(directories.logs(), directories.snapshots());
    options.preallocate = storage.preallocation.0.min(PREALLOCATE_MAX);
    options.size_max = storage.txn_log_size_limit.map(|ByteCount(bytes)| bytes);
    options.force_sync = if storage.force_sync { ForceSync::Yes } else { ForceSync::No };
    options
}

/// The settings of the disk worker.
pub(crate) fn disk_settings(
    config: &ServerConfig,
    directories: &Directories,
    hash_seed: u64,
) -> DiskSettings {
    DiskSettings {
        log: log_options(&config.storage, directories),
        tree: tree_options(config, hash_seed),
        write_bytes: WRITE_BYTES,
    }
}

/// The directory and the format of snapshots.
pub(crate) fn snapshot_store(storage: &StorageConfig, directories: &Directories) -> SnapshotStore<FileDisk> {
    let compression = match storage.snapshot_compression {
        SnapshotCompression::None => Compression::Plain,
        SnapshotCompression::Gzip => Compression::Gzip,
        SnapshotCompression::Snappy => Compression::Snappy,
    };
    let sections = match (storage.digest_enabled, storage.snapshot_zxid_trailer) {
        (false, _) => SnapshotSections::None,
        (true, false) => SnapshotSections::Digest,
        (true, true) => SnapshotSections::DigestAndLastZxid,
    };
    SnapshotStore::new(FileDisk, directories, compression, sections)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::membership::DeploymentMode;

    #[test]
    fn voters_share_the_requests_that_may_be_on_their_way() {
        let with = |voters: i64, me: i64| {
            let mut config = ServerConfig::built_in();
            config.membership.my_id = Some(ServerId(me));
            for id in 1..=voters + 1 {
                let role = if id <= voters { "participant" } else { "observer" };
                let line = format!("host:2888:3888:{role};2181");
                let member = zebu_zab::membership::parse_server_spec(
                    &line,
                    zebu_zab::membership::MultiAddress::Disabled,
                )
                .unwrap();
                config.membership.members.insert(ServerId(id), member);
            }
            outstanding_requests_max(&config)
        };
        assert_eq!((with(2, 1), with(3, 1), with(5, 2), with(5, 6)), (1000, 500, 250, 1000));
        assert_eq!(outstanding_requests_max(&ServerConfig::built_in()), 1000);
    }

    #[test]
    fn upgrading_matters_to_local_sessions_only() {
        let mut config = ServerConfig::built_in();
        let support = |config: &ServerConfig| node_settings(config, 1).local_sessions;
        assert_eq!(support(&config), LocalSessionSupport::Off);
        config.sessions.local_session_upgrade = true;
        assert_eq!(support(&config), LocalSessionSupport::Off);
        config.sessions.local_sessions = true;
        assert_eq!(support(&config), LocalSessionSupport::WithUpgrade);
        config.sessions.local_session_upgrade = false;
        assert_eq!(support(&config), LocalSessionSupport::WithoutUpgrade);
    }

    #[test]
    fn a_leader_is_to_be_reached_within_the_limit_for_that_or_else_within_the_smaller_one() {
        let mut config = ServerConfig::built_in();
        config.sessions.tick_time = Duration::from_millis(500);
        config.membership.peers.connect_timeout = Duration::from_millis(2600);
        config.membership.init_limit = Some(8);
        config.membership.sync_limit = Some(9);
        let limits = |config: &ServerConfig| {
            let settings = peer_settings(config, None, 1);
            (settings.init_limit, settings.connect_limit)
        };
        assert_eq!(limits(&config), (8, 8), "never longer than for the beginning");
        config.membership.sync_limit = Some(7);
        assert_eq!(limits(&config), (8, 7));
        config.membership.sync_limit = Some(4);
        assert_eq!(limits(&config), (8, 6), "time for one attempt");
        config.membership.connect_limit = Some(3);
        assert_eq!(limits(&config), (8, 3));
    }

    #[test]
    fn a_member_reads_alone_after_a_tick_or_two_seconds() {
        let mut config = ServerConfig::built_in();
        let mut after_ms = |deployment, read_only_mode, tick_ms| {
            config.membership.deployment = deployment;
            config.read_only_mode = read_only_mode;
            config.sessions.tick_time = Duration::from_millis(tick_ms);
            node_settings(&config, 1).read_only_after_ms
        };
        assert_eq!(after_ms(DeploymentMode::Ensemble, true, 500), Some(2000));
        assert_eq!(after_ms(DeploymentMode::Ensemble, true, 3000), Some(3000));
        assert_eq!(after_ms(DeploymentMode::Ensemble, false, 3000), None);
        assert_eq!(after_ms(DeploymentMode::Standalone, true, 3000), None);
    }
}
