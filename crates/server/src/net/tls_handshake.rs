//! The time of a client connection before its first frame: the choice between TLS and plain, the handshake,
//! and the identity of the certificate. Bounded in time and number.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info};
use zebu_node::limits::CREDENTIALS_BYTES_MAX;
use zebu_node::{AuditOperation, AuditResult, StatsDelta};
use zebu_proto::Id;
use zebu_security::verify::{HostCheckError, check_hosts};
use zebu_security::x509_id::x509_id;
use zebu_tree::Credentials;

use super::client_socket::{ClientSocket, SharedWriter};
use super::connection_guard::ConnectionGuard;
use super::connection_task::{ConnectionTask, TaskSocket};
use super::port_protection::{ClientPortKind, PortProtection};
use super::tls_socket::TlsSocket;
use crate::core::context::ServerContext;
use crate::refusal_log::RefusalLog;
use crate::tls::ReloadingTls;
use crate::tls::counters::{HandshakeFailure, is_close};

/// From accept to the end of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection: a handshake record. No frame length begins with it.
const HANDSHAKE_RECORD: u8 = 0x16;
/// Longest reason in a log line. Peers write parts of it.
const REASON_CHARS_MAX: usize = 300;

/// The connections that use TLS, and those before their first frame.
#[derive(Debug, Default)]
pub(crate) struct TlsUse {
    /// Handshakes that are not finished.
    pub(crate) handshakes: AtomicUsize,
    /// Connections after their handshake.
    pub(crate) connections: AtomicUsize,
    /// Admitted connections that are not registered yet.
    pub(crate) preludes: AtomicUsize,
    refusals: RefusalLog,
}

/// A place in the limit per address and in the count of preludes. It is released unless a connection takes it
/// over.
pub(super) struct Admission {
    shared: Arc<ServerContext>,
    peer: SocketAddr,
    credentials: Option<Credentials>,
}

impl Admission {
    /// Takes over the place that the limit per address gave with these credentials.
    pub(super) fn new(shared: Arc<ServerContext>, peer: SocketAddr, credentials: Credentials) -> Admission {
        shared.tls_use.preludes.fetch_add(1, Ordering::AcqRel);
        Admission { shared, peer, credentials: Some(credentials) }
    }

    /// Starts the task that serves the connection.
    fn serve(
        mut self,
        socket: impl TaskSocket,
        port: ClientPortKind,
        writer: Option<SharedWriter>,
        ids: Vec<Id>,
    ) {
        let Some(mut credentials) = self.credentials.take() else { return };
        ids.into_iter().for_each(|id| credentials.add(id));
        if credentials.is_super() {
            record_super_login(&self.shared, self.peer, &credentials);
        }
        let guard = ConnectionGuard::new(self.shared.clone(), self.peer, port, credentials, writer);
        tokio::spawn(ConnectionTask::new(socket, guard));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.shared.tls_use.preludes.fetch_sub(1, Ordering::AcqRel);
        if self.credentials.is_some() {
            self.shared.per_address.release(self.peer.ip());
        }
    }
}

/// A place among the handshakes at once.
struct HandshakePermit(Arc<ServerContext>);

