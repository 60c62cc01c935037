//! Whole configurations in, values and messages out.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::ServerId;

use super::membership::{QuorumRule, Role};
use super::observers::ObserverConfig;
use super::*;
use crate::four_letter::Word;

const BASE: &str = "tickTime=2000\ndataDir=/data\nclientPort=2181\n";

/// A machine that exists in this test only.
#[derive(Default)]
struct Machine {
    files: BTreeMap<PathBuf, String>,
}

impl Surroundings for Machine {
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
}

struct Case {
    machine: Machine,
    inputs: Inputs,
}

fn file(text: &str) -> Case {
    let mut machine = Machine::default();
    machine.files.insert(PathBuf::from("zoo.cfg"), text.to_owned());
    let inputs = Inputs {
        arguments: vec!["zoo.cfg".to_owned()],
        properties: Vec::new(),
        environment: Environment::default(),
    };
    Case { machine, inputs }
}

fn with_base(text: &str) -> Case {
    file(&format!("{BASE}{text}"))
}

fn arguments(words: &[&str]) -> Case {
    let mut case = file("");
    case.inputs.arguments = words.iter().map(|word| (*word).to_owned()).collect();
    case
}

impl Case {
    fn word(mut self, word: &str) -> Case {
        self.inputs.properties.push(word.to_owned());
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Case {
        self.inputs.environment.0.insert(name.to_owned(), value.to_owned());
        self
    }

    fn other_file(mut self, path: &str, text: &str) -> Case {
        self.machine.files.insert(PathBuf::from(path), text.to_owned());
        self
    }

    fn load(&self) -> Loaded {
        load(&self.inputs, &self.machine)
    }

    #[track_caller]
    fn config(&self) -> ServerConfig {
        let loaded = self.load();
        loaded.config.unwrap_or_else(|| panic!("errors: {:#?}", loaded.findings.errors))
    }

    /// The configuration, and the proof that nothing was remarked.
    #[track_caller]
    fn clean(&self) -> ServerConfig {
        assert_eq!(self.load().findings, Findings::default());
        self.config()
    }

    #[track_caller]
    fn errors(&self, expected: &[&str]) {
        let loaded = self.load();
        assert_eq!(texts(&loaded.findings.errors), expected);
        assert_eq!(loaded.config, None);
    }

    #[track_caller]
    fn warnings(&self, expected: &[&str]) {
        assert_eq!(texts(&self.load().findings.warnings), expected);
    }

    #[track_caller]
    fn notes(&self, expected: &[&str]) {
        assert_eq!(texts(&self.load().findings.notes), expected);
    }
}

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

fn address(text: &str) -> BindAddress {
    BindAddress::Address(text.parse().unwrap())
}

#[test]
fn the_smallest_file_gives_the_defaults() {
    let case = file(BASE);
    let mut expected =
        ServerConfig::standalone(Path::new("/data"), BindAddress::AllInterfaces { port: 2181 });
    expected.source = ConfigSource::File(PathBuf::from("zoo.cfg"));
    expected.original_text = OriginalText(BASE.to_owned());
    assert_eq!(case.clean(), expected);
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
    assert_eq!(config, ServerConfig::built_in());
    assert_eq!(config.listen.client, address("127.0.0.1:2181"));
    let tuned = arguments(&[]).word("zookeeper.snapCount=5000").clean();
    assert_eq!(tuned.storage.snap_count, 5000);
}

#[test]
fn positional_arguments() {
    let config = arguments(&["2182", "/tmp/data"]).clean();
    assert_eq!(config.source, ConfigSource::Arguments);
    assert_eq!(config.listen.client, BindAddress::AllInterfaces { port: 2182 });
    assert_eq!(config.listen.max_connections_per_address, None);
    assert_eq!(config.sessions.tick_time, Duration::from_millis(3000));
    let config = arguments(&["0", "/tmp/data", "500", "7"]).clean();
    assert_eq!(config.listen.client.port(), 0);
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
        ("snapCount=many", "snapCount = \"many\" is not valid; allowed: 0 to 2147483647"),
        ("jute.maxbuffer=4MB", "jute.maxbuffer = \"4MB\" is not valid; allowed: 1 to 2147483647 bytes"),
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
        let errors: Vec<_> = loaded.findings.errors.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(errors, [message], "{line}");
        assert_eq!(loaded.config, None, "{line}");
    }
    with_base("tickTime=abc\n")
        .errors(&["zoo.cfg:4: tickTime = \"abc\" is not valid; allowed: 1 to 107374182 milliseconds"]);
}

