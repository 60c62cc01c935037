//! The variables of Bitnami's image, `bitnami/zookeeper`.

use super::jaas::{self, JaasUser};
use super::variables::Variables;
use super::{ContainerPlan, JAAS_FILE};

/// `ZOO_CFG_a_b=value` is the line `a.b=value`.
pub(super) const KEY_PREFIX: &str = "ZOO_CFG_";

/// Every variable of the image; each may also be `NAME_FILE` with the path of a file.
pub(super) const NAMES: &[&str] = &[
    "ZOO_CONF_DIR",
    "ZOO_DATA_DIR",
    "ZOO_DATA_LOG_DIR",
    "ZOO_LOG_DIR",
    "ZOO_PORT_NUMBER",
    "ZOO_SERVER_ID",
    "ZOO_SERVERS",
    "ZOO_ENABLE_ADMIN_SERVER",
    "ZOO_ADMIN_SERVER_ADDRESS",
    "ZOO_ADMIN_SERVER_PORT_NUMBER",
    "ZOO_PEER_TYPE",
    "ZOO_TICK_TIME",
    "ZOO_INIT_LIMIT",
    "ZOO_SYNC_LIMIT",
    "ZOO_MAX_CNXNS",
    "ZOO_MAX_CLIENT_CNXNS",
    "ZOO_AUTOPURGE_INTERVAL",
    "ZOO_AUTOPURGE_RETAIN_COUNT",
    "ZOO_LOG_LEVEL",
    "ZOO_4LW_COMMANDS_WHITELIST",
    "ZOO_RECONFIG_ENABLED",
    "ZOO_LISTEN_ALLIPS_ENABLED",
    "ZOO_ENABLE_PROMETHEUS_METRICS",
    "ZOO_PROMETHEUS_METRICS_PORT_NUMBER",
    "ZOO_MAX_SESSION_TIMEOUT",
    "ZOO_PRE_ALLOC_SIZE",
    "ZOO_SNAPCOUNT",
    "ZOO_HC_TIMEOUT",
    "ZOO_FIPS_MODE",
    "ZOO_TLS_CLIENT_ENABLE",
    "ZOO_TLS_PORT_NUMBER",
    "ZOO_TLS_CLIENT_KEYSTORE_FILE",
    "ZOO_TLS_CLIENT_KEYSTORE_TYPE",
    "ZOO_TLS_CLIENT_KEYSTORE_PASSWORD",
    "ZOO_TLS_CLIENT_TRUSTSTORE_FILE",
    "ZOO_TLS_CLIENT_TRUSTSTORE_TYPE",
    "ZOO_TLS_CLIENT_TRUSTSTORE_PASSWORD",
    "ZOO_TLS_CLIENT_AUTH",
    "ZOO_TLS_QUORUM_ENABLE",
    "ZOO_TLS_QUORUM_KEYSTORE_FILE",
    "ZOO_TLS_QUORUM_KEYSTORE_TYPE",
    "ZOO_TLS_QUORUM_KEYSTORE_PASSWORD",
    "ZOO_TLS_QUORUM_TRUSTSTORE_FILE",
    "ZOO_TLS_QUORUM_TRUSTSTORE_TYPE",
    "ZOO_TLS_QUORUM_TRUSTSTORE_PASSWORD",
    "ZOO_TLS_QUORUM_CLIENT_AUTH",
    "JVMFLAGS",
    "ZOO_HEAP_SIZE",
    "ZOO_ENABLE_AUTH",
    "ALLOW_EMPTY_PASSWORD",
    "ALLOW_ANONYMOUS_LOGIN",
    "ZOO_CLIENT_USER",
    "ZOO_SERVER_USERS",
    "ZOO_CLIENT_PASSWORD",
    "ZOO_SERVER_PASSWORDS",
    "ZOO_ENABLE_QUORUM_AUTH",
    "ZOO_QUORUM_LEARNER_USER",
    "ZOO_QUORUM_LEARNER_PASSWORD",
    "ZOO_QUORUM_SERVER_USERS",
    "ZOO_QUORUM_SERVER_PASSWORDS",
    "BITNAMI_DEBUG",
];

