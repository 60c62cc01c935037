//! The lanes of all connections: each behind a lock of its own, with a bell for the task that sends its
//! outbox.
//!
//! A task that only waits for the next request lends the sending half of its socket to the core. If there is little to send, the
//! core does it then: to wake the task would take longer, and more of the processor, than to send a reply.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use hashbrown::HashMap;
use tokio::sync::Notify;
use zebu_node::{Lane, LaneId, Lanes, Phase, ServerStats};

use crate::net::SendingHalf;

/// Connections for which the core sends by itself in one go; if it has something for more, their tasks do it side by
/// side.
const SENT_BY_CORE_MAX: usize = 4;

/// Bytes that the core sends at once for one connection.
const SENT_BY_CORE_BYTES_MAX: usize = 64 * 1024;

/// A lane with its lock and its bell.
#[derive(Debug)]
pub(crate) struct LaneCell {
    pub(crate) peer: std::net::SocketAddr,
    lane: Mutex<Lane>,
    /// The sending half of the socket, while the task has nothing to send and waits for nothing but requests. Only looked at and changed
    /// while the lane is locked, so that nobody sends past somebody else.
    lent: Mutex<Option<SendingHalf>>,
    bell: Notify,
    /// Whether the core has noted to ring the bell already.
    noted: AtomicBool,
}

impl LaneCell {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Lane> {
        // A panic under this lock ends its connection; the lane is then only looked at for reports.
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The core may send from now on.
    pub(crate) fn lend(&self, _locked: &MutexGuard<'_, Lane>, sending: &SendingHalf) {
        self.lent().get_or_insert_with(|| sending.clone());
    }

    /// The task sends, or has to hear of everything, from now on.
    pub(crate) fn take_back(&self, _locked: &MutexGuard<'_, Lane>) {
        *self.lent() = None;
    }

    fn lent(&self) -> MutexGuard<'_, Option<SendingHalf>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what the lane has, if the task has lent what it takes.
    fn send(&self, stats: &ServerStats) -> Left {
        let mut lane = self.lock();
        let lent = self.lent();
        let Some(sending) = lent.as_ref() else { return Left::ToTask };
        if lane.phase != Phase::Serving || lane.outbox_len() > SENT_BY_CORE_BYTES_MAX {
            return Left::ToTask;
        }
        if lane.outbox_len() > 0 {
            // Whatever is wrong with the socket, the task finds out.
            let Ok(count) = sending.send_now(lane.outbox()) else { return Left::ToTask };
            stats.add(&lane.sent(count));
        }
        if lane.outbox_len() == 0 { Left::Nothing } else { Left::ToTask }
    }

    /// Waits until the core has done something to the lane.
    pub(crate) fn bell(&self) -> &Notify {
        &self.bell
    }
}

/// What is left when the core has tried to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    ToTask,
}

type Map = HashMap<LaneId, Arc<LaneCell>, foldhash::fast::FixedState>;

/// All lanes by number.
#[derive(Debug, Default)]
pub(crate) struct LaneRegistry {
    next: AtomicU64,
    map: RwLock<Map>,
}

impl LaneRegistry {
    /// Adds a lane that `make` builds with its number.
    pub(crate) fn add(&self, peer: std::net::SocketAddr, make: impl FnOnce(LaneId) -> Lane) -> Arc<LaneCell> {
        let id = LaneId(self.next.fetch_add(1, Ordering::Relaxed));
        let lane = Mutex::new(make(id));
        let noted = AtomicBool::new(false);
        let cell = Arc::new(LaneCell { peer, lane, lent: Mutex::default(), bell: Notify::new(), noted });
        self.map.write().unwrap_or_else(PoisonError::into_inner).insert(id, cell.clone());
        cell
    }

    /// Removes lanes whose connections are gone.
    pub(crate) fn remove(&self, gone: &[LaneId]) {
        if !gone.is_empty() {
            let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
            for id in gone {
                map.remove(id);
            }
        }
    }

    /// All lanes, by age.
    pub(crate) fn all(&self) -> Vec<Arc<LaneCell>> {
        let mut all: Vec<_> = self.read().iter().map(|(id, cell)| (*id, cell.clone())).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, cell)| cell).collect()
    }

    /// The lanes as the core uses them for one batch.
    pub(crate) fn batch(&self) -> LaneBatch<'_> {
        LaneBatch { map: self.read(), noted: Vec::new() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lanes while the core works on a batch. What they have is sent at the end, when no lock is held.
pub(crate) struct LaneBatch<'a> {
    map: RwLockReadGuard<'a, Map>,
    noted: Vec<Arc<LaneCell>>,
}

