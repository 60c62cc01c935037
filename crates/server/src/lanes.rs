//! The lanes of all connections: each behind a lock of its own, with a bell for the task that sends its
//! outbox.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use hashbrown::HashMap;
use tokio::sync::Notify;
use zebu_node::{Lane, LaneId, Lanes, Phase};

/// A lane with its lock and its bell.
#[derive(Debug)]
pub(crate) struct LaneCell {
    pub(crate) peer: std::net::SocketAddr,
    lane: Mutex<Lane>,
    bell: Notify,
    /// Whether the core has noted to ring the bell already.
    noted: AtomicBool,
}

impl LaneCell {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Lane> {
        // A panic under this lock ends its connection; the lane is then only looked at for reports.
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the core has done something to the lane.
    pub(crate) fn bell(&self) -> &Notify {
        &self.bell
    }
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
        let cell = Arc::new(LaneCell { peer, lane, bell: Notify::new(), noted: AtomicBool::new(false) });
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

/// The lanes while the core works on a batch. Bells are rung at the end, when no lock is held.
pub(crate) struct LaneBatch<'a> {
    map: RwLockReadGuard<'a, Map>,
    noted: Vec<Arc<LaneCell>>,
}

impl LaneBatch<'_> {
    /// Rings the bells of all lanes that have something to send or were closed.
    pub(crate) fn ring(self) {
        drop(self.map);
        for cell in self.noted {
            cell.noted.store(false, Ordering::Release);
            cell.bell.notify_one();
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
