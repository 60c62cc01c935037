//! The variables of Confluent's image, `cp-zookeeper`. Each stands for one key.

use super::ContainerPlan;
use super::variables::Variables;

/// Variables that are no single key.
const OTHER_NAMES: [&str; 12] = [
    "ZOOKEEPER_SERVER_ID",
    "ZOOKEEPER_SERVERS",
    "ZOOKEEPER_GROUPS",
    "ZOOKEEPER_WEIGHTS",
    "ZOOKEEPER_LOG4J_ROOT_LOGLEVEL",
    "ZOOKEEPER_LOG4J_LOGGERS",
    "ZOOKEEPER_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JMX_HOSTNAME",
];

/// Variable and key.
const KEYS: &[(&str, &str)] = &[
    ("ZOOKEEPER_CLIENT_PORT", "clientPort"),
    ("ZOOKEEPER_TICK_TIME", "tickTime"),
    ("ZOOKEEPER_GLOBAL_OUTSTANDING_LIMIT", "globalOutstandingLimit"),
    ("ZOOKEEPER_PRE_ALLOC_SIZE", "preAllocSize"),
    ("ZOOKEEPER_SNAP_COUNT", "snapCount"),
    ("ZOOKEEPER_MAX_CLIENT_CNXNS", "maxClientCnxns"),
    ("ZOOKEEPER_CLIENT_PORT_ADDRESS", "clientPortAddress"),
    ("ZOOKEEPER_MIN_SESSION_TIMEOUT", "minSessionTimeout"),
    ("ZOOKEEPER_MAX_SESSION_TIMEOUT", "maxSessionTimeout"),
    ("ZOOKEEPER_FSYNC_WARNING_THRESHOLDMS", "fsync.warningthresholdms"),
    ("ZOOKEEPER_AUTOPURGE_SNAP_RETAIN_COUNT", "autopurge.snapRetainCount"),
    ("ZOOKEEPER_AUTOPURGE_PURGE_INTERVAL", "autopurge.purgeInterval"),
    ("ZOOKEEPER_SYNC_ENABLED", "syncEnabled"),
    ("ZOOKEEPER_ELECTION_ALG", "electionAlg"),
    ("ZOOKEEPER_INIT_LIMIT", "initLimit"),
    ("ZOOKEEPER_LEADER_SERVES", "leaderServes"),
    ("ZOOKEEPER_SYNC_LIMIT", "syncLimit"),
    ("ZOOKEEPER_CNX_TIMEOUT", "cnxTimeout"),
    ("ZOOKEEPER_FORCE_SYNC", "forceSync"),
    ("ZOOKEEPER_JUTE_MAX_BUFFER", "jute.maxbuffer"),
    ("ZOOKEEPER_SKIP_ACL", "skipACL"),
    ("ZOOKEEPER_QUORUM_LISTEN_ON_ALL_IPS", "quorumListenOnAllIPs"),
    ("ZOOKEEPER_SECURE_CLIENT_PORT", "secureClientPort"),
    ("ZOOKEEPER_TCP_KEEP_ALIVE", "tcpKeepAlive"),
    ("ZOOKEEPER_X509_AUTHENTICATION_PROVIDER_SUPER_USER", "X509AuthenticationProvider.superUser"),
    ("ZOOKEEPER_SSL_AUTH_PROVIDER", "ssl.authProvider"),
    ("ZOOKEEPER_SSL_CLIENT_AUTH", "ssl.clientAuth"),
    ("ZOOKEEPER_SSL_KEYSTORE_LOCATION", "ssl.keyStore.location"),
    ("ZOOKEEPER_SSL_KEYSTORE_PASSWORD", "ssl.keyStore.password"),
    ("ZOOKEEPER_SSL_KEYSTORE_TYPE", "ssl.keyStore.type"),
    ("ZOOKEEPER_SSL_TRUSTSTORE_LOCATION", "ssl.trustStore.location"),
    ("ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD", "ssl.trustStore.password"),
    ("ZOOKEEPER_SSL_TRUSTSTORE_TYPE", "ssl.trustStore.type"),
    ("ZOOKEEPER_SSL_ENABLED_PROTOCOLS", "ssl.enabledProtocols"),
    ("ZOOKEEPER_SSL_CONTEXT_SUPPLIER_CLASS", "ssl.context.supplier.class"),
    ("ZOOKEEPER_SSL_CIPHER_SUITES", "ssl.ciphersuites"),
    ("ZOOKEEPER_SSL_HOSTNAME_VERIFICATION", "ssl.hostnameVerification"),
    ("ZOOKEEPER_SSL_CRL", "ssl.crl"),
    ("ZOOKEEPER_SSL_OCPS", "ssl.ocsp"),
    ("ZOOKEEPER_SSL_HANDSHAKE_DETECTION_TIMEOUT_MILLIS", "ssl.handshakeDetectionTimeoutMillis"),
    ("ZOOKEEPER_SSL_QUORUM", "sslQuorum"),
    ("ZOOKEEPER_SSL_QUORUM_CLIENT_AUTH", "ssl.quorum.clientAuth"),
    ("ZOOKEEPER_SSL_QUORUM_KEYSTORE_LOCATION", "ssl.quorum.keyStore.location"),
    ("ZOOKEEPER_SSL_QUORUM_KEYSTORE_PASSWORD", "ssl.quorum.keyStore.password"),
    ("ZOOKEEPER_SSL_QUORUM_KEYSTORE_TYPE", "ssl.quorum.keyStore.type"),
    ("ZOOKEEPER_SSL_QUORUM_TRUSTSTORE_LOCATION", "ssl.quorum.trustStore.location"),
    ("ZOOKEEPER_SSL_QUORUM_TRUSTSTORE_PASSWORD", "ssl.quorum.trustStore.password"),
    ("ZOOKEEPER_SSL_QUORUM_TRUSTSTORE_TYPE", "ssl.quorum.trustStore.type"),
    ("ZOOKEEPER_SSL_QUORUM_ENABLED_PROTOCOLS", "ssl.quorum.enabledProtocols"),
    ("ZOOKEEPER_SSL_QUORUM_CIPHER_SUITES", "ssl.quorum.ciphersuites"),
    ("ZOOKEEPER_SSL_QUORUM_CONTEXT_SUPPLIER_CLASS", "ssl.quorum.context.supplier.class"),
    ("ZOOKEEPER_SSL_QUORUM_HOSTNAME_VERIFICATION", "ssl.quorum.hostnameVerification"),
    ("ZOOKEEPER_SSL_QUORUM_CRL", "ssl.quorum.crl"),
    ("ZOOKEEPER_SSL_QUORUM_OCPS", "ssl.quorum.ocsp"),
    ("ZOOKEEPER_SSL_QUORUM_HANDSHAKE_DETECTION_TIMEOUT_MILLIS", "ssl.quorum.handshakeDetectionTimeoutMillis"),
    ("ZOOKEEPER_SERVER_CNXN_FACTORY", "serverCnxnFactory"),
    ("ZOOKEEPER_AUTH_PROVIDER_X509", "authProvider.x509"),
    ("ZOOKEEPER_AUTH_PROVIDER_SASL", "authProvider.sasl"),
    ("ZOOKEEPER_CLIENT_PORT_UNIFICATION", "client.portUnification"),
    ("ZOOKEEPER_ADMIN_ENABLE_SERVER", "admin.enableServer"),
    ("ZOOKEEPER_ADMIN_SERVER_ADDRESS", "admin.serverAddress"),
    ("ZOOKEEPER_ADMIN_SERVER_PORT", "admin.serverPort"),
    ("ZOOKEEPER_ADMIN_IDLE_TIMEOUT", "admin.idleTimeout"),
    ("ZOOKEEPER_ADMIN_COMMAND_URL", "admin.commandURL"),
];

