//! Sends the replies and events of a batch to clients.
//!
//! The core sends for a few connections itself; for more, tasks of the network threads send in
//! parallel. Bytes that cannot be sent at once are left to the connection task.

use std::sync::Arc;

use tokio::runtime::Handle;
use zebu_node::{ClientConnection, ConnectionId, ConnectionPhase, Connections, ServerStats};

use crate::net::connections::{ConnectionEntry, ConnectionMap, ConnectionRegistry};
use crate::sync::{RwLockReadGuard, spawn_task};

/// Most connections for which the core sends itself.
const INLINE_CONNECTIONS_MAX: usize = 4;

/// Connections per send task.
const CONNECTIONS_PER_TASK: usize = 16;

/// After this many changed connections the batch is flushed early. The first of a thousand watchers
/// gets its event before the core reaches the last.
const EARLY_FLUSH_CONNECTIONS: usize = 64;

/// Sends replies and events for the core.
#[derive(Clone, Debug)]
pub(crate) struct ReplySender {
    runtime: Handle,
    stats: Arc<ServerStats>,
}

impl ReplySender {
    pub(crate) fn new(runtime: Handle, stats: Arc<ServerStats>) -> ReplySender {
        ReplySender { runtime, stats }
    }

    /// Locks the connection map for one batch of the core.
    pub(crate) fn begin_batch<'a>(&'a self, connections: &'a ConnectionRegistry) -> OutboxBatch<'a> {
        OutboxBatch { connections: connections.read(), sender: self, dirty: Vec::new() }
    }

    fn spawn_send_tasks(&self, mut entries: Vec<Arc<ConnectionEntry>>) {
        while !entries.is_empty() {
            let some = entries.split_off(entries.len().saturating_sub(CONNECTIONS_PER_TASK));
            let stats = self.stats.clone();
            spawn_task(&self.runtime, async move { send_all(&some, &stats) });
        }
    }
}

/// The connections while the core works on a batch. Their outboxes are sent with no lock but that
/// of the connection.
pub(crate) struct OutboxBatch<'a> {
    connections: RwLockReadGuard<'a, ConnectionMap>,
    sender: &'a ReplySender,
    /// Connections with new output or another phase.
    dirty: Vec<Arc<ConnectionEntry>>,
}

impl OutboxBatch<'_> {
    /// Unlocks the map, sends the output of the batch and wakes the tasks of closed connections.
    pub(crate) fn flush(self) {
        let OutboxBatch { connections: map, sender: reply_sender, dirty } = self;
        drop(map);
        clear_dirty_marks(&dirty);
        if dirty.len() <= INLINE_CONNECTIONS_MAX {
            send_all(&dirty, &reply_sender.stats);
        } else {
            reply_sender.spawn_send_tasks(dirty);
        }
    }

    fn flush_early(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        clear_dirty_marks(&dirty);
        self.sender.spawn_send_tasks(dirty);
    }
}

impl Connections for OutboxBatch<'_> {
    fn with<R>(
        &mut self,
        connection: ConnectionId,
        action: impl FnOnce(&mut ClientConnection) -> R,
    ) -> Option<R> {
        let entry = self.connections.get(&connection)?;
        let mut connection = entry.lock();
        let before = (connection.phase, connection.outbox_len());
        let result = action(&mut connection);
        let changed = before != (connection.phase, connection.outbox_len())
            || connection.phase != ConnectionPhase::Serving
            || connection.leaves_when_quiet()
            || connection.has_listing_to_run();
        drop(connection);
        if changed && entry.mark_dirty() {
            self.dirty.push(entry.clone());
            if self.dirty.len() == EARLY_FLUSH_CONNECTIONS {
                self.flush_early();
            }
        }
        Some(result)
    }
}

/// Runs before sending: a change after it marks the connection again, for the next batch.
fn clear_dirty_marks(entries: &[Arc<ConnectionEntry>]) {
    for entry in entries {
        entry.clear_dirty();
    }
}

