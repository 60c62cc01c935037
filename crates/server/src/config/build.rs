//! Converts settings to the parts of `ServerConfig`, one function per part.
//! `ServerConfig::standalone` defines the defaults.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::admin;
use super::diagnostics::SettingOrigin;
use super::exporter;
use super::feeds;
use super::freshness;
use super::keeper;
use super::listen::{client_address, listen};
use super::listings;
use super::load::SystemAccess;
use super::log_diff_limit::read_log_diff_limit;
use super::membership::MembershipConfig;
use super::path_reading::{choose_directory, utf8_reading};
use super::security;
use super::server_config::{
    AuthConfig, AuthDigestAlgorithm, BindAddress, ByteCount, ConfigSource, ContainerConfig,
    FourLetterWhitelist, LimitConfig, PurgeInterval, ServerConfig, SnapshotCompression, StorageConfig,
    SuperDigest, TreeConfig,
};
use super::session_config::SessionConfig;
use super::setting_reader::{INT_MAX, NumberUnit, SettingReader, parse_number};
use super::sources::RawSetting;
use super::throttle_config::{ConnectionThrottleConfig, ConnectionWeights, RequestThrottleConfig};
use crate::four_letter::FourLetterWord;

/// ZooKeeper's default.
const DEFAULT_TICK: Duration = Duration::from_millis(3000);
/// Fewer are not kept: one snapshot may be damaged, and one may be incomplete.
const MIN_RETAINED_SNAPSHOTS: u32 = 3;
const MIN_COMMIT_LOG: u32 = 500;

/// The data directory; empty if it is missing, which has been reported.
pub(super) fn data_dir(reader: &mut SettingReader<'_>, system: &dyn SystemAccess) -> PathBuf {
    match reader.get("dataDir").filter(|setting| !setting.value.is_empty()) {
        Some(setting) => directory(reader, "dataDir", setting, system),
        None => {
            let text = "dataDir is not set; it names the directory for snapshots and myid";
            reader.diagnostics.error(&reader.origin("dataDir"), text);
            PathBuf::new()
        }
    }
}

/// Reads a directory. Notes both readings of a name that is not ASCII.
fn directory(
    reader: &mut SettingReader<'_>,
    key: &str,
    setting: &RawSetting,
    system: &dyn SystemAccess,
) -> PathBuf {
    let in_file = matches!(setting.origin, SettingOrigin::Line { .. });
    let Some(written) = utf8_reading(&setting.value).filter(|_| in_file) else {
        return PathBuf::from(&setting.value);
    };
    let chosen = choose_directory(&setting.value, |path| system.is_directory(path));
    let others = if chosen == Path::new(&written) { "ZooKeeper" } else { "readers of UTF-8" };
    let other = if chosen == Path::new(&written) { &setting.value } else { &written };
    let text = format!(
        "{key} is not ASCII: {} is used, {others} would take it for {other}. Write other letters as \\uXXXX, which has \
         one meaning",
        chosen.display()
    );
    reader.diagnostics.warn(&setting.origin, text);
    chosen
}

/// Reads all parts.
pub(super) fn server_config(
    reader: &mut SettingReader<'_>,
    source: &ConfigSource,
    data_dir: &Path,
    membership: MembershipConfig,
    system: &dyn SystemAccess,
) -> ServerConfig {
    let client = client_address(reader, source, &membership, system);
    let unset = BindAddress::AllInterfaces { port: 0 };
    let mut defaults = ServerConfig::standalone(data_dir, unset);
    defaults.listen.client = client;
    let read_only_mode = reader.loose_switch("readonlymode.enabled", false);
    if read_only_mode && !membership.is_ensemble() {
        let text = "readonlymode.enabled matters to members of an ensemble only";
        reader.diagnostics.note(&reader.origin("readonlymode.enabled"), text);
    }
    let always_answered = if read_only_mode { &["srvr", "isro"][..] } else { &["srvr"] };
    let security = security::security(reader, system);
    let admin = admin::read_admin(reader, system, security.quorum_tls.family.as_ref());
    ServerConfig {
        storage: storage(reader, defaults.storage, system),
        listen: listen(reader, defaults.listen),
        sessions: sessions(reader),
        limits: limits(reader),
        connection_throttle: connection_throttle(reader),
        request_throttle: request_throttle(reader),
        tree: tree(reader),
        auth: auth(reader),
        security,
        containers: containers(reader),
        traffic: super::traffic::read_traffic(reader),
        exporter: exporter::read_exporter(reader, system),
        feeds: feeds::read_feeds(reader),
        freshness: freshness::read_freshness(reader),
        keeper: keeper::read_keeper(reader),
        listings: listings::read_listings(reader),
        four_letter_words: whitelist(reader, always_answered),
        admin,
        read_only_mode,
        reconfig_enabled: reader.strict_switch("reconfigEnabled", false),
        membership,
        source: defaults.source,
        original_text: defaults.original_text,
        written_settings: defaults.written_settings,
    }
}

