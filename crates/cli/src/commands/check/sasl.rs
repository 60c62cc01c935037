//! The SASL part of `zebu check`: mechanism, users and enforcement for clients and between servers, and the
//! points in which Apache ZooKeeper does otherwise. Passwords are never shown.

use serde_json::{Value, json};
use zebu_server::config::ServerConfig;
use zebu_server::config::security::client_sasl::{ClientLogin, ClientSaslConfig};
use zebu_server::config::security::quorum_sasl::{QuorumLogins, QuorumSaslConfig};

/// Most names in a line; JSON has all.
const NAMES_MAX: usize = 20;

/// SASL of one kind of port.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SaslReport {
    peer: &'static str,
    mechanism: &'static str,
    /// Users with a password; none for Kerberos, whose users the realm knows.
    users: Vec<String>,
    /// The user as which this server dials other servers.
    dials_as: Option<String>,
    required: bool,
}

impl SaslReport {
    /// The ports that have SASL.
    pub(super) fn of(config: &ServerConfig) -> Vec<SaslReport> {
        clients(config).into_iter().chain(servers(config)).collect()
    }

    pub(super) fn line(&self) -> String {
        let SaslReport { peer, mechanism, users, dials_as, required } = self;
        let known = match users.len() {
            0 => String::new(),
            count if count > NAMES_MAX => {
                format!(", users {} and {} more", users[..NAMES_MAX].join(", "), count - NAMES_MAX)
            }
            _ => format!(", users {}", users.join(", ")),
        };
        let dials = dials_as.as_ref().map(|user| format!(", dials as {user}")).unwrap_or_default();
        let required = if *required { "required" } else { "not required" };
        format!("  SASL:      {peer}: {mechanism}{known}{dials}, {required}")
    }

    pub(super) fn json(&self) -> Value {
        let SaslReport { peer, mechanism, users, dials_as, required } = self;
        json!({
            "peer": peer,
            "mechanism": mechanism,
            "users": users,
            "dials_as": dials_as,
            "required": required,
        })
    }
}

fn clients(config: &ServerConfig) -> Option<SaslReport> {
    let (mechanism, users) = match config.security.client_sasl.login.as_ref()? {
        ClientLogin::Digest(login) => ("DIGEST-MD5", names(login.users.names())),
        ClientLogin::Kerberos(_) => ("GSSAPI", Vec::new()),
    };
    let schemes = config.auth.required_schemes.as_deref();
    let required = schemes.is_some_and(|schemes| schemes.iter().all(|scheme| scheme == "sasl"));
    Some(SaslReport { peer: "clients", mechanism, users, dials_as: None, required })
}

fn servers(config: &ServerConfig) -> Option<SaslReport> {
    let QuorumSaslConfig::On(sasl) = &config.security.quorum_sasl else { return None };
    if !config.membership.is_ensemble() {
        return None;
    }
    let (mechanism, users, own_name) = match &*sasl.logins {
        QuorumLogins::Digest(login) => ("DIGEST-MD5", names(login.users.names()), login.user.as_str()),
        QuorumLogins::Kerberos(login) => {
            let own = login.dialer.principal.as_deref();
            ("GSSAPI", Vec::new(), own.unwrap_or("the principal of the ticket cache"))
        }
    };
    let dials_as = sasl.dialer_authenticates.then(|| own_name.escape_debug().to_string());
    Some(SaslReport { peer: "servers", mechanism, users, dials_as, required: sasl.required })
}

/// Names in a form that cannot disturb a terminal.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = all.map(|name| name.escape_debug().to_string()).collect();
    names.sort();
    names
}

/// The super users of SASL. A name that no user of DIGEST-MD5 gets is marked.
pub(super) fn super_users(sasl: &ClientSaslConfig) -> Vec<String> {
    let Some(login) = &sasl.login else {
        // Without a login no client becomes one of them.
        return Vec::new();
    };
    let is_reachable = |id: &str| match login {
        ClientLogin::Digest(login) => {
            login.users.names().any(|user| sasl.rules.id_of(user).is_ok_and(|found| found == id))
        }
        ClientLogin::Kerberos(_) => true,
    };
    let shown = |id: &String| match is_reachable(id) {
        true => format!("sasl:{id}"),
        false => format!("sasl:{id} (no user has this id)"),
    };
    sasl.super_users.iter().map(shown).collect()
}

/// What Apache ZooKeeper does otherwise with the same file.
pub(super) fn apache_differences(config: &ServerConfig) -> Vec<&'static str> {
    let mut differences = Vec::new();
    let sasl = &config.security.client_sasl;
    if let Some(login) = &sasl.login {
        differences.push("reads java.security.auth.login.config as -D only, not in zoo.cfg");
        if let ClientLogin::Digest(login) = login {
            differences.push("does not read the users again when the JAAS file changes");
            differences.push("DIGEST-MD5 needs fips-mode=false: clients since 3.9.4, servers since 3.9.6");
            if login.users.names().any(|user| sasl.rules.id_of(user).is_err()) {
                differences.push("a user for whose name no rule applies chooses its own id; Zebu refuses it");
            }
        } else {
            differences.push("a principal to which no rule applies chooses its own id; Zebu refuses it");
        }
    }
    if let QuorumSaslConfig::On(quorum) = &config.security.quorum_sasl
        && config.membership.is_ensemble()
    {
        differences.push("servers since 3.9.4 need fips-mode=false for DIGEST-MD5 between each other");
        if !quorum.required {
            differences
                .push("keeps the connection of a server with a wrong password, unless SASL is required");
        }
    }
    differences
}
