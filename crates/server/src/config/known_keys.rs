//! Every key of ZooKeeper's configuration, where it may be written and its effect here. A table and
//! its lookup; other modules check the values.

/// Where a key may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyScope {
    /// Only in the file.
    File,
    /// In the file, or as `-Dzookeeper.<key>`.
    Property,
    /// As `-D<key>`; ZooKeeper ignores it in the file, Zebu does not.
    Bare,
    /// In the file, as `-Dzookeeper.<key>` or as `-D<key>`.
    Either,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyEffect {
    /// A value of `ServerConfig`.
    Used,
    /// Used by ensemble members only.
    Ensemble,
    /// Accepted without effect; a note says why.
    Ignored(&'static str),
    /// An option of the Java virtual machine.
    Jvm,
    /// May require protection; see `protection.rs`.
    Protection,
}

/// A key of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownKey {
    pub(super) key: &'static str,
    pub(super) scope: KeyScope,
    pub(super) effect: KeyEffect,
}

/// Finds a key; families (`server.N`, `ssl.…`) match by prefix.
pub(super) fn find_key(key: &str) -> Option<KnownKey> {
    if let Some(known) = KNOWN_KEYS.iter().find(|known| known.key == key) {
        return Some(*known);
    }
    KEY_FAMILIES.iter().find(|known| key.starts_with(known.key)).copied()
}

/// The effective key for a documented name, because some names of the manual have no effect.
pub(super) fn documented_name(name: &str) -> Option<&'static str> {
    DOCUMENTED_NAMES.iter().find(|(documented, _)| *documented == name).map(|&(_, key)| key)
}

/// The names that a misspelt key is compared with.
pub(super) fn key_names() -> impl Iterator<Item = &'static str> {
    KNOWN_KEYS.iter().map(|known| known.key)
}

const fn file(key: &'static str, effect: KeyEffect) -> KnownKey {
    KnownKey { key, scope: KeyScope::File, effect }
}

const fn property(key: &'static str, effect: KeyEffect) -> KnownKey {
    KnownKey { key, scope: KeyScope::Property, effect }
}

const fn bare(key: &'static str, effect: KeyEffect) -> KnownKey {
    KnownKey { key, scope: KeyScope::Bare, effect }
}

const fn either(key: &'static str, effect: KeyEffect) -> KnownKey {
    KnownKey { key, scope: KeyScope::Either, effect }
}

const NO_STALE: KeyEffect = KeyEffect::Ignored("a request that was received is carried out");
const NO_CACHE: KeyEffect = KeyEffect::Ignored("answers are not cached, they are cheap to build");
const KDC_OF_JAVA: KeyEffect = KeyEffect::Ignored("name the KDC in krb5.conf");
const FOR_CLIENTS: KeyEffect = KeyEffect::Ignored("it is a key of clients");
const NO_RENEWAL: KeyEffect = KeyEffect::Ignored("an accepting server needs no ticket, so none is renewed");
const NO_PATH_STATS: KeyEffect = KeyEffect::Ignored("`zebu top` shows the hottest paths");
const TEST_ONLY: KeyEffect = KeyEffect::Ignored("it exists for ZooKeeper's own tests");

use KeyEffect::{Ensemble, Ignored, Jvm, Protection, Used};

const KEY_FAMILIES: &[KnownKey] = &[
    file("server.", Ensemble),
    file("group", Ensemble),
    file("weight", Ensemble),
    file("metricsProvider.", Used),
    file("quorum.auth.", Ignored("no release of ZooKeeper reads this key")),
    property("admin.", Used),
    property("ssl.quorum.", Ensemble),
    property("ssl.", Used),
    property("authProvider.", Used),
    property("superUser.", Used),
    property("pathStats.", NO_PATH_STATS),
    property("kerberos.", NO_RENEWAL),
    property("tracelog.", Jvm),
    property("jmx.", Jvm),
];