fn storage(
    reader: &mut SettingReader<'_>,
    defaults: StorageConfig,
    system: &dyn SystemAccess,
) -> StorageConfig {
    let data_log_dir = match reader.get("dataLogDir").filter(|setting| !setting.value.is_empty()) {
        Some(setting) => directory(reader, "dataLogDir", setting, system),
        None => defaults.data_log_dir,
    };
    let force_sync = !reader.is_keyword("forceSync", "no", "yes");
    if !force_sync {
        let text = "forceSync=no: writes are acknowledged before they are on disk and can be lost";
        reader.diagnostics.warn(&reader.origin("forceSync"), text);
    }
    StorageConfig {
        data_log_dir,
        create_directories: reader.loose_switch("datadir.autocreate", defaults.create_directories),
        snap_count: reader.count("snapCount", 0, NumberUnit::Count, defaults.snap_count).max(2),
        snap_size_limit: kilobytes(reader, "snapSizeLimitInKb", defaults.snap_size_limit),
        txn_log_size_limit: kilobytes(reader, "txnLogSizeLimitInKb", defaults.txn_log_size_limit),
        preallocation: preallocation(reader, defaults.preallocation),
        force_sync,
        fsync_warning_threshold: reader.millis(
            "fsync.warningthresholdms",
            0,
            defaults.fsync_warning_threshold,
        ),
        flush_delay: reader.millis("flushDelay", 0, defaults.flush_delay),
        max_batch_size: reader.count("maxBatchSize", 1, NumberUnit::Count, defaults.max_batch_size),
        commit_log_count: reader
            .count("commitLogCount", 0, NumberUnit::Count, defaults.commit_log_count)
            .max(MIN_COMMIT_LOG),
        log_diff_limit: read_log_diff_limit(reader),
        snapshot_compression: compression(reader),
        trust_empty_snapshot: reader.loose_switch("snapshot.trust.empty", defaults.trust_empty_snapshot),
        snapshot_zxid_trailer: reader
            .loose_switch("serializeLastProcessedZxid.enabled", defaults.snapshot_zxid_trailer),
        digest_enabled: reader.loose_switch("digest.enabled", defaults.digest_enabled),
        purge_interval: purge_interval(reader),
        snap_retain_count: snap_retain_count(reader),
        room: super::disk_room::read_disk_room(reader),
        data_dir: defaults.data_dir,
    }
}

fn kilobytes(reader: &mut SettingReader<'_>, key: &str, default: Option<ByteCount>) -> Option<ByteCount> {
    match reader.number(key, i64::MIN / 2048..=i64::MAX / 2048, NumberUnit::Kilobytes) {
        None => default,
        Some(number) => u64::try_from(number).ok().filter(|&kib| kib > 0).map(ByteCount::from_kib),
    }
}

/// ZooKeeper ignores a wrong number here, and so does Zebu.
fn preallocation(reader: &mut SettingReader<'_>, default: ByteCount) -> ByteCount {
    let Some(setting) = reader.get("preAllocSize") else { return default };
    match parse_number(&setting.value).and_then(|kib| u64::try_from(kib).ok()).filter(|&kib| kib > 0) {
        Some(kib) => ByteCount::from_kib(kib),
        None => {
            let text = format!(
                "preAllocSize = \"{}\" is not a number of kilobytes above 0; {} is used",
                setting.value,
                default.0 / 1024
            );
            reader.diagnostics.warn(&setting.origin, text);
            default
        }
    }
}

