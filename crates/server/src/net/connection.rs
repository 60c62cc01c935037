//! One client connection: a task that moves bytes between a socket and its lane.
//!
//! All frames of one socket read are looked at together under one shared lock, and everything that is to
//! be sent leaves in one write. Bytes are parsed where they were read; only an unfinished frame is kept, so
//! an idle connection owns no buffer. Reading and writing go on independently: a client may send much
//! before it reads anything, until the limits of its lane are reached.

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, debug_span, trace, warn};
use zebu_node::limits;
use zebu_node::{CloseReason, Event, Phase, Submission};
use zebu_proto::Reader;
use zebu_proto::client::ConnectRequest;
use zebu_proto::frame::{self, Framed, LENGTH_SIZE};

use super::listener::Admitted;
use crate::four_letter::Word;
use crate::lanes::LaneCell;
use crate::large_requests::LargeShare;
use crate::net::SendingHalf;
use crate::shared::Shared;

/// Bytes that one read takes at most. Shared by all connections of a thread.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Frames that are looked at under one hold of the shared lock, so that the core is not kept waiting.
const FRAMES_PER_HOLD: usize = 512;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice());
}

/// How far the conversation has come, as far as the bytes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A four-letter word or a connect request must come first.
    First,
    /// A four-letter word came; `stmk` waits for its argument.
    Word(Word),
    /// The core decides about the connect request; nothing is read meanwhile.
    Connecting,
    /// Requests.
    Serving,
}

/// What follows when the lane's output has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collected {
    /// Nothing can be done before something happens.
    Wait,
    /// There was room for more requests, and they were taken.
    Again,
    /// The connection is at its end.
    End,
}

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// Bytes came and were looked at.
    Received,
    /// Everything that was to be sent has been sent.
    Sent,
    /// The core did something to the lane.
    Bell,
    /// The client took too long to say who it is.
    Timeout,
    /// The socket is closed or broken.
    Gone,
}

/// A connection and its buffers.
pub(super) struct Connection<S> {
    stream: S,
    /// What can be lent to the core: the sending half, if bytes are sent as they are.
    sending: Option<SendingHalf>,
    shared: Arc<Shared>,
    cell: Arc<LaneCell>,
    stage: Stage,
    /// Received bytes that are not a whole frame yet, or must wait for room in the lane.
    pending: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    submissions: Vec<Submission>,
    large: Vec<LargeShare>,
    /// Until when the client must have asked for a session, or must have read its last reply.
    deadline: Option<Instant>,
    /// Counts as one of its address as long as it is there.
    _admitted: Admitted,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(
        stream: S,
        sending: Option<SendingHalf>,
        shared: Arc<Shared>,
        cell: Arc<LaneCell>,
        admitted: Admitted,
    ) -> Connection<S> {
        let deadline = Some(Instant::now() + shared.config.listen.sessionless_timeout);
        Connection {
            stream,
            sending,
            shared,
            cell,
            stage: Stage::First,
            pending: Vec::new(),
            output: Vec::new(),
            sent: 0,
            submissions: Vec::new(),
            large: Vec::new(),
            deadline,
            _admitted: admitted,
        }
    }

    /// Serves the client until either side closes. Whatever happens, a panic included, the lane is given
    /// up at the end.
    pub(super) async fn run(mut self) {
        let farewell = Farewell::new(&self.shared, &self.cell);
        let span = debug_span!("client", peer = %self.cell.peer, session = tracing::field::Empty);
        self.serve().instrument(span).await;
        // The socket is closed before the lane is given up.
        drop(self);
        drop(farewell);
    }

    async fn serve(&mut self) {
        loop {
            if let Stage::Word(word) = self.stage {
                // Rare, and larger than everything else here: the many others need not carry it.
                return Box::pin(self.answer_word(word)).await;
            }
            self.submit().await;
            match self.collect_output() {
                Collected::Wait => {}
                // Requests were taken; a write among them must not wait for the client to read.
                Collected::Again => continue,
                Collected::End => return,
            }
            match self.wait().await {
                Wake::Received | Wake::Sent => {}
                Wake::Bell => self.resume(),
                Wake::Timeout => {
                    self.shared.metrics.sessionless_expired.increment();
                    debug!("closed: no session was asked for, or the last reply was not read, in time");
                    return;
                }
                Wake::Gone => return,
            }
        }
    }

