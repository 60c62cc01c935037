//! TLS of a local ensemble, for clients and between servers: its own CA, one certificate for all servers, and
//! one for a client.

use std::fs;
use std::path::{Path, PathBuf};

use zebu_client::{Tls, TlsConnector};

use crate::commands::cert::{Authority, CertError, LeafKind, LeafRequest, write_secret};

/// Days until the certificates expire.
const DAYS: u16 = 825;

/// The common name of the client's certificate.
const CLIENT: &str = "dev";

/// The files of TLS.
#[derive(Debug)]
pub(super) struct DevTls {
    ca: PathBuf,
    server: PathBuf,
    client: PathBuf,
    /// For questions to the servers.
    pub(super) connector: TlsConnector,
}

impl DevTls {
    /// Makes the certificates below the directory, or takes those of an earlier start.
    pub(super) fn open(directory: &Path) -> Result<DevTls, String> {
        let certs = directory.join("certs");
        let [ca, server, client] = ["ca.pem", "server.pem", "dev.pem"].map(|name| certs.join(name));
        make(&certs, &server, &client).map_err(|error| error.to_string())?;
        let connector = Tls::new()
            .trust_file(&ca)
            .and_then(|tls| tls.key_store(&client, ""))
            .and_then(Tls::connector)
            .map_err(|error| error.to_string())?;
        Ok(DevTls { ca, server, client, connector })
    }

    /// The lines of a server's configuration for its clients.
    pub(super) fn client_lines(&self, port: u16) -> String {
        format!("secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n{}", self.stores("ssl."))
    }

    /// The lines for the connections between servers.
    pub(super) fn quorum_lines(&self) -> String {
        format!("sslQuorum=true\n{}", self.stores("ssl.quorum."))
    }

    fn stores(&self, prefix: &str) -> String {
        format!(
            "{prefix}keyStore.location={}\n{prefix}trustStore.location={}\n",
            self.server.display(),
            self.ca.display()
        )
    }

    /// The options of a client.
    pub(super) fn options(&self) -> String {
        format!("--tls-ca {} --tls-cert {}", self.ca.display(), self.client.display())
    }
}

fn make(certs: &Path, server: &Path, client: &Path) -> Result<(), CertError> {
    if server.exists() && client.exists() {
        return Ok(());
    }
    fs::create_dir_all(certs).map_err(|source| CertError::File { path: certs.to_owned(), source })?;
    let authority = match Authority::open(certs)? {
        Some(authority) => authority,
        None => Authority::create(certs, "zebu dev", DAYS)?,
    };
    let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    for (path, name, kind) in
        [(server, "localhost", LeafKind::Server { hosts }), (client, CLIENT, LeafKind::Client)]
    {
        if !path.exists() {
            let request = LeafRequest { name: name.to_owned(), kind, days: DAYS };
            write_secret(path, &authority.issue(&request)?.pem)?;
        }
    }
    Ok(())
}
