//! The check of Kerberos logins at the start: a server whose keys cannot be used must not open a port.

use std::env;

use tracing::info;
use zebu_kerberos::AcceptorCredential;

use crate::config::ServerConfig;
use crate::config::security::client_sasl::ClientLogin;
use crate::config::security::quorum_sasl::{QuorumLogins, QuorumSaslConfig};
use crate::serve_error::ServeError;

/// Finds the keys of all accepting sides. It needs no KDC.
pub(crate) fn check_kerberos(config: &ServerConfig) -> Result<(), ServeError> {
    let Some(files) = &config.security.kerberos else { return Ok(()) };
    // The library has no other way to learn of files; `zebu serve` sets the variables.
    if let Some((name, value)) = files.missing(|name| env::var_os(name)).first() {
        let value = value.display();
        return Err(ServeError::Kerberos(format!("the environment must have {name}={value}")));
    }
    if let Some(ClientLogin::Kerberos(acceptor)) = &config.security.client_sasl.login {
        check_keys("for clients", &acceptor.principal)?;
    }
    if let QuorumSaslConfig::On(sasl) = &config.security.quorum_sasl
        && let QuorumLogins::Kerberos(kerberos) = &*sasl.logins
    {
        check_keys("between servers", &kerberos.acceptor.principal)?;
    }
    Ok(())
}

fn check_keys(purpose: &'static str, principal: &str) -> Result<(), ServeError> {
    AcceptorCredential::acquire(principal)
        .map_err(|error| ServeError::Kerberos(format!("no key of {principal} {purpose}: {error}")))?;
    info!(principal, purpose, "found Kerberos keys");
    Ok(())
}
