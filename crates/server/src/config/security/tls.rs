//! Which ports use TLS: the client ports (`ssl.*`) and the ports between servers (`ssl.quorum.*`).
//!
//! The stores of a family that a port uses are opened here, so that a wrong store refuses the start with
//! its line. Nothing is kept of their content.

use std::path::Path;
use std::time::SystemTime;

use zebu_security::verify::CertificateValidity;

use super::super::diagnostics::SettingOrigin;
use super::super::listen;
use super::super::load::SystemAccess;
use super::super::server_config::BindAddress;
use super::super::setting_reader::{NumberUnit, SettingReader};
use super::tls_family::{
    ClientAuth, StoreConfig, StorePassword, TlsFamily, TlsFamilyConfig, read_family, warn_unused_family,
};
use crate::tls::{STORE_FILE_BYTES_MAX, TlsContext, TlsStore};

/// TLS handshakes at once, on all client ports.
pub const HANDSHAKES_DEFAULT: u32 = 250;

/// TLS of the client ports.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientTlsConfig {
    /// `secureClientPort` and `secureClientPortAddress`: a port for TLS only.
    pub secure_address: Option<BindAddress>,
    /// `client.portUnification`: `clientPort` takes TLS too.
    pub port_unification: bool,
    /// Keys, trust and protocols; set if and only if a port uses TLS.
    pub family: Option<TlsFamilyConfig>,
    /// `netty.server.outstandingHandshake.limit`: handshakes at once, on all client ports.
    pub handshakes_max: u32,
    /// `X509AuthenticationProvider.superUser`: the certificate subject that passes each ACL.
    pub x509_super_user: Option<String>,
}

impl Default for ClientTlsConfig {
    fn default() -> ClientTlsConfig {
        ClientTlsConfig {
            secure_address: None,
            port_unification: false,
            family: None,
            handshakes_max: HANDSHAKES_DEFAULT,
            x509_super_user: None,
        }
    }
}

/// TLS between servers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuorumTlsConfig {
    /// `sslQuorum`: this server dials with TLS.
    pub ssl_quorum: bool,
    /// `portUnification`: the ports for other servers take TLS and plain connections.
    pub port_unification: bool,
    /// Keys, trust and protocols; set if and only if one of both switches is on.
    pub family: Option<TlsFamilyConfig>,
}

pub(super) fn read_client_tls(reader: &mut SettingReader<'_>, system: &dyn SystemAccess) -> ClientTlsConfig {
    let secure_address = listen::secure_client_address(reader, system);
    let port_unification = reader.strict_switch("client.portUnification", false);
    note_reload(reader, "client.certReload");
    warn_fips(reader);
    let handshakes_max = reader
        .limit("netty.server.outstandingHandshake.limit", NumberUnit::Count, None)
        .unwrap_or(HANDSHAKES_DEFAULT);
    let super_user = reader.get("X509AuthenticationProvider.superUser");
    let family = if secure_address.is_some() || port_unification {
        let asked_by = if secure_address.is_some() { "secureClientPort" } else { "client.portUnification" };
        read_checked_family(reader, system, TlsFamily::Client, asked_by)
    } else {
        let remedy = "set secureClientPort, or client.portUnification=true";
        warn_unused_family(reader, TlsFamily::Client, remedy);
        None
    };
    ClientTlsConfig {
        secure_address,
        port_unification,
        family,
        handshakes_max,
        x509_super_user: super_user.map(|setting| setting.value.clone()).filter(|user| !user.is_empty()),
    }
}

pub(super) fn read_quorum_tls(reader: &mut SettingReader<'_>, system: &dyn SystemAccess) -> QuorumTlsConfig {
    let ssl_quorum = reader.strict_switch("sslQuorum", false);
    let port_unification = reader.strict_switch("portUnification", false);
    note_reload(reader, "sslQuorumReloadCertFiles");
    let family = if ssl_quorum || port_unification {
        let asked_by = if ssl_quorum { "sslQuorum" } else { "portUnification" };
        let family = read_checked_family(reader, system, TlsFamily::Quorum, asked_by);
        warn_unchecked_servers(reader, family.as_ref());
        family
    } else {
        let is_on =
            |key: &str| reader.get(key).is_some_and(|setting| setting.value.eq_ignore_ascii_case("true"));
        // The admin server uses the same keys.
        if !is_on("admin.forceHttps") && !is_on("admin.portUnification") {
            warn_unused_family(reader, TlsFamily::Quorum, "set sslQuorum=true");
        }
        None
    };
    QuorumTlsConfig { ssl_quorum, port_unification, family }
}