pub(super) fn plan(variables: &mut Variables<'_>) -> ContainerPlan {
    let conf_dir = variables.directory("ZOO_CONF_DIR", "/opt/bitnami/zookeeper/conf");
    let data_dir = variables.directory("ZOO_DATA_DIR", "/bitnami/zookeeper/data");
    let log_dir = variables.get("ZOO_DATA_LOG_DIR");
    check_login(variables);
    add_settings(variables);
    add_servers(variables);
    add_tls(variables);
    let jaas = add_logins(variables);
    if variables.is_on("ZOO_ENABLE_PROMETHEUS_METRICS") {
        let class = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
        variables.set("metricsProvider.className", "ZOO_ENABLE_PROMETHEUS_METRICS", class);
        variables.copy("metricsProvider.httpPort", "ZOO_PROMETHEUS_METRICS_PORT_NUMBER", "7000");
        variables.set("metricsProvider.exportJvmInfo", "ZOO_ENABLE_PROMETHEUS_METRICS", "true");
    }
    add_peer_type(variables);
    for (key, value) in variables.with_prefix(KEY_PREFIX) {
        variables.set(&key.replace('_', "."), &format!("{KEY_PREFIX}{key}"), &value);
    }
    let mut properties = vec!["zookeeper.electionPortBindRetry=0".to_owned()];
    if variables.get("ZOO_FIPS_MODE").is_some() {
        properties.push(format!("zookeeper.fips-mode={}", variables.is_on("ZOO_FIPS_MODE")));
    }
    if jaas.is_some() {
        properties.push(format!("java.security.auth.login.config={}", conf_dir.join(JAAS_FILE).display()));
    }
    let my_id = variables.id("ZOO_SERVER_ID", "1");
    let log_filter = log_filter(variables);
    ContainerPlan {
        directories: log_dir.into_iter().map(Into::into).collect(),
        my_id: Some(my_id),
        jaas,
        properties,
        log_filter,
        ..variables.plan(&conf_dir, &data_dir)
    }
}

/// A server for everyone needs an explicit permission, as in the image.
fn check_login(variables: &mut Variables<'_>) {
    // The second name is that of older images.
    let is_open = variables.is_on("ALLOW_EMPTY_PASSWORD") || variables.is_on("ALLOW_ANONYMOUS_LOGIN");
    let has_login = variables.is_on("ZOO_ENABLE_AUTH");
    if !is_open && !has_login {
        variables.error(
            "no client has to log in; set ZOO_ENABLE_AUTH=yes with ZOO_SERVER_USERS and ZOO_SERVER_PASSWORDS, or \
             allow it with ALLOW_EMPTY_PASSWORD=yes"
                .to_owned(),
        );
    }
    let needs_md5 = has_login || variables.is_on("ZOO_ENABLE_QUORUM_AUTH");
    if needs_md5 && variables.is_on("ZOO_FIPS_MODE") {
        variables.error(
            "ZOO_FIPS_MODE=yes forbids DIGEST-MD5, which ZOO_ENABLE_AUTH and ZOO_ENABLE_QUORUM_AUTH use; set \
             ZOO_FIPS_MODE=no"
                .to_owned(),
        );
    }
}

fn add_settings(variables: &mut Variables<'_>) {
    for (key, name, default) in [
        ("tickTime", "ZOO_TICK_TIME", "2000"),
        ("initLimit", "ZOO_INIT_LIMIT", "10"),
        ("syncLimit", "ZOO_SYNC_LIMIT", "5"),
        ("dataDir", "ZOO_DATA_DIR", "/bitnami/zookeeper/data"),
        ("clientPort", "ZOO_PORT_NUMBER", "2181"),
        ("preAllocSize", "ZOO_PRE_ALLOC_SIZE", "65536"),
        ("snapCount", "ZOO_SNAPCOUNT", "100000"),
    ] {
        variables.copy(key, name, default);
    }
    variables.copy_if_set("dataLogDir", "ZOO_DATA_LOG_DIR");
    variables.copy("maxCnxns", "ZOO_MAX_CNXNS", "0");
    variables.copy("maxClientCnxns", "ZOO_MAX_CLIENT_CNXNS", "60");
    for (key, name) in
        [("reconfigEnabled", "ZOO_RECONFIG_ENABLED"), ("quorumListenOnAllIPs", "ZOO_LISTEN_ALLIPS_ENABLED")]
    {
        let value = variables.is_on(name).to_string();
        variables.set(key, name, &value);
    }
    for (key, name, default) in [
        ("autopurge.purgeInterval", "ZOO_AUTOPURGE_INTERVAL", "0"),
        ("autopurge.snapRetainCount", "ZOO_AUTOPURGE_RETAIN_COUNT", "3"),
        ("4lw.commands.whitelist", "ZOO_4LW_COMMANDS_WHITELIST", "srvr, mntr"),
        ("maxSessionTimeout", "ZOO_MAX_SESSION_TIMEOUT", "40000"),
        ("admin.serverAddress", "ZOO_ADMIN_SERVER_ADDRESS", "127.0.0.1"),
        ("admin.serverPort", "ZOO_ADMIN_SERVER_PORT_NUMBER", "8080"),
    ] {
        variables.copy(key, name, default);
    }
    let admin = variables.is_on("ZOO_ENABLE_ADMIN_SERVER").to_string();
    variables.set("admin.enableServer", "ZOO_ENABLE_ADMIN_SERVER", &admin);
}

