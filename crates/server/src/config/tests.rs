//! Loads whole configurations and checks values and messages.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::ServerId;

use super::membership::{QuorumRuleConfig, Role};
use super::observers::ObserverConfig;
use super::security::audit::{AuditFailurePolicy, AuditFormat, AuditLogConfig, AuditTarget};
use super::*;
use crate::four_letter::FourLetterWord;
use crate::rotated_file::RotatedFileConfig;

mod admin;
mod client_sasl;
mod members;
mod quorum_sasl;
mod tls;

const BASE: &str = "tickTime=2000\ndataDir=/data\nclientPort=2181\n";

/// A system that exists only in the test.
#[derive(Default)]
struct FakeSystem {
    files: BTreeMap<PathBuf, String>,
}

impl SystemAccess for FakeSystem {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let text = self.files.get(path).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(text.clone().into_bytes())
    }

    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        match host {
            "zk1.example" => Ok(vec!["10.0.0.1".parse().unwrap()]),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.files.keys().any(|file| file.starts_with(path) && file != path)
    }

    fn interface_index(&self, zone: &str) -> io::Result<u32> {
        match zone {
            "eth0" => Ok(2),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }
}

struct ConfigCase {
    machine: FakeSystem,
    inputs: ConfigInputs,
}

fn file(text: &str) -> ConfigCase {
    let mut machine = FakeSystem::default();
    machine.files.insert(PathBuf::from("zoo.cfg"), text.to_owned());
    let inputs = ConfigInputs {
        arguments: vec!["zoo.cfg".to_owned()],
        properties: Vec::new(),
        environment: Environment::default(),
    };
    ConfigCase { machine, inputs }
}

fn with_base(text: &str) -> ConfigCase {
    file(&format!("{BASE}{text}"))
}

fn arguments(words: &[&str]) -> ConfigCase {
    let mut case = file("");
    case.inputs.arguments = words.iter().map(|word| (*word).to_owned()).collect();
    case
}

impl ConfigCase {
    fn word(mut self, word: &str) -> ConfigCase {
        self.inputs.properties.push(word.to_owned());
        self
    }

    fn variable(mut self, name: &str, value: &str) -> ConfigCase {
        self.inputs.environment.0.insert(name.to_owned(), value.to_owned());
        self
    }

    fn other_file(mut self, path: &str, text: &str) -> ConfigCase {
        self.machine.files.insert(PathBuf::from(path), text.to_owned());
        self
    }

    fn load(&self) -> LoadedConfig {
        load(&self.inputs, &self.machine)
    }

    #[track_caller]
    fn config(&self) -> ServerConfig {
        let loaded = self.load();
        loaded.config.unwrap_or_else(|| panic!("errors: {:#?}", loaded.diagnostics.errors))
    }

    /// The configuration; fails if there are diagnostics.
    #[track_caller]
    fn clean(&self) -> ServerConfig {
        assert_eq!(self.load().diagnostics, ConfigDiagnostics::default());
        self.config()
    }

    #[track_caller]
    fn errors(&self, expected: &[&str]) {
        let loaded = self.load();
        assert_eq!(texts(&loaded.diagnostics.errors), expected);
        assert_eq!(loaded.config, None);
    }

    #[track_caller]
    fn warnings(&self, expected: &[&str]) {
        assert_eq!(texts(&self.load().diagnostics.warnings), expected);
    }

    #[track_caller]
    fn notes(&self, expected: &[&str]) {
        assert_eq!(texts(&self.load().diagnostics.notes), expected);
    }
}

fn texts(diagnostics: &[ConfigDiagnostic]) -> Vec<String> {
    diagnostics.iter().map(ToString::to_string).collect()
}

fn address(text: &str) -> BindAddress {
    BindAddress::Address(text.parse().unwrap())
}

/// A server inside another program has no admin server and no written settings.
fn without_admin(config: ServerConfig) -> ServerConfig {
    assert!(config.admin.is_some() && !config.written_settings.0.is_empty());
    ServerConfig { admin: None, written_settings: WrittenSettings::default(), ..config }
}

