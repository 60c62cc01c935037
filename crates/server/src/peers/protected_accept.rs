//! Learner connections between accept and link: TLS and SASL in a task of their own, a bounded number at a
//! time, within a deadline. Nothing of them is shared before they succeed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use zebu_zab::LearnerPort;

use super::links::Links;
use super::panics::close_on_panic;
use super::peer_stream::PeerStream;
use super::protection::{PROTECTION_TIMEOUT, PeerProtection, PeerRefusal};
use super::unidentified::UnidentifiedConnections;
use crate::ports::peer_ports::PeerPort;

/// The accepted connections that have not passed TLS and SASL, over all learner ports.
#[derive(Debug)]
pub(super) struct UnauthenticatedLearners {
    connections: Mutex<UnidentifiedConnections<AbortHandle>>,
    count: AtomicU64,
}

impl Default for UnauthenticatedLearners {
    fn default() -> UnauthenticatedLearners {
        let connections = Mutex::new(UnidentifiedConnections::new(PeerPort::Quorum));
        UnauthenticatedLearners { connections, count: AtomicU64::new(0) }
    }
}

impl UnauthenticatedLearners {
    fn connections(&self) -> MutexGuard<'_, UnidentifiedConnections<AbortHandle>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Protects an accepted connection and starts its link. Of too many connections one is closed.
pub(super) fn accept_protected(
    links: &Arc<Links>,
    stream: TcpStream,
    from: SocketAddr,
    learner_port: LearnerPort,
) {
    let unauthenticated = links.unauthenticated();
    let number = unauthenticated.count.fetch_add(1, Relaxed);
    let mut connections = unauthenticated.connections();
    // The task removes its own entry: the lock is held until the entry exists.
    let forget = {
        let links = links.clone();
        move || links.unauthenticated().connections().remove(number)
    };
    let protect = {
        let links = links.clone();
        async move {
            let certified = || links.unauthenticated().connections().mark_certified(number);
            let protecting = protect(links.protection(), stream, from, certified);
            let protected =
                timeout(PROTECTION_TIMEOUT, protecting).await.unwrap_or(Err(PeerRefusal::TooSlow));
            links.unauthenticated().connections().remove(number);
            match protected {
                Ok(stream) => links.start_accepted(stream, from, learner_port),
                Err(refusal) => links.protection().log_refused(from, None, &refusal),
            }
        }
    };
    let task = tokio::spawn(close_on_panic("a learner's connection", forget, protect));
    let standing = links.address_book().standing_of(from.ip());
    if let Some(closed) = connections.add(number, from.ip(), standing, task.abort_handle()) {
        closed.abort();
    }
}

async fn protect(
    protection: &PeerProtection,
    stream: TcpStream,
    from: SocketAddr,
    certified: impl FnOnce(),
) -> Result<PeerStream, PeerRefusal> {
    let mut stream = protection.accept_tls(stream, from).await?;
    if stream.has_certificate() {
        certified();
    }
    protection.accept_sasl(&mut stream, from).await?;
    Ok(stream)
}
