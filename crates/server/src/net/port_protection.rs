//! Maps the configuration to the client ports and to the protection of each. No other place decides this.
//!
//! A port never gets less protection than the configuration asks for: a TLS port without usable keys is an
//! error.

use std::sync::Arc;

use crate::config::{BindAddress, ServerConfig};
use crate::serve_error::ServeError;
use crate::tls::ReloadingTls;

/// The protocols that a client port takes.
#[derive(Clone, Debug)]
pub(crate) enum PortProtection {
    /// Plain connections only.
    Plain,
    /// TLS connections only.
    Tls(Arc<ReloadingTls>),
    /// Both; the first byte of a connection decides.
    PlainOrTls(Arc<ReloadingTls>),
}

/// Which of the client ports a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientPortKind {
    /// `clientPort`.
    Client,
    /// `secureClientPort`.
    Secure,
}

impl PortProtection {
    /// The port that has this protection.
    pub(crate) fn port(&self) -> ClientPortKind {
        match self {
            PortProtection::Plain | PortProtection::PlainOrTls(_) => ClientPortKind::Client,
            PortProtection::Tls(_) => ClientPortKind::Secure,
        }
    }

    /// The name for the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            PortProtection::Plain => "plain",
            PortProtection::Tls(_) => "TLS",
            PortProtection::PlainOrTls(_) => "plain and TLS",
        }
    }
}

/// An address for clients and its protection.
#[derive(Clone, Debug)]
pub(crate) struct ClientPort {
    pub(crate) address: BindAddress,
    pub(crate) protection: PortProtection,
}

/// All ports for clients; at least one.
#[derive(Clone, Debug)]
pub(crate) struct ClientPorts {
    /// `clientPort`.
    pub(crate) client: Option<ClientPort>,
    /// `secureClientPort`.
    pub(crate) secure: Option<ClientPort>,
    /// The context of the ports with TLS.
    pub(crate) tls: Option<Arc<ReloadingTls>>,
}

impl ClientPorts {
    /// Reads the stores, if a port uses TLS.
    ///
    /// # Errors
    /// A store that cannot be used, or a configuration without keys for a TLS port.
    pub(crate) fn open(config: &ServerConfig) -> Result<ClientPorts, ServeError> {
        let settings = &config.security.client_tls;
        let tls = match &settings.family {
            Some(family) => {
                let opened = ReloadingTls::open(family.clone());
                Some(opened.map_err(|error| ServeError::Tls(error.to_string()))?)
            }
            None => None,
        };
        let required =
            || tls.clone().ok_or_else(|| ServeError::Tls("a TLS port has no key store".to_owned()));
        let secure = match settings.secure_address {
            Some(address) => Some(ClientPort { address, protection: PortProtection::Tls(required()?) }),
            None => None,
        };
        let client = match (config.listen.client, settings.port_unification) {
            (None, _) => None,
            (Some(address), false) => Some(ClientPort { address, protection: PortProtection::Plain }),
            (Some(address), true) => {
                Some(ClientPort { address, protection: PortProtection::PlainOrTls(required()?) })
            }
        };
        Ok(ClientPorts { client, secure, tls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tls_port_without_keys_is_never_opened() {
        let mut config = ServerConfig::built_in();
        let ports = ClientPorts::open(&config).unwrap();
        assert_eq!(ports.client.unwrap().protection.name(), "plain");
        assert!(ports.secure.is_none());
        config.security.client_tls.port_unification = true;
        assert!(ClientPorts::open(&config).is_err());
        config.security.client_tls.port_unification = false;
        config.security.client_tls.secure_address = Some(BindAddress::AllInterfaces { port: 0 });
        assert!(ClientPorts::open(&config).is_err());
    }
}