#[test]
fn the_smallest_file_gives_the_defaults() {
    let case = file(BASE);
    let mut expected =
        ServerConfig::standalone(Path::new("/data"), BindAddress::AllInterfaces { port: 2181 });
    expected.source = ConfigSource::File(PathBuf::from("zoo.cfg"));
    expected.original_text = OriginalText(BASE.to_owned());
    assert_eq!(without_admin(case.clean()), expected);
    assert_eq!(expected.storage.snapshot_dir(), Path::new("/data/version-2"));
}

#[test]
fn the_sample_file_of_zookeeper_is_clean() {
    with_base("# a comment\ninitLimit=10\nsyncLimit=5\n#maxClientCnxns=60\nautopurge.purgeInterval=1\n")
        .clean();
}

#[test]
fn built_in_configuration() {
    let config = arguments(&[]).clean();
    assert_eq!(without_admin(config.clone()), ServerConfig::built_in());
    assert_eq!(config.listen.client, Some(address("127.0.0.1:2181")));
    let tuned = arguments(&[]).word("zookeeper.snapCount=5000").clean();
    assert_eq!(tuned.storage.snap_count, 5000);
}

#[test]
fn positional_arguments() {
    let config = arguments(&["2182", "/tmp/data"]).clean();
    assert_eq!(config.source, ConfigSource::Arguments);
    assert_eq!(config.listen.client, Some(BindAddress::AllInterfaces { port: 2182 }));
    assert_eq!(config.listen.max_connections_per_address, None);
    assert_eq!(config.sessions.tick_time, Duration::from_millis(3000));
    let config = arguments(&["0", "/tmp/data", "500", "7"]).clean();
    assert_eq!(config.listen.client.unwrap().port(), 0);
    assert_eq!(config.sessions.max_timeout, Duration::from_secs(10));
    assert_eq!(config.listen.max_connections_per_address, Some(7));
    arguments(&["x", "/tmp/data"])
        .errors(&["command line: clientPort = \"x\" is not valid; allowed: 0 to 65535 (a TCP port)"]);
    arguments(&["1", "2", "3", "4", "5"]).errors(&["command line: 5 arguments are too many; \
         allowed: zoo.cfg, or port dataDir [tickTime] [maxClientCnxns]"]);
}

#[test]
fn missing_file_and_missing_keys() {
    arguments(&["none.cfg"]).errors(&["none.cfg: the configuration file cannot be read: entity not found"]);
    file("tickTime=2000\n").errors(&[
        "zoo.cfg: dataDir is not set; it names the directory for snapshots and myid",
        "zoo.cfg: clientPort is not set; without it nobody can connect",
    ]);
    file("dataDir=/data\nclientPort=0\n")
        .errors(&["zoo.cfg:2: clientPort is not set; without it nobody can connect"]);
    file("a=\\u12\n").errors(&["zoo.cfg:1: \\u must be followed by four hexadecimal digits"]);
}