/// `host:2888:3888[:observer]`, with ids by place or by `::id`. A list of one server is none.
fn add_servers(variables: &mut Variables<'_>) {
    let servers = words(&variables.get("ZOO_SERVERS").unwrap_or_default());
    let port = variables.get_or("ZOO_PORT_NUMBER", "2181");
    let has_ids = servers.iter().any(|server| server.contains("::"));
    for (place, server) in servers.iter().enumerate() {
        // An IPv6 address in brackets has colons of its own.
        let after_host = server.rfind(']').map_or(0, |end| end + 1);
        let (address, id) = match server[after_host..].rsplit_once("::") {
            Some((rest, id)) if has_ids => (format!("{}{rest}", &server[..after_host]), id.to_owned()),
            Some(_) | None => (server.clone(), (place + 1).to_string()),
        };
        let is_complete = server[after_host..].split(':').filter(|part| !part.is_empty()).count() >= 2;
        let lacks_id = has_ids && !server[after_host..].contains("::");
        if !is_complete || lacks_id || id.parse::<i64>().is_err() {
            variables.error(format!(
                "ZOO_SERVERS: \"{server}\" is not of the form zk1:2888:3888 or zk1:2888:3888::1; all servers have an \
                 id, or none has"
            ));
        } else if servers.len() > 1 {
            variables.set(&format!("server.{id}"), "ZOO_SERVERS", &format!("{address};{port}"));
        }
    }
}

fn add_peer_type(variables: &mut Variables<'_>) {
    match variables.get("ZOO_PEER_TYPE").as_deref() {
        None => {}
        Some(kind @ ("observer" | "participant")) => variables.set("peerType", "ZOO_PEER_TYPE", kind),
        Some(other) => {
            variables.error(format!("ZOO_PEER_TYPE=\"{other}\" is not known; it is observer or participant"));
        }
    }
}

fn add_tls(variables: &mut Variables<'_>) {
    if variables.is_on("ZOO_TLS_CLIENT_ENABLE") {
        variables.unset("clientPort");
        variables.copy("secureClientPort", "ZOO_TLS_PORT_NUMBER", "3181");
        add_client_auth(variables, "ssl.clientAuth", "ZOO_TLS_CLIENT_AUTH");
        add_stores(variables, "ssl", "ZOO_TLS_CLIENT");
        if !words(&variables.get("ZOO_SERVERS").unwrap_or_default()).is_empty() {
            let port = variables.get_or("ZOO_PORT_NUMBER", "2181");
            variables.warnings.push(format!(
                "TLS is on, and the servers of ZOO_SERVERS still listen on port {port} without it, as in Bitnami's \
                 image; close the port to others"
            ));
        }
    }
    if variables.is_on("ZOO_TLS_QUORUM_ENABLE") {
        variables.set("sslQuorum", "ZOO_TLS_QUORUM_ENABLE", "true");
        add_client_auth(variables, "ssl.quorum.clientAuth", "ZOO_TLS_QUORUM_CLIENT_AUTH");
        add_stores(variables, "ssl.quorum", "ZOO_TLS_QUORUM");
    }
}

fn add_client_auth(variables: &mut Variables<'_>, key: &str, name: &str) {
    let value = variables.get_or(name, "need");
    if !["none", "want", "need"].contains(&value.as_str()) {
        variables.error(format!("{name}=\"{value}\" is not known; it is none, want or need"));
    }
    variables.set(key, name, &value);
}

fn add_stores(variables: &mut Variables<'_>, key: &str, name: &str) {
    for (store, part) in [("keyStore", "KEYSTORE"), ("trustStore", "TRUSTSTORE")] {
        match variables.get(&format!("{name}_{part}_FILE")) {
            Some(path) => {
                variables.set(&format!("{key}.{store}.location"), name, &path.replace('\\', "\\\\"))
            }
            None => variables.error(format!("{name}_ENABLE is on, and {name}_{part}_FILE names no file")),
        }
        variables.copy_if_set(&format!("{key}.{store}.type"), &format!("{name}_{part}_TYPE"));
        let password = format!("{name}_{part}_PASSWORD");
        if let Some(value) = variables.get(&password) {
            variables.set_secret(&format!("{key}.{store}.password"), &password, &value);
        }
    }
}