impl LaneBatch<'_> {
    /// Lets all lanes send that have something to send, and tells those that were closed.
    pub(crate) fn send(self, stats: &ServerStats) {
        drop(self.map);
        let few = self.noted.len() <= SENT_BY_CORE_MAX;
        for cell in self.noted {
            cell.noted.store(false, Ordering::Release);
            if !few || cell.send(stats) == Left::ToTask {
                cell.bell.notify_one();
            }
        }
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
        if changed && !cell.noted.swap(true, Ordering::AcqRel) {
            self.noted.push(cell.clone());
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use zebu_proto::client::watch::EventType;
    use zebu_tree::Credentials;

    use super::*;
    use crate::net::Wire;

    /// A lane that serves, and both ends of its socket.
    async fn lane(registry: &LaneRegistry) -> (Arc<LaneCell>, Wire, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        let cell = registry.add(peer, |id| Lane::new(id, Credentials::of_peer(peer.ip()), 0, 0));
        cell.lock().phase = Phase::Serving;
        (cell, Wire::new(stream), client)
    }

    fn lend(cell: &LaneCell, wire: &Wire) {
        cell.lend(&cell.lock(), &wire.sending());
    }

    /// The core has an event for these; returns how many bytes it is.
    fn tell(registry: &LaneRegistry, cells: &[Arc<LaneCell>], path: &str) -> usize {
        let mut length = 0;
        let mut lanes = registry.batch();
        for cell in cells {
            let id = cell.lock().id;
            lanes.with(id, |lane| {
                let before = lane.outbox_len();
                lane.push_event(1, EventType::NodeDataChanged, path);
                length = lane.outbox_len() - before;
            });
        }
        lanes.send(&ServerStats::default());
        length
    }

    async fn is_rung(cell: &LaneCell) -> bool {
        tokio::select! {
            biased;
            () = cell.bell().notified() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn the_core_sends_for_a_task_that_only_waits() {
        let registry = LaneRegistry::default();
        let (cell, wire, mut client) = lane(&registry).await;
        lend(&cell, &wire);
        let length = tell(&registry, &[cell.clone()], "/a");
        client.read_exact(&mut vec![0; length]).await.unwrap();
        assert_eq!((cell.lock().outbox_len(), is_rung(&cell).await), (0, false));
    }

    #[tokio::test]
    async fn a_task_that_has_something_to_do_is_woken_and_sends_by_itself() {
        let registry = LaneRegistry::default();
        let (cell, wire, _client) = lane(&registry).await;
        lend(&cell, &wire);
        cell.take_back(&cell.lock());
        let length = tell(&registry, &[cell.clone()], "/a");
        assert_eq!((cell.lock().outbox_len(), is_rung(&cell).await), (length, true));
        lend(&cell, &wire);
        cell.lock().phase = Phase::Draining;
        tell(&registry, &[cell.clone()], "/a");
        assert!(is_rung(&cell).await, "it has to close");
    }

    #[tokio::test]
    async fn many_tasks_send_side_by_side() {
        let registry = LaneRegistry::default();
        let mut all = Vec::new();
        for _ in 0..=SENT_BY_CORE_MAX {
            let (cell, wire, client) = lane(&registry).await;
            lend(&cell, &wire);
            all.push((cell, wire, client));
        }
        let cells: Vec<_> = all.iter().map(|(cell, ..)| cell.clone()).collect();
        let length = tell(&registry, &cells, "/a");
        for cell in &cells {
            assert_eq!((cell.lock().outbox_len(), is_rung(cell).await), (length, true));
        }
    }

    /// What the socket does not take is left to the task, and nothing is lost or sent twice.
    #[tokio::test]
    async fn a_client_that_does_not_read_is_left_to_the_task() {
        let registry = LaneRegistry::default();
        let (cell, wire, mut client) = lane(&registry).await;
        lend(&cell, &wire);
        let path = format!("/{}", "x".repeat(10_000));
        let mut told = 0;
        while cell.lock().outbox_len() == 0 {
            told += tell(&registry, &[cell.clone()], &path);
        }
        assert!(is_rung(&cell).await);
        let mut rest = Vec::new();
        let left = {
            let mut lane = cell.lock();
            cell.take_back(&lane);
            let _ = lane.take_outbox(&mut rest);
            rest.len()
        };
        let mut received = vec![0; told - left];
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
