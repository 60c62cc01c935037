//! The lanes of all connections: each behind a lock of its own, with a bell for the task that sends its
//! outbox.
//!
//! A task that only waits for the next request lends the sending half of its socket. What the core has to say is
//! sent by `post.rs` then: to wake the task would take more of the processor than to send a reply.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use hashbrown::HashMap;
use tokio::sync::Notify;
use zebu_node::{Lane, LaneId, Lanes, Phase, ServerStats};

use crate::net::SendingHalf;

/// Bytes that are sent for one connection at a time without its task.
const SENT_FOR_TASK_BYTES_MAX: usize = 64 * 1024;

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

    /// Others may send from now on.
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

    /// Sends what the lane has, if the task has lent what it takes; otherwise the task is told.
    pub(crate) fn send_or_ring(&self, stats: &ServerStats) {
        if self.send(stats) == Left::ToTask {
            self.bell.notify_one();
        }
    }

    fn send(&self, stats: &ServerStats) -> Left {
        let mut lane = self.lock();
        let lent = self.lent();
        let Some(sending) = lent.as_ref() else { return Left::ToTask };
        if lane.phase != Phase::Serving || lane.outbox_len() > SENT_FOR_TASK_BYTES_MAX {
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

/// What is left when somebody else has tried to send.
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
    /// The lanes that have something to send or were closed.
    pub(crate) fn finish(self) -> Vec<Arc<LaneCell>> {
        drop(self.map);
        for cell in &self.noted {
            cell.noted.store(false, Ordering::Release);
        }
        self.noted
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