fn send_all(entries: &[Arc<ConnectionEntry>], stats: &ServerStats) {
    for entry in entries {
        entry.send_or_wake(stats);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::task::Poll;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use zebu_proto::client::watch::EventType;
    use zebu_tree::Credentials;

    use super::*;
    use crate::net::connections::ConnectionRegistry;
    use crate::net::{ClientPortKind, ClientSocket};

    /// A connection in phase Serving, and both ends of its socket.
    async fn connected(registry: &ConnectionRegistry) -> (Arc<ConnectionEntry>, ClientSocket, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        let (socket, writer) = ClientSocket::new(stream);
        let make = |id| ClientConnection::new(id, Credentials::of_peer(peer.ip()), 0, 0);
        let entry = registry.add(peer, ClientPortKind::Client, Some(writer), make);
        entry.lock().phase = ConnectionPhase::Serving;
        (entry, socket, client)
    }

    /// Sends an event to these connections and returns its length in bytes.
    fn send_event(registry: &ConnectionRegistry, entries: &[Arc<ConnectionEntry>], path: &str) -> usize {
        let mut length = 0;
        let reply_sender = ReplySender::new(Handle::current(), Arc::default());
        let mut connections = reply_sender.begin_batch(registry);
        for entry in entries {
            let id = entry.lock().id;
            connections.with(id, |connection| {
                let before = connection.outbox_len();
                connection.push_event(1, EventType::NodeDataChanged, path);
                length = connection.outbox_len() - before;
            });
        }
        connections.flush();
        length
    }

    async fn is_woken(entry: &ConnectionEntry) -> bool {
        std::future::poll_fn(|context| Poll::Ready(entry.poll_wakeup(context).is_ready())).await
    }

    /// Bytes left to the task, and whether the task was woken.
    async fn unsent(entry: &ConnectionEntry) -> (usize, bool) {
        let left = entry.lock().outbox_len();
        (left, is_woken(entry).await)
    }

    #[tokio::test]
    async fn what_there_is_for_a_task_that_only_waits_is_sent() {
        let registry = ConnectionRegistry::default();
        let (entry, _wire, mut client) = connected(&registry).await;
        entry.lock().allow_direct_send();
        let length = send_event(&registry, std::slice::from_ref(&entry), "/a");
        client.read_exact(&mut vec![0; length]).await.unwrap();
        assert_eq!(unsent(&entry).await, (0, false));
    }

    #[tokio::test]
    async fn a_task_that_has_something_to_do_is_woken_and_sends_by_itself() {
        let registry = ConnectionRegistry::default();
        let (entry, _wire, _client) = connected(&registry).await;
        entry.lock().allow_direct_send();
        entry.lock().require_task_send();
        let length = send_event(&registry, std::slice::from_ref(&entry), "/a");
        assert_eq!(unsent(&entry).await, (length, true));
        entry.lock().allow_direct_send();
        entry.lock().phase = ConnectionPhase::Draining;
        send_event(&registry, std::slice::from_ref(&entry), "/a");
        assert!(is_woken(&entry).await, "it has to close");
    }

    #[tokio::test]
    async fn for_many_it_is_done_side_by_side() {
        let registry = ConnectionRegistry::default();
        let mut all = Vec::new();
        for _ in 0..=INLINE_CONNECTIONS_MAX {
            let (entry, socket, client) = connected(&registry).await;
            entry.lock().allow_direct_send();
            all.push((entry, socket, client));
        }
        let entries: Vec<_> = all.iter().map(|(entry, ..)| entry.clone()).collect();
        let length = send_event(&registry, &entries, "/a");
        for (entry, _, client) in &mut all {
            client.read_exact(&mut vec![0; length]).await.unwrap();
            assert_eq!(unsent(entry).await, (0, false));
        }
    }

    /// An early flush serves the first connections while the batch goes on. Later events for them
    /// are not lost.
    #[tokio::test]
    async fn of_very_many_the_first_do_not_wait_for_the_last() {
        let registry = ConnectionRegistry::default();
        let reply_sender = ReplySender::new(Handle::current(), Arc::default());
        let mut all = Vec::new();
        for _ in 0..EARLY_FLUSH_CONNECTIONS {
            let (entry, socket, client) = connected(&registry).await;
            entry.lock().allow_direct_send();
            all.push((entry, socket, client));
        }
        let mut connections = reply_sender.begin_batch(&registry);
        for path in ["/a", "/b"] {
            for (entry, ..) in &all {
                let id = entry.lock().id;
                connections.with(id, |connection| connection.push_event(1, EventType::NodeDeleted, path));
            }
            for (.., client) in &mut all {
                let received = async {
                    let length = client.read_u32().await.unwrap() as usize;
                    let mut event = vec![0; length];
                    client.read_exact(&mut event).await.unwrap();
                    event
                };
                let event = tokio::time::timeout(Duration::from_secs(60), received).await.unwrap();
                assert!(event.ends_with(path.as_bytes()));
            }
        }
        connections.flush();
        for (entry, ..) in &all {
            assert_eq!(unsent(entry).await, (0, false));
        }
    }

    /// Bytes that the socket does not take are left to the task; none is lost or sent twice.
    #[tokio::test]
    async fn a_client_that_does_not_read_is_left_to_the_task() {
        let registry = ConnectionRegistry::default();
        let (entry, _wire, mut client) = connected(&registry).await;
        entry.lock().allow_direct_send();
        let path = format!("/{}", "x".repeat(10_000));
        let mut told = 0;
        while entry.lock().outbox_len() == 0 {
            told += send_event(&registry, std::slice::from_ref(&entry), &path);
        }
        assert!(is_woken(&entry).await);
        let mut rest = Vec::new();
        let not_sent = {
            let mut connection = entry.lock();
            connection.require_task_send();
            let _ = connection.take_outbox(&mut rest);
            rest.len()
        };
        let mut received = vec![0; told - not_sent];
        client.read_exact(&mut received).await.unwrap();
        received.extend(rest);
        let mut at = 0;
        while at < received.len() {
            let length = u32::from_be_bytes(received[at..at + 4].try_into().unwrap()) as usize;
            assert_eq!(&received[at + 4 + length - path.len()..at + 4 + length], path.as_bytes());
            at += 4 + length;
        }
        assert_eq!(at, told);
    }
}
