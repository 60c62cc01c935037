//! The security part of the configuration: TLS for clients and between servers, SASL for clients and between
//! servers, the audit log. One file per matter; each reads its own keys into checked values.
//!
//! Nothing here opens a port. A listener takes its protection from these values only.

pub mod audit;
pub mod client_sasl;
pub mod kerberos_login;
mod kerberos_realm;
pub mod login_file;
pub mod providers;
pub mod quorum_sasl;
pub mod tls;
pub mod tls_family;

use std::path::Path;

use super::load::{QuorumProtection, SystemAccess};
use super::setting_reader::SettingReader;
use audit::AuditConfig;
use client_sasl::{ClientLogin, ClientSaslConfig};
use kerberos_realm::CONFIG_KEY;
use login_file::LOGIN_FILE_KEY;
use quorum_sasl::{QuorumLogins, QuorumSaslConfig};
use tls::{ClientTlsConfig, QuorumTlsConfig};
use zebu_kerberos::LibraryFiles;

/// Protection of the ports, and the audit log. The default is no protection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SecurityConfig {
    /// TLS on the client ports.
    pub client_tls: ClientTlsConfig,
    /// TLS between servers.
    pub quorum_tls: QuorumTlsConfig,
    /// SASL for clients, and which authentication is enforced.
    pub client_sasl: ClientSaslConfig,
    /// SASL between servers.
    pub quorum_sasl: QuorumSaslConfig,
    /// The files that the Kerberos library must find in the environment; `None` without a Kerberos login.
    pub kerberos: Option<LibraryFiles>,
    /// The audit log.
    pub audit: AuditConfig,
}

/// Reads all parts.
pub(super) fn security(reader: &mut SettingReader<'_>, system: &dyn SystemAccess) -> SecurityConfig {
    // One file holds the logins for clients and between servers.
    let login_file = login_file::read_login_file(reader, system);
    let (client_tls, quorum_tls) =
        (tls::read_client_tls(reader, system), tls::read_quorum_tls(reader, system));
    let client_sasl = client_sasl::read_client_sasl(reader, system, login_file.as_ref());
    let quorum_sasl = quorum_sasl::read_quorum_sasl(reader, system, login_file.as_ref());
    SecurityConfig {
        client_tls,
        quorum_tls,
        kerberos: kerberos_files(reader, &client_sasl, &quorum_sasl),
        client_sasl,
        quorum_sasl,
        audit: audit::read_audit(reader),
    }
}

/// Reads the protection of the connections between servers only.
pub(super) fn quorum_protection(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
) -> QuorumProtection {
    let login_file = login_file::read_login_file(reader, system);
    let tls = tls::read_quorum_tls(reader, system);
    let sasl = quorum_sasl::read_quorum_sasl(reader, system, login_file.as_ref());
    let kerberos = kerberos_files(reader, &ClientSaslConfig::default(), &sasl);
    QuorumProtection { tls, sasl, kerberos }
}

fn kerberos_files(
    reader: &mut SettingReader<'_>,
    clients: &ClientSaslConfig,
    servers: &QuorumSaslConfig,
) -> Option<LibraryFiles> {
    let for_clients = match &clients.login {
        Some(ClientLogin::Kerberos(acceptor)) => Some(acceptor),
        Some(ClientLogin::Digest(_)) | None => None,
    };
    let for_servers = match servers {
        QuorumSaslConfig::On(sasl) => match &*sasl.logins {
            QuorumLogins::Kerberos(kerberos) => Some(kerberos),
            QuorumLogins::Digest(_) => None,
        },
        QuorumSaslConfig::Off => None,
    };
    if for_clients.is_none() && for_servers.is_none() {
        return None;
    }
    let config = reader.get(CONFIG_KEY).map(|setting| setting.value.clone()).filter(|file| !file.is_empty());
    let acceptors = [for_clients, for_servers.map(|kerberos| &kerberos.acceptor)];
    let dialer = for_servers.map(|kerberos| &kerberos.dialer);
    match kerberos_login::library_files(config.as_deref().map(Path::new), acceptors, dialer) {
        Ok(files) => Some(files),
        Err(text) => {
            reader.diagnostics.error(&reader.origin(LOGIN_FILE_KEY), text);
            None
        }
    }
}