impl HandshakePermit {
    fn try_new(shared: &Arc<ServerContext>) -> Option<HandshakePermit> {
        let max = shared.config.security.client_tls.handshakes_max as usize;
        let handshakes = &shared.tls_use.handshakes;
        let taken = handshakes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| (count < max).then_some(count + 1));
        taken.is_ok().then(|| HandshakePermit(shared.clone()))
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        self.0.tls_use.handshakes.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Why a connection ended before its first frame.
#[derive(Debug, thiserror::Error)]
enum PreludeError {
    #[error("no byte was received in time")]
    Silent,
    #[error("the client closed the connection: {0}")]
    Gone(io::Error),
    #[error("the client closed the connection within the TLS handshake: {0}")]
    Closed(io::Error),
    #[error("the server does not serve clients now")]
    NotServing,
    #[error("too many TLS handshakes at once")]
    TooMany,
    #[error("the TLS handshake took longer than {} seconds", HANDSHAKE_TIMEOUT.as_secs())]
    Slow,
    #[error("{0}")]
    Handshake(io::Error),
    #[error("{0}")]
    WrongHost(HostCheckError),
    #[error("{0}")]
    Identity(String),
}

impl PreludeError {
    /// The reason for the counters; `None` if no handshake failed.
    fn handshake_failure(&self) -> Option<HandshakeFailure> {
        match self {
            PreludeError::Silent
            | PreludeError::Gone(_)
            | PreludeError::NotServing
            | PreludeError::TooMany => None,
            PreludeError::Closed(_) => Some(HandshakeFailure::Closed),
            PreludeError::Slow => Some(HandshakeFailure::Timeout),
            PreludeError::Handshake(error) => Some(HandshakeFailure::of(error)),
            PreludeError::WrongHost(_) => Some(HandshakeFailure::WrongName),
            PreludeError::Identity(_) => Some(HandshakeFailure::BadCertificate),
        }
    }
}

/// Leads a connection to its first frame, and then starts its task.
pub(super) async fn begin_connection(admission: Admission, protection: PortProtection, stream: TcpStream) {
    let accepted = Instant::now();
    let (shared, peer) = (admission.shared.clone(), admission.peer);
    let port = protection.port();
    let result = match protection {
        PortProtection::Plain => Ok(None),
        PortProtection::Tls(tls) => Ok(Some(tls)),
        PortProtection::PlainOrTls(tls) => {
            begins_with_tls(&stream, &shared).await.map(|is_tls| is_tls.then_some(tls))
        }
    };
    let error = match result {
        Ok(None) => {
            let (socket, writer) = ClientSocket::new(stream);
            admission.serve(socket, port, Some(writer), Vec::new());
            return;
        }
        Ok(Some(tls)) => match accept_tls(&shared, &tls, peer, stream, accepted).await {
            Ok((stream, ids)) => {
                // Without a shared writer there are no direct sends.
                admission.serve(TlsSocket::new(stream, shared), port, None, ids);
                return;
            }
            Err(error) => {
                if let Some(reason) = error.handshake_failure() {
                    tls.counters().handshake_failed(reason);
                }
                error
            }
        },
        Err(error) => error,
    };
    report(&shared, peer, &error);
}

/// Peeks at the first byte.
async fn begins_with_tls(stream: &TcpStream, shared: &ServerContext) -> Result<bool, PreludeError> {
    let mut first = [0];
    match tokio::time::timeout(shared.config.listen.sessionless_timeout, stream.peek(&mut first)).await {
        Err(_) => Err(PreludeError::Silent),
        Ok(Err(error)) => Err(PreludeError::Gone(error)),
        Ok(Ok(0)) => Err(PreludeError::Gone(io::ErrorKind::UnexpectedEof.into())),
        Ok(Ok(_)) => Ok(first[0] == HANDSHAKE_RECORD),
    }
}

async fn accept_tls(
    shared: &Arc<ServerContext>,
    tls: &ReloadingTls,
    peer: SocketAddr,
    stream: TcpStream,
    accepted: Instant,
) -> Result<(TlsStream<TcpStream>, Vec<Id>), PreludeError> {
    // A handshake costs more than all that a server that does not serve would do.
    if shared.stopping.load(Ordering::Acquire) || !shared.takes_connects() {
        return Err(PreludeError::NotServing);
    }
    let permit = HandshakePermit::try_new(shared).ok_or(PreludeError::TooMany)?;
    let handshake = TlsAcceptor::from(tls.current().acceptor()).accept(stream);
    let stream = match tokio::time::timeout_at(accepted + HANDSHAKE_TIMEOUT, handshake).await {
        Err(_) => return Err(PreludeError::Slow),
        Ok(Err(error)) if is_close(&error) => return Err(PreludeError::Closed(error)),
        Ok(Err(error)) => return Err(PreludeError::Handshake(error)),
        Ok(Ok(stream)) => stream,
    };
    drop(permit);
    let ids = identities(shared, tls, peer, &stream)?;
    Ok((stream, ids))
}

/// The ids of the client's certificate. Without a certificate there are none.
fn identities(
    shared: &ServerContext,
    tls: &ReloadingTls,
    peer: SocketAddr,
    stream: &TlsStream<TcpStream>,
) -> Result<Vec<Id>, PreludeError> {
    let (_, session) = stream.get_ref();
    let Some(leaf) = session.peer_certificates().and_then(|chain| chain.first()) else {
        return Ok(Vec::new());
    };
    if tls.config().client_hostname_verification {
        let address = peer.ip().to_string();
        check_hosts(leaf, &[address]).map_err(PreludeError::WrongHost)?;
    }
    tls.report_unusual(peer, leaf);
    let id = x509_id(leaf).map_err(|error| PreludeError::Identity(error.to_string()))?;
    if id.len() > CREDENTIALS_BYTES_MAX / 4 {
        return Err(PreludeError::Identity("the subject of the certificate is too long".to_owned()));
    }
    let mut ids = Vec::with_capacity(2);
    if shared.config.security.client_tls.x509_super_user.as_ref() == Some(&id) {
        ids.push(Id::new("super", id.clone()));
    }
    ids.push(Id::new("x509", id));
    Ok(ids)
}

/// Records a failed handshake, if the audit log shows such events.
fn record_failure(shared: &ServerContext, peer: SocketAddr, error: &PreludeError) {
    let is_failure = matches!(
        error,
        PreludeError::Slow
            | PreludeError::Handshake(_)
            | PreludeError::WrongHost(_)
            | PreludeError::Identity(_)
    );
    if let Some(audit) = shared.audit.as_ref().filter(|_| is_failure) {
        let credentials = Credentials::of_peer(peer.ip().to_canonical());
        let (operation, result) = (AuditOperation::HandshakeFailure, AuditResult::Failure);
        audit.record_extra(None, &credentials, operation, result, shared.clock.now());
    }
}

/// Logs that a certificate makes its client a super user, and records it as other logins of super users.
fn record_super_login(shared: &ServerContext, peer: SocketAddr, credentials: &Credentials) {
    let subject = shared.config.security.client_tls.x509_super_user.as_deref();
    info!(%peer, ?subject, "a super user connected with its certificate");
    if let Some(audit) = &shared.audit {
        let (operation, result) = (AuditOperation::SuperLogin, AuditResult::Success);
        audit.record_extra(None, credentials, operation, result, shared.clock.now());
    }
}

/// Counts and logs the end of a connection before its first frame.
fn report(shared: &ServerContext, peer: SocketAddr, error: &PreludeError) {
    record_failure(shared, peer, error);
    let metrics = &shared.metrics;
    let message = match error {
        PreludeError::Silent => {
            metrics.sessionless_expired.increment();
            None
        }
        PreludeError::Gone(_) => None,
        PreludeError::NotServing => {
            metrics.closed_while_not_serving.increment();
            None
        }
        PreludeError::TooMany => {
            metrics.tls_handshakes_exceeded.increment();
            Some("TLS connection refused")
        }
        PreludeError::Closed(_) => {
            metrics.unsuccessful_handshakes.increment();
            None
        }
        PreludeError::Slow | PreludeError::Handshake(_) => {
            metrics.unsuccessful_handshakes.increment();
            Some("unsuccessful TLS handshake")
        }
        PreludeError::WrongHost(_) | PreludeError::Identity(_) => {
            shared.stats.add(&StatsDelta { auth_failures: 1, ..StatsDelta::default() });
            Some("the certificate of a client was refused")
        }
    };
    let reason: String = error.to_string().escape_debug().take(REASON_CHARS_MAX).collect();
    let Some(message) = message else {
        debug!(%peer, %reason, "connection closed before its first frame");
        return;
    };
    // A client that is refused comes again at once.
    match shared.tls_use.refusals.is_due(&peer.ip().to_string(), &reason) {
        true => info!(%peer, %reason, "{message}"),
        false => debug!(%peer, %reason, "{message}"),
    }
}