#[test]
fn wrong_values_name_line_key_value_and_what_is_allowed() {
    for (line, message) in [
        (
            "tickTime=2000 # two",
            "tickTime = \"2000 # two\" is not valid; allowed: 1 to 107374182 milliseconds",
        ),
        ("tickTime=0", "tickTime = \"0\" is not valid; allowed: 1 to 107374182 milliseconds"),
        ("clientPort=65536", "clientPort = \"65536\" is not valid; allowed: 0 to 65535 (a TCP port)"),
        ("reconfigEnabled=yes", "reconfigEnabled = \"yes\" is not valid; allowed: true or false"),
        ("electionAlg=1", "electionAlg = \"1\" is not valid; allowed: only 3"),
        ("peerType=voter", "peerType = \"voter\" is not valid; allowed: participant or observer"),
        ("snapCount=-7", "snapCount = \"-7\" is not valid; allowed: 0 to 2147483647"),
        ("jute.maxbuffer=0", "jute.maxbuffer = \"0\" is not valid; allowed: 1 to 2147483647 bytes"),
        (
            "connection_throttle_drop_increase=2",
            "connection_throttle_drop_increase = \"2\" is not valid; allowed: a decimal number from 0 to 1",
        ),
        (
            "autopurge.purgeInterval=1w",
            "autopurge.purgeInterval = \"1w\" is not valid; \
             allowed: a number of hours, or a number with ms, s, m, h or d; 0 = off",
        ),
        (
            "DigestAuthenticationProvider.digestAlg=CRC",
            "DigestAuthenticationProvider.digestAlg = \"CRC\" is not valid; \
             allowed: MD5, SHA1, SHA-224 to SHA-512, SHA3-224 to SHA3-512",
        ),
        (
            "DigestAuthenticationProvider.superDigest=geheim",
            "DigestAuthenticationProvider.superDigest does not have the form \
             user:base64 of the hash of user:password",
        ),
        ("enforce.auth.enabled=yes", "enforce.auth.enabled = \"yes\" is not valid; allowed: true or false"),
        (
            "enforce.auth.enabled=true",
            "enforce.auth.enabled is true but enforce.auth.schemes is not set; name at least one scheme",
        ),
        (
            "minSessionTimeout=50000",
            "minSessionTimeout must not be larger than maxSessionTimeout; \
             they are 50000 and 40000 milliseconds",
        ),
        (
            "maxSessionTimeout=1000",
            "minSessionTimeout must not be larger than maxSessionTimeout; \
             they are 4000 and 1000 milliseconds",
        ),
    ] {
        let loaded = with_base(line).load();
        let errors: Vec<_> =
            loaded.diagnostics.errors.iter().map(|diagnostic| diagnostic.text.as_str()).collect();
        assert_eq!(errors, [message], "{line}");
        assert_eq!(loaded.config, None, "{line}");
    }
    with_base("tickTime=abc\n")
        .errors(&["zoo.cfg:4: tickTime = \"abc\" is not valid; allowed: 1 to 107374182 milliseconds"]);
}

#[test]
fn all_mistakes_are_found_at_once_in_the_order_of_the_file() {
    file("tickTime=x\nclientPort=y\ndataDir=/data\nsnapCount=-1\n").errors(&[
        "zoo.cfg:1: tickTime = \"x\" is not valid; allowed: 1 to 107374182 milliseconds",
        "zoo.cfg:2: clientPort = \"y\" is not valid; allowed: 0 to 65535 (a TCP port)",
        "zoo.cfg:4: snapCount = \"-1\" is not valid; allowed: 0 to 2147483647",
    ]);
}

#[test]
fn client_address() {
    let client = |text: &str| file(&format!("dataDir=/data\n{text}")).config().listen.client.unwrap();
    assert_eq!(client("clientPort=1"), BindAddress::AllInterfaces { port: 1 });
    assert_eq!(client("clientPort=1\nclientPortAddress=10.0.0.9"), address("10.0.0.9:1"));
    assert_eq!(client("clientPort=1\nclientPortAddress=::1"), address("[::1]:1"));
    assert_eq!(client("clientPort=1\nclientPortAddress=[::1]"), address("[::1]:1"));
    assert_eq!(client("clientPort=1\nclientPortAddress=zk1.example"), address("10.0.0.1:1"));
    assert_eq!(client("clientPort=1\nclientPortAddress=fe80::1%eth0"), address("[fe80::1%2]:1"));
    assert_eq!(client("clientPort=1\nclientPortAddress=[fe80::1%eth0]"), address("[fe80::1%2]:1"));
    with_base("clientPortAddress=fe80::1%eth1").errors(&[
        "zoo.cfg:4: clientPortAddress = \"fe80::1%eth1\" names a zone that is no network interface of this machine",
    ]);
    with_base("clientPortAddress=nowhere.example").errors(&[
        "zoo.cfg:4: clientPortAddress = \"nowhere.example\" is neither an address nor a name that resolves",
    ]);
    file("dataDir=/data\nclientPortAddress=::1")
        .errors(&["zoo.cfg:2: clientPortAddress is set but clientPort is not; set both or neither"]);
}

