//! The protection of a configuration: each open port, the identities that pass every ACL, and the points in
//! which Apache ZooKeeper would protect otherwise. Values of passwords are never shown.

use rustls::{ProtocolVersion, SupportedProtocolVersion};
use serde_json::{Value, json};
use zebu_server::config::ServerConfig;
use zebu_server::config::security::quorum_sasl::QuorumSaslConfig;
use zebu_server::config::security::tls_family::{ClientAuth, TlsFamily, TlsFamilyConfig};

use super::sasl::{self, SaslReport};

/// What protects the ports of a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProtectionReport {
    /// Each port: who connects, where, and how it is protected.
    ports: Vec<PortReport>,
    /// SASL for clients and between servers.
    sasl: Vec<SaslReport>,
    /// Identities that pass every ACL.
    super_users: Vec<String>,
    /// Schemes of which a session needs one.
    required_schemes: Option<Vec<String>>,
    /// Differences to Apache ZooKeeper with the same file.
    apache: Vec<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
struct PortReport {
    peer: &'static str,
    address: String,
    protection: String,
}

impl ProtectionReport {
    pub(super) fn of(config: &ServerConfig) -> ProtectionReport {
        let mut report = ProtectionReport {
            sasl: SaslReport::of(config),
            super_users: super_users(config),
            required_schemes: config.auth.required_schemes.clone(),
            ..ProtectionReport::default()
        };
        report.add_client_ports(config);
        report.add_peer_ports(config);
        report.apache.extend(sasl::apache_differences(config));
        report
    }

    fn add_port(&mut self, peer: &'static str, address: impl ToString, protection: impl Into<String>) {
        let (address, protection) = (address.to_string(), protection.into());
        self.ports.push(PortReport { peer, address, protection });
    }

    fn add_client_ports(&mut self, config: &ServerConfig) {
        let tls = &config.security.client_tls;
        let words = tls.family.as_ref().map(tls_words).unwrap_or_default();
        if let Some(address) = config.listen.client {
            match tls.port_unification {
                true => self.add_port("clients", address, format!("plain, or {words}")),
                false => self.add_port("clients", address, "plain"),
            }
        }
        if let Some(address) = tls.secure_address {
            self.add_port("clients", address, words);
        }
        if let Some(family) = &tls.family {
            self.apache
                .push("TLS needs serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory");
            self.apache
                .push("releases before 3.9.6 offer TLSv1.2 or TLSv1.3 and not both, unless the file says so");
            if family.client_auth != ClientAuth::None {
                self.apache.push(
                    "accepts RSA keys of 1024 bits, SHA-1 signatures and pinned certificates that expired",
                );
            }
            if tls.port_unification
                && tls.secure_address.is_none()
                && !config.security.client_sasl.providers.x509_line
            {
                self.apache.push("closes TLS clients that show a certificate, for lack of authProvider.x509");
            }
        }
    }

    fn add_peer_ports(&mut self, config: &ServerConfig) {
        if !config.membership.is_ensemble() {
            return;
        }
        let tls = &config.security.quorum_tls;
        let words = tls.family.as_ref().map(tls_words).unwrap_or_default();
        let protection = match (tls.ssl_quorum, tls.port_unification) {
            (false, false) if config.security.quorum_sasl == QuorumSaslConfig::Off => {
                "plain: each host that reaches them can act as a server".to_owned()
            }
            (false, false) => "plain".to_owned(),
            (true, false) => words,
            (false, true) => format!("dials plain, accepts plain or {words}"),
            (true, true) => format!("dials by TLS, accepts plain or {words}"),
        };
        self.add_port("servers", "both ports", protection);
        if tls.family.is_some() {
            self.apache.push("with fips-mode on, any certificate of the CA is accepted from another server");
        }
    }

    /// A line for each port, in the form of the summary.
    pub(super) fn port_lines(&self) -> Vec<String> {
        self.ports
            .iter()
            .map(|port| format!("  {:<10} {}, {}", format!("{}:", port.peer), port.address, port.protection))
            .collect()
    }

    /// Lines about identities and about Apache.
    pub(super) fn identity_lines(&self) -> Vec<String> {
        let all = if self.super_users.is_empty() { "none".to_owned() } else { self.super_users.join(", ") };
        let mut lines: Vec<String> = self.sasl.iter().map(SaslReport::line).collect();
        lines.push(format!("  super:     {all}"));
        if let Some(schemes) = &self.required_schemes {
            lines.push(format!("  required:  one of {}", schemes.join(", ")));
        }
        lines.extend(self.apache.iter().map(|text| format!("  Apache:    {text}")));
        lines
    }

    pub(super) fn json(&self) -> Value {
        let port = |port: &PortReport| json!({ "peer": port.peer, "address": port.address, "protection": port.protection });
        json!({
            "ports": self.ports.iter().map(port).collect::<Vec<_>>(),
            "sasl": self.sasl.iter().map(SaslReport::json).collect::<Vec<_>>(),
            "super_users": self.super_users,
            "required_schemes": self.required_schemes,
            "apache_differences": self.apache,
        })
    }
}

fn super_users(config: &ServerConfig) -> Vec<String> {
    // The hash behind the name stays hidden.
    let digest = config.auth.super_digest.as_ref().filter(|_| config.auth.digest_provider);
    let digest = digest.map(|digest| digest.0.split(':').next().unwrap_or_default().to_owned());
    let x509 = config.security.client_tls.x509_super_user.as_ref();
    digest
        .map(|user| format!("digest:{user}"))
        .into_iter()
        .chain(x509.map(|subject| format!("x509:{subject}")))
        .chain(sasl::super_users(&config.security.client_sasl))
        .collect()
}

fn tls_words(family: &TlsFamilyConfig) -> String {
    let versions: Vec<&str> = family.protocols.iter().map(|version| java_name(version)).collect();
    let certificate = match (family.family, family.client_auth) {
        (_, ClientAuth::None) => "no certificate asked for",
        (TlsFamily::Quorum, _) if family.client_hostname_verification => {
            "a certificate of a host of the server lines is needed"
        }
        (_, ClientAuth::Want) => "a certificate is checked if there is one",
        (_, ClientAuth::Need) => "a certificate is needed",
    };
    format!("TLS ({}), {certificate}", versions.join(", "))
}

fn java_name(version: &SupportedProtocolVersion) -> &'static str {
    match version.version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        _ => "TLSv1.3",
    }
}
