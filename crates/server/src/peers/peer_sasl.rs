//! SASL between servers over any stream: the packets of one exchange, for both sides.
//!
//! The state machines and the limits of a packet are in `security`. This module reads and writes; its caller
//! sets the deadline. It reads no byte behind the last packet of an exchange.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::spawn_blocking;
use zebu_kerberos::{AcceptorCredential, ServiceName, initiate};
use zebu_security::sasl::digest_md5::{DigestClient, DigestProfile, DigestServer, NONCE_BYTES};
use zebu_security::sasl::gssapi::{GssClient, GssServer};
use zebu_security::sasl::quorum::{
    AcceptorStep, DiallerStep, EnsembleServer, QuorumAcceptor, QuorumAuthError, QuorumAuthPacket,
    QuorumDialler, begins_exchange, peer_principal,
};
use zebu_security::sasl::{SaslClient, SaslFailure, SaslServer};

use crate::config::security::quorum_sasl::{QuorumKerberos, QuorumLogins, QuorumSasl};

/// Bytes of the magic number.
const MAGIC_BYTES: usize = 8;

/// The reason why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerSaslError {
    #[error("Learner not trying to authenticate and authentication is required")]
    NotTrying,
    #[error("SASL authentication failed: {0}")]
    Failed(#[from] SaslFailure),
    #[error(transparent)]
    Packet(#[from] QuorumAuthError),
    #[error("the connection ended during the SASL authentication: {0}")]
    Connection(#[from] io::Error),
}

/// The result at the accepting side.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AcceptedPeer {
    /// The peer proved to be this user.
    Authenticated { user: String },
    /// The peer does not authenticate itself, and need not. These bytes belong to the next reader.
    Anonymous { unread: Vec<u8> },
}

/// Where the steps of a mechanism run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepPlace {
    /// On the thread of the connection: the mechanism computes a few hashes.
    Here,
    /// On a thread for blocking calls: the mechanism reads files and asks the KDC.
    BlockingThread,
}

/// Runs the accepting side. `hosts` are those of the ensemble.
pub(super) async fn accept_exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    sasl: &QuorumSasl,
    hosts: impl FnOnce() -> Vec<String>,
) -> Result<AcceptedPeer, PeerSaslError> {
    match &*sasl.logins {
        QuorumLogins::Digest(logins) => {
            let users = logins.users.clone();
            let nonce = random_bytes()?;
            let begin = async || Ok(DigestServer::new(DigestProfile::QUORUM, users, nonce));
            accept_with(stream, sasl.required, begin, StepPlace::Here).await
        }
        QuorumLogins::Kerberos(logins) => {
            let (principal, realm) = (logins.acceptor.principal.clone(), logins.acceptor.realm.clone());
            let begin = async move || {
                let credential = blocking(move || AcceptorCredential::acquire(&principal)).await?;
                let context = credential.map_err(SaslFailure::from)?.context();
                Ok(EnsembleServer::new(GssServer::new(context), hosts(), realm))
            };
            accept_with(stream, sasl.required, begin, StepPlace::BlockingThread).await
        }
    }
}

/// Runs the accepting side. `begin` makes the mechanism of a peer that authenticates itself.
async fn accept_with<S, M, B>(
    stream: &mut S,
    is_required: bool,
    begin: B,
    place: StepPlace,
) -> Result<AcceptedPeer, PeerSaslError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: SaslServer + Send + 'static,
    B: AsyncFnOnce() -> Result<M, PeerSaslError>,
{
    let mut bytes = Vec::with_capacity(MAGIC_BYTES);
    match read_magic(stream, &mut bytes).await {
        Ok(true) => {}
        // A server with the smaller id closes its election connection at once: that is no failure here.
        Ok(false) | Err(_) if !is_required => return Ok(AcceptedPeer::Anonymous { unread: bytes }),
        Ok(false) => return Err(PeerSaslError::NotTrying),
        Err(error) => return Err(error.into()),
    }
    let mut acceptor = QuorumAcceptor::new(begin().await?);
    loop {
        let packet = read_packet(stream, std::mem::take(&mut bytes)).await?;
        let step;
        (acceptor, step) = step_at(place, acceptor, move |acceptor| acceptor.receive(&packet)).await?;
        match step {
            AcceptorStep::Send(packet) => send(stream, &packet).await?,
            AcceptorStep::Accept { packet, identity } => {
                send(stream, &packet).await?;
                return Ok(AcceptedPeer::Authenticated { user: identity.authentication_id });
            }
            AcceptorStep::Reject { packet, failure } => {
                // The reason of the failure counts, also if the peer is gone.
                let _ = send(stream, &packet).await;
                return Err(failure.into());
            }
        }
    }
}

