//! The lanes of all connections: each behind a lock of its own, with a bell for the task that sends its
//! outbox.
//!
//! A task that only waits for the next request lends the sending half of its socket. What the core has to say is
//! sent by `post.rs` then: to wake the task would take more of the processor than to send a reply.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll};

use hashbrown::HashMap;
use zebu_node::{Lane, LaneId, Phase, ServerStats};

use crate::bell::Bell;
use crate::net::SendingHalf;

/// Bytes that are sent for one connection at a time without its task.
const SENT_FOR_TASK_BYTES_MAX: usize = 64 * 1024;

/// A lane with its lock and its bell.
#[derive(Debug)]
pub(crate) struct LaneCell {
    pub(crate) peer: SocketAddr,
    held: Mutex<Held>,
    /// Whether the core has it among those that have something to send already.
    noted: AtomicBool,
}

/// Who sends the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// Its task, which has to hear of everything.
    Task,
    /// Whoever has something: the task has nothing to send and waits for nothing but requests.
    Anybody,
}

/// A lane that is locked, and what else is only looked at and changed then.
#[derive(Debug)]
pub(crate) struct Held {
    lane: Lane,
    /// `None` if bytes cannot be sent past the task, and at the end.
    sending: Option<SendingHalf>,
    /// Under the lock of the lane, so that nobody sends past somebody else.
    sender: Sender,
    bell: Bell,
}

impl Deref for Held {
    type Target = Lane;
    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }
}

impl Held {
    /// Others may send from now on.
    pub(crate) fn lend(&mut self) {
        self.sender = Sender::Anybody;
    }

    /// The task sends, or has to hear of everything, from now on.
    pub(crate) fn take_back(&mut self) {
        self.sender = Sender::Task;
    }

    /// The connection is at its end: nobody sends, and nobody listens. The socket closes when the result is dropped.
    pub(crate) fn give_up(&mut self) -> Option<SendingHalf> {
        self.take_back();
        self.bell.leave();
        self.sending.take()
    }

    fn send(&mut self, stats: &ServerStats) -> Left {
        let (lane, Some(sending), Sender::Anybody) = (&mut self.lane, &self.sending, self.sender) else {
            return Left::ToTask;
        };
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
}

impl LaneCell {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Held> {
        // A panic under this lock ends its connection; the lane is then only looked at for reports.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what the lane has, if the task has lent what it takes; otherwise the task is told.
    pub(crate) fn send_or_ring(&self, stats: &ServerStats) {
        let mut held = self.lock();
        if held.send(stats) == Left::ToTask {
            ring(held);
        }
    }

    /// Tells the task to look at its lane.
    pub(crate) fn ring(&self) {
        ring(self.lock());
    }

    /// Notes that there is something to send, for one who collects such lanes. Says whether it was not noted before.
    pub(crate) fn note(&self) -> bool {
        !self.noted.swap(true, Ordering::AcqRel)
    }

    /// What comes from now on has to be noted again: whoever collected the lane sends what it has up to here.
    pub(crate) fn forget_note(&self) {
        self.noted.store(false, Ordering::Release);
    }

    /// Ready when somebody has rung since this was ready last.
    pub(crate) fn poll_bell(&self, context: &mut Context<'_>) -> Poll<()> {
        self.lock().bell.poll(context)
    }
}

fn ring(mut held: MutexGuard<'_, Held>) {
    let waker = held.bell.ring();
    // The task would run into the lock.
    drop(held);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// What is left when somebody else has tried to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    ToTask,
}

/// Lanes by number.
pub(crate) type LaneMap = HashMap<LaneId, Arc<LaneCell>, foldhash::fast::FixedState>;

/// All lanes by number.
#[derive(Debug, Default)]
pub(crate) struct LaneRegistry {
    next: AtomicU64,
    map: RwLock<LaneMap>,
}

impl LaneRegistry {
    /// Adds a lane that `make` builds with its number. What may be lent to the core is the sending half of its socket,
    /// if bytes are sent as they are.
    pub(crate) fn add(
        &self,
        peer: SocketAddr,
        sending: Option<SendingHalf>,
        make: impl FnOnce(LaneId) -> Lane,
    ) -> Arc<LaneCell> {
        let id = LaneId(self.next.fetch_add(1, Ordering::Relaxed));
        let held = Held { lane: make(id), sending, sender: Sender::Task, bell: Bell::default() };
        let cell = Arc::new(LaneCell { peer, held: Mutex::new(held), noted: AtomicBool::new(false) });
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

    /// The lanes as they are; none comes or goes while the result is held.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, LaneMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There may be ten thousand that do nothing.
    #[test]
    fn a_lane_is_small() {
        let bytes = size_of::<LaneCell>();
        assert!(bytes <= 376, "{bytes} bytes");
    }
}