#[test]
fn all_mistakes_are_found_at_once_in_the_order_of_the_file() {
    file("tickTime=x\nclientPort=y\ndataDir=/data\nsnapCount=z\n").errors(&[
        "zoo.cfg:1: tickTime = \"x\" is not valid; allowed: 1 to 107374182 milliseconds",
        "zoo.cfg:2: clientPort = \"y\" is not valid; allowed: 0 to 65535 (a TCP port)",
        "zoo.cfg:4: snapCount = \"z\" is not valid; allowed: 0 to 2147483647",
    ]);
}

#[test]
fn client_address() {
    let client = |text: &str| file(&format!("dataDir=/data\n{text}")).config().listen.client;
    assert_eq!(client("clientPort=1"), BindAddress::AllInterfaces { port: 1 });
    assert_eq!(client("clientPort=1\nclientPortAddress=10.0.0.9"), address("10.0.0.9:1"));
    assert_eq!(client("clientPort=1\nclientPortAddress=::1"), address("[::1]:1"));
    assert_eq!(client("clientPort=1\nclientPortAddress=[::1]"), address("[::1]:1"));
    assert_eq!(client("clientPort=1\nclientPortAddress=zk1.example"), address("10.0.0.1:1"));
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
         digest.enabled=false\nautopurge.snapRetainCount=5\ncommitLogCount=7\ndatadir.autocreate=false\n\
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
    assert_eq!(config.auth.digest_algorithm, DigestAlgorithm::Sha3With256);
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
    with_base("forceSync=no\nskipACL=yes\nautopurge.snapRetainCount=1\naudit.enable=true\n").warnings(&[
        "zoo.cfg:4: forceSync=no: writes are acknowledged before they are on disk and can be lost",
        "zoo.cfg:5: skipACL=yes: no access control list is checked, every client may do everything",
        "zoo.cfg:6: autopurge.snapRetainCount = 1 is too small; 3 is used",
        "zoo.cfg:7: audit.enable has no effect: this version does not write an audit log",
    ]);
    let storage = with_base("autopurge.snapRetainCount=1\nforceSync=no").config().storage;
    assert_eq!((storage.snap_retain_count, storage.force_sync), (3, false));
}

#[test]
fn whitelist_of_words() {
    let words =
        |value: &str| with_base(&format!("4lw.commands.whitelist={value}")).config().four_letter_words;
    let only = |words: &[&str]| WordWhitelist::Only(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(file(BASE).config().four_letter_words, only(&["srvr"]));
    assert_eq!(words("stat, ruok ,mntr"), only(&["stat", "ruok", "mntr", "srvr"]));
    assert_eq!(words("stat,*,bogus"), WordWhitelist::All(vec![]));
    assert_eq!(words("*,shed"), WordWhitelist::All(vec!["shed".to_owned()]));
    assert!(words("*").allows(Word::Mntr) && !words("*").allows(Word::Shed));
    assert!(words("*, shed").allows(Word::Shed) && words("shed").allows(Word::Shed));
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
        .variable("JVMFLAGS", "-Dzookeeper.snapCount=x")
        .errors(&["JVMFLAGS: snapCount = \"x\" is not valid; allowed: 0 to 2147483647"]);
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
         admin.enableServer=true\nmaxResponseCacheSize=10\njute.maxbuffer=5000000\n\
         metricsProvider.httpPort=7000\n",
    )
    .notes(&[
        "zoo.cfg:4: keys for a Java machine have no effect: nio.numWorkerThreads, serverCnxnFactory",
        "zoo.cfg:6: admin.enableServer has no effect: this version has no AdminServer",
        "zoo.cfg:7: maxResponseCacheSize has no effect: answers are not cached, they are cheap to build",
        "zoo.cfg:8: jute.maxbuffer is applied; \
         ZooKeeper would ignore it in this file (it wants -Djute.maxbuffer)",
        "zoo.cfg:9: metricsProvider.httpPort has no effect: \
         this version has no metrics exporter; use the word mntr",
    ]);
    file(BASE).variable("JVMFLAGS", "-Xms1g -Djava.net.preferIPv4Stack=true -Dzookeeper.log.dir=/x").notes(
        &["JVMFLAGS: words for a Java machine are ignored: java.net.preferIPv4Stack, zookeeper.log.dir"],
    );
}