    /// Hands over what is for the core.
    async fn submit(&mut self) {
        let amount = self.submissions.len();
        if amount > 0 {
            self.shared.inbox.submit(&mut self.submissions).await;
            self.shared.core.attend(&self.shared.inbox, amount);
        }
    }

    /// Takes what the lane has to send.
    fn collect_output(&mut self) -> Collected {
        let mut lane = self.cell.lock();
        if let Phase::Closed(reason) = lane.phase {
            drop(lane);
            self.note_close(reason);
            return Collected::End;
        }
        if lane.waiting() == 0 {
            self.large.clear();
        }
        let mut room_now = false;
        if self.output.is_empty() {
            let had_room = lane.has_room();
            let unreported = lane.take_outbox(&mut self.output);
            self.shared.stats.add(&unreported);
            // Taking the outbox may have made room for requests that wait here.
            room_now = !had_room && lane.has_room();
            if !self.output.is_empty() {
                // From here on the core must not send past it.
                self.cell.take_back(&lane);
            }
        }
        let draining = lane.phase == Phase::Draining;
        let done = draining && self.output.is_empty() && lane.is_drained();
        drop(lane);
        if draining && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + self.shared.config.listen.sessionless_timeout);
        }
        if room_now {
            self.resume();
            return Collected::Again;
        }
        if done { Collected::End } else { Collected::Wait }
    }

    fn note_close(&self, reason: CloseReason) {
        match reason {
            CloseReason::BadFrame => {
                self.shared.metrics.bad_frames.increment();
                debug!("closed: the client sent bytes that are no request");
            }
            CloseReason::OutboxFull => {
                warn!(peer = %self.cell.peer, "closed: the client does not read its replies and events");
            }
            other => debug!(reason = ?other, "closed"),
        }
    }

    /// Goes on with bytes that had to wait.
    fn resume(&mut self) {
        if self.stage == Stage::Connecting {
            let lane = self.cell.lock();
            if lane.phase != Phase::Handshake {
                self.stage = Stage::Serving;
                self.deadline = None;
                if let Some(session) = lane.session {
                    Span::current().record("session", tracing::field::display(session.id));
                }
            }
        }
        self.take_pending();
    }

    /// Waits for the socket, the bell or the deadline, whichever comes first.
    async fn wait(&mut self) -> Wake {
        let cell = self.cell.clone();
        let mut bell = pin!(cell.bell().notified());
        let wants_read = self.prepare_to_wait();
        // Most connections have none, and need no room for it.
        let mut timeout = self.deadline.map(|deadline| Box::pin(tokio::time::sleep_until(deadline)));
        std::future::poll_fn(|context| {
            if let Poll::Ready(wake) = self.poll_write(context) {
                return Poll::Ready(wake);
            }
            if wants_read && let Poll::Ready(wake) = self.poll_read(context) {
                return Poll::Ready(wake);
            }
            if bell.as_mut().poll(context).is_ready() {
                return Poll::Ready(Wake::Bell);
            }
            if timeout.as_mut().is_some_and(|timeout| timeout.as_mut().poll(context).is_ready()) {
                return Poll::Ready(Wake::Timeout);
            }
            Poll::Pending
        })
        .await
    }

    /// Lends the sending half to the core if nothing but the next request is waited for: a task that keeps requests for
    /// which there was no room must be told of every answer. Returns whether bytes are to be read.
    fn prepare_to_wait(&self) -> bool {
        match self.stage {
            Stage::First => true,
            Stage::Word(_) | Stage::Connecting => false,
            Stage::Serving => {
                let lane = self.cell.lock();
                if let Some(sending) = &self.sending
                    && lane.has_room()
                    && self.pending.is_empty()
                    && self.output.is_empty()
                    && self.large.is_empty()
                {
                    self.cell.lend(&lane, sending);
                }
                // A draining client's bytes are read and thrown away: closing a socket with unread input
                // would make the kernel drop the last reply.
                lane.has_room() || lane.phase == Phase::Draining
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Wake> {
        if self.output.is_empty() {
            return Poll::Pending;
        }
        loop {
            match Pin::new(&mut self.stream).poll_write(context, &self.output[self.sent..]) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.sent += count;
                    if self.sent == self.output.len() {
                        self.sent = 0;
                        self.output.clear();
                        limits::relax(&mut self.output);
                        return Poll::Ready(Wake::Sent);
                    }
                }
                Poll::Ready(Ok(_) | Err(_)) => return Poll::Ready(Wake::Gone),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Wake> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(Wake::Gone),
                Poll::Ready(Ok(())) => {
                    self.shared.metrics.bytes_received.add(buffer.filled().len() as u64);
                    if self.pending.is_empty() {
                        let used = self.take_bytes(buffer.filled());
                        self.pending.extend_from_slice(&buffer.filled()[used..]);
                    } else {
                        self.pending.extend_from_slice(buffer.filled());
                        self.take_pending();
                    }
                    Poll::Ready(Wake::Received)
                }
                Poll::Ready(Err(error)) => {
                    trace!(%error, "the connection broke");
                    Poll::Ready(Wake::Gone)
                }
                Poll::Pending => Poll::Pending,
            }
        })
    }

    /// Looks again at bytes that were kept.
    fn take_pending(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        let used = self.take_bytes(&pending);
        if used < pending.len() {
            pending.drain(..used);
            self.pending = pending;
        }
    }

    /// Looks at received bytes; returns how many of them were used.
    fn take_bytes(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        if self.stage == Stage::First {
            used = self.take_first(bytes);
        }
        while self.stage == Stage::Serving {
            let (count, more) = self.take_requests(&bytes[used..]);
            used += count;
            if more == More::No {
                break;
            }
        }
        used
    }

    /// The first bytes of a connection: a four-letter word, or the connect request.
    fn take_first(&mut self, bytes: &[u8]) -> usize {
        if let Some(head) = bytes.first_chunk::<LENGTH_SIZE>()
            && let Some(word) = Word::from_bytes(*head)
        {
            self.cell.lock().count_received();
            self.stage = Stage::Word(word);
            return LENGTH_SIZE;
        }
        match frame::peek(bytes, self.frame_length_max()) {
            Framed::Partial => 0,
            Framed::Refused { length } => {
                debug!(length, "refused: not a connect request");
                self.cell.lock().close(CloseReason::BadFrame);
                bytes.len()
            }
            Framed::Complete { length } => {
                let payload = &bytes[LENGTH_SIZE..LENGTH_SIZE + length];
                let mut lane = self.cell.lock();
                lane.count_received();
                match ConnectRequest::decode(&mut Reader::new(payload)) {
                    Ok(request) => {
                        let lane = lane.id;
                        self.shared.inbox.push_event(Event::Connect { lane, request });
                        self.stage = Stage::Connecting;
                        LENGTH_SIZE + length
                    }
                    Err(error) => {
                        debug!(%error, "refused: not a connect request");
                        lane.close(CloseReason::BadFrame);
                        bytes.len()
                    }
                }
            }
        }
    }

    /// Takes requests as long as the lane has room, a bounded number under one hold of the locks.
    fn take_requests(&mut self, bytes: &[u8]) -> (usize, More) {
        let now_ms = self.shared.clock.monotonic_ms();
        let replica = self.shared.read();
        let mut lane = self.cell.lock();
        if lane.phase == Phase::Draining {
            return (bytes.len(), More::No);
        }
        let mut used = 0;
        for _ in 0..FRAMES_PER_HOLD {
            if !lane.has_room() {
                // This task must hear when there is room again.
                self.cell.take_back(&lane);
                return (used, More::No);
            }
            let rest = &bytes[used..];
            match frame::peek(rest, self.shared.config.limits.jute_max_buffer as usize) {
                Framed::Partial => {
                    return (used, More::No);
                }
                Framed::Refused { length } => {
                    debug!(length, "closed: frame length is not allowed");
                    lane.close(CloseReason::BadFrame);
                    return (bytes.len(), More::No);
                }
                Framed::Complete { length } => {
                    match self.shared.large_requests.admit(length) {
                        Ok(Some(share)) => {
                            // This task gives it back when the request is answered.
                            self.cell.take_back(&lane);
                            self.large.push(share);
                        }
                        Ok(None) => {}
                        Err(_) => {
                            self.shared.metrics.large_requests_rejected.increment();
                            lane.close(CloseReason::Throttled);
                            return (bytes.len(), More::No);
                        }
                    }
                    let payload = &rest[LENGTH_SIZE..LENGTH_SIZE + length];
                    self.submissions.extend(replica.receive(&mut lane, payload, now_ms));
                    used += LENGTH_SIZE + length;
                }
            }
        }
        (used, More::Yes)
    }

    fn frame_length_max(&self) -> usize {
        self.shared.config.limits.jute_max_buffer as usize
    }

    /// Answers a four-letter word and closes.
    async fn answer_word(&mut self, word: Word) {
        let text =
            crate::words::answer(word, &mut self.stream, &self.pending, &self.shared, &self.cell).await;
        if self.stream.write_all(text.as_bytes()).await.is_ok() {
            // Input that was not read would turn the close into a reset, and the answer might be lost.
            let _ = self.stream.shutdown().await;
            crate::words::discard_input(&mut self.stream).await;
        }
    }
}

