//! The inbox of the core. Control events (disk, peers, operator) come before client events, so many
//! clients cannot delay them.
//!
//! A write needs permits before it is put in. They bound the number and the bytes of unanswered
//! writes of the whole server. A connection that waits for permits stops reading.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit, oneshot};
use zebu_node::session::TrackerReport;
use zebu_node::{AnsweredRequests, ClientEvent, SubmittedRequest};
use zebu_proto::quorum::Notification;
use zebu_proto::{ServerId, Zxid};
use zebu_runtime::{DiskEvent, RestoreOutcome};
use zebu_zab::{HandOverRefusal, LearnerStatus};

use crate::core::restore::RestoreRequest;
use crate::disk::disk_thread::DiskFailure;
use crate::panic_guard::ComponentFailure;
use crate::sync::{Condvar, Mutex, MutexGuard, Notify, Semaphore};

/// Control events that may wait before the links stop reading.
const CONTROL_EVENTS_MAX: usize = 10_000;

/// Bytes of their packets. A packet may hold a transaction of any length.
const CONTROL_BYTES_MAX: usize = 4 << 20;

/// An event that is handled before all client events.
#[derive(Debug)]
pub(crate) enum ControlEvent {
    /// The disk has made transactions durable, or has finished a command.
    Disk(DiskEvent),
    /// A packet of a peer, or a change of a link.
    Peer(zebu_zab::PeerEvent),
    /// A vote of another server. The permit bounds the waiting votes of one server.
    Vote {
        from: ServerId,
        notification: Notification,
        /// Released when the core handles the vote.
        permit: OwnedSemaphorePermit,
    },
    /// The log cannot be written any more.
    DiskFailed(DiskFailure),
    /// A thread or task that the server needs has panicked.
    ComponentFailed(ComponentFailure),
    /// A report needs the state of the core.
    GetStatus(oneshot::Sender<CoreStatus>),
    /// An operator replaces the whole state of a standalone server.
    Restore(Box<RestoreRequest>),
    /// The disk has replaced the state, or has left it.
    RestoreEnded(RestoreOutcome),
    /// Let another server lead, and go on as a follower.
    HandOver(oneshot::Sender<Result<(), HandOverRefusal>>),
    /// Send the clients to other servers, then stop.
    Drain,
    /// Finish the transactions in flight, then end.
    Stop,
    /// End at once.
    Abort,
}

/// The state of the core, for reports.
#[derive(Debug)]
pub(crate) struct CoreStatus {
    pub(crate) global_sessions: TrackerReport,
    /// `None` if local sessions are off.
    pub(crate) local_sessions: Option<TrackerReport>,
    pub(crate) drop_probability: f64,
    /// Transactions after which the tree's digest differed from the leader's.
    pub(crate) digest_mismatches: u64,
    /// The hand-overs of this server because of its disk.
    pub(crate) disk_hand_overs: u64,
    /// The leader; this server itself if it leads.
    pub(crate) leader: Option<ServerId>,
    /// The server that this learner learns from.
    pub(crate) learner_master: Option<ServerId>,
    /// The learners of a leader, or the observers of a follower.
    pub(crate) learners: Vec<LearnerStatus>,
    /// The last transaction of the log; zero for a standalone server.
    pub(crate) logged: Zxid,
    /// Bytes of the transactions that Zab holds in memory.
    pub(crate) history_bytes: usize,
    /// Syncs of clients that wait for their transactions.
    pub(crate) pending_syncs: usize,
}

/// All events that one round takes.
#[derive(Debug, Default)]
pub(crate) struct InboxBatch {
    pub(crate) control_events: Vec<ControlEvent>,
    /// Bytes of the packets among the control events.
    pub(crate) control_bytes: usize,
    pub(crate) client_events: Vec<ClientEvent>,
}

#[derive(Debug, Default)]
struct InboxState {
    batch: InboxBatch,
    /// Whether a round is due now. Lazy events wait for the next round.
    is_due: bool,
}

/// No permits are left for these writes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InboxFull;

#[derive(Debug)]
pub(crate) struct CoreInbox {
    state: Mutex<InboxState>,
    wakeup: Condvar,
    /// Notified when the core has drained the inbox.
    drained: Notify,
    write_permits: Semaphore,
    write_permits_max: usize,
    /// Permits for the bytes of large writes. Small writes need none.
    bytes: Semaphore,
    bytes_max: usize,
}

