//! The protection of a local ensemble: TLS, SASL, both or none, as lines of configuration and as options of a
//! client.

use std::path::Path;

use zebu_client::TlsConnector;

use super::sasl::DevSasl;
use super::tls::DevTls;

/// What protects the ensemble.
#[derive(Debug, Default)]
pub(super) struct DevProtection {
    pub(super) tls: Option<DevTls>,
    pub(super) sasl: Option<DevSasl>,
}

impl DevProtection {
    /// Makes the files below the directory, or takes those of an earlier start.
    pub(super) fn open(directory: &Path, tls: bool, sasl: bool) -> Result<DevProtection, String> {
        Ok(DevProtection {
            tls: tls.then(|| DevTls::open(directory)).transpose()?,
            sasl: sasl.then(|| DevSasl::open(directory)).transpose()?,
        })
    }

    /// The client port and its protection.
    pub(super) fn client_lines(&self, port: u16) -> String {
        let port = match &self.tls {
            Some(tls) => tls.client_lines(port),
            None => format!("clientPort={port}\nclientPortAddress=127.0.0.1\n"),
        };
        port + &self.sasl.as_ref().map(DevSasl::client_lines).unwrap_or_default()
    }

    /// The protection of the connections between servers.
    pub(super) fn quorum_lines(&self) -> String {
        let tls = self.tls.as_ref().map(DevTls::quorum_lines).unwrap_or_default();
        tls + self.sasl.as_ref().map(DevSasl::quorum_lines).unwrap_or_default()
    }

    /// For questions to the servers.
    pub(super) fn connector(&self) -> Option<TlsConnector> {
        self.tls.as_ref().map(|tls| tls.connector.clone())
    }

    /// The lines that tell a user how to connect.
    pub(super) fn connect_lines(&self, servers: &str) -> Vec<String> {
        let tls = self.tls.as_ref().map(|tls| format!("{} ", tls.options())).unwrap_or_default();
        match &self.sasl {
            None => vec![format!("connect with: zebu {tls}-server {servers}")],
            Some(sasl) => vec![
                format!("connect with: zebu {tls}{} -server {servers}", sasl.options()),
                format!("as super user: zebu {tls}{} -server {servers}", sasl.super_options()),
            ],
        }
    }
}
