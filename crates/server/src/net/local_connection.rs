//! A client connection from within the process, for the HTTP API of the admin port.
//!
//! It is a connection like those of the client port: the same task, the same request queue, limits, ACLs,
//! audit and roles. It differs in two ways: its bytes pass through memory, and its identity is known before
//! the first frame. It takes a place in the limits per address and in total.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use zebu_node::{AuditOperation, AuditResult};
use zebu_tree::Credentials;

use super::connection_guard::ConnectionGuard;
use super::connection_task::{ConnectionTask, TaskSocket};
use super::port_protection::ClientPortKind;
use crate::core::context::ServerContext;

/// Bytes that wait in memory for the other side, in each direction.
const PIPE_BYTES: usize = 64 << 10;

/// The caller whose requests a connection carries.
#[derive(Clone, Debug)]
pub struct LocalCaller {
    /// The address that limits and reports name.
    pub address: IpAddr,
    /// The identities that its ACL checks use.
    pub credentials: Credentials,
    /// Whether the caller came through TLS.
    pub is_secure: bool,
}

/// Why no connection was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalConnectionRefusal {
    /// The server stops.
    #[error("the server stops")]
    Stopping,
    /// The address or the server has as many connections as it may have.
    #[error("too many connections (maxClientCnxns, maxCnxns)")]
    TooMany,
}

impl TaskSocket for DuplexStream {}

/// Starts the task of a connection on the network threads, and returns the caller's end of it.
pub(crate) fn open(
    shared: &Arc<ServerContext>,
    runtime: &Handle,
    caller: LocalCaller,
) -> Result<DuplexStream, LocalConnectionRefusal> {
    let LocalCaller { address, credentials, is_secure } = caller;
    if shared.stopping.load(Ordering::Acquire) {
        return Err(LocalConnectionRefusal::Stopping);
    }
    shared.metrics.connection_requests.increment();
    let listen = &shared.config.listen;
    let open_connections = shared.connection_count.load(Ordering::Acquire);
    let is_full = listen.max_connections.is_some_and(|max| open_connections >= max as usize);
    if is_full || shared.per_address.admit(address, listen.max_connections_per_address).is_none() {
        shared.metrics.connections_rejected.increment();
        return Err(LocalConnectionRefusal::TooMany);
    }
    if let Some(audit) = shared.audit.as_ref().filter(|_| credentials.is_super()) {
        let (operation, result) = (AuditOperation::SuperLogin, AuditResult::Success);
        audit.record_extra(None, &credentials, operation, result, shared.clock.now());
    }
    let port = if is_secure { ClientPortKind::Secure } else { ClientPortKind::Client };
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let guard = ConnectionGuard::new(shared.clone(), SocketAddr::new(address, 0), port, credentials, None);
    // The task makes a timer of its runtime.
    let _context = runtime.enter();
    runtime.spawn(ConnectionTask::new(far, guard));
    Ok(near)
}