/// Writes that are put in together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    requests: usize,
    bytes: usize,
}

impl CoreInbox {
    /// Allows `room_max` unanswered writes with `bytes_max` charged bytes. A write must not be
    /// longer than `bytes_max`.
    pub(crate) fn new(room_max: usize, bytes_max: u32) -> CoreInbox {
        let room_max = room_max.clamp(1, Semaphore::MAX_PERMITS);
        let bytes_max = bytes_max as usize;
        CoreInbox {
            state: Mutex::default(),
            wakeup: Condvar::new(),
            drained: Notify::new(),
            write_permits: Semaphore::new(room_max),
            write_permits_max: room_max,
            bytes: Semaphore::new(bytes_max),
            bytes_max,
        }
    }

    pub(crate) fn push_control(&self, control_event: ControlEvent) {
        self.push_without_wake(|batch| batch.control_events.push(control_event));
        self.wake();
    }

    /// Puts in an event that can wait for the next round.
    pub(crate) fn push_lazy(&self, control_event: ControlEvent) {
        self.lock().batch.control_events.push(control_event);
    }

    /// Puts in events without waking the core thread. The caller must then call `run_or_wake` or
    /// [`wake`](Self::wake).
    pub(crate) fn push_without_wake(&self, put: impl FnOnce(&mut InboxBatch)) {
        let mut state = self.lock();
        put(&mut state.batch);
        state.is_due = true;
    }

    /// Wakes the core thread.
    pub(crate) fn wake(&self) {
        self.wakeup.notify_one();
    }

    /// Wakes the core thread for a round, although the inbox may be empty.
    pub(crate) fn force_wake(&self) {
        self.push_without_wake(|_| ());
        self.wake();
    }

    /// Waits while too many control events are pending. A link calls this before it reads.
    pub(crate) async fn wait_for_control_room(&self) {
        loop {
            let taken = self.drained.notified();
            tokio::pin!(taken);
            // A notification after this line is not missed.
            taken.as_mut().enable();
            let has_room = {
                let batch = &self.lock().batch;
                batch.control_events.len() <= CONTROL_EVENTS_MAX && batch.control_bytes <= CONTROL_BYTES_MAX
            };
            if has_room {
                return;
            }
            taken.await;
        }
    }

    /// Puts in an event whose number is bounded by the number of connections.
    pub(crate) fn push_client_event(&self, event: ClientEvent) {
        self.push_without_wake(|batch| batch.client_events.push(event));
        self.wake();
    }

    /// Puts in all of these writes if permits are free. Waiting submitters come first. The caller
    /// wakes the core; see [`push_without_wake`](Self::push_without_wake).
    pub(crate) fn try_submit(&self, requests: &mut Vec<SubmittedRequest>) -> Result<(), InboxFull> {
        let count = u32::try_from(requests.len()).map_err(|_| InboxFull)?;
        let bytes: usize = requests.iter().map(|submission| submission.charged_bytes as usize).sum();
        // Released again if there is no permit for the number.
        let bytes = match u32::try_from(bytes).map_err(|_| InboxFull)? {
            0 => None,
            bytes => Some(self.bytes.try_acquire_many(bytes).map_err(|_| InboxFull)?),
        };
        self.write_permits.try_acquire_many(count).map_err(|_| InboxFull)?.forget();
        bytes.into_iter().for_each(SemaphorePermit::forget);
        self.push_without_wake(|batch| {
            batch.client_events.extend(requests.drain(..).map(ClientEvent::Request))
        });
        Ok(())
    }

    /// Puts in writes in their order as permits become free. The caller wakes the core for the last
    /// ones; see [`push_without_wake`](Self::push_without_wake).
    pub(crate) async fn submit(&self, requests: &mut Vec<SubmittedRequest>) {
        let mut requests = requests.drain(..);
        while requests.len() > 0 {
            let share = self.share(requests.as_slice());
            // Bytes first: a large write that waits for bytes holds no permit that a small write
            // could use.
            let bytes = self.bytes.acquire_many(share.bytes as u32).await;
            let room = self.write_permits.acquire_many(share.requests as u32).await;
            // The inbox is never closed before the process ends.
            let (Ok(bytes), Ok(room)) = (bytes, room) else { return };
            bytes.forget();
            room.forget();
            let some = requests.by_ref().take(share.requests).map(ClientEvent::Request);
            self.push_without_wake(|batch| batch.client_events.extend(some));
            if requests.len() > 0 {
                self.wake();
            }
        }
    }