#[test]
fn storage_values() {
    let storage = with_base(
        "dataLogDir=/log\nsnapCount=1\nsnapSizeLimitInKb=-1\ntxnLogSizeLimitInKb=64\npreAllocSize=1024\n\
         fsync.warningthresholdms=20\nsnapshot.compression.method=snappy\nsnapshot.trust.empty=TRUE\n\
         digest.enabled=false\nautopurge.snapRetainCount=5\ncommitLogCount=7\nsnapshotSizeFactor=0.5\ndatadir.autocreate=false\n\
         ",
    )
    .clean()
    .storage;
    let mut expected = StorageConfig::with_defaults(Path::new("/data"));
    expected.data_log_dir = PathBuf::from("/log");
    expected.snap_count = 2;
    expected.snap_size_limit = None;
    expected.txn_log_size_limit = Some(ByteCount(65_536));
    expected.preallocation = ByteCount(1_048_576);
    expected.fsync_warning_threshold = Duration::from_millis(20);
    expected.snapshot_compression = SnapshotCompression::Snappy;
    expected.trust_empty_snapshot = true;
    expected.digest_enabled = false;
    expected.snap_retain_count = 5;
    expected.log_diff_limit = LogDiffLimit::SnapshotFraction { thousandths: 500 };
    expected.create_directories = false;
    assert_eq!(storage, expected);
    assert_eq!(storage.log_dir(), Path::new("/log/version-2"));
}

#[test]
fn purge_intervals() {
    let interval =
        |value: &str| with_base(&format!("autopurge.purgeInterval={value}")).config().storage.purge_interval;
    assert_eq!(file(BASE).config().storage.purge_interval, PurgeInterval::Unset);
    assert_eq!(interval("0"), PurgeInterval::Off);
    assert_eq!(interval("-1"), PurgeInterval::Off);
    for (value, seconds) in
        [("24", 86_400), ("1h", 3600), ("90s", 90), ("5000ms", 5), ("2m", 120), ("1d", 86_400)]
    {
        assert_eq!(interval(value), PurgeInterval::Every(Duration::from_secs(seconds)), "{value}");
    }
    // ZooKeeper's 32-bit milliseconds would overflow here.
    assert_eq!(interval("1000"), PurgeInterval::Every(Duration::from_secs(3_600_000)));
}

#[test]
fn limits_and_throttles() {
    let config = with_base(
        "maxClientCnxns=0\nmaxCnxns=-5\nclientPortListenBacklog=128\nminSessionTimeout=-1\n\
         maxSessionTimeout=90000\nglobalOutstandingLimit=50\nlargeRequestThreshold=1000\n\
         request_throttle_max_requests=9\nthrottled_op_wait_time=10\nconnection_throttle_tokens=20\n\
         connection_throttle_weight_enabled=true\nconnection_throttle_freeze_time=100\n\
         nio.sessionlessCnxnTimeout=500\nclientTcpKeepAlive=true\n",
    )
    .word("jute.maxbuffer=0x9fffff")
    .word("znode.container.checkIntervalMs=1000")
    .clean();
    assert_eq!(config.listen.max_connections_per_address, None);
    assert_eq!(config.listen.max_connections, None);
    assert_eq!(config.listen.backlog, Some(128));
    assert_eq!(config.listen.sessionless_timeout, Duration::from_millis(500));
    assert!(config.listen.tcp_keep_alive);
    assert_eq!(config.sessions.min_timeout, Duration::from_secs(4));
    assert_eq!(config.sessions.max_timeout, Duration::from_secs(90));
    assert_eq!(config.limits.jute_max_buffer, 0x9f_ffff);
    assert_eq!(config.limits.global_outstanding_limit, 50);
    assert_eq!(config.limits.large_request_threshold, Some(1000));
    assert_eq!(config.request_throttle.max_requests, Some(9));
    assert_eq!(config.request_throttle.throttled_op_wait_time, Some(Duration::from_millis(10)));
    assert_eq!(config.connection_throttle.tokens, Some(20));
    assert_eq!(config.connection_throttle.freeze_time, Some(Duration::from_millis(100)));
    let weights = ConnectionWeights { global_session: 3, local_session: 1, renew_session: 2 };
    assert_eq!(config.connection_throttle.weights, Some(weights));
    assert_eq!(config.containers.check_interval, Duration::from_secs(1));
    assert_eq!(config.containers.max_never_used, None);
    with_base("connection_throttle_weight_enabled=true\nconnection_throttle_local_session_weight=3\n")
        .errors(&["zoo.cfg:5: the local session weight 3 must not be larger than the renew weight 2 \
           and the global weight 3"]);
    assert_eq!(with_base("largeRequestThreshold=0").clean().limits.large_request_threshold, None);
}