/// Whether there may be more whole frames in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Yes,
    No,
}

/// Gives up the lane at the end of the task.
struct Farewell {
    shared: Arc<Shared>,
    cell: Arc<LaneCell>,
}

impl Farewell {
    fn new(shared: &Arc<Shared>, cell: &Arc<LaneCell>) -> Farewell {
        shared.connections.fetch_add(1, Ordering::AcqRel);
        Farewell { shared: shared.clone(), cell: cell.clone() }
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let (lane, session, touched_ms) = {
            let replica = self.shared.read();
            let mut lane = self.cell.lock();
            let unreported = lane.take_outbox(&mut Vec::new());
            self.shared.stats.add(&unreported);
            self.cell.take_back(&lane);
            replica.forget_lane(&mut lane);
            (lane.id, lane.session.map(|session| session.id), lane.touched_ms)
        };
        self.shared.metrics.connections_dropped.increment();
        self.shared.connections.fetch_sub(1, Ordering::AcqRel);
        // The core removes the lane when it knows the last touch, or a session whose tick ends just now
        // would look as if it had been silent.
        self.shared.inbox.push_event(Event::Disconnected { lane, session, touched_ms });
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::{TcpListener, TcpStream};
    use zebu_node::{Lane, Lanes};
    use zebu_proto::client::watch::EventType;
    use zebu_tree::{Credentials, Tree, TreeOptions};

    use super::super::listener::PerAddress;
    use super::super::wire::Wire;
    use super::*;
    use crate::brain::Brain;
    use crate::clock::Clock;
    use crate::config::ServerConfig;
    use crate::post::Post;

    /// A connection that serves, and the client's end.
    async fn serving() -> (Connection<Wire>, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let (config, clock) = (ServerConfig::built_in(), Clock::start());
        let Brain { replica, .. } = Brain::new(&config, Tree::new(TreeOptions::default()), None, &clock, 0);
        let shared = Arc::new(Shared::new(config, clock, replica, 0));
        let cell = shared.lanes.add(peer, |id| Lane::new(id, Credentials::of_peer(peer.ip()), 0, 0));
        cell.lock().phase = Phase::Serving;
        let wire = Wire::new(stream);
        let sending = wire.sending();
        let admitted = PerAddress::admit(&Arc::default(), peer.ip(), None).unwrap();
        let mut connection = Connection::new(wire, Some(sending), shared, cell, admitted);
        connection.stage = Stage::Serving;
        (connection, client)
    }

    async fn is_rung(cell: &LaneCell) -> bool {
        tokio::select! {
            biased;
            () = cell.bell().notified() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// The core answers, the task sends the answer before the core comes to it, and there is room again: whoever keeps
    /// requests for which there was none has to hear of that, though nothing is left to be sent.
    #[tokio::test]
    async fn a_task_that_keeps_requests_hears_of_every_answer() {
        for (kept, rung) in [(&b""[..], false), (&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 11][..], true)] {
            let (mut connection, _client) = serving().await;
            connection.pending = kept.to_vec();
            let (shared, cell) = (connection.shared.clone(), connection.cell.clone());
            let mut lanes = shared.lanes.batch();
            let id = cell.lock().id;
            lanes.with(id, |lane| lane.push_event(1, EventType::NodeDeleted, "/a"));
            assert_eq!(connection.collect_output(), Collected::Wait);
            std::future::poll_fn(|context| connection.poll_write(context)).await;
            assert!(connection.prepare_to_wait(), "there is room");
            Post::new(tokio::runtime::Handle::current(), shared.stats.clone()).deliver(lanes);
            assert_eq!(is_rung(&cell).await, rung);
        }
    }

    /// There may be ten thousand that do nothing.
    #[tokio::test]
    async fn a_connection_is_small() {
        let (connection, _client) = serving().await;
        let bytes = size_of_val(&connection.run());
        assert!(bytes <= 768, "{bytes} bytes");
    }
}