    /// The longest prefix of these writes that the limits allow at once.
    fn share(&self, requests: &[SubmittedRequest]) -> Share {
        let mut share = Share { requests: 0, bytes: 0 };
        for submission in requests {
            let bytes = share.bytes + submission.charged_bytes as usize;
            if share.requests > 0 && (share.requests == self.write_permits_max || bytes > self.bytes_max) {
                break;
            }
            share = Share { requests: share.requests + 1, bytes };
        }
        share
    }

    /// Releases the permits of answered writes.
    pub(crate) fn release_permits(&self, answered: AnsweredRequests) {
        self.write_permits.add_permits(answered.requests);
        if answered.bytes > 0 {
            self.bytes.add_permits(answered.bytes);
        }
    }

    /// Writes that are not answered yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.write_permits_max - self.write_permits.available_permits().min(self.write_permits_max)
    }

    /// Whether the core must run a round.
    pub(crate) fn is_due(&self) -> bool {
        self.lock().is_due
    }

    /// Waits until a round is due, at most this long.
    pub(crate) fn wait(&self, timeout: Duration) {
        let idle = |state: &mut InboxState| !state.is_due;
        let waited = self.wakeup.wait_timeout_while(self.lock(), timeout, idle);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes all events. `batch` must be empty; its memory is used again.
    pub(crate) fn drain_into(&self, batch: &mut InboxBatch) {
        let mut state = self.lock();
        std::mem::swap(&mut state.batch, batch);
        state.batch.control_bytes = 0;
        state.is_due = false;
        drop(state);
        self.drained.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        // A panic in a push or a swap cannot leave the queues inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write of a connection with this number.
#[cfg(test)]
pub(crate) fn test_write(number: u64, charged_bytes: u32) -> SubmittedRequest {
    let policy = crate::settings::policy(&crate::config::ServerConfig::built_in());
    let tree = zebu_tree::Tree::new(zebu_tree::TreeOptions::default());
    let replica = zebu_node::Replica::new(tree, policy, zebu_node::AuthEnforcement::Off, 0);
    let mut connection =
        zebu_node::ClientConnection::new(zebu_node::ConnectionId(number), Default::default(), 0, 0);
    connection.phase = zebu_node::ConnectionPhase::Serving;
    connection.session =
        Some(zebu_node::ConnectionSession { id: zebu_proto::SessionId(1), timeout_ms: 10_000 });
    let delete = [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, b'/', b'a', 0, 0, 0, 0];
    let mut submission = replica.receive(&mut connection, &delete, 0).expect("a write is for the core");
    submission.charged_bytes = charged_bytes;
    submission
}

#[cfg(test)]
mod tests {
    use super::test_write as write;
    use super::*;

    fn drained_control_events(inbox: &CoreInbox) -> usize {
        let mut batch = InboxBatch::default();
        inbox.drain_into(&mut batch);
        batch.control_events.len()
    }

    #[test]
    fn what_was_only_mentioned_is_taken_with_what_wakes_the_core() {
        let inbox = std::sync::Arc::new(CoreInbox::new(1, 1));
        let (began, begins) = std::sync::mpsc::channel();
        let core = std::thread::spawn({
            let inbox = inbox.clone();
            move || {
                let _ = began.send(());
                inbox.wait(Duration::from_secs(60));
                drained_control_events(&inbox)
            }
        });
        begins.recv().unwrap();
        inbox.push_lazy(ControlEvent::Disk(DiskEvent::Synced(zebu_proto::Zxid(1))));
        inbox.push_control(ControlEvent::Stop);
        let first = core.join().unwrap();
        assert_eq!((first, inbox.is_due()), (2, false));
    }

    #[tokio::test]
    async fn the_network_is_not_read_on_behind_few_packets_with_many_bytes() {
        let inbox = CoreInbox::new(1, 1);
        inbox.push_without_wake(|batch| {
            batch.control_events.push(ControlEvent::Stop);
            batch.control_bytes += CONTROL_BYTES_MAX + 1;
        });
        let waits = async {
            inbox.wait_for_control_room().await;
            drained_control_events(&inbox)
        };
        let takes = async {
            // The other future waits by now, because both run on one thread in turn.
            tokio::task::yield_now().await;
            drained_control_events(&inbox)
        };
        assert_eq!(tokio::join!(waits, takes), (0, 1));
    }

    #[tokio::test]
    async fn the_network_is_read_on_when_the_core_has_taken_what_was_there() {
        let inbox = CoreInbox::new(1, 1);
        inbox.wait_for_control_room().await;
        inbox.push_without_wake(|batch| {
            batch.control_events.extend((0..=CONTROL_EVENTS_MAX).map(|_| ControlEvent::Stop))
        });
        let waits = async {
            inbox.wait_for_control_room().await;
            drained_control_events(&inbox)
        };
        let takes = async {
            // The other future waits by now, because both run on one thread in turn.
            tokio::task::yield_now().await;
            drained_control_events(&inbox)
        };
        let (left, first) = tokio::join!(waits, takes);
        assert_eq!((left, first), (0, CONTROL_EVENTS_MAX + 1));
    }

    fn taken_writes(inbox: &CoreInbox) -> Vec<u64> {
        let mut batch = InboxBatch::default();
        inbox.drain_into(&mut batch);
        let number = |event| match event {
            ClientEvent::Request(submission) => submission.connection.0,
            other => panic!("{other:?}"),
        };
        batch.client_events.into_iter().map(number).collect()
    }

    #[test]
    fn writes_are_bounded_by_their_bytes() {
        let inbox = CoreInbox::new(10, 100);
        assert_eq!(inbox.try_submit(&mut vec![write(1, 60)]), Ok(()));
        assert_eq!(inbox.try_submit(&mut vec![write(2, 41)]), Err(InboxFull));
        assert_eq!(
            inbox.try_submit(&mut vec![write(3, 40), write(4, 0)]),
            Ok(()),
            "small ones need no bytes"
        );
        assert_eq!(inbox.try_submit(&mut (0..8).map(|number| write(number, 0)).collect()), Err(InboxFull));
        assert_eq!((taken_writes(&inbox), inbox.outstanding()), (vec![1, 3, 4], 3));
        inbox.release_permits(AnsweredRequests { requests: 3, bytes: 100 });
        assert_eq!(inbox.try_submit(&mut vec![write(5, 100)]), Ok(()));
        inbox.release_permits(AnsweredRequests { requests: 1, bytes: 100 });
        // The bytes are released if there is no permit for the number.
        assert_eq!(inbox.try_submit(&mut (0..11).map(|number| write(number, 9)).collect()), Err(InboxFull));
        assert_eq!(inbox.try_submit(&mut vec![write(6, 100)]), Ok(()));
    }

    #[tokio::test]
    async fn writes_of_more_bytes_than_may_be_on_their_way_go_one_after_the_other() {
        let inbox = CoreInbox::new(10, 100);
        let sizes = [50, 50, 0, 1, 100, 0];
        let mut writes = sizes.iter().zip(1..).map(|(&bytes, number)| write(number, bytes)).collect();
        let submits = inbox.submit(&mut writes);
        let takes = async {
            for (numbers, bytes) in [(vec![1, 2, 3], 100), (vec![4], 1), (vec![5, 6], 100)] {
                let mut taken = Vec::new();
                while taken.is_empty() {
                    tokio::task::yield_now().await;
                    taken = taken_writes(&inbox);
                }
                assert_eq!(taken, numbers);
                // A small write of another connection does not wait for bytes.
                assert_eq!(inbox.try_submit(&mut vec![write(9, 0)]), Ok(()));
                assert_eq!(taken_writes(&inbox), [9]);
                inbox.release_permits(AnsweredRequests { requests: numbers.len() + 1, bytes });
            }
        };
        tokio::join!(submits, takes);
        assert_eq!(inbox.outstanding(), 0);
    }
}
