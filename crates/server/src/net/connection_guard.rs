//! The resources of one client connection: its registry entry and its places in the limits per
//! address and in total.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::error;
use zebu_node::{ClientConnection, ClientEvent, ConnectionSession, TrafficReport};
use zebu_tree::Credentials;

use super::client_socket::SharedWriter;
use super::port_protection::ClientPortKind;
use crate::core::context::ServerContext;
use crate::net::connections::ConnectionEntry;

/// Releases the resources of a connection when dropped.
pub(super) struct ConnectionGuard {
    pub(super) shared: Arc<ServerContext>,
    pub(super) entry: Arc<ConnectionEntry>,
}

impl ConnectionGuard {
    /// Registers a connection that its address limit admitted with these credentials.
    pub(super) fn new(
        shared: Arc<ServerContext>,
        peer: SocketAddr,
        port: ClientPortKind,
        credentials: Credentials,
        writer: Option<SharedWriter>,
    ) -> ConnectionGuard {
        let now = shared.clock.now();
        let make = |id| ClientConnection::new(id, credentials, now.wall_ms, now.monotonic_ms);
        let entry = shared.connections.add(peer, port, writer, make);
        shared.connection_count.fetch_add(1, Ordering::AcqRel);
        ConnectionGuard { shared, entry }
    }
}

impl ConnectionGuard {
    /// Reports the observed requests. The caller holds no lock.
    #[inline]
    pub(super) fn record_traffic(
        &self,
        traffic: Option<Box<TrafficReport>>,
        session: Option<ConnectionSession>,
    ) {
        if let Some(report) = traffic {
            self.shared.traffic.record(&self.entry, session, &report, &self.shared.clock);
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            error!(peer = %self.entry.remote_address, "the task of a client connection panicked; the connection is closed");
        }
        let shared = &self.shared;
        let (connection, session, touched_ms, writer, traffic) = {
            let replica = shared.read_replica();
            let mut connection = self.entry.lock();
            let unreported = connection.take_outbox(&mut Vec::new());
            shared.stats.add(&unreported);
            let writer = connection.release_socket();
            replica.remove_connection(&mut connection);
            let traffic = connection.take_traffic();
            (connection.id, connection.session, connection.touched_ms, writer, traffic)
        };
        self.record_traffic(traffic, session);
        let session = session.map(|session| session.id);
        // The socket is closed before the connection is released.
        drop(writer);
        shared.per_address.release(self.entry.remote_address.ip());
        shared.metrics.connections_dropped.increment();
        shared.connection_count.fetch_sub(1, Ordering::AcqRel);
        // The core removes the entry after it knows the last touch. Otherwise a session whose tick
        // ends now would expire although its client was active.
        shared.inbox.push_client_event(ClientEvent::Disconnected { connection, session, touched_ms });
    }
}
