//! Sends what the core has to say to clients: by the core itself if it is for few, by tasks of the network threads side
//! by side if it is for many. Whoever cannot be sent to at once is left to the task of its connection.

use std::sync::{Arc, RwLockReadGuard};

use tokio::runtime::Handle;
use zebu_node::{Lane, LaneId, Lanes, Phase, ServerStats};

use crate::lanes::{LaneCell, LaneMap, LaneRegistry};

/// Connections for which the core sends by itself in one go.
const BY_CORE_MAX: usize = 4;

/// Connections that one task sends for; more are more tasks.
const PER_TASK_MAX: usize = 16;

/// So many connections are sent to while the core still works on the batch: of a thousand watchers the first is told
/// before the core has come to the last.
const AHEAD_MIN: usize = 64;

/// The way from the core to the clients.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    runtime: Handle,
    stats: Arc<ServerStats>,
}

impl Post {
    pub(crate) fn new(runtime: Handle, stats: Arc<ServerStats>) -> Post {
        Post { runtime, stats }
    }

    /// The lanes as the core uses them for one batch.
    pub(crate) fn batch<'a>(&'a self, lanes: &'a LaneRegistry) -> LaneBatch<'a> {
        LaneBatch { map: lanes.read(), post: self, noted: Vec::new() }
    }

    fn send_by_tasks(&self, mut cells: Vec<Arc<LaneCell>>) {
        while !cells.is_empty() {
            let some = cells.split_off(cells.len().saturating_sub(PER_TASK_MAX));
            let stats = self.stats.clone();
            self.runtime.spawn(async move { send_all(&some, &stats) });
        }
    }
}

/// The lanes while the core works on a batch. What they have is sent by the core at the end, when no lock is held, or
/// by others, who need no lock but the lane's.
pub(crate) struct LaneBatch<'a> {
    map: RwLockReadGuard<'a, LaneMap>,
    post: &'a Post,
    /// Those that have something to send or were closed.
    noted: Vec<Arc<LaneCell>>,
}

impl LaneBatch<'_> {
    /// Sends what the batch has brought, and tells those that were closed.
    pub(crate) fn deliver(self) {
        let LaneBatch { map, post, noted } = self;
        drop(map);
        forget_notes(&noted);
        if noted.len() <= BY_CORE_MAX {
            send_all(&noted, &post.stats);
        } else {
            post.send_by_tasks(noted);
        }
    }

    fn send_ahead(&mut self) {
        let noted = std::mem::take(&mut self.noted);
        forget_notes(&noted);
        self.post.send_by_tasks(noted);
    }
}

impl Lanes for LaneBatch<'_> {
    fn with<R>(&mut self, lane: LaneId, action: impl FnOnce(&mut Lane) -> R) -> Option<R> {
        let cell = self.map.get(&lane)?;
        let mut lane = cell.lock();
        let before = (lane.phase, lane.outbox_len());
        let result = action(&mut lane);
        let changed = before != (lane.phase, lane.outbox_len()) || lane.phase != Phase::Serving;
        drop(lane);
        if changed && cell.note() {
            self.noted.push(cell.clone());
            if self.noted.len() == AHEAD_MIN {
                self.send_ahead();
            }
        }
        Some(result)
    }
}

/// Before anything is sent: what comes into a lane after that is for the next who looks.
fn forget_notes(cells: &[Arc<LaneCell>]) {
    for cell in cells {
        cell.forget_note();
    }
}

