//! The outbox of one link: the packets that wait, and which thread may write the socket.
//!
//! The core encodes packets into the outbox and writes as many bytes as the socket takes at once.
//! The link's task writes the rest, and everything behind a snapshot.
//! [`WriterOwner`] names the one writer, so that bytes neither mix nor overtake each other. The
//! runtime's [`SendQueue`] fixes the order of packets and snapshots.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::coop::consume_budget;
use tokio::time::{sleep, timeout};
use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_runtime::{QueuedItem, SendQueue};

use super::learner_links::LinkCounters;
use super::peer_stream::LinkWriter;
use super::read_gate::ReadGate;
use crate::sync::{Mutex, MutexGuard, Notify};

/// Most bytes that the core writes at a time. The task writes more, because the core must not spend
/// its time on one link.
const INLINE_WRITE_BYTES: usize = 64 << 10;

/// How long a closed link may take to send its rest.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The outbox of one link. The core bounds its length by the weight that is reported as sent.
#[derive(Debug)]
pub(super) struct Outbox {
    writer: LinkWriter,
    state: Mutex<OutboxState>,
    /// Wakes the task.
    task_wakeup: Notify,
    read_gate: ReadGate,
    counters: Arc<LinkCounters>,
}

#[derive(Debug)]
struct OutboxState {
    queue: SendQueue,
    writer_owner: WriterOwner,
}

/// The thread that may write to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterOwner {
    /// Any thread that holds the lock.
    Free,
    /// The task. It was woken, and frees the writer when the queue is empty.
    Task,
    /// The task, until everything is written. The link is closed and then ends.
    Closing,
}

/// The next job of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteJob {
    /// Write the returned bytes, and report that this weight was sent.
    Write { weight: usize },
    /// Send a snapshot of the current state, then call [`Outbox::snapshot_sent`].
    SendSnapshot,
    /// Wait for a wakeup.
    Wait,
    /// End: the link was closed and has sent everything.
    Close,
}

impl Outbox {
    pub(super) fn new(writer: impl Into<LinkWriter>) -> Outbox {
        let state = OutboxState { queue: SendQueue::default(), writer_owner: WriterOwner::Free };
        Outbox {
            writer: writer.into(),
            state: Mutex::new(state),
            task_wakeup: Notify::new(),
            read_gate: ReadGate::default(),
            counters: Arc::default(),
        }
    }

    /// The gate of the link's reading half.
    pub(super) fn read_gate(&self) -> &ReadGate {
        &self.read_gate
    }

    /// The counters of the link.
    pub(super) fn counters(&self) -> &Arc<LinkCounters> {
        &self.counters
    }

    /// Queues a packet. Returns whether [`Outbox::flush`] must be called for it: the outbox was empty,
    /// and no task was woken.
    pub(super) fn push(&self, packet: Packet) -> bool {
        let mut state = self.lock();
        let needs_flush = state.queue.bytes().is_empty() && state.writer_owner == WriterOwner::Free;
        self.counters.count_queued(&packet);
        state.queue.push(packet);
        needs_flush
    }

    /// Queues a snapshot. It holds the state at the time when it is sent.
    pub(super) fn push_snapshot(&self) {
        let mut state = self.lock();
        state.queue.push_snapshot();
        self.wake_task(&mut state);
    }

    /// Writes as much as the socket takes without waiting, and wakes the task for the rest. Returns
    /// the sent weight. The task finds errors of the socket.
    pub(super) fn flush(&self) -> usize {
        let mut state = self.lock();
        let bytes = state.queue.bytes();
        if state.writer_owner != WriterOwner::Free || bytes.is_empty() {
            return 0;
        }
        if bytes.len() <= INLINE_WRITE_BYTES
            && let Ok(written) = self.writer.try_write(bytes)
            && let Some(weight) = state.queue.advance(written)
        {
            self.counters.set_queued_bytes(state.queue.bytes().len());
            return weight;
        }
        self.counters.set_queued_bytes(state.queue.bytes().len());
        self.wake_task(&mut state);
        0
    }

    /// Bytes that wait for the socket.
    pub(super) fn queued_bytes(&self) -> usize {
        self.lock().queue.bytes().len()
    }

    /// Closes the outbox. Queued packets are still sent.
    pub(super) fn close(&self) {
        self.lock().writer_owner = WriterOwner::Closing;
        self.task_wakeup.notify_one();
    }

    /// Returns the task's next job, and exchanges the bytes to write for its empty buffer.
    pub(super) fn next_job(&self, bytes: &mut Vec<u8>) -> WriteJob {
        let mut state = self.lock();
        let item = state.queue.take_next(bytes);
        self.counters.set_queued_bytes(state.queue.bytes().len());
        match item {
            QueuedItem::Bytes { weight } => {
                // The task may run unasked, between a push of the core and its flush.
                state.writer_owner = match state.writer_owner {
                    WriterOwner::Free | WriterOwner::Task => WriterOwner::Task,
                    WriterOwner::Closing => WriterOwner::Closing,
                };
                WriteJob::Write { weight }
            }
            QueuedItem::Snapshot => WriteJob::SendSnapshot,
            QueuedItem::Nothing => match state.writer_owner {
                WriterOwner::Free | WriterOwner::Task => {
                    state.writer_owner = WriterOwner::Free;
                    WriteJob::Wait
                }
                WriterOwner::Closing => WriteJob::Close,
            },
        }
    }

    /// The snapshot was sent; it may hold transactions up to this one.
    pub(super) fn snapshot_sent(&self, end: Zxid) {
        self.lock().queue.snapshot_sent(end);
    }

    /// Waits for the next wakeup.
    pub(super) async fn wait_for_wakeup(&self) {
        self.task_wakeup.notified().await;
    }

    /// Writes for the task, which owns the writer. Fails if the link is closed and the peer does
    /// not read within [`CLOSE_TIMEOUT`].
    pub(super) async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        tokio::select! {
            result = self.write(bytes) => result,
            () = self.close_timeout() => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        // The socket may accept bytes for long; other tasks of the thread must run too.
        consume_budget().await;
        self.writer.write_all(bytes).await
    }

    /// Announces the end of a TLS link on which everything is written.
    pub(super) async fn shut_down(&self) {
        if let LinkWriter::TaskOnly(half) = &self.writer {
            let shutdown = async { half.lock().await.shutdown().await };
            // The link is over; a peer that does not read finds the end of the connection.
            let _ = timeout(CLOSE_TIMEOUT, shutdown).await;
        }
    }

    async fn close_timeout(&self) {
        while self.lock().writer_owner != WriterOwner::Closing {
            self.wait_for_wakeup().await;
        }
        sleep(CLOSE_TIMEOUT).await;
    }

    fn wake_task(&self, state: &mut OutboxState) {
        if state.writer_owner == WriterOwner::Free {
            state.writer_owner = WriterOwner::Task;
            self.task_wakeup.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
