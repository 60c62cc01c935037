//! Every key that ZooKeeper's configuration has, where it may be written and what becomes of it here.
//! A table and its look-up; values are judged elsewhere.

/// Where a key may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Only in the file.
    File,
    /// In the file, or as `-Dzookeeper.<key>`.
    Property,
    /// As `-D<key>`; ZooKeeper ignores it in the file, Zebu does not.
    Bare,
    /// In the file, as `-Dzookeeper.<key>` or as `-D<key>`.
    Either,
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It becomes a value of `ServerConfig`.
    Used,
    /// It matters to members of an ensemble only.
    Ensemble,
    /// Accepted, with a note that says why nothing follows from it.
    Nothing(&'static str),
    /// Tunes a Java machine.
    Java,
    /// May ask for protection; see `protection.rs`.
    Protection,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) key: &'static str,
    pub(super) scope: Scope,
    pub(super) effect: Effect,
}

/// Looks a key up; families (`server.N`, `ssl.…`) are known by their beginning.
pub(super) fn find(key: &str) -> Option<Known> {
    if let Some(known) = KNOWN.iter().find(|known| known.key == key) {
        return Some(*known);
    }
    FAMILIES.iter().find(|known| key.starts_with(known.key)).copied()
}

/// The key that a documented name stands for: some names of the manual are not the names that work.
pub(super) fn documented_name(name: &str) -> Option<&'static str> {
    DOCUMENTED_NAMES.iter().find(|(documented, _)| *documented == name).map(|&(_, key)| key)
}

/// Names to compare a misspelt key with.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.key)
}

const fn file(key: &'static str, effect: Effect) -> Known {
    Known { key, scope: Scope::File, effect }
}

const fn property(key: &'static str, effect: Effect) -> Known {
    Known { key, scope: Scope::Property, effect }
}

const fn bare(key: &'static str, effect: Effect) -> Known {
    Known { key, scope: Scope::Bare, effect }
}

const fn either(key: &'static str, effect: Effect) -> Known {
    Known { key, scope: Scope::Either, effect }
}

const NO_ADMIN: Effect = Effect::Nothing("this version has no AdminServer");
const NO_METRICS: Effect = Effect::Nothing("this version has no metrics exporter; use the word mntr");
const NO_STALE: Effect = Effect::Nothing("a request that was received is carried out");
const NO_CACHE: Effect = Effect::Nothing("answers are not cached, they are cheap to build");
const NO_TLS: Effect = Effect::Nothing("this version has no TLS");
const NO_SASL: Effect = Effect::Nothing("this version has no SASL");
const NO_PATH_STATS: Effect = Effect::Nothing("hot paths are not logged");
const TEST_ONLY: Effect = Effect::Nothing("it exists for ZooKeeper's own tests");

use Effect::{Ensemble, Java, Nothing, Protection, Used};

const FAMILIES: &[Known] = &[
    file("server.", Ensemble),
    file("group", Ensemble),
    file("weight", Ensemble),
    file("metricsProvider.", NO_METRICS),
    file("quorum.auth.", NO_SASL),
    property("admin.", NO_ADMIN),
    property("ssl.", Protection),
    property("authProvider.", Protection),
    property("superUser.", NO_SASL),
    property("pathStats.", NO_PATH_STATS),
    property("kerberos.", NO_SASL),
    property("tracelog.", Java),
    property("jmx.", Java),
];

