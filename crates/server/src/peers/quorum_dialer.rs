//! Connections to quorum ports for a program that is no server of the ensemble, as a backup: TLS and SASL of
//! a server's configuration, with the code of the servers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsConnector, TlsStream};

use super::peer_sasl::{self, PeerSaslError};
use super::peer_stream::{PeerCertificate, PeerStream};
use super::peer_tls::PeerTlsError;
use super::protection::{PROTECTION_TIMEOUT, PeerRefusal};
use crate::config::load::QuorumProtection;
use crate::config::security::quorum_sasl::{QuorumSasl, QuorumSaslConfig};
use crate::serve_error::ServeError;
use crate::tls::ReloadingTls;

/// How long a connection may take before TLS begins.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a quorum port.
pub trait QuorumConnection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> QuorumConnection for T {}

/// Dials quorum ports.
#[derive(Debug)]
pub struct QuorumDialer {
    tls: Option<Arc<ReloadingTls>>,
    sasl: Option<QuorumSasl>,
}

impl QuorumDialer {
    /// Dials without TLS and SASL.
    pub fn plain() -> QuorumDialer {
        QuorumDialer { tls: None, sasl: None }
    }

    /// Opens the stores of a configuration.
    ///
    /// # Errors
    /// A store cannot be used.
    pub fn open(protection: &QuorumProtection) -> Result<QuorumDialer, ServeError> {
        let family = protection.tls.family.clone().filter(|_| protection.tls.ssl_quorum);
        let tls = match family {
            Some(family) => {
                let opened = ReloadingTls::open(family);
                Some(opened.map_err(|error| ServeError::Tls(error.to_string()))?)
            }
            None => None,
        };
        let sasl = match &protection.sasl {
            QuorumSaslConfig::On(sasl) if sasl.dialer_authenticates => Some(sasl.clone()),
            QuorumSaslConfig::On(_) | QuorumSaslConfig::Off => None,
        };
        Ok(QuorumDialer { tls, sasl })
    }

    /// Connects to `host:port`. Changed certificate files are read again.
    ///
    /// # Errors
    /// The server cannot be reached, or one of both sides refuses the other.
    pub async fn dial(&self, address: &str) -> io::Result<Box<dyn QuorumConnection>> {
        let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(connected) => connected?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        stream.set_nodelay(true)?;
        let protecting = self.protect(stream, host_of(address));
        match timeout(PROTECTION_TIMEOUT, protecting).await.unwrap_or(Err(PeerRefusal::TooSlow)) {
            Ok(stream) => Ok(Box::new(stream)),
            Err(PeerRefusal::Connection(error)) => Err(error),
            Err(refusal) => Err(io::Error::other(refusal.to_string())),
        }
    }

    async fn protect(&self, stream: TcpStream, host: &str) -> Result<PeerStream, PeerRefusal> {
        let mut stream = match &self.tls {
            Some(tls) => shake_hands(tls, stream, host).await?,
            None => PeerStream::plain(stream),
        };
        if let Some(sasl) = &self.sasl {
            peer_sasl::dial_exchange(&mut stream, &sasl.logins, Some(host)).await.map_err(explain)?;
        }
        Ok(stream)
    }
}

/// A server without SASL takes the exchange for a learner and closes the connection.
fn explain(error: PeerSaslError) -> PeerRefusal {
    match error {
        PeerSaslError::Connection(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            let text = "the server closed the connection during the SASL authentication: it has another password, \
                        or quorum.auth.enableSasl is off there";
            io::Error::other(text).into()
        }
        other => other.into(),
    }
}

async fn shake_hands(tls: &ReloadingTls, stream: TcpStream, host: &str) -> Result<PeerStream, PeerTlsError> {
    tls.poll();
    let config = tls.current().dialer(vec![host.to_owned()]).map_err(PeerTlsError::Context)?;
    let name = match ServerName::try_from(host.to_owned()) {
        Ok(name) => name,
        Err(_) => ServerName::from(stream.peer_addr().map_err(PeerTlsError::Handshake)?.ip()),
    };
    let connected = TlsConnector::from(config).connect(name, stream).await;
    let stream = TlsStream::from(connected.map_err(PeerTlsError::Handshake)?);
    Ok(PeerStream::tls(stream, PeerCertificate::default()))
}

/// The host of `host:port`, without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_addresses() {
        assert_eq!(host_of("zk1:2888"), "zk1");
        assert_eq!(host_of("[::1]:2888"), "::1");
        assert_eq!(host_of("127.0.0.1:2888"), "127.0.0.1");
    }
}