const KNOWN_KEYS: &[KnownKey] = &[
    // Read by the parser of the file itself.
    property("admin.httpVersion", Ignored("the admin server speaks HTTP/1.1")),
    file("dataDir", Used),
    file("dataLogDir", Used),
    file("clientPort", Used),
    file("clientPortAddress", Used),
    file("secureClientPort", Used),
    file("secureClientPortAddress", Used),
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
    file("quorum.cnxn.threads.size", Jvm),
    file("localSessionsEnabled", Ensemble),
    file("localSessionsUpgradingEnabled", Ensemble),
    file("autopurge.snapRetainCount", Used),
    file("autopurge.purgeInterval", Used),
    file("standaloneEnabled", Used),
    file("reconfigEnabled", Used),
    file("dynamicConfigFile", Ensemble),
    either("sslQuorum", Ensemble),
    either("portUnification", Ensemble),
    file("sslQuorumReloadCertFiles", Used),
    either("quorum.auth.enableSasl", Ensemble),
    either("quorum.auth.serverRequireSasl", Ensemble),
    either("quorum.auth.learnerRequireSasl", Ensemble),
    either("quorum.auth.server.saslLoginContext", Ensemble),
    either("quorum.auth.learner.saslLoginContext", Ensemble),
    either("quorum.auth.kerberos.servicePrincipal", Used),
    property("multiAddress.enabled", Ensemble),
    file(
        "multiAddress.reachabilityCheckEnabled",
        Ignored("connections are attempted to all addresses, and the first that answers is used"),
    ),
    file(
        "multiAddress.reachabilityCheckTimeoutMs",
        Ignored("connections are attempted to all addresses, and the first that answers is used"),
    ),
    file("oraclePath", Ensemble),
    file("jvm.pause.monitor", Jvm),
    file("jvm.pause.warn-threshold.ms", Jvm),
    file("jvm.pause.info-threshold.ms", Jvm),
    file("jvm.pause.sleep.time.ms", Jvm),
    // Names without the prefix.
    bare("jute.maxbuffer", Used),
    bare("readonlymode.enabled", Used),
    bare("znode.container.checkIntervalMs", Used),
    bare("znode.container.maxPerMinute", Used),
    bare("znode.container.maxNeverUsedIntervalMs", Used),
    bare("follower.nodelay", Ignored("connections between servers are never delayed")),
    bare("leader.nodelay", Ignored("connections between servers are never delayed")),
    bare("java.security.auth.login.config", Used),
    bare("java.security.krb5.conf", Used),
    bare("java.security.krb5.realm", Used),
    bare("java.security.krb5.kdc", KDC_OF_JAVA),
    // Storage.
    property("snapCount", Used),
    property("snapSizeLimitInKb", Used),
    property("txnLogSizeLimitInKb", Used),
    property("preAllocSize", Used),
    property("forceSync", Used),
    either("fsync.warningthresholdms", Used),
    property("disk.low", Used),
    property("disk.stop", Used),
    property("disk.reserve", Used),
    property("slow.disk", Used),
    property("flushDelay", Used),
    property("maxWriteQueuePollTime", Ignored("writes are flushed as soon as the disk is free")),
    property("maxBatchSize", Used),
    property("commitLogCount", Ensemble),
    property("snapshotSizeFactor", Ensemble),
    property("snapshot.compression.method", Used),
    property("snapshot.trust.empty", Used),
    property("serializeLastProcessedZxid.enabled", Used),
    property("digest.enabled", Used),
    property("datadir.autocreate", Used),
    property("db.autocreate", Ignored("a server without data takes the data of the leader")),
    property(
        "closeSessionTxn.enabled",
        Ignored("the end of a session lists the nodes that go with it, unless the list would be too long"),
    ),
    property("jute.maxbuffer.extrasize", Used),
    property("forceSnapshotSync", Ignored("it exists for ZooKeeper's own tests")),
    // Connections, limits, throttling.
    property("globalOutstandingLimit", Used),
    property("maxCnxns", Used),
    property("clientTcpKeepAlive", Used),
    property("largeRequestThreshold", Used),
    property("largeRequestMaxBytes", Used),
    property("request_throttle_max_requests", Used),
    property("request_throttle_stall_time", Ignored("requests wait for room without polling")),
    property("request_throttle_drop_stale", NO_STALE),
    property("request_stale_connection_check", NO_STALE),
    property("request_stale_latency_check", NO_STALE),
    property("request_throttler.shutdownTimeout", Ignored("a stopping server finishes what was begun")),
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
    property("nio.numSelectorThreads", Jvm),
    property("nio.numWorkerThreads", Jvm),
    property("nio.directBufferBytes", Jvm),
    property("nio.shutdownTimeout", Jvm),
    property("intBufferStartingSizeBytes", Jvm),
    property("serverCnxnFactory", Jvm),
    property("netty.advancedFlowControl.enabled", Jvm),
    property("netty.server.outstandingHandshake.limit", Used),
    property(
        "netty.server.earlyDropSecureConnectionHandshakes",
        Ignored("a server that does not serve always refuses TLS connections before the handshake"),
    ),
    property("commitProcessor.numWorkerThreads", Jvm),
    property("commitProcessor.maxReadBatchSize", Jvm),
    property("commitProcessor.maxCommitBatchSize", Jvm),
    property("commitProcessor.shutdownTimeout", Jvm),
    // Quorum.
    property("leaderServes", Ensemble),
    property("cnxTimeout", Ensemble),
    property("quorumCnxnTimeoutMs", Ensemble),
    property("electionPortBindRetry", Ensemble),
    property("fastleader.minNotificationInterval", Ensemble),
    property("fastleader.maxNotificationInterval", Ensemble),
    property("tcpKeepAlive", Ensemble),
    property("leader.maxTimeToWaitForEpoch", Ignored("a leader waits for epochs as long as initLimit says")),
    property(
        "leader.maxConcurrentSnapSyncs",
        Ignored("states are sent in small pieces beside everything else"),
    ),
    property(
        "leader.maxConcurrentDiffSyncs",
        Ignored("transactions are sent in small pieces beside everything else"),
    ),
    property("leader.ackLoggingFrequency", Ignored("acknowledgements are not logged")),
    property("leaderConnectDelayDuringRetryMs", Ignored("the delay between attempts is fixed")),
    property("observer.reconnectDelayMs", Ensemble),
    property("observer.election.DelayMs", Ensemble),
    property("observerMaster.sizeLimit", Ensemble),
    either("learner.asyncSending", Ignored("packets are always sent without blocking")),
    either("learner.closeSocketAsync", Ignored("sockets are always closed without blocking")),
    either("leader.closeSocketAsync", Ignored("sockets are always closed without blocking")),
    property("follower.skipLearnerRequestToNextProcessor", Jvm),
    property("forward_learner_requests_to_commit_processor_disabled", Jvm),
    property("messageTracker.Enabled", Ignored("packets between servers are not recorded")),
    property("messageTracker.BufferSize", Ignored("packets between servers are not recorded")),
    property("kerberos.canonicalizeHostNames", FOR_CLIENTS),
    // Tree, watches, quota, ACL.
    property("extendedTypesEnabled", Used),
    property("emulate353TTLNodes", Used),
    property("enforceQuota", Used),
    property("skipACL", Used),
    property("enableEagerACLCheck", Ignored("access is always checked by the server that orders the write")),
    property("4lw.commands.whitelist", Used),
    property("watchManagerName", Jvm),
    property("watcherCleanThreadsNum", Jvm),
    property("watcherCleanThreshold", Jvm),
    property("watcherCleanIntervalInSeconds", Jvm),
    property("maxInProcessingDeadWatchers", Jvm),
    property("bitHashCacheSize", Jvm),
    property("audit.enable", Used),
    property("audit.impl.class", Used),
    file("zebu.electionGrace", Used),
    file("zebu.drainTime", Used),
    file("zebu.top.sampling", Used),
    file("zebu.slowRequestMs", Used),
    file("zebu.largeReplyBytes", Used),
    file("zebu.maxWatchesPerConnection", Used),
    property("linearizable.paths", Used),
    property("reply.maxbuffer", Used),
    property("scan.maxBytes", Used),
    property("feed.max", Used),
    property("feed.readers", Used),
    file("zebu.privateRequests", Used),
    property("keeperExtensions", Used),
    file("zebu.zone", Used),
    file("zebu.audit.file", Used),
    file("zebu.audit.fileBytes", Used),
    file("zebu.audit.files", Used),
    file("zebu.audit.format", Used),
    file("zebu.audit.onFailure", Used),
    file("zebu.audit.extraEvents", Used),
    // Read by the program before the configuration, because the log is the first part of a start.
    file("zebu.log.filter", Used),
    file("zebu.log.format", Used),
    file("zebu.log.file", Used),
    file("zebu.log.fileBytes", Used),
    file("zebu.log.files", Used),
    property("controllerPort", TEST_ONLY),
    property("testingonly.initialZxid", TEST_ONLY),
    property("test.allowDiscontinuousProposals", TEST_ONLY),
    // Security.
    property("fips-mode", Used),
    property("client.portUnification", Used),
    property("client.certReload", Used),
    property("client.secure", FOR_CLIENTS),
    property("DigestAuthenticationProvider.enabled", Used),
    property("DigestAuthenticationProvider.superDigest", Used),
    property("IPAuthenticationProvider.usexforwardedfor", Used),
    property("DigestAuthenticationProvider.digestAlg", Used),
    property("X509AuthenticationProvider.superUser", Used),
    property("SASLAuthenticationProvider.superPassword", Used),
    property("superUser", Used),
    property("enforce.auth.enabled", Used),
    property("enforce.auth.schemes", Used),
    property("sessionRequireClientSASLAuth", Used),
    property("requireClientAuthScheme", Protection),
    property("allowSaslFailedClients", Used),
    property("letAnySaslUserDoX", Used),
    property("ensembleAuthName", Used),
    property("sasl.serverconfig", Used),
    property("sasl.client", FOR_CLIENTS),
    property("sasl.clientconfig", FOR_CLIENTS),
    property("security.auth_to_local", Used),
    property("requireKerberosConfig", Used),
    property("kinit", NO_RENEWAL),
    property("kerberos.removeHostFromPrincipal", Used),
    property("kerberos.removeRealmFromPrincipal", Used),
    // Set by ZooKeeper's scripts and logging files.
    property("log.dir", Used),
    property("log.file", Jvm),
    property("log.threshold", Jvm),
    property("log.maxfilesize", Jvm),
    property("log.maxbackupindex", Jvm),
    property("root.logger", Jvm),
    property("console.threshold", Jvm),
    property("auditlog.file", Jvm),
    property("auditlog.threshold", Jvm),
    property("audit.logger", Jvm),
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
        let mut keys: Vec<_> = key_names().collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn documented_names_lead_to_known_keys_and_are_not_keys_themselves() {
        for (documented, key) in DOCUMENTED_NAMES {
            assert!(find_key(key).is_some(), "{key}");
            assert!(find_key(documented).is_none(), "{documented}");
        }
    }

    #[test]
    fn families_are_known_by_their_beginning() {
        assert_eq!(find_key("ssl.quorum.keyStore.location").map(|known| known.effect), Some(Ensemble));
        assert_eq!(find_key("server.1").map(|known| known.effect), Some(Ensemble));
        assert!(find_key("kerberos.canonicalizeHostNames").is_some_and(|known| known.effect == FOR_CLIENTS));
        assert!(find_key("tickTme").is_none());
    }
}
