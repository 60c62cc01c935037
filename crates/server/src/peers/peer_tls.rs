//! TLS between servers: which connections have it, and whose certificates they accept.
//!
//! A dialer accepts the certificate of a host of the dialed server. An acceptor accepts the certificate of a
//! host of any server in the committed or the proposed config, and of that server once its id is known. No
//! name is looked up: the address of a connection proves nothing. `ssl.quorum.hostnameVerification=false`
//! turns these checks off.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{CertificateError, CommonState};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tracing::{debug, info};
use zebu_proto::ServerId;
use zebu_security::verify::{HostCheckError, check_hosts};

use super::address_book::AddressBook;
use super::peer_stream::{PeerCertificate, PeerStream};
use crate::config::security::tls::QuorumTlsConfig;
use crate::config::security::tls_family::ClientAuth;
use crate::refusal_log::RefusalLog;
use crate::serve_error::ServeError;
use crate::tls::ReloadingTls;
use crate::tls::counters::{HandshakeFailure, rustls_error};

/// The first byte of a TLS connection. Neither a server id nor a packet type begins with it.
const HANDSHAKE_RECORD: u8 = 0x16;

/// The reason why a connection is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerTlsError {
    #[error("Blocked insecure connection attempt: sslQuorum is on and portUnification is off")]
    Insecure,
    #[error("the connection sent nothing from which TLS is recognized")]
    Silent,
    #[error("the TLS handshake failed: {}", describe(.0))]
    Handshake(io::Error),
    #[error("the certificate belongs to another server: {0}")]
    OtherServer(HostCheckError),
    #[error(
        "server {0} is not in the configuration, so that its certificate cannot be checked; \
             ssl.quorum.hostnameVerification=false accepts it"
    )]
    Unlisted(i64),
    #[error("{0}")]
    Context(rustls::Error),
}

impl PeerTlsError {
    /// The reason for the counters.
    fn handshake_failure(&self) -> HandshakeFailure {
        match self {
            PeerTlsError::Insecure => HandshakeFailure::NotTls,
            PeerTlsError::Silent => HandshakeFailure::Closed,
            PeerTlsError::Handshake(error) => HandshakeFailure::of(error),
            PeerTlsError::OtherServer(_) | PeerTlsError::Unlisted(_) => HandshakeFailure::WrongName,
            PeerTlsError::Context(_) => HandshakeFailure::Other,
        }
    }
}

/// TLS of the ports for other servers, and of the connections that are dialed to them.
#[derive(Debug)]
pub(super) struct PeerTls {
    family: Arc<ReloadingTls>,
    address_book: Arc<AddressBook>,
    /// `sslQuorum`
    dials: bool,
    /// `portUnification`
    accepts_plain: bool,
    plain_log: RefusalLog,
}

impl PeerTls {
    /// Opens the stores; `None` if TLS is off. Starts to watch the files. The caller must be inside the
    /// runtime.
    pub(super) fn open(
        config: &QuorumTlsConfig,
        address_book: &Arc<AddressBook>,
    ) -> Result<Option<Arc<PeerTls>>, ServeError> {
        let Some(family) = config.family.clone() else { return Ok(None) };
        let family = ReloadingTls::open(family).map_err(|error| ServeError::Tls(error.to_string()))?;
        tokio::spawn(family.clone().watch_files());
        Ok(Some(Arc::new(PeerTls {
            family,
            address_book: address_book.clone(),
            dials: config.ssl_quorum,
            accepts_plain: config.port_unification,
            plain_log: RefusalLog::default(),
        })))
    }

    /// Whether connections are dialed with TLS.
    pub(super) fn dials(&self) -> bool {
        self.dials
    }

    /// Says at the start how the servers talk to each other, in ZooKeeper's words.
    pub(super) fn log_settings(&self) {
        if self.dials {
            info!("Using TLS encrypted quorum communication");
        } else {
            info!("Using insecure (non-TLS) quorum communication");
        }
        if self.accepts_plain {
            info!("Port unification enabled");
            info!("Creating TLS-enabled quorum server socket");
        } else {
            info!("Port unification disabled");
            info!("Creating TLS-only quorum server socket");
        }
    }

    /// The stores and counters.
    pub(super) fn family(&self) -> &Arc<ReloadingTls> {
        &self.family
    }

    /// Counts a connection that was refused.
    pub(super) fn count_failure(&self, error: Option<&PeerTlsError>) {
        let reason = error.map_or(HandshakeFailure::Timeout, PeerTlsError::handshake_failure);
        self.family.counters().handshake_failed(reason);
    }

