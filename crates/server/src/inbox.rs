//! The core's inbox. What the disk and the operator say goes first; a flood of clients cannot delay it.
//!
//! Writes need room before they are put in, so the number of requests between a client and its reply is
//! bounded for the whole server. Waiting for room is what stops a connection from reading on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use zebu_node::session::TrackerReport;
use zebu_node::{Event, Submission};
use zebu_proto::ServerId;
use zebu_proto::Zxid;
use zebu_proto::quorum::Notification;
use zebu_tree::Tree;
use zebu_zab::LearnerStatus;

use crate::disk::DiskFailure;
use crate::vital::PartFailure;

/// Events of other members that may wait for the core before the network is read on.
const URGENT_MAX: usize = 10_000;

/// Bytes of their packets: a packet may be a transaction of any length.
const URGENT_BYTES_MAX: usize = 64 << 20;

/// What is looked at before any client.
#[derive(Debug)]
pub(crate) enum Urgent {
    /// The log has everything up to here.
    Persisted(Zxid),
    /// Another member said something, or a link or the disk has news for agreement.
    Peer(zebu_zab::Event),
    /// Another server has sent a vote. The permit bounds how many of one server wait here.
    Vote {
        /// The server.
        from: ServerId,
        /// The vote.
        notification: Notification,
        /// Given back when the vote is taken.
        permit: OwnedSemaphorePermit,
    },
    /// The disk has put another state in the place of the present one.
    Replaced {
        /// The work that it has done.
        io: zebu_zab::IoId,
        /// The state.
        tree: Box<Tree>,
    },
    /// The log cannot be written any more.
    DiskFailed(DiskFailure),
    /// A part of the server that it needs has panicked.
    PartFailed(PartFailure),
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
    /// Bytes of the packets among them.
    pub(crate) urgent_bytes: usize,
    pub(crate) events: Vec<Event>,
}

/// Whether the core has to look into its inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Need {
    /// When it comes by.
    #[default]
    None,
    /// Now.
    Look,
}

#[derive(Debug, Default)]
struct Waiting {
    delivery: Delivery,
    need: Need,
}

/// As many writes are on their way as may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
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
        self.put(|delivery| delivery.urgent.push(urgent));
        self.call();
    }

    /// Puts in what can wait until the core looks for something else.
    pub(crate) fn mention(&self, urgent: Urgent) {
        self.lock().delivery.urgent.push(urgent);
    }

    /// Puts in what somebody has to look at who is not called here: whoever does this goes to the core's seat, or calls.
    pub(crate) fn put(&self, put: impl FnOnce(&mut Delivery)) {
        let mut waiting = self.lock();
        put(&mut waiting.delivery);
        waiting.need = Need::Look;
    }

    /// Wakes the core's thread.
    pub(crate) fn call(&self) {
        self.arrived.notify_one();
    }

    /// Lets the core's thread look, though there is nothing here for it.
    pub(crate) fn call_for_nothing(&self) {
        self.put(|_| ());
        self.call();
    }

    /// Waits while there is more from other members than the core should find at once: whoever reads the network
    /// asks first.
    pub(crate) async fn urgent_room(&self) {
        loop {
            let taken = self.taken.notified();
            tokio::pin!(taken);
            // From here on nothing is missed.
            taken.as_mut().enable();
            let has_room = {
                let delivery = &self.lock().delivery;
                delivery.urgent.len() <= URGENT_MAX && delivery.urgent_bytes <= URGENT_BYTES_MAX
            };
            if has_room {
                return;
            }
            taken.await;
        }
    }

    /// For events whose number is bounded by the number of connections.
    pub(crate) fn push_event(&self, event: Event) {
        self.put(|delivery| delivery.events.push(event));
        self.call();
    }

    /// Puts in all of these writes if there is room for them now. Those who wait for room come first. Somebody has to
    /// look at them; see [`put`](Self::put).
    pub(crate) fn try_submit(&self, submissions: &mut Vec<Submission>) -> Result<(), NoRoom> {
        let count = u32::try_from(submissions.len()).map_err(|_| NoRoom)?;
        self.room.try_acquire_many(count).map_err(|_| NoRoom)?.forget();
        self.put(|delivery| delivery.events.extend(submissions.drain(..).map(Event::Write)));
        Ok(())
    }

    /// Puts in writes as there is room for them. Their order is kept. Somebody has to look at the last of them; see
    /// [`put`](Self::put).
    pub(crate) async fn submit(&self, submissions: &mut Vec<Submission>) {
        let mut submissions = submissions.drain(..);
        while submissions.len() > 0 {
            let count = submissions.len().min(self.room_max);
            match self.room.acquire_many(count as u32).await {
                Ok(permit) => permit.forget(),
                // The inbox is never closed before the process ends.
                Err(_) => return,
            }
            let some = submissions.by_ref().take(count).map(Event::Write);
            self.put(|delivery| delivery.events.extend(some));
            if submissions.len() > 0 {
                self.call();
            }
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

    /// Whether something waits that the core has to look at.
    pub(crate) fn is_due(&self) -> bool {
        self.lock().need == Need::Look
    }

    /// Waits for something to do, at most this long.
    pub(crate) fn wait(&self, timeout: Duration) {
        let idle = |waiting: &mut Waiting| waiting.need == Need::None;
        let waited = self.arrived.wait_timeout_while(self.lock(), timeout, idle);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes all that is there. `delivery` must be empty; its memory is used again.
    pub(crate) fn take(&self, delivery: &mut Delivery) {
        let mut waiting = self.lock();
        std::mem::swap(&mut waiting.delivery, delivery);
        waiting.delivery.urgent_bytes = 0;
        waiting.need = Need::None;
        drop(waiting);
        self.taken.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Pushing and swapping cannot leave the queues half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(inbox: &Inbox) -> usize {
        let mut delivery = Delivery::default();
        inbox.take(&mut delivery);
        delivery.urgent.len()
    }

    #[test]
    fn what_was_only_mentioned_is_taken_with_what_wakes_the_core() {
        let inbox = std::sync::Arc::new(Inbox::new(1));
        let (began, begins) = std::sync::mpsc::channel();
        let core = std::thread::spawn({
            let inbox = inbox.clone();
            move || {
                let _ = began.send(());
                inbox.wait(Duration::from_secs(60));
                taken(&inbox)
            }
        });
        begins.recv().unwrap();
        inbox.mention(Urgent::Persisted(Zxid(1)));
        inbox.push_urgent(Urgent::Stop);
        let first = core.join().unwrap();
        assert_eq!((first, inbox.is_due()), (2, false));
    }

    #[tokio::test]
    async fn the_network_is_not_read_on_behind_few_packets_with_many_bytes() {
        let inbox = Inbox::new(1);
        inbox.put(|delivery| {
            delivery.urgent.push(Urgent::Stop);
            delivery.urgent_bytes += URGENT_BYTES_MAX + 1;
        });
        let waits = async {
            inbox.urgent_room().await;
            taken(&inbox)
        };
        let takes = async {
            // The other one waits by now: both run in turn.
            tokio::task::yield_now().await;
            taken(&inbox)
        };
        assert_eq!(tokio::join!(waits, takes), (0, 1));
    }

    #[tokio::test]
    async fn the_network_is_read_on_when_the_core_has_taken_what_was_there() {
        let inbox = Inbox::new(1);
        inbox.urgent_room().await;
        inbox.put(|delivery| delivery.urgent.extend((0..=URGENT_MAX).map(|_| Urgent::Stop)));
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
