//! The core's inbox. What the disk and the operator say goes first; a flood of clients cannot delay it.
//!
//! Writes need room before they are put in, so the number of requests between a client and its reply is
//! bounded for the whole server. Waiting for room is what stops a connection from reading on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, oneshot};
use zebu_node::session::TrackerReport;
use zebu_node::{Event, Submission};
use zebu_proto::ServerId;
use zebu_proto::Zxid;
use zebu_tree::Tree;
use zebu_zab::LearnerStatus;

use crate::disk::DiskFailure;

/// Events of other members that may wait for the core before the network is read on.
const URGENT_MAX: usize = 10_000;

/// What is looked at before any client.
#[derive(Debug)]
pub(crate) enum Urgent {
    /// The log has everything up to here.
    Persisted(Zxid),
    /// Another member said something, or a link or the disk has news for agreement.
    Peer(zebu_zab::Event),
    /// The disk has put another state in the place of the present one.
    Replaced {
        /// The work that it has done.
        io: zebu_zab::IoId,
        /// The state.
        tree: Box<Tree>,
    },
    /// The log cannot be written any more.
    DiskFailed(DiskFailure),
    /// Somebody wants to see the sessions.
    Sessions(oneshot::Sender<SessionsReport>),
    /// Finish what is on the way, then end.
    Stop,
    /// End now, whatever is on the way.
    Abandon,
}

/// What the core tells about itself.
#[derive(Debug)]
pub(crate) struct SessionsReport {
    pub(crate) tracker: TrackerReport,
    /// Sessions that only this server knows, if it may have some.
    pub(crate) local: Option<TrackerReport>,
    pub(crate) drop_probability: f64,
    /// Transactions of the ensemble that did not lead to the tree that the leader had.
    pub(crate) digest_mismatches: u64,
    /// If it learns: from whom.
    pub(crate) master: Option<ServerId>,
    /// If it leads: its learners; if it follows: the observers that it serves.
    pub(crate) learners: Vec<LearnerStatus>,
}

/// What the core takes out in one go.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) urgent: Vec<Urgent>,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Delivery>,
    arrived: Condvar,
    /// Somebody may wait until the core has taken what was there.
    taken: Notify,
    room: Semaphore,
    room_max: usize,
}

impl Inbox {
    /// At most `room_max` writes may be on their way at a time.
    pub(crate) fn new(room_max: usize) -> Inbox {
        let room_max = room_max.clamp(1, Semaphore::MAX_PERMITS);
        Inbox {
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            taken: Notify::new(),
            room: Semaphore::new(room_max),
            room_max,
        }
    }

    pub(crate) fn push_urgent(&self, urgent: Urgent) {
        self.lock().urgent.push(urgent);
        self.arrived.notify_one();
    }

    /// Puts in what can wait until the core wakes for something else.
    pub(crate) fn mention(&self, urgent: Urgent) {
        self.lock().urgent.push(urgent);
    }

    /// Puts in several at once.
    pub(crate) fn push_all_urgent(&self, urgent: Vec<Urgent>) {
        if !urgent.is_empty() {
            self.lock().urgent.extend(urgent);
            self.arrived.notify_one();
        }
    }

    /// Waits while there is more from other members than the core should find at once: whoever reads the network
    /// asks first.
    pub(crate) async fn urgent_room(&self) {
        loop {
            let taken = self.taken.notified();
            tokio::pin!(taken);
            // From here on nothing is missed.
            taken.as_mut().enable();
            if self.lock().urgent.len() <= URGENT_MAX {
                return;
            }
            taken.await;
        }
    }

    /// For events whose number is bounded by the number of connections.
    pub(crate) fn push_event(&self, event: Event) {
        self.lock().events.push(event);
        self.arrived.notify_one();
    }

    /// Puts in writes as there is room for them. Their order is kept.
    pub(crate) async fn submit(&self, submissions: &mut Vec<Submission>) {
        let mut submissions = submissions.drain(..);
        while submissions.len() > 0 {
            let count = submissions.len().min(self.room_max);
            match self.room.acquire_many(count as u32).await {
                Ok(permit) => permit.forget(),
                // The inbox is never closed before the process ends.
                Err(_) => return,
            }
            self.lock().events.extend(submissions.by_ref().take(count).map(Event::Write));
            self.arrived.notify_one();
        }
    }

    /// Gives back the room of writes that were answered.
    pub(crate) fn release(&self, answered: usize) {
        self.room.add_permits(answered);
    }

    /// Writes that were put in and not answered yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.room_max - self.room.available_permits().min(self.room_max)
    }

    /// Whether nothing waits for the core.
    pub(crate) fn is_empty(&self) -> bool {
        let waiting = self.lock();
        waiting.urgent.is_empty() && waiting.events.is_empty()
    }

    /// Waits for something to do, at most this long. `delivery` must be empty; its memory is used again.
    pub(crate) fn take(&self, delivery: &mut Delivery, timeout: Duration) {
        let idle = |waiting: &mut Delivery| waiting.urgent.is_empty() && waiting.events.is_empty();
        let waiting = self.lock();
        let (mut waiting, _) =
            self.arrived.wait_timeout_while(waiting, timeout, idle).unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *waiting, delivery);
        drop(waiting);
        self.taken.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Delivery> {
        // Pushing and swapping cannot leave the queues half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(inbox: &Inbox) -> usize {
        let mut delivery = Delivery::default();
        inbox.take(&mut delivery, Duration::ZERO);
        delivery.urgent.len()
    }

    #[test]
    fn what_was_only_mentioned_is_taken_with_what_wakes_the_core() {
        let inbox = std::sync::Arc::new(Inbox::new(1));
        let (began, begins) = std::sync::mpsc::channel();
        let core = std::thread::spawn({
            let inbox = inbox.clone();
            move || {
                let mut delivery = Delivery::default();
                let _ = began.send(());
                inbox.take(&mut delivery, Duration::from_secs(60));
                delivery.urgent.len()
            }
        });
        begins.recv().unwrap();
        inbox.mention(Urgent::Persisted(Zxid(1)));
        inbox.push_urgent(Urgent::Stop);
        let first = core.join().unwrap();
        // It may have begun to wait only when the first was there already.
        assert_eq!(first + taken(&inbox), 2);
    }

    #[tokio::test]
    async fn the_network_is_read_on_when_the_core_has_taken_what_was_there() {
        let inbox = Inbox::new(1);
        inbox.urgent_room().await;
        inbox.push_all_urgent((0..=URGENT_MAX).map(|_| Urgent::Stop).collect());
        let waits = async {
            inbox.urgent_room().await;
            taken(&inbox)
        };
        let takes = async {
            // The other one waits by now: both run in turn.
            tokio::task::yield_now().await;
            taken(&inbox)
        };
        let (left, first) = tokio::join!(waits, takes);
        assert_eq!((left, first), (0, URGENT_MAX + 1));
    }
}