/// All variables of the image.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|(name, _)| *name).chain(OTHER_NAMES)
}

pub(super) fn plan(variables: &mut Variables<'_>) -> ContainerPlan {
    let conf_dir = variables.directory("ZOO_CONF_DIR", "/conf");
    let data_dir = variables.directory("ZOO_DATA_DIR", "/var/lib/zookeeper/data");
    let log_dir = variables.directory("ZOO_DATA_LOG_DIR", "/var/lib/zookeeper/log");
    variables.copy("dataDir", "ZOO_DATA_DIR", "/var/lib/zookeeper/data");
    variables.copy("dataLogDir", "ZOO_DATA_LOG_DIR", "/var/lib/zookeeper/log");
    for (name, key) in KEYS {
        match variables.get(name) {
            Some(value) if key.ends_with("password") => variables.set_secret(key, name, &value),
            Some(value) => variables.set(key, name, &value),
            None => {}
        }
    }
    let mut is_ensemble = false;
    for (name, key) in
        [("ZOOKEEPER_SERVERS", "server"), ("ZOOKEEPER_GROUPS", "group"), ("ZOOKEEPER_WEIGHTS", "weight")]
    {
        let list = variables.get(name).unwrap_or_default();
        for (place, entry) in list.split(';').filter(|entry| !entry.trim().is_empty()).enumerate() {
            is_ensemble |= key == "server";
            variables.set(&format!("{key}.{}", place + 1), name, entry.trim());
        }
    }
    if is_ensemble {
        variables.copy("initLimit", "ZOOKEEPER_INIT_LIMIT", "10");
        variables.copy("syncLimit", "ZOOKEEPER_SYNC_LIMIT", "5");
    }
    let my_id = match variables.get("ZOOKEEPER_SERVER_ID") {
        Some(_) => Some(variables.id("ZOOKEEPER_SERVER_ID", "")),
        None if is_ensemble => {
            let text = "ZOOKEEPER_SERVERS needs ZOOKEEPER_SERVER_ID: the place of this server in the list";
            variables.error(text.to_owned());
            None
        }
        None => None,
    };
    let properties = variables.properties("KAFKA_OPTS");
    let log_filter = variables.get("ZOOKEEPER_LOG4J_ROOT_LOGLEVEL").map(|level| level.to_ascii_lowercase());
    ContainerPlan {
        directories: vec![log_dir],
        my_id,
        properties,
        log_filter,
        ..variables.plan(&conf_dir, &data_dir)
    }
}