#[test]
fn missing_protection_stops_the_start() {
    let tail = "asks for protection that this version does not have; \
                remove it, or start without protection with -Dzebu.startUnprotected=true";
    let case = with_base(
        "secureClientPort=2281\nssl.keyStore.location=/k.pem\nssl.keyStore.password=geheim\n\
         authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\nsslQuorum=true\n\
         quorum.auth.enableSasl=true\nrequireClientAuthScheme=sasl\nclient.portUnification=true\n",
    )
    .word("java.security.auth.login.config=/jaas.conf")
    .word("zookeeper.sessionRequireClientSASLAuth=true");
    let expected: Vec<String> = [
        "zoo.cfg:4: secureClientPort",
        "zoo.cfg:5: ssl.keyStore.location",
        "zoo.cfg:6: ssl.keyStore.password",
        "zoo.cfg:7: authProvider.1",
        "zoo.cfg:8: sslQuorum",
        "zoo.cfg:9: quorum.auth.enableSasl",
        "zoo.cfg:10: requireClientAuthScheme",
        "zoo.cfg:11: client.portUnification",
        "command line: java.security.auth.login.config",
        "command line: sessionRequireClientSASLAuth",
    ]
    .iter()
    .map(|start| format!("{start} {tail}"))
    .collect();
    let loaded = case.load();
    assert_eq!(texts(&loaded.findings.errors), expected);
    assert_eq!(loaded.config, None);
    let unprotected = case.word("zebu.startUnprotected=true").load();
    assert_eq!(unprotected.findings.errors, []);
    assert!(unprotected.config.is_some());
    assert_eq!(unprotected.findings.warnings.len(), expected.len());
    assert_eq!(
        unprotected.findings.warnings[0].to_string(),
        "zoo.cfg:4: secureClientPort is ignored: the server starts WITHOUT this protection"
    );
}

#[test]
fn protection_that_is_switched_off_or_built_in_asks_for_nothing() {
    let case = with_base(
        "sslQuorum=false\nportUnification=False\nssl.hostnameVerification=false\nssl.clientAuth=none\n\
         secureClientPort=0\nquorum.auth.enableSasl=false\nsessionRequireClientSASLAuth=false\n\
         authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider\n",
    );
    case.clean();
    with_base("zebu.startUnprotected=true\nsecureClientPort=1\n").warnings(&[
        "zoo.cfg:4: zebu.startUnprotected has no effect in the file; it is for the command line only",
    ]);
}

#[test]
fn enforced_schemes_must_exist() {
    let case = with_base("enforce.auth.enabled=true\nenforce.auth.schemes=sasl,digest\n");
    case.errors(&[
        "zoo.cfg:5: enforce.auth.schemes (sasl) asks for protection that this version does not have; \
                   remove it, or start without protection with -Dzebu.startUnprotected=true",
    ]);
    let config = case.word("zebu.startUnprotected=true").config();
    assert_eq!(config.auth.required_schemes, Some(vec!["digest".to_owned()]));
    let without_digest = with_base(
        "enforce.auth.enabled=true\nenforce.auth.schemes=digest\n\
         DigestAuthenticationProvider.enabled=false\n",
    );
    assert_eq!(without_digest.load().findings.errors.len(), 1);
}

const THREE: &str =
    "initLimit=10\nsyncLimit=5\nserver.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n";