/// Warns if TLS between servers does not show who the other server is.
fn warn_unchecked_servers(reader: &mut SettingReader<'_>, family: Option<&TlsFamilyConfig>) {
    let Some(family) = family else { return };
    let is_checked = match family.client_auth {
        ClientAuth::Need => true,
        // A host check needs a certificate.
        ClientAuth::Want => family.client_hostname_verification,
        ClientAuth::None => false,
    };
    if !is_checked {
        let key = TlsFamily::Quorum.key("clientAuth");
        let text = format!(
            "{key}: a connecting server needs no certificate, so that each host that reaches the ports can act as a \
             server; remove the line, or set quorum.auth.serverRequireSasl=true"
        );
        reader.diagnostics.warn(&reader.origin(&key), text);
    }
    if !family.hostname_verification {
        let key = TlsFamily::Quorum.key("hostnameVerification");
        let text =
            format!("{key}=false: the owner of any certificate of the trust store can act as a server");
        reader.diagnostics.warn(&reader.origin(&key), text);
    }
}

fn note_reload(reader: &mut SettingReader<'_>, key: &str) {
    if reader.get(key).is_some() {
        let text = format!("{key} has no effect: changed certificate files are always read again");
        reader.diagnostics.note(&reader.origin(key), text);
    }
}

fn warn_fips(reader: &mut SettingReader<'_>) {
    if reader.strict_switch("fips-mode", false) {
        let text = "fips-mode=true: the cryptography of this server has no FIPS 140 certificate";
        reader.diagnostics.warn(&reader.origin("fips-mode"), text);
    }
}

/// Reads a family and opens its stores.
pub(in crate::config) fn read_checked_family(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
    family: TlsFamily,
    asked_by: &str,
) -> Option<TlsFamilyConfig> {
    let config = read_family(reader, family, asked_by)?;
    let key_store = &config.key_store;
    warn_world_readable(reader, system, &key_store.origin, &key_store.path, "a private key");
    for store in std::iter::once(key_store).chain(&config.trust_store) {
        warn_readable_password(reader, system, store);
    }
    let read = |path: &Path| system.read_bounded(path, STORE_FILE_BYTES_MAX);
    match TlsContext::load(&config, &read) {
        Ok(context) => {
            for note in context.notes() {
                let store = store_of(&config, note.store);
                let text = format!("{} {}: {}", store.key, store.path.display(), note.text);
                reader.diagnostics.note(&store.origin, text);
            }
            warn_validity(reader, &config, context.validity());
            Some(config)
        }
        Err(error) => {
            let store = store_of(&config, error.store);
            reader.diagnostics.error(&store.origin, format!("{}: {error}", store.key));
            None
        }
    }
}

/// Warns if the certificate of this server is not valid now. Clients would refuse it; ZooKeeper starts.
fn warn_validity(
    reader: &mut SettingReader<'_>,
    config: &TlsFamilyConfig,
    validity: Option<CertificateValidity>,
) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let problem = match validity {
        Some(validity) if now > validity.not_after => "has expired",
        Some(validity) if now < validity.not_before => "is not valid yet",
        Some(_) | None => return,
    };
    let store = &config.key_store;
    let text =
        format!("{}: the certificate of {} {problem}; clients refuse it", store.key, store.path.display());
    reader.diagnostics.warn(&store.origin, text);
}

fn store_of(config: &TlsFamilyConfig, which: TlsStore) -> &StoreConfig {
    match which {
        TlsStore::Key => &config.key_store,
        TlsStore::Trust => config.trust_store.as_ref().unwrap_or(&config.key_store),
    }
}

fn warn_readable_password(reader: &mut SettingReader<'_>, system: &dyn SystemAccess, store: &StoreConfig) {
    if let StorePassword::File(path) = &store.password {
        warn_world_readable(reader, system, &store.origin, path, "a password");
    }
}

/// Warns if every user of the machine can read a secret.
pub(super) fn warn_world_readable(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
    origin: &SettingOrigin,
    path: &Path,
    content: &str,
) {
    if system.is_world_readable(path) {
        let path = path.display();
        let text = format!("{path} holds {content} and every user can read it; write: chmod o-rwx {path}");
        reader.diagnostics.warn(origin, text);
    }
}