const KNOWN: &[Known] = &[
    // Read by the parser of the file itself.
    file("dataDir", Used),
    file("dataLogDir", Used),
    file("clientPort", Used),
    file("clientPortAddress", Used),
    file("secureClientPort", Protection),
    file("secureClientPortAddress", Protection),
    file("clientPortListenBacklog", Used),
    file("observerMasterPort", Ensemble),
    file("tickTime", Used),
    file("initLimit", Ensemble),
    file("syncLimit", Ensemble),
    file("connectToLearnerMasterLimit", Ensemble),
    file("maxClientCnxns", Used),
    file("minSessionTimeout", Used),
    file("maxSessionTimeout", Used),
    file("electionAlg", Ensemble),
    file("peerType", Ensemble),
    file("syncEnabled", Ensemble),
    property("observer.syncEnabled", Ensemble),
    file("quorumListenOnAllIPs", Ensemble),
    file("quorum.cnxn.threads.size", Java),
    file("localSessionsEnabled", Ensemble),
    file("localSessionsUpgradingEnabled", Ensemble),
    file("autopurge.snapRetainCount", Used),
    file("autopurge.purgeInterval", Used),
    file("standaloneEnabled", Used),
    file("reconfigEnabled", Used),
    file("dynamicConfigFile", Ensemble),
    file("sslQuorum", Protection),
    file("portUnification", Protection),
    file("sslQuorumReloadCertFiles", NO_TLS),
    file("quorum.auth.enableSasl", Protection),
    file("quorum.auth.serverRequireSasl", Protection),
    file("quorum.auth.learnerRequireSasl", Protection),
    property("multiAddress.enabled", Ensemble),
    file(
        "multiAddress.reachabilityCheckEnabled",
        Nothing("connections are attempted to all addresses, and the first that answers is used"),
    ),
    file(
        "multiAddress.reachabilityCheckTimeoutMs",
        Nothing("connections are attempted to all addresses, and the first that answers is used"),
    ),
    file("oraclePath", Ensemble),
    file("jvm.pause.monitor", Java),
    file("jvm.pause.warn-threshold.ms", Java),
    file("jvm.pause.info-threshold.ms", Java),
    file("jvm.pause.sleep.time.ms", Java),
    // Names without the prefix.
    bare("jute.maxbuffer", Used),
    bare("readonlymode.enabled", Used),
    bare("znode.container.checkIntervalMs", Used),
    bare("znode.container.maxPerMinute", Used),
    bare("znode.container.maxNeverUsedIntervalMs", Used),
    bare("follower.nodelay", Nothing("connections between servers are never delayed")),
    bare("leader.nodelay", Nothing("connections between servers are never delayed")),
    bare("java.security.auth.login.config", Protection),
    // Storage.
    property("snapCount", Used),
    property("snapSizeLimitInKb", Used),
    property("txnLogSizeLimitInKb", Used),
    property("preAllocSize", Used),
    property("forceSync", Used),
    either("fsync.warningthresholdms", Used),
    property("flushDelay", Used),
    property("maxWriteQueuePollTime", Nothing("writes are flushed as soon as the disk is free")),
    property("maxBatchSize", Used),
    property("commitLogCount", Ensemble),
    property("snapshotSizeFactor", Ensemble),
    property("snapshot.compression.method", Used),
    property("snapshot.trust.empty", Used),
    property("serializeLastProcessedZxid.enabled", Used),
    property("digest.enabled", Used),
    property("datadir.autocreate", Used),
    property("db.autocreate", Nothing("a server without data takes the data of the leader")),
    property(
        "closeSessionTxn.enabled",
        Nothing("the end of a session lists the nodes that go with it, unless the list would be too long"),
    ),
    property("jute.maxbuffer.extrasize", Used),
    property("forceSnapshotSync", Nothing("it exists for ZooKeeper's own tests")),
    // Connections, limits, throttling.
    property("globalOutstandingLimit", Used),
    property("maxCnxns", Used),
    property("clientTcpKeepAlive", Used),
    property("largeRequestThreshold", Used),
    property("largeRequestMaxBytes", Used),
    property("request_throttle_max_requests", Used),
    property("request_throttle_stall_time", Nothing("requests wait for room without polling")),
    property("request_throttle_drop_stale", NO_STALE),
    property("request_stale_connection_check", NO_STALE),
    property("request_stale_latency_check", NO_STALE),
    property("request_throttler.shutdownTimeout", Nothing("a stopping server finishes what was begun")),
    property("throttled_op_wait_time", Used),
    property("connection_throttle_tokens", Used),
    property("connection_throttle_fill_time", Used),
    property("connection_throttle_fill_count", Used),
    property("connection_throttle_freeze_time", Used),
    property("connection_throttle_drop_increase", Used),
    property("connection_throttle_drop_decrease", Used),
    property("connection_throttle_decrease_ratio", Used),
    property("connection_throttle_weight_enabled", Used),
    property("connection_throttle_global_session_weight", Used),
    property("connection_throttle_local_session_weight", Used),
    property("connection_throttle_renew_session_weight", Used),
    property("maxResponseCacheSize", NO_CACHE),
    property("maxGetChildrenResponseCacheSize", NO_CACHE),
    property("nio.sessionlessCnxnTimeout", Used),
    property("nio.numSelectorThreads", Java),
    property("nio.numWorkerThreads", Java),
    property("nio.directBufferBytes", Java),
    property("nio.shutdownTimeout", Java),
    property("intBufferStartingSizeBytes", Java),
    property("serverCnxnFactory", Java),
    property("netty.advancedFlowControl.enabled", Java),
    property("netty.server.outstandingHandshake.limit", NO_TLS),
    property("netty.server.earlyDropSecureConnectionHandshakes", NO_TLS),
    property("commitProcessor.numWorkerThreads", Java),
    property("commitProcessor.maxReadBatchSize", Java),
    property("commitProcessor.maxCommitBatchSize", Java),
    property("commitProcessor.shutdownTimeout", Java),
    // Quorum.
    property("leaderServes", Ensemble),
    property("cnxTimeout", Ensemble),
    property("quorumCnxnTimeoutMs", Ensemble),
    property("electionPortBindRetry", Ensemble),
    property("fastleader.minNotificationInterval", Ensemble),
    property("fastleader.maxNotificationInterval", Ensemble),
    property("tcpKeepAlive", Ensemble),
    property("leader.maxTimeToWaitForEpoch", Nothing("a leader waits for epochs as long as initLimit says")),
    property(
        "leader.maxConcurrentSnapSyncs",
        Nothing("states are sent in small pieces beside everything else"),
    ),
    property(
        "leader.maxConcurrentDiffSyncs",
        Nothing("transactions are sent in small pieces beside everything else"),
    ),
    property("leader.ackLoggingFrequency", Nothing("acknowledgements are not logged")),
    property("leaderConnectDelayDuringRetryMs", Nothing("the delay between attempts is fixed")),
    property("observer.reconnectDelayMs", Ensemble),
    property("observer.election.DelayMs", Ensemble),
    property("observerMaster.sizeLimit", Ensemble),
    either("learner.asyncSending", Nothing("packets are always sent without blocking")),
    either("learner.closeSocketAsync", Nothing("sockets are always closed without blocking")),
    either("leader.closeSocketAsync", Nothing("sockets are always closed without blocking")),
    property("follower.skipLearnerRequestToNextProcessor", Java),
    property("forward_learner_requests_to_commit_processor_disabled", Java),
    property("messageTracker.Enabled", Nothing("packets between servers are not recorded")),
    property("messageTracker.BufferSize", Nothing("packets between servers are not recorded")),
    property("kerberos.canonicalizeHostNames", NO_SASL),
    // Tree, watches, quota, ACL.
    property("extendedTypesEnabled", Used),
    property("emulate353TTLNodes", Used),
    property("enforceQuota", Used),
    property("skipACL", Used),
    property("enableEagerACLCheck", Nothing("access is always checked by the server that orders the write")),
    property("4lw.commands.whitelist", Used),
    property("watchManagerName", Java),
    property("watcherCleanThreadsNum", Java),
    property("watcherCleanThreshold", Java),
    property("watcherCleanIntervalInSeconds", Java),
    property("maxInProcessingDeadWatchers", Java),
    property("bitHashCacheSize", Java),
    property("audit.enable", Used),
    property("audit.impl.class", Java),
    property("controllerPort", TEST_ONLY),
    property("testingonly.initialZxid", TEST_ONLY),
    property("test.allowDiscontinuousProposals", TEST_ONLY),
    // Security.
    property("fips-mode", NO_TLS),
    property("client.portUnification", Protection),
    property("client.certReload", NO_TLS),
    property("client.secure", NO_TLS),
    property("DigestAuthenticationProvider.enabled", Used),
    property("DigestAuthenticationProvider.superDigest", Used),
    property("DigestAuthenticationProvider.digestAlg", Used),
    property("X509AuthenticationProvider.superUser", NO_TLS),
    property("SASLAuthenticationProvider.superPassword", NO_SASL),
    property("superUser", NO_SASL),
    property("enforce.auth.enabled", Used),
    property("enforce.auth.schemes", Used),
    property("sessionRequireClientSASLAuth", Protection),
    property("requireClientAuthScheme", Protection),
    property("allowSaslFailedClients", NO_SASL),
    property("letAnySaslUserDoX", NO_SASL),
    property("ensembleAuthName", Protection),
    property("sasl.serverconfig", Protection),
    property("sasl.client", NO_SASL),
    property("sasl.clientconfig", NO_SASL),
    property("security.auth_to_local", NO_SASL),
    property("requireKerberosConfig", Protection),
    property("kinit", NO_SASL),
    // What ZooKeeper's scripts and logging files set.
    property("log.dir", Java),
    property("log.file", Java),
    property("log.threshold", Java),
    property("log.maxfilesize", Java),
    property("log.maxbackupindex", Java),
    property("root.logger", Java),
    property("console.threshold", Java),
    property("auditlog.file", Java),
    property("auditlog.threshold", Java),
    property("audit.logger", Java),
];