fn send_all(cells: &[Arc<LaneCell>], stats: &ServerStats) {
    for cell in cells {
        cell.send_or_ring(stats);
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
    use crate::lanes::LaneRegistry;
    use crate::net::Wire;

    /// A lane that serves, and both ends of its socket.
    async fn lane(registry: &LaneRegistry) -> (Arc<LaneCell>, Wire, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        let (wire, sending) = Wire::new(stream);
        let make = |id| Lane::new(id, Credentials::of_peer(peer.ip()), 0, 0);
        let cell = registry.add(peer, Some(sending), make);
        cell.lock().phase = Phase::Serving;
        (cell, wire, client)
    }

    /// The core has an event for these; returns how many bytes it is.
    fn tell(registry: &LaneRegistry, cells: &[Arc<LaneCell>], path: &str) -> usize {
        let mut length = 0;
        let post = Post::new(Handle::current(), Arc::default());
        let mut lanes = post.batch(registry);
        for cell in cells {
            let id = cell.lock().id;
            lanes.with(id, |lane| {
                let before = lane.outbox_len();
                lane.push_event(1, EventType::NodeDataChanged, path);
                length = lane.outbox_len() - before;
            });
        }
        lanes.deliver();
        length
    }

    async fn is_rung(cell: &LaneCell) -> bool {
        std::future::poll_fn(|context| Poll::Ready(cell.poll_bell(context).is_ready())).await
    }

    /// Bytes that are left to the task, and whether it was told.
    async fn left(cell: &LaneCell) -> (usize, bool) {
        let left = cell.lock().outbox_len();
        (left, is_rung(cell).await)
    }

    #[tokio::test]
    async fn what_there_is_for_a_task_that_only_waits_is_sent() {
        let registry = LaneRegistry::default();
        let (cell, _wire, mut client) = lane(&registry).await;
        cell.lock().lend();
        let length = tell(&registry, std::slice::from_ref(&cell), "/a");
        client.read_exact(&mut vec![0; length]).await.unwrap();
        assert_eq!(left(&cell).await, (0, false));
    }

    #[tokio::test]
    async fn a_task_that_has_something_to_do_is_woken_and_sends_by_itself() {
        let registry = LaneRegistry::default();
        let (cell, _wire, _client) = lane(&registry).await;
        cell.lock().lend();
        cell.lock().take_back();
        let length = tell(&registry, std::slice::from_ref(&cell), "/a");
        assert_eq!(left(&cell).await, (length, true));
        cell.lock().lend();
        cell.lock().phase = Phase::Draining;
        tell(&registry, std::slice::from_ref(&cell), "/a");
        assert!(is_rung(&cell).await, "it has to close");
    }

    #[tokio::test]
    async fn for_many_it_is_done_side_by_side() {
        let registry = LaneRegistry::default();
        let mut all = Vec::new();
        for _ in 0..=BY_CORE_MAX {
            let (cell, wire, client) = lane(&registry).await;
            cell.lock().lend();
            all.push((cell, wire, client));
        }
        let cells: Vec<_> = all.iter().map(|(cell, ..)| cell.clone()).collect();
        let length = tell(&registry, &cells, "/a");
        for (cell, _, client) in &mut all {
            client.read_exact(&mut vec![0; length]).await.unwrap();
            assert_eq!(left(cell).await, (0, false));
        }
    }

    /// Those who come first are sent to while the batch goes on, and what comes for them afterwards is not forgotten.
    #[tokio::test]
    async fn of_very_many_the_first_do_not_wait_for_the_last() {
        let registry = LaneRegistry::default();
        let post = Post::new(Handle::current(), Arc::default());
        let mut all = Vec::new();
        for _ in 0..AHEAD_MIN {
            let (cell, wire, client) = lane(&registry).await;
            cell.lock().lend();
            all.push((cell, wire, client));
        }
        let mut lanes = post.batch(&registry);
        for path in ["/a", "/b"] {
            for (cell, ..) in &all {
                let id = cell.lock().id;
                lanes.with(id, |lane| lane.push_event(1, EventType::NodeDeleted, path));
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
        lanes.deliver();
        for (cell, ..) in &all {
            assert_eq!(left(cell).await, (0, false));
        }
    }

    /// What the socket does not take is left to the task, and nothing is lost or sent twice.
    #[tokio::test]
    async fn a_client_that_does_not_read_is_left_to_the_task() {
        let registry = LaneRegistry::default();
        let (cell, _wire, mut client) = lane(&registry).await;
        cell.lock().lend();
        let path = format!("/{}", "x".repeat(10_000));
        let mut told = 0;
        while cell.lock().outbox_len() == 0 {
            told += tell(&registry, std::slice::from_ref(&cell), &path);
        }
        assert!(is_rung(&cell).await);
        let mut rest = Vec::new();
        let not_sent = {
            let mut lane = cell.lock();
            lane.take_back();
            let _ = lane.take_outbox(&mut rest);
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