#[test]
fn tree_and_identities() {
    let config = with_base(
        "extendedTypesEnabled=true\nemulate353TTLNodes=true\nenforceQuota=true\n\
         DigestAuthenticationProvider.superDigest=super:xQJmxLMiHGwaqBvst5y6rkB6HQs=\n\
         DigestAuthenticationProvider.digestAlg=sha3-256\nenforce.auth.enabled=true\n\
         enforce.auth.schemes=digest, ip\nlocalSessionsEnabled=true\nreconfigEnabled=True\n",
    )
    .clean();
    let tree =
        TreeConfig { extended_types: true, emulate_353_ttl: true, enforce_quota: true, skip_acl: false };
    assert_eq!(config.tree, tree);
    assert_eq!(config.auth.digest_algorithm, AuthDigestAlgorithm::Sha3With256);
    assert_eq!(config.auth.required_schemes, Some(vec!["digest".to_owned(), "ip".to_owned()]));
    assert_eq!(config.auth.super_digest, Some(SuperDigest("super:xQJmxLMiHGwaqBvst5y6rkB6HQs=".to_owned())));
    assert!(!format!("{config:?}").contains("xQJmxLMiHGwaqBvst5y6rkB6HQs"));
    assert!(config.reconfig_enabled && config.sessions.local_sessions);
}

#[test]
fn lenient_switches_warn() {
    with_base("enforceQuota=yes\nforceSync=false\npreAllocSize=big\nsnapshot.compression.method=zip\n")
        .warnings(&[
            "zoo.cfg:4: enforceQuota = \"yes\" counts as false; write true or false",
            "zoo.cfg:5: forceSync = \"false\" counts as \"yes\"; write no or yes",
            "zoo.cfg:6: preAllocSize = \"big\" is not a number of kilobytes above 0; 65536 is used",
            "zoo.cfg:7: snapshot.compression.method = \"zip\" is unknown, snapshots are not compressed; \
             allowed: gz, snappy",
        ]);
    with_base("forceSync=no\nskipACL=yes\nautopurge.snapRetainCount=1\n").warnings(&[
        "zoo.cfg:4: forceSync=no: writes are acknowledged before they are on disk and can be lost",
        "zoo.cfg:5: skipACL=yes: no access control list is checked, every client may do everything",
        "zoo.cfg:6: autopurge.snapRetainCount = 1 is too small; 3 is used",
    ]);
    let storage = with_base("autopurge.snapRetainCount=1\nforceSync=no").config().storage;
    assert_eq!((storage.snap_retain_count, storage.force_sync), (3, false));
}

#[test]
fn audit_log() {
    assert_eq!(with_base("zebu.audit.file=/a").config().security.audit.log, None);
    let log =
        |text: &str| with_base(&format!("audit.enable=true\n{text}")).config().security.audit.log.unwrap();
    let defaults = AuditLogConfig {
        target: AuditTarget::ServerLog,
        format: AuditFormat::Text,
        on_failure: AuditFailurePolicy::Continue,
        extra_events: false,
    };
    assert_eq!(log("audit.impl.class=org.apache.zookeeper.audit.Slf4jAuditLogger"), defaults);
    let file = |path: &str, bytes_max, rotated_max| {
        AuditTarget::File(RotatedFileConfig { path: PathBuf::from(path), bytes_max, rotated_max })
    };
    assert_eq!(log("log.dir=/logs").target, file("/logs/zookeeper_audit.log", 10 << 20, 10));
    let all = log("log.dir=/logs\nzebu.audit.file=/a\nzebu.audit.fileBytes=4096\nzebu.audit.files=0\n\
                   zebu.audit.format=JSON\nzebu.audit.onFailure=refuseWrites\nzebu.audit.extraEvents=true");
    assert_eq!(
        all,
        AuditLogConfig {
            target: file("/a", 4096, 0),
            format: AuditFormat::Json,
            on_failure: AuditFailurePolicy::RefuseWrites,
            extra_events: true,
        }
    );
    with_base("audit.impl.class=com.example.Audit\nzebu.audit.format=xml\nzebu.audit.onFailure=stop").errors(
        &[
            "zoo.cfg:4: audit.impl.class = \"com.example.Audit\" is not known; remove the line, or write \
         org.apache.zookeeper.audit.Slf4jAuditLogger",
            "zoo.cfg:5: zebu.audit.format = \"xml\" is not valid; allowed: text or json",
            "zoo.cfg:6: zebu.audit.onFailure = \"stop\" is not valid; allowed: continue or refuseWrites",
        ],
    );
}