#[test]
fn an_ensemble_is_checked() {
    assert!(with_base(THREE).other_file("/data/myid", "2\n").config().membership.is_ensemble());
    with_base(THREE).errors(&[
        "/data/myid: myid file is missing; it must hold the number N of this server's server.N line",
    ]);
    with_base(THREE)
        .other_file("/data/myid", "7")
        .errors(&["/data/myid: My id 7 not in the peer list; listed: 1, 2, 3"]);
    with_base("server.1=a:1:2\nserver.2=b:1:2\n").other_file("/data/myid", "1").errors(&[
        "zoo.cfg: initLimit is not set; an ensemble needs it",
        "zoo.cfg: syncLimit is not set; an ensemble needs it",
    ]);
    let one = "standaloneEnabled=false\ninitLimit=1\nsyncLimit=1\nserver.1=a:1:2\n";
    assert!(with_base(one).other_file("/data/myid", "1").config().membership.is_ensemble());
}

#[test]
fn sizes_of_ensembles() {
    with_base("server.1=a:1:2\n").warnings(&["zoo.cfg: only one server is listed, so it runs standalone"]);
    with_base("server.1=a:1:2\nserver.2=b:1:2\n")
        .warnings(&["zoo.cfg: two servers tolerate no failure; three is the smallest useful ensemble"]);
    with_base(&format!("{THREE}server.4=d:1:2\n"))
        .warnings(&["zoo.cfg: 4 servers tolerate no more failures than 3"]);
    with_base("server.1=a:1:2:observer\n")
        .errors(&["zoo.cfg: Observers w/o participants is an invalid configuration"]);
    with_base("server.1=a:1:2\nserver.2=b:1:2:observer\n")
        .errors(&["zoo.cfg: Observers w/o quorum is an invalid configuration"]);
    with_base("standaloneEnabled=false\n")
        .errors(&["zoo.cfg: standaloneEnabled = false then number of participants should be >0"]);
}

#[test]
fn a_single_member_line_may_hold_the_client_port() {
    let case = file("dataDir=/data\nserver.1=zk1.example:2888:3888;2191\n").other_file("/data/myid", "1");
    let config = case.config();
    assert_eq!(config.listen.client, address("0.0.0.0:2191"));
    assert_eq!(config.server_id(), Some(ServerId(1)));
    let both = |first: &str| {
        let text = format!("dataDir=/data\n{first}\nserver.1=a:2888:3888;10.0.0.1:2191\n");
        file(&text).other_file("/data/myid", "1")
    };
    both("clientPort=2191").config();
    both("clientPort=2191\nclientPortAddress=zk1.example").config();
    both("clientPort=2181").errors(&["zoo.cfg:2: clientPort and clientPortAddress give *:2181, \
        this server's server.N line gives 10.0.0.1:2191; they must agree"]);
    both("clientPort=2191\nclientPortAddress=10.0.0.2").errors(&["zoo.cfg:2: clientPort and \
        clientPortAddress give 10.0.0.2:2191, \
        this server's server.N line gives 10.0.0.1:2191; they must agree"]);
}

#[test]
fn tls_client_port_of_a_member_is_a_wish_for_protection() {
    with_base("server.1=a:1:2;2181;2281\n").errors(&["zoo.cfg:4: server.1 (its TLS client port) asks for \
        protection that this version does not have; remove it, or start without protection with \
        -Dzebu.startUnprotected=true"]);
}

#[test]
fn member_lines_with_mistakes() {
    with_base("server.x=a:1:2\nserver.1=a:1\n").errors(&[
        "zoo.cfg:4: server.x is not valid; allowed: server.N with a whole number N",
        "zoo.cfg:5: server.1 = \"a:1\" is not valid: \"a:1\" does not have 3 or 4 parts; \
         the form is host:quorumPort:electionPort[:role][;[host:]clientPort]",
    ]);
    with_base("server.1=a:1:2|b:1:2\n").errors(&["zoo.cfg:4: server.1 = \"a:1:2|b:1:2\" is not valid: \
        it has several addresses; set multiAddress.enabled=true to allow that"]);
    let many = with_base("multiAddress.enabled=true\nserver.1=a:1:2|b:1:2\n").config();
    assert_eq!(many.membership.members[&ServerId(1)].addresses.len(), 2);
    with_base("server.1=a:1:2|b:1:2\n").word("zookeeper.multiAddress.enabled=true").config();
}

