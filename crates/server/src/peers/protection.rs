//! Protection of the connections between servers: TLS, then SASL, for the dialing and the accepting side.
//!
//! A connection reaches the election or a link only after all steps that the configuration asks for. The
//! caller runs each connection in a task of its own and bounds their number.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::{debug, info, warn};
use zebu_proto::ServerId;
use zebu_security::sasl::quorum::begins_exchange;

use super::address_book::AddressBook;
use super::peer_sasl::{self, AcceptedPeer, PeerSaslError};
use super::peer_stream::{PeerCertificate, PeerStream};
use super::peer_tls::{self, PeerTls, PeerTlsError};
use crate::config::security::quorum_sasl::{QuorumLogins, QuorumSaslConfig};
use crate::core::context::ServerContext;
use crate::ports::peer_ports::PeerPort;
use crate::refusal_log::RefusalLog;

/// Time from the accept of a connection to the end of TLS and SASL, and the same for a dialed one.
pub(super) const PROTECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why a connection between servers was given up before it was used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerRefusal {
    #[error(transparent)]
    Tls(#[from] PeerTlsError),
    #[error(transparent)]
    Sasl(#[from] PeerSaslError),
    #[error("TLS and SASL were not finished within {} seconds", PROTECTION_TIMEOUT.as_secs())]
    TooSlow,
    #[error("the peer speaks TLS, and both sslQuorum and portUnification are off here")]
    UnexpectedTls,
    #[error("the peer authenticates itself with SASL, and quorum.auth.enableSasl is off here")]
    UnexpectedSasl,
    #[error(transparent)]
    Connection(#[from] io::Error),
}

/// The protection of one port and of the connections that are dialed for it.
#[derive(Debug)]
pub(super) struct PeerProtection {
    port: PeerPort,
    sasl: QuorumSaslConfig,
    tls: Option<Arc<PeerTls>>,
    address_book: Arc<AddressBook>,
    shared: Arc<ServerContext>,
    refusals: RefusalLog,
}

impl PeerProtection {
    pub(super) fn new(
        port: PeerPort,
        shared: &Arc<ServerContext>,
        address_book: &Arc<AddressBook>,
        tls: Option<Arc<PeerTls>>,
    ) -> PeerProtection {
        PeerProtection {
            port,
            sasl: shared.config.security.quorum_sasl.clone(),
            tls,
            address_book: address_book.clone(),
            shared: shared.clone(),
            refusals: RefusalLog::default(),
        }
    }

    /// Whether an accepted connection must pass TLS or SASL before it is used.
    pub(super) fn is_on(&self) -> bool {
        self.tls.is_some() || self.sasl != QuorumSaslConfig::Off
    }

    /// Establishes TLS on an accepted connection, if the port has it.
    pub(super) async fn accept_tls(
        &self,
        stream: TcpStream,
        from: SocketAddr,
    ) -> Result<PeerStream, PeerRefusal> {
        match &self.tls {
            None => Ok(PeerStream::plain(stream)),
            Some(tls) => Ok(tls.accept(stream, from).await?),
        }
    }

    /// Authenticates the dialer of an accepted connection, if it must or wants to.
    pub(super) async fn accept_sasl(
        &self,
        stream: &mut PeerStream,
        from: SocketAddr,
    ) -> Result<(), PeerRefusal> {
        let QuorumSaslConfig::On(sasl) = &self.sasl else { return Ok(()) };
        match peer_sasl::accept_exchange(stream, sasl, || self.address_book.all_hosts()).await? {
            AcceptedPeer::Authenticated { user } => {
                debug!(port = %self.port, %from, user, "Successfully completed the authentication using SASL");
            }
            AcceptedPeer::Anonymous { unread } => {
                debug!(port = %self.port, %from, "a peer does not authenticate itself and need not");
                stream.put_back(unread);
            }
        }
        Ok(())
    }

    /// Establishes TLS on a connection that was dialed, if `sslQuorum` is on.
    pub(super) async fn dial_tls(&self, stream: TcpStream, to: ServerId) -> Result<PeerStream, PeerRefusal> {
        match &self.tls {
            Some(tls) if tls.dials() => {
                let dialing = tls.dial(stream, to);
                Ok(timeout(PROTECTION_TIMEOUT, dialing).await.map_err(|_| PeerRefusal::TooSlow)??)
            }
            Some(_) | None => Ok(PeerStream::plain(stream)),
        }
    }

    /// Authenticates this server on a connection that it dialed, if `learnerRequireSasl` is on.
    pub(super) async fn dial_sasl(&self, stream: &mut PeerStream, to: ServerId) -> Result<(), PeerRefusal> {
        match &self.sasl {
            QuorumSaslConfig::On(sasl) if sasl.dialer_authenticates => {
                let hosts = self.address_book.hosts_of(to);
                let dialing =
                    peer_sasl::dial_exchange(stream, &sasl.logins, hosts.first().map(String::as_str));
                Ok(timeout(PROTECTION_TIMEOUT, dialing).await.map_err(|_| PeerRefusal::TooSlow)??)
            }
            QuorumSaslConfig::On(_) | QuorumSaslConfig::Off => Ok(()),
        }
    }

    /// Whether the peer's certificate is one of this server. Plain connections have none.
    pub(super) fn check_server(
        &self,
        certificate: &PeerCertificate,
        server: ServerId,
    ) -> Result<(), PeerRefusal> {
        match &self.tls {
            Some(tls) => Ok(tls.check_server(certificate, server)?),
            None => Ok(()),
        }
    }

    /// Counts and logs an accepted connection that was refused.
    pub(super) fn log_refused(&self, from: SocketAddr, server: Option<ServerId>, refusal: &PeerRefusal) {
        let metrics = &self.shared.metrics;
        match (&self.tls, refusal) {
            (Some(tls), PeerRefusal::Tls(error)) => tls.count_failure(Some(error)),
            (Some(tls), PeerRefusal::TooSlow) => tls.count_failure(None),
            _ => {}
        }
        match refusal {
            PeerRefusal::Tls(PeerTlsError::Insecure) => metrics.peer_insecure_blocked.increment(),
            PeerRefusal::Tls(_) | PeerRefusal::TooSlow => metrics.peer_handshakes_failed.increment(),
            PeerRefusal::Sasl(PeerSaslError::Connection(_)) | PeerRefusal::Connection(_) => {}
            PeerRefusal::Sasl(_) => metrics.peer_auth_failed.increment(),
            PeerRefusal::UnexpectedTls | PeerRefusal::UnexpectedSasl => {
                metrics.peer_handshakes_failed.increment();
            }
        }
        let (port, peer) = (self.port, from.ip().to_string());
        let server = server.map(|server| server.0);
        // A connection that ends before it said anything is the probe of a load balancer.
        let is_quiet = matches!(
            refusal,
            PeerRefusal::Connection(_)
                | PeerRefusal::Sasl(PeerSaslError::Connection(_))
                | PeerRefusal::Tls(PeerTlsError::Silent)
        );
        if is_quiet || !self.refusals.is_due(&peer, &refusal.to_string()) {
            debug!(%port, %from, server, reason = %refusal, "a connection of another server was refused");
        } else {
            warn!(%port, %from, server, reason = %refusal, "a connection of another server was refused");
        }
    }

    /// Logs a dialed connection that failed before it was used.
    pub(super) fn log_dial_failure(&self, to: ServerId, refusal: &PeerRefusal) {
        let (port, server) = (self.port, to.0);
        // A server that does not run cannot be reached, and needs no warning.
        let is_quiet = matches!(refusal, PeerRefusal::Connection(_));
        if is_quiet || !self.refusals.is_due(&format!("server {server}"), &refusal.to_string()) {
            debug!(%port, server, reason = %refusal, "another server cannot be reached");
        } else {
            warn!(%port, server, reason = %refusal, "a connection to another server failed");
        }
    }

    /// Logs the end of a dialed connection, if the other server refused it after the handshake.
    pub(super) fn log_refused_by(&self, to: ServerId, error: io::Error) {
        if let Some(alert) = peer_tls::received_alert(error) {
            self.log_dial_failure(to, &PeerRefusal::Tls(alert));
        }
    }

    /// Says once at the start how the servers talk to each other.
    pub(super) fn log_settings(&self) {
        match &self.tls {
            Some(tls) => tls.log_settings(),
            None => info!("Using insecure (non-TLS) quorum communication"),
        }
        if let QuorumSaslConfig::On(sasl) = &self.sasl {
            let (required, authenticates_itself) = (sasl.required, sasl.dialer_authenticates);
            match &*sasl.logins {
                QuorumLogins::Digest(digest) => info!(
                    required,
                    authenticates_itself,
                    user = digest.user,
                    "SASL (DIGEST-MD5) between servers is on"
                ),
                QuorumLogins::Kerberos(kerberos) => info!(
                    required,
                    authenticates_itself,
                    principal = kerberos.acceptor.principal,
                    service_principal = kerberos.service_principal,
                    "SASL (GSSAPI) between servers is on"
                ),
            }
        }
    }
}

/// Whether the first bytes of a plain connection without SASL show that its peer has other settings.
pub(super) fn recognize_protection(bytes: &[u8]) -> Option<PeerRefusal> {
    if bytes.starts_with(&[0x16, 0x03]) {
        return Some(PeerRefusal::UnexpectedTls);
    }
    (begins_exchange(bytes) == Some(true)).then_some(PeerRefusal::UnexpectedSasl)
}