#[test]
fn whitelist_of_words() {
    let words =
        |value: &str| with_base(&format!("4lw.commands.whitelist={value}")).config().four_letter_words;
    let only =
        |words: &[&str]| FourLetterWhitelist::Only(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(file(BASE).config().four_letter_words, only(&["srvr"]));
    assert_eq!(words("stat, ruok ,mntr"), only(&["stat", "ruok", "mntr", "srvr"]));
    assert_eq!(words("stat,*,bogus"), FourLetterWhitelist::All(vec![]));
    assert_eq!(words("*,shed"), FourLetterWhitelist::All(vec!["shed".to_owned()]));
    assert!(words("*").allows(FourLetterWord::Mntr) && !words("*").allows(FourLetterWord::Shed));
    assert!(words("*, shed").allows(FourLetterWord::Shed) && words("shed").allows(FourLetterWord::Shed));
    assert_eq!(words(""), only(&["srvr"]));
    let read_only = with_base("").word("readonlymode.enabled=true").config();
    assert_eq!(read_only.four_letter_words, only(&["srvr", "isro"]));
    assert!(read_only.read_only_mode);
    with_base("4lw.commands.whitelist=stat,lead")
        .warnings(&["zoo.cfg:4: 4lw.commands.whitelist lists \"lead\", which is not a four-letter word"]);
}

#[test]
fn the_file_wins_over_words_and_later_words_over_earlier_ones() {
    let case = file(BASE)
        .variable("SERVER_JVMFLAGS", "-Xmx1g -Dzookeeper.snapCount=10 -Dzookeeper.maxCnxns=1")
        .variable("JVMFLAGS", "-Dzookeeper.snapCount=20  -Dzookeeper.flushDelay=3");
    assert_eq!(case.clean().storage.snap_count, 20);
    assert_eq!(case.clean().listen.max_connections, Some(1));
    assert_eq!(case.clean().storage.flush_delay, Duration::from_millis(3));
    assert_eq!(case.word("zookeeper.snapCount=30").clean().storage.snap_count, 30);
    let both = with_base("snapCount=40\n").word("zookeeper.snapCount=30");
    assert_eq!(both.clean().storage.snap_count, 40);
    let disabled = file(BASE).variable("ZOO_DATADIR_AUTOCREATE_DISABLE", "1").clean();
    assert!(!disabled.storage.create_directories);
    file(BASE)
        .variable("JVMFLAGS", "-Dzookeeper.snapCount=-1")
        .errors(&["JVMFLAGS: snapCount = \"-1\" is not valid; allowed: 0 to 2147483647"]);
}

#[test]
fn duplicate_keys() {
    let case = with_base("snapCount=1000\nsnapCount=2000\n");
    assert_eq!(case.config().storage.snap_count, 2000);
    case.warnings(&["zoo.cfg:5: snapCount was already set in line 4; this line counts"]);
}

#[test]
fn unknown_keys_get_a_suggestion_and_do_not_stop_the_start() {
    let case = with_base(
        "tickTme=1\nzookeeper.snapCount=5\nconnectionMaxTokens=3\nsomething.else=1\nMaxClientCnxns=3\n",
    );
    case.warnings(&[
        "zoo.cfg:4: tickTme is unknown and has no effect; did you mean tickTime?",
        "zoo.cfg:5: zookeeper.snapCount is unknown and has no effect; did you mean snapCount?",
        "zoo.cfg:6: connectionMaxTokens is unknown and has no effect; \
         did you mean connection_throttle_tokens?",
        "zoo.cfg:7: something.else is unknown and has no effect",
        "zoo.cfg:8: MaxClientCnxns is unknown and has no effect; did you mean maxClientCnxns?",
    ]);
    assert_eq!(case.config().listen.max_connections_per_address, Some(60));
}

#[test]
fn words_in_the_wrong_place() {
    file(BASE)
        .word("zookeeper.tickTime=5")
        .word("snapCount=5")
        .word("zookeeper.snapCuont=5")
        .word("dataDir=/x")
        .word("zebu.strange=1")
        .warnings(&[
            "command line: -Dzookeeper.tickTime has no effect; write tickTime into the configuration file",
            "command line: -DsnapCount has no effect; write -Dzookeeper.snapCount",
            "command line: -Dzookeeper.snapCuont is unknown and has no effect; did you mean snapCount?",
            "command line: -DdataDir has no effect; write dataDir into the configuration file",
            "command line: -Dzebu.strange is unknown and has no effect; known is -Dzebu.startUnprotected",
        ]);
}

#[test]
fn keys_without_effect_are_noted() {
    with_base(
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nnio.numWorkerThreads=4\n\
         admin.httpVersion=20\nmaxResponseCacheSize=10\njute.maxbuffer=5000000\n\
         metricsProvider.httpPort=7001\n",
    )
    .notes(&[
        "zoo.cfg:4: keys for a Java machine have no effect: nio.numWorkerThreads, serverCnxnFactory",
        "zoo.cfg:6: admin.httpVersion has no effect: the admin server speaks HTTP/1.1",
        "zoo.cfg:7: maxResponseCacheSize has no effect: answers are not cached, they are cheap to build",
        "zoo.cfg:8: jute.maxbuffer is applied; \
         ZooKeeper would ignore it in this file (it wants -Djute.maxbuffer)",
        "zoo.cfg:9: metricsProvider.httpPort has no effect without \
         metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
    ]);
    file(BASE)
        .variable("JVMFLAGS", "-Xms1g -Djava.net.preferIPv4Stack=true -Dzookeeper.log.dir=/x")
        .notes(&["JVMFLAGS: words for a Java machine are ignored: java.net.preferIPv4Stack"]);
}

#[test]
fn missing_protection_stops_the_start() {
    let case = with_base("requireClientAuthScheme=sasl\n");
    let expected = "zoo.cfg:4: requireClientAuthScheme asks for protection that this version does not have; \
                    remove it, or start without protection with -Dzebu.startUnprotected=true";
    let loaded = case.load();
    assert_eq!(texts(&loaded.diagnostics.errors), [expected]);
    assert_eq!(loaded.config, None);
    let unprotected = case.word("zebu.startUnprotected=true").load();
    assert_eq!(unprotected.diagnostics.errors, []);
    assert!(unprotected.config.is_some());
    assert_eq!(
        texts(&unprotected.diagnostics.warnings),
        ["zoo.cfg:4: requireClientAuthScheme is ignored: the server starts WITHOUT this protection"]
    );
}

#[test]
fn protection_that_is_switched_off_or_built_in_asks_for_nothing() {
    let case = with_base(
        "sslQuorum=false\nportUnification=False\nssl.hostnameVerification=false\nssl.clientAuth=none\n\
         secureClientPort=0\nquorum.auth.enableSasl=false\nsessionRequireClientSASLAuth=false\n\
         authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider\nauthProvider.2=\n",
    );
    case.clean();
    with_base("zebu.startUnprotected=true\n").warnings(&[
        "zoo.cfg:4: zebu.startUnprotected has no effect in the file; it is for the command line only",
    ]);
}

#[test]
fn enforced_schemes_must_exist() {
    let case = with_base("enforce.auth.enabled=true\nenforce.auth.schemes=sasl,digest\n");
    case.errors(&[
        "zoo.cfg:5: enforce.auth.schemes requires authentication scheme sasl, which is not available; available: ip, \
         digest. Register its class with authProvider.1",
    ]);
    let without_digest = with_base(
        "enforce.auth.enabled=true\nenforce.auth.schemes=digest\n\
         DigestAuthenticationProvider.enabled=false\n",
    );
    assert_eq!(without_digest.load().diagnostics.errors.len(), 1);
}

#[test]
fn a_word_wins_over_a_line_that_zookeeper_ignores() {
    let stale = with_base("jute.maxbuffer=1048575\n").variable("SERVER_JVMFLAGS", "-Djute.maxbuffer=4194304");
    stale.warnings(&[
        "zoo.cfg:4: jute.maxbuffer = \"1048575\" has no effect: -Djute.maxbuffer=4194304 (SERVER_JVMFLAGS) wins, and \
         ZooKeeper ignores this line",
    ]);
    assert_eq!(stale.config().limits.jute_max_buffer, 4_194_304);
    let same = with_base("jute.maxbuffer=4194304\n").word("jute.maxbuffer=4194304");
    same.clean();
    assert_eq!(same.config().limits.jute_max_buffer, 4_194_304);
    // Keys that ZooKeeper reads from the file keep the file's value.
    let file_wins = with_base("snapCount=50000\n").word("zookeeper.snapCount=7");
    file_wins.clean();
    assert_eq!(file_wins.config().storage.snap_count, 50_000);
}

#[test]
fn numbers_that_zookeeper_forgives() {
    let case = with_base("snapCount=lots\nglobalOutstandingLimit=0\n").word("jute.maxbuffer=big");
    case.warnings(&[
        "zoo.cfg:4: snapCount = \"lots\" is not a number; the default is used, as in ZooKeeper",
        "zoo.cfg:5: globalOutstandingLimit = 0 is too small; 1 is used",
        "command line: jute.maxbuffer = \"big\" is not a number; the default is used, as in ZooKeeper",
    ]);
    let config = case.config();
    assert_eq!((config.storage.snap_count, config.limits.global_outstanding_limit), (100_000, 1));
    assert_eq!(config.limits.jute_max_buffer, 1_048_575);
    // ZooKeeper reports the error in keys of the file.
    with_base("maxClientCnxns=many\n")
        .errors(&["zoo.cfg:4: maxClientCnxns = \"many\" is not valid; allowed: -2147483648 to 2147483647"]);
}

#[test]
fn values_that_only_zebu_understands_are_told() {
    file("tickTime=2000\ndataDir=/data\nclientPort=0x885\nautopurge.purgeInterval=24h\n").notes(&[
        "zoo.cfg:3: clientPort = \"0x885\" is read as 2181; ZooKeeper takes decimal numbers only here and would not start",
        "zoo.cfg:4: autopurge.purgeInterval = \"24h\": ZooKeeper 3.9 takes a number of hours without a unit and would \
         not start",
    ]);
    with_base("autopurge.purgeInterval=24\n").clean();
}

#[test]
fn a_directory_that_is_not_ascii() {
    let text = "tickTime=2000\ndataDir=/ünï\nclientPort=2181\n";
    let latin1 = properties::decode_latin1("/ünï".as_bytes());
    let new = file(text);
    assert_eq!(new.config().storage.data_dir, Path::new(&latin1));
    new.warnings(&[&format!(
        "zoo.cfg:2: dataDir is not ASCII: {} is used, readers of UTF-8 would take it for /ünï. Write other letters as \
         \\uXXXX, which has one meaning",
        latin1.escape_default()
    )
    .replace("\\u{c3}", "Ã").replace("\\u{bc}", "¼").replace("\\u{af}", "¯")]);
    let there = file(text).other_file("/ünï/version-2", "");
    assert_eq!(there.config().storage.data_dir, Path::new("/ünï"));
    let both = file(text).other_file("/ünï/version-2", "").other_file(&format!("{latin1}/version-2"), "");
    assert_eq!(both.config().storage.data_dir, Path::new(&latin1));
    // Escapes have one reading.
    file("tickTime=2000\ndataDir=/\\u00fcn\nclientPort=2181\n").clean();
}