/// Runs the dialing side. `host` is that of the dialed server.
pub(super) async fn dial_exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    logins: &QuorumLogins,
    host: Option<&str>,
) -> Result<(), PeerSaslError> {
    match logins {
        QuorumLogins::Digest(logins) => {
            let nonce: String =
                random_bytes::<NONCE_BYTES>()?.iter().map(|byte| format!("{byte:02x}")).collect();
            let (user, password) = (logins.user.clone(), logins.password.clone());
            let client = DigestClient::new(DigestProfile::QUORUM, user, password, nonce);
            dial_with(stream, client, StepPlace::Here).await
        }
        QuorumLogins::Kerberos(logins) => {
            let client = kerberos_client(logins, host).await?;
            dial_with(stream, client, StepPlace::BlockingThread).await
        }
    }
}

async fn kerberos_client(
    logins: &QuorumKerberos,
    host: Option<&str>,
) -> Result<impl SaslClient + Send + 'static, PeerSaslError> {
    let unlisted =
        || SaslFailure::Mechanism("the configuration names no host of the dialed server".to_owned());
    let service = peer_principal(&logins.service_principal, host.ok_or_else(unlisted)?);
    let own = logins.dialer.principal.clone();
    let context = blocking(move || initiate(own.as_deref(), &ServiceName::Principal(service))).await?;
    Ok(GssClient::new(context.map_err(SaslFailure::from)?))
}

async fn dial_with<S, C>(stream: &mut S, client: C, place: StepPlace) -> Result<(), PeerSaslError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    C: SaslClient + Send + 'static,
{
    let dialer = QuorumDialler::new(client);
    let (mut dialer, first) = step_at(place, dialer, QuorumDialler::start).await?;
    send(stream, &first?).await?;
    loop {
        let packet = read_packet(stream, Vec::new()).await?;
        let step;
        (dialer, step) = step_at(place, dialer, move |dialer| dialer.receive(&packet)).await?;
        match step {
            DiallerStep::Send(packet) => send(stream, &packet).await?,
            DiallerStep::Done => return Ok(()),
            DiallerStep::Failed(failure) => return Err(failure.into()),
        }
    }
}

/// Runs one step of a mechanism where it may block.
async fn step_at<M: Send + 'static, R: Send + 'static>(
    place: StepPlace,
    mut mechanism: M,
    step: impl FnOnce(&mut M) -> R + Send + 'static,
) -> Result<(M, R), PeerSaslError> {
    let run = move || {
        let result = step(&mut mechanism);
        (mechanism, result)
    };
    match place {
        StepPlace::Here => Ok(run()),
        StepPlace::BlockingThread => blocking(run).await,
    }
}

async fn blocking<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> Result<R, PeerSaslError> {
    let panicked = |_| SaslFailure::Mechanism("the mechanism panicked".to_owned()).into();
    spawn_blocking(call).await.map_err(panicked)
}

/// Reads until the bytes are the magic number or differ from it. An error is the end of the connection.
async fn read_magic<S: AsyncRead + Unpin>(stream: &mut S, bytes: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let mut buffer = [0; MAGIC_BYTES];
        let read = stream.read(&mut buffer[..MAGIC_BYTES - bytes.len()]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(begins) = begins_exchange(bytes) {
            return Ok(begins);
        }
    }
}

/// Reads one packet, of which these bytes are read already. Memory grows only after the length is checked.
async fn read_packet<S: AsyncRead + Unpin>(
    stream: &mut S,
    mut bytes: Vec<u8>,
) -> Result<QuorumAuthPacket, PeerSaslError> {
    let mut start = bytes.len();
    bytes.resize(QuorumAuthPacket::HEADER_BYTES, 0);
    stream.read_exact(&mut bytes[start..]).await?;
    loop {
        let length = QuorumAuthPacket::length(&bytes)?;
        if let Some((packet, _)) = QuorumAuthPacket::decode(&bytes)? {
            return Ok(packet);
        }
        start = bytes.len();
        bytes.resize(length.unwrap_or(start + 1), 0);
        stream.read_exact(&mut bytes[start..]).await?;
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, packet: &QuorumAuthPacket) -> io::Result<()> {
    stream.write_all(&packet.encode()).await?;
    stream.flush().await
}

fn random_bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