#[test]
fn how_observers_are_kept() {
    let observers = |text: &str| with_base(text).config().membership.observers;
    assert_eq!(observers(""), ObserverConfig::default());
    assert!(!observers("syncEnabled=false\n").writes);
    assert!(observers("syncEnabled=false\nobserver.syncEnabled=true\n").writes, "the property wins");
    let case = with_base("").word("zookeeper.observer.syncEnabled=false");
    assert!(!case.config().membership.observers.writes);
    assert_eq!(observers("observerMasterPort=2191\n").master_port, Some(2191));
    for off in ["0", "-1"] {
        assert_eq!(observers(&format!("observerMasterPort={off}\n")).master_port, None);
    }
    let slow =
        observers("observer.election.DelayMs=7\nobserver.reconnectDelayMs=8\nobserverMaster.sizeLimit=9\n");
    let delays = [slow.election_delay, slow.reconnect_delay].map(|delay| delay.as_millis());
    assert_eq!((delays, slow.recent_bytes), ([7, 8], 9));
    with_base("observerMasterPort=65536\nsyncEnabled=1\n").errors(&[
        "zoo.cfg:4: observerMasterPort = \"65536\" is not valid; allowed: -2147483648 to 65535 (a TCP port)",
        "zoo.cfg:5: syncEnabled = \"1\" is not valid; allowed: true or false",
    ]);
}

#[test]
fn groups_and_weights() {
    let case = with_base("server.1=a:1:2\ngroup.1=1\nweight.1=3\n");
    let QuorumRule::Hierarchical { group_of, weight_of } = case.config().membership.quorum else {
        panic!("not hierarchical")
    };
    assert_eq!(group_of, BTreeMap::from([(ServerId(1), 1)]));
    assert_eq!(weight_of, BTreeMap::from([(ServerId(1), 3)]));
    with_base("server.1=a:1:2\ngroup.1=1\ngroup.2=1:x\nweight.1=z\ngroupie=1\n").errors(&[
        "zoo.cfg:6: Server 1 is in multiple groups",
        "zoo.cfg:6: group.2 = \"1:x\" is not valid; allowed: server numbers separated by colons, as in 1:2:3",
        "zoo.cfg:7: weight.1 = \"z\" is not valid; allowed: a whole number",
        "zoo.cfg:8: groupie is not valid; allowed: group.N and weight.N",
    ]);
    with_base("server.1=a:1:2\nweight.1=1\n").errors(&["zoo.cfg:5: Server 1 is not in a group"]);
    for (lines, why) in [
        ("group.1=1\nweight.1=0\n", "no group has any weight, so there is no quorum"),
        ("group.1=1\nweight.1=-1\n", "weight.1=-1: a weight is zero or more"),
        ("group.1=1:2\n", "server 2 is in a group, but is no participant; take it out"),
    ] {
        with_base(&format!("server.1=a:1:2\n{lines}")).errors(&[&format!("zoo.cfg:5: {why}")]);
    }
}

#[test]
fn dynamic_file() {
    let static_part = "dynamicConfigFile=/conf/zoo.cfg.dynamic.1a\n";
    let case =
        with_base(static_part).other_file("/conf/zoo.cfg.dynamic.1a", "server.1=a:1:2:participant;2181\n");
    let membership = case.config().membership;
    assert_eq!(membership.version, 0x1a);
    assert_eq!(membership.dynamic_file, Some(PathBuf::from("/conf/zoo.cfg.dynamic.1a")));
    assert_eq!(membership.members[&ServerId(1)].role, Role::Participant);
    with_base(static_part)
        .other_file("/conf/zoo.cfg.dynamic.1a", "server.1=a:1:2\nversion=5\ntickTime=3\n")
        .errors(&[
            "/conf/zoo.cfg.dynamic.1a:2: version does not belong into the dynamic file; \
             it is part of the file's name",
            "/conf/zoo.cfg.dynamic.1a:3: tickTime does not belong into the dynamic file; \
             allowed: server.*, group.*, weight.*",
        ]);
    with_base(static_part)
        .errors(&["zoo.cfg:4: dynamicConfigFile /conf/zoo.cfg.dynamic.1a cannot be read: entity not found"]);
    with_base("server.1=a:1:2\ndynamicConfigFile=d.next\n")
        .other_file("d.next", "")
        .errors(&["zoo.cfg:4: server.1 must be in the dynamic file d.next, not here"]);
}