/// SASL for clients and between servers; returns the JAAS file.
fn add_logins(variables: &mut Variables<'_>) -> Option<String> {
    let mut sections = String::new();
    if variables.is_on("ZOO_ENABLE_AUTH") {
        let class = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
        variables.set("authProvider.1", "ZOO_ENABLE_AUTH", class);
        variables.set("sessionRequireClientSASLAuth", "ZOO_ENABLE_AUTH", "true");
        let users = user_list(variables, "ZOO_SERVER_USERS", "ZOO_SERVER_PASSWORDS");
        if users.is_empty() {
            variables.error(
                "ZOO_ENABLE_AUTH is on, and no client could log in; set ZOO_SERVER_USERS and ZOO_SERVER_PASSWORDS"
                    .to_owned(),
            );
        }
        sections.push_str(&jaas::server_section("Server", &users));
        if let Some(user) = variables.get("ZOO_CLIENT_USER") {
            let password = variables.get("ZOO_CLIENT_PASSWORD").unwrap_or_default();
            sections.push_str(&jaas::client_section("Client", &JaasUser { name: user, password }));
        }
    }
    if variables.is_on("ZOO_ENABLE_QUORUM_AUTH") {
        for key in ["enableSasl", "learnerRequireSasl", "serverRequireSasl"] {
            variables.set(&format!("quorum.auth.{key}"), "ZOO_ENABLE_QUORUM_AUTH", "true");
        }
        variables.set("quorum.auth.learner.saslLoginContext", "ZOO_ENABLE_QUORUM_AUTH", "QuorumLearner");
        variables.set("quorum.auth.server.saslLoginContext", "ZOO_ENABLE_QUORUM_AUTH", "QuorumServer");
        let users = user_list(variables, "ZOO_QUORUM_SERVER_USERS", "ZOO_QUORUM_SERVER_PASSWORDS");
        let learner =
            (variables.get("ZOO_QUORUM_LEARNER_USER"), variables.get("ZOO_QUORUM_LEARNER_PASSWORD"));
        match learner {
            (Some(name), Some(password)) if !users.is_empty() => {
                sections.push_str(&jaas::client_section("QuorumLearner", &JaasUser { name, password }));
                sections.push_str(&jaas::server_section("QuorumServer", &users));
            }
            _ => variables.error(
                "ZOO_ENABLE_QUORUM_AUTH needs ZOO_QUORUM_LEARNER_USER, ZOO_QUORUM_LEARNER_PASSWORD, \
                 ZOO_QUORUM_SERVER_USERS and ZOO_QUORUM_SERVER_PASSWORDS"
                    .to_owned(),
            ),
        }
    }
    (!sections.is_empty()).then_some(sections)
}

fn user_list(variables: &mut Variables<'_>, names: &str, passwords: &str) -> Vec<JaasUser> {
    let list = |variables: &mut Variables<'_>, name: &str| words(&variables.get(name).unwrap_or_default());
    let (users, secrets) = (list(variables, names), list(variables, passwords));
    if users.len() != secrets.len() {
        variables.error(format!(
            "{names} has {} entries and {passwords} has {}; each user needs one password",
            users.len(),
            secrets.len()
        ));
    }
    for user in &users {
        if !jaas::is_option_name(user) {
            variables.error(format!(
                "{names}: \"{user}\" cannot be the name of a user in a JAAS file; use letters, digits, _, - and ."
            ));
        }
    }
    users.into_iter().zip(secrets).map(|(name, password)| JaasUser { name, password }).collect()
}

/// Lists are separated by commas, semicolons or blanks.
fn words(list: &str) -> Vec<String> {
    list.split([',', ';', ' ', '\n', '\t']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// `ZOO_LOG_LEVEL` has the names of log4j.
fn log_filter(variables: &mut Variables<'_>) -> Option<String> {
    let level = variables.get("ZOO_LOG_LEVEL")?;
    match level.to_ascii_uppercase().as_str() {
        "TRACE" | "DEBUG" | "INFO" | "WARN" | "ERROR" | "OFF" => Some(level.to_ascii_lowercase()),
        "ALL" => Some("trace".to_owned()),
        "FATAL" => Some("error".to_owned()),
        _ => {
            variables.error(format!(
                "ZOO_LOG_LEVEL=\"{level}\" is not known; it is one of ERROR, WARN, INFO, DEBUG, TRACE"
            ));
            None
        }
    }
}