const DOCUMENTED_NAMES: &[(&str, &str)] = &[
    ("connectionMaxTokens", "connection_throttle_tokens"),
    ("connectionTokenFillTime", "connection_throttle_fill_time"),
    ("connectionTokenFillCount", "connection_throttle_fill_count"),
    ("connectionFreezeTime", "connection_throttle_freeze_time"),
    ("connectionDropIncrease", "connection_throttle_drop_increase"),
    ("connectionDropDecrease", "connection_throttle_drop_decrease"),
    ("connectionDecreaseRatio", "connection_throttle_decrease_ratio"),
    ("requestThrottleLimit", "request_throttle_max_requests"),
    ("requestThrottleStallTime", "request_throttle_stall_time"),
    ("requestThrottleDropStale", "request_throttle_drop_stale"),
    ("requestStaleLatencyCheck", "request_stale_latency_check"),
    ("requestStaleConnectionCheck", "request_stale_connection_check"),
    ("throttledOpWaitTime", "throttled_op_wait_time"),
    ("advancedFlowControlEnabled", "netty.advancedFlowControl.enabled"),
    ("maxConcurrentSnapSyncs", "leader.maxConcurrentSnapSyncs"),
    ("maxConcurrentDiffSyncs", "leader.maxConcurrentDiffSyncs"),
    ("maxTimeToWaitForEpoch", "leader.maxTimeToWaitForEpoch"),
    ("outstandingHandshake.limit", "netty.server.outstandingHandshake.limit"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_listed_twice() {
        let mut keys: Vec<_> = names().collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn documented_names_lead_to_known_keys_and_are_not_keys_themselves() {
        for (documented, key) in DOCUMENTED_NAMES {
            assert!(find(key).is_some(), "{key}");
            assert!(find(documented).is_none(), "{documented}");
        }
    }

    #[test]
    fn families_are_known_by_their_beginning() {
        assert_eq!(find("ssl.quorum.keyStore.location").map(|known| known.effect), Some(Protection));
        assert_eq!(find("server.1").map(|known| known.effect), Some(Ensemble));
        assert!(find("kerberos.canonicalizeHostNames").is_some_and(|known| known.effect == NO_SASL));
        assert!(find("tickTme").is_none());
    }
}