#[test]
fn my_id() {
    let id = |text: &str| with_base("").other_file("/data/myid", text);
    assert_eq!(id("5\nmore\n").clean().server_id(), Some(ServerId(5)));
    assert_eq!(id("5\r\n").clean().server_id(), Some(ServerId(5)));
    id("5 \n")
        .errors(&["/data/myid: serverid \"5 \" is not a number; the file must hold nothing else, no blank"]);
    id("300").warnings(&["/data/myid: serverid 300 does not fit into session ids; use 1 to 255"]);
    id("255").clean();
    with_base("extendedTypesEnabled=true\n").other_file("/data/myid", "255").errors(&[
        "/data/myid: serverid 255 is too large while extendedTypesEnabled=true; allowed: 1 to 254",
    ]);
}

#[test]
fn role_of_the_member_line_counts() {
    let case = with_base("peerType=observer\nserver.1=a:1:2\n").other_file("/data/myid", "1");
    case.warnings(&[
        "zoo.cfg:4: peerType differs from the role in this server's server.N line, which counts",
        "zoo.cfg: only one server is listed, so it runs standalone",
    ]);
}

#[test]
fn no_text_panics() {
    for text in ["server.=", "server.1=", "server.1=;;;", "group", "weight.=", "=", ":", "server.1=[", "\\"] {
        let _ = with_base(text).load();
    }
}

const MEMBERS: &str = "initLimit=10\nsyncLimit=5\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";

#[test]
fn what_keeps_a_member_from_a_mixed_ensemble_is_named() {
    let member = |text: &str| with_base(&format!("{MEMBERS}{text}")).other_file("/data/myid", "1\n");
    let mixed = |text: &str| texts(&member(text).load().findings.mixed);
    assert_eq!(mixed("snapshot.compression.method=gz\n"), [""; 0]);
    for (line, beginning) in [
        ("sslQuorum=true", "zoo.cfg:9: sslQuorum=true: the other servers speak TLS"),
        ("quorum.auth.enableSasl=true", "zoo.cfg:9: quorum.auth.enableSasl=true: the other servers ask"),
        ("closeSessionTxn.enabled=false", "zoo.cfg:9: closeSessionTxn.enabled=false: transactions"),
    ] {
        let found = mixed(&format!("{line}\n"));
        assert!(found.len() == 1 && found[0].starts_with(beginning), "{line}: {found:?}");
    }
    assert_eq!(mixed("localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n"), [""; 0]);
    assert_eq!(texts(&with_base("sslQuorum=true\n").load().findings.mixed), [""; 0], "it stands alone");
    let versioned = |text: &str| {
        with_base(&format!("initLimit=10\nsyncLimit=5\ndynamicConfigFile=/zoo.cfg.dynamic.100000002\n{text}"))
            .other_file("/zoo.cfg.dynamic.100000002", "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n")
            .other_file("/data/myid", "1\n")
    };
    assert_eq!(
        texts(&versioned("").load().findings.mixed),
        ["zoo.cfg:6: dynamicConfigFile /zoo.cfg.dynamic.100000002 has the version 0x100000002: without \
             reconfigEnabled=true this version announces 0, and the others would refuse it; put the server.N lines \
             into zoo.cfg of every server instead"]
    );
    assert_eq!(texts(&versioned("reconfigEnabled=true\n").load().findings.mixed), [""; 0]);
}

#[test]
fn what_must_be_the_same_on_all_members_is_a_note() {
    let text = format!("{MEMBERS}jute.maxbuffer=2000000\nlocalSessionsEnabled=true\n");
    let member = with_base(&text).other_file("/data/myid", "1\n").word("zookeeper.extendedTypesEnabled=true");
    let note = "zoo.cfg: in a mixed ensemble these must be the same on all servers: jute.maxbuffer, \
                extendedTypesEnabled, localSessionsEnabled";
    assert!(texts(&member.load().findings.notes).iter().any(|line| line == note));
}