    /// Recognizes TLS by the first byte, and makes the handshake of the accepting side.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        from: SocketAddr,
    ) -> Result<PeerStream, PeerTlsError> {
        let mut first = [0];
        // The byte stays in the socket, however the header is split.
        let peeked = timeout(self.family.config().detection_timeout, stream.peek(&mut first)).await;
        match peeked {
            Err(_) | Ok(Ok(0)) => return Err(PeerTlsError::Silent),
            Ok(Err(error)) => return Err(PeerTlsError::Handshake(error)),
            Ok(Ok(_)) => {}
        }
        if first[0] != HANDSHAKE_RECORD {
            if !self.accepts_plain {
                return Err(PeerTlsError::Insecure);
            }
            self.log_plain(from);
            return Ok(PeerStream::plain(stream));
        }
        let context = self.family.current();
        let config = match (self.family.config().client_auth, self.checks_dialers()) {
            (ClientAuth::Need | ClientAuth::Want, true) => {
                context.peer_acceptor(self.address_book.all_hosts()).map_err(PeerTlsError::Context)?
            }
            (ClientAuth::Need | ClientAuth::Want | ClientAuth::None, _) => context.acceptor(),
        };
        let stream = TlsAcceptor::from(config).accept(stream).await.map_err(PeerTlsError::Handshake)?;
        let stream = TlsStream::from(stream);
        log_accepted(from, stream.get_ref().1);
        let certificate = self.certificate_of(stream.get_ref().1);
        Ok(PeerStream::tls(stream, certificate))
    }

    /// Makes the handshake of the dialing side.
    pub(super) async fn dial(&self, stream: TcpStream, to: ServerId) -> Result<PeerStream, PeerTlsError> {
        let hosts = self.address_book.hosts_of(to);
        if hosts.is_empty() && self.family.config().hostname_verification {
            return Err(PeerTlsError::Unlisted(to.0));
        }
        let named = hosts.first().and_then(|host| ServerName::try_from(host.clone()).ok());
        let name = match named {
            Some(name) => name,
            None => ServerName::from(stream.peer_addr().map_err(PeerTlsError::Handshake)?.ip()),
        };
        let config = self.family.current().dialer(hosts).map_err(PeerTlsError::Context)?;
        let stream =
            TlsConnector::from(config).connect(name, stream).await.map_err(PeerTlsError::Handshake)?;
        // The dialed server was checked by its certificate; its id was chosen by this server.
        Ok(PeerStream::tls(TlsStream::from(stream), PeerCertificate::default()))
    }

    /// Whether the certificate of an accepted connection is one of this server. Plain connections have none.
    pub(super) fn check_server(
        &self,
        certificate: &PeerCertificate,
        server: ServerId,
    ) -> Result<(), PeerTlsError> {
        let Some(certificate) = &certificate.0 else { return Ok(()) };
        let hosts = self.address_book.hosts_of(server);
        if hosts.is_empty() {
            return Err(PeerTlsError::Unlisted(server.0));
        }
        check_hosts(certificate, &hosts).map(drop).map_err(PeerTlsError::OtherServer)
    }

    /// `clientHostnameVerification` has no effect without `hostnameVerification`, as in ZooKeeper.
    fn checks_dialers(&self) -> bool {
        let config = self.family.config();
        config.hostname_verification && config.client_hostname_verification
    }

    fn certificate_of(&self, session: &CommonState) -> PeerCertificate {
        let first = session.peer_certificates().and_then(<[_]>::first);
        PeerCertificate(first.filter(|_| self.checks_dialers()).map(|leaf| Box::from(leaf.as_ref())))
    }

    fn log_plain(&self, from: SocketAddr) {
        if self.plain_log.is_due(&from.ip().to_string(), "plain") {
            info!("Accepted plaintext connection from {from}");
        } else {
            debug!("Accepted plaintext connection from {from}");
        }
    }
}

fn log_accepted(from: SocketAddr, session: &CommonState) {
    let version = session.protocol_version().and_then(|version| version.as_str()).unwrap_or("unknown");
    let suite =
        session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or("unknown");
    // Java's names of the version and of the suites of TLS 1.3.
    let (version, suite) = (version.replace('_', "."), suite.replace("TLS13_", "TLS_"));
    info!("Accepted TLS connection from {from} - {version} - {suite}");
}

/// The text of a failed handshake. An error of the host check is shown itself.
fn describe(error: &io::Error) -> String {
    match rustls_error(error) {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(problem))) => problem.to_string(),
        Some(rustls::Error::AlertReceived(alert)) => {
            format!("the other server refused it with the alert {alert:?}; its log says why")
        }
        Some(other) => other.to_string(),
        None => error.to_string(),
    }
}

/// The alert by which the other server refused a connection after the handshake: TLS 1.3 checks the
/// certificate of the dialing side last.
pub(super) fn received_alert(error: io::Error) -> Option<PeerTlsError> {
    let is_alert = matches!(rustls_error(&error), Some(rustls::Error::AlertReceived(_)));
    is_alert.then_some(PeerTlsError::Handshake(error))
}