fn compression(reader: &mut SettingReader<'_>) -> SnapshotCompression {
    let Some(setting) = reader.get("snapshot.compression.method") else { return SnapshotCompression::None };
    match setting.value.as_str() {
        "" => SnapshotCompression::None,
        "gz" => SnapshotCompression::Gzip,
        "snappy" => SnapshotCompression::Snappy,
        other => {
            let text = format!(
                "snapshot.compression.method = \"{other}\" is unknown, snapshots are not compressed; \
                 allowed: gz, snappy"
            );
            reader.diagnostics.warn(&setting.origin, text);
            SnapshotCompression::None
        }
    }
}

/// Parses hours, or a number with `ms`, `s`, `m`, `h` or `d`.
fn purge_interval(reader: &mut SettingReader<'_>) -> PurgeInterval {
    let key = "autopurge.purgeInterval";
    let Some(setting) = reader.get(key) else { return PurgeInterval::Unset };
    let digits_end = setting.value.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(setting.value.len());
    let (digits, suffix) = setting.value.split_at(digits_end);
    let unit_millis = match suffix {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "" | "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let millis = unit_millis.zip(digits.trim().parse::<i64>().ok());
    if millis.is_some() && !suffix.is_empty() {
        let text = format!(
            "{key} = \"{}\": ZooKeeper 3.9 takes a number of hours without a unit and would not start",
            setting.value
        );
        reader.diagnostics.note(&setting.origin, text);
    }
    match millis.and_then(|(unit, number)| number.checked_mul(unit)) {
        Some(millis) => match u64::try_from(millis) {
            Ok(millis) if millis > 0 => PurgeInterval::Every(Duration::from_millis(millis)),
            Ok(_) | Err(_) => PurgeInterval::Off,
        },
        None => {
            reader.report_invalid(
                key,
                setting,
                "a number of hours, or a number with ms, s, m, h or d; 0 = off",
            );
            PurgeInterval::Unset
        }
    }
}

fn snap_retain_count(reader: &mut SettingReader<'_>) -> u32 {
    let key = "autopurge.snapRetainCount";
    let number = reader.number(key, -INT_MAX..=INT_MAX, NumberUnit::Count);
    let Some(number) = number else { return MIN_RETAINED_SNAPSHOTS };
    if number < i64::from(MIN_RETAINED_SNAPSHOTS) {
        let text = format!("{key} = {number} is too small; {MIN_RETAINED_SNAPSHOTS} is used");
        reader.diagnostics.warn(&reader.origin(key), text);
    }
    u32::try_from(number).unwrap_or(0).max(MIN_RETAINED_SNAPSHOTS)
}

fn sessions(reader: &mut SettingReader<'_>) -> SessionConfig {
    // 20 ticks must fit into a 32-bit number of milliseconds, ZooKeeper's type of a timeout.
    let tick = reader.number("tickTime", 1..=INT_MAX / 20, NumberUnit::Milliseconds);
    let tick_time =
        tick.and_then(|tick| u64::try_from(tick).ok()).map_or(DEFAULT_TICK, Duration::from_millis);
    let mut sessions = SessionConfig::with_tick(tick_time);
    sessions.min_timeout = session_timeout(reader, "minSessionTimeout", sessions.min_timeout);
    sessions.max_timeout = session_timeout(reader, "maxSessionTimeout", sessions.max_timeout);
    if sessions.min_timeout > sessions.max_timeout {
        let text = format!(
            "minSessionTimeout must not be larger than maxSessionTimeout; they are {} and {} milliseconds",
            sessions.min_timeout.as_millis(),
            sessions.max_timeout.as_millis()
        );
        let key =
            if reader.get("minSessionTimeout").is_some() { "minSessionTimeout" } else { "maxSessionTimeout" };
        reader.diagnostics.error(&reader.origin(key), text);
    }
    sessions.local_sessions = reader.strict_switch("localSessionsEnabled", false);
    sessions.local_session_upgrade = reader.strict_switch("localSessionsUpgradingEnabled", false);
    sessions.election_grace = reader.millis("zebu.electionGrace", 0, sessions.election_grace);
    sessions.drain_time = reader.millis("zebu.drainTime", 0, sessions.drain_time);
    sessions
}

/// -1 stands for the default.
fn session_timeout(reader: &mut SettingReader<'_>, key: &str, default: Duration) -> Duration {
    match reader.number(key, -1..=INT_MAX, NumberUnit::Milliseconds) {
        Some(number) => u64::try_from(number).map_or(default, Duration::from_millis),
        None => default,
    }
}

/// Least bytes by which a transaction may exceed a frame.
const JUTE_EXTRA_SIZE_MIN: u32 = 1024;

fn limits(reader: &mut SettingReader<'_>) -> LimitConfig {
    let defaults = LimitConfig::default();
    let jute_max_buffer = reader.count("jute.maxbuffer", 1, NumberUnit::Bytes, defaults.jute_max_buffer);
    // As in ZooKeeper: the frame length again, and never less than this.
    let jute_extra_size = reader
        .count("jute.maxbuffer.extrasize", 0, NumberUnit::Bytes, jute_max_buffer)
        .max(JUTE_EXTRA_SIZE_MIN);
    LimitConfig {
        jute_max_buffer,
        jute_extra_size,
        global_outstanding_limit: global_outstanding_limit(reader, defaults.global_outstanding_limit),
        large_request_threshold: reader.limit(
            "largeRequestThreshold",
            NumberUnit::Bytes,
            defaults.large_request_threshold,
        ),
        large_request_max_bytes: reader.count(
            "largeRequestMaxBytes",
            1,
            NumberUnit::Bytes,
            defaults.large_request_max_bytes,
        ),
    }
}

/// ZooKeeper starts with 0, and then processes one request at a time.
fn global_outstanding_limit(reader: &mut SettingReader<'_>, default: u32) -> u32 {
    let key = "globalOutstandingLimit";
    let limit = reader.count(key, 0, NumberUnit::Count, default);
    if limit == 0 {
        reader.diagnostics.warn(&reader.origin(key), format!("{key} = 0 is too small; 1 is used"));
    }
    limit.max(1)
}

fn connection_throttle(reader: &mut SettingReader<'_>) -> ConnectionThrottleConfig {
    let defaults = ConnectionThrottleConfig::default();
    ConnectionThrottleConfig {
        tokens: reader.limit("connection_throttle_tokens", NumberUnit::Count, defaults.tokens),
        fill_time: reader.millis("connection_throttle_fill_time", 1, defaults.fill_time),
        fill_count: reader.count("connection_throttle_fill_count", 1, NumberUnit::Count, defaults.fill_count),
        freeze_time: reader.optional_millis("connection_throttle_freeze_time", defaults.freeze_time),
        drop_increase: reader.fraction("connection_throttle_drop_increase", defaults.drop_increase),
        drop_decrease: reader.fraction("connection_throttle_drop_decrease", defaults.drop_decrease),
        decrease_ratio: reader.fraction("connection_throttle_decrease_ratio", defaults.decrease_ratio),
        weights: connection_weights(reader),
    }
}

fn connection_weights(reader: &mut SettingReader<'_>) -> Option<ConnectionWeights> {
    let weights = ConnectionWeights {
        global_session: reader.count("connection_throttle_global_session_weight", 1, NumberUnit::Count, 3),
        local_session: reader.count("connection_throttle_local_session_weight", 1, NumberUnit::Count, 1),
        renew_session: reader.count("connection_throttle_renew_session_weight", 1, NumberUnit::Count, 2),
    };
    if !reader.loose_switch("connection_throttle_weight_enabled", false) {
        return None;
    }
    if weights.local_session > weights.renew_session || weights.local_session > weights.global_session {
        let text = format!(
            "the local session weight {} must not be larger than the renew weight {} \
             and the global weight {}",
            weights.local_session, weights.renew_session, weights.global_session
        );
        reader.diagnostics.error(&reader.origin("connection_throttle_local_session_weight"), text);
    }
    Some(weights)
}

fn request_throttle(reader: &mut SettingReader<'_>) -> RequestThrottleConfig {
    let defaults = RequestThrottleConfig::default();
    RequestThrottleConfig {
        max_requests: reader.limit("request_throttle_max_requests", NumberUnit::Count, defaults.max_requests),
        throttled_op_wait_time: reader
            .optional_millis("throttled_op_wait_time", defaults.throttled_op_wait_time),
    }
}

fn tree(reader: &mut SettingReader<'_>) -> TreeConfig {
    let skip_acl = reader.is_keyword("skipACL", "yes", "no");
    if skip_acl {
        let text = "skipACL=yes: no access control list is checked, every client may do everything";
        reader.diagnostics.warn(&reader.origin("skipACL"), text);
    }
    TreeConfig {
        extended_types: reader.loose_switch("extendedTypesEnabled", false),
        emulate_353_ttl: reader.loose_switch("emulate353TTLNodes", false),
        enforce_quota: reader.loose_switch("enforceQuota", false),
        skip_acl,
    }
}

fn auth(reader: &mut SettingReader<'_>) -> AuthConfig {
    let digest_provider = reader.loose_switch("DigestAuthenticationProvider.enabled", true);
    AuthConfig {
        digest_provider,
        digest_algorithm: digest_algorithm(reader),
        super_digest: super_digest(reader),
        required_schemes: security::providers::required_schemes(reader, digest_provider),
    }
}

fn digest_algorithm(reader: &mut SettingReader<'_>) -> AuthDigestAlgorithm {
    let key = "DigestAuthenticationProvider.digestAlg";
    let Some(setting) = reader.get(key) else { return AuthDigestAlgorithm::Sha1 };
    match setting.value.to_ascii_uppercase().as_str() {
        "MD5" => AuthDigestAlgorithm::Md5,
        "SHA1" | "SHA-1" | "SHA" => AuthDigestAlgorithm::Sha1,
        "SHA-224" => AuthDigestAlgorithm::Sha224,
        "SHA-256" => AuthDigestAlgorithm::Sha256,
        "SHA-384" => AuthDigestAlgorithm::Sha384,
        "SHA-512" => AuthDigestAlgorithm::Sha512,
        "SHA3-224" => AuthDigestAlgorithm::Sha3With224,
        "SHA3-256" => AuthDigestAlgorithm::Sha3With256,
        "SHA3-384" => AuthDigestAlgorithm::Sha3With384,
        "SHA3-512" => AuthDigestAlgorithm::Sha3With512,
        _ => {
            reader.report_invalid(key, setting, "MD5, SHA1, SHA-224 to SHA-512, SHA3-224 to SHA3-512");
            AuthDigestAlgorithm::Sha1
        }
    }
}

/// The value is a secret and stays out of messages.
fn super_digest(reader: &mut SettingReader<'_>) -> Option<SuperDigest> {
    let key = "DigestAuthenticationProvider.superDigest";
    let setting = reader.get(key).filter(|setting| !setting.value.is_empty())?;
    let well_formed =
        setting.value.split_once(':').is_some_and(|(user, digest)| !user.is_empty() && !digest.is_empty());
    if !well_formed {
        let text = format!("{key} does not have the form user:base64 of the hash of user:password");
        reader.diagnostics.error(&setting.origin, text);
        return None;
    }
    Some(SuperDigest(setting.value.clone()))
}

fn containers(reader: &mut SettingReader<'_>) -> ContainerConfig {
    let defaults = ContainerConfig::default();
    ContainerConfig {
        check_interval: reader.millis("znode.container.checkIntervalMs", 1, defaults.check_interval),
        max_per_minute: reader.count(
            "znode.container.maxPerMinute",
            1,
            NumberUnit::Count,
            defaults.max_per_minute,
        ),
        max_never_used: reader
            .optional_millis("znode.container.maxNeverUsedIntervalMs", defaults.max_never_used),
    }
}

fn whitelist(reader: &mut SettingReader<'_>, always_answered: &[&str]) -> FourLetterWhitelist {
    let listed = reader.get("4lw.commands.whitelist").map_or("", |setting| &setting.value);
    let mut words: Vec<String> = Vec::new();
    let is_all = listed.split(',').any(|word| word.trim() == "*");
    for word in listed.split(',').map(str::trim) {
        let known = FourLetterWord::from_name(word);
        if is_all {
            // The wildcard includes the other words.
            words.extend(known.filter(|word| !word.matches_wildcard()).map(|word| word.name().to_owned()));
        } else if known.is_none() && !word.is_empty() {
            let text = format!("4lw.commands.whitelist lists \"{word}\", which is not a four-letter word");
            reader.diagnostics.warn(&reader.origin("4lw.commands.whitelist"), text);
        } else if !word.is_empty() && !words.iter().any(|listed| listed == word) {
            words.push(word.to_owned());
        }
    }
    if is_all {
        return FourLetterWhitelist::All(words);
    }
    for word in always_answered {
        if !words.iter().any(|listed| listed == word) {
            words.push((*word).to_owned());
        }
    }
    FourLetterWhitelist::Only(words)
}
