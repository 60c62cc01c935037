//! Accepts connections on the election port: protection, the id of the connecting server, admission. Each
//! connection has a task of its own until its peer gets it; their number is bounded.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};
use zebu_proto::ServerId;
use zebu_proto::quorum::InitialMessage;

use super::super::acceptor::PeerAcceptor;
use super::super::dial::prepare_for_election;
use super::super::incoming::Incoming;
use super::super::introduction::introduce;
use super::super::panics::close_on_panic;
use super::super::peer_stream::PeerStream;
use super::super::protection::PeerRefusal;
use super::{ElectionPeers, RETRY_DELAY};

pub(super) async fn accept_connections(mut acceptor: PeerAcceptor, peers: Arc<ElectionPeers>) {
    let mut number = 0;
    loop {
        match acceptor.accept().await {
            Ok((stream, from)) => {
                number += 1;
                let mut unidentified = peers.unidentified();
                // The task removes its own entry: the lock is held until the entry exists.
                let forget = {
                    let peers = peers.clone();
                    move || peers.unidentified().remove(number)
                };
                let welcome = identify_and_admit(number, stream, from, peers.clone());
                let task = tokio::spawn(close_on_panic("an election connection", forget, welcome));
                let standing = peers.address_book.standing_of(from.ip());
                let closed = unidentified.add(number, from.ip(), standing, task.abort_handle());
                if let Some(closed) = closed {
                    closed.abort();
                }
            }
            Err(error) => {
                warn!(%error, "an election connection could not be accepted; trying again");
                sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Reads the id of the connecting server and hands the connection to its peer.
async fn identify_and_admit(number: u64, stream: TcpStream, from: SocketAddr, peers: Arc<ElectionPeers>) {
    let certified = || peers.unidentified().mark_certified(number);
    let identifying = identify(stream, from, &peers, certified);
    let identified = timeout(peers.identification_timeout, identifying).await;
    peers.unidentified().remove(number);
    let (message, stream) = match identified {
        Ok(Ok(identified)) => identified,
        Ok(Err((server, refusal))) => return peers.protection.log_refused(from, server, &refusal),
        Err(_) if peers.protection.is_on() => {
            return peers.protection.log_refused(from, None, &PeerRefusal::TooSlow);
        }
        Err(_) => {
            debug!(%from, "a connection on the election port did not say who it is");
            return;
        }
    };
    let server = message.server;
    match peers.admit(server, &message.addresses, from) {
        None => warn!(
            %from,
            server = server.0,
            "a server on the election port was refused: it has the id of this server, or too many that are not in the \
             configuration are there"
        ),
        Some(member) => {
            // The peer may have been removed; then the server connects again.
            member.incoming.push(if server > peers.address_book.me {
                Incoming::Connection(stream)
            } else {
                Incoming::DialBack
            });
        }
    }
}

/// Protects a connection, and reads the id of its server between TLS and SASL, as in ZooKeeper.
async fn identify(
    stream: TcpStream,
    from: SocketAddr,
    peers: &ElectionPeers,
    certified: impl FnOnce(),
) -> Result<(InitialMessage, PeerStream), (Option<ServerId>, PeerRefusal)> {
    let unknown = |refusal| (None, refusal);
    prepare_for_election(&stream, peers.keep_alive).map_err(|error| unknown(error.into()))?;
    let protection = &peers.protection;
    let mut stream = protection.accept_tls(stream, from).await.map_err(unknown)?;
    if stream.has_certificate() {
        certified();
    }
    let message = introduce(&mut stream).await.map_err(unknown)?;
    let known = |refusal| (Some(message.server), refusal);
    protection.accept_sasl(&mut stream, from).await.map_err(known)?;
    protection.check_server(stream.certificate(), message.server).map_err(known)?;
    Ok((message, stream))
}
