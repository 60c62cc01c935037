//! One client connection: a task that moves bytes between a socket and its lane.
//!
//! All frames of one socket read are looked at together under one shared lock, and everything that is to
//! be sent leaves in one write. Bytes are parsed where they were read; only an unfinished frame is kept, so
//! an idle connection owns no buffer. Reading and writing go on independently: a client may send much
//! before it reads anything, until the limits of its lane are reached.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Sleep;
use tracing::{Span, debug, debug_span, trace, warn};
use zebu_node::limits;
use zebu_node::{CloseReason, Event, Phase, Submission};
use zebu_proto::Reader;
use zebu_proto::client::ConnectRequest;
use zebu_proto::frame::{self, Framed, LENGTH_SIZE};

use super::berth::Berth;
use super::course::{Collected, Errand, Input, More, Stage, Step, Wake};
use super::wire::Wire;
use crate::four_letter::Word;
use crate::lanes::LaneCell;
use crate::large_requests::LargeShare;
use crate::shared::Shared;

/// Bytes that one read takes at most. Shared by all connections of a thread.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Frames that are looked at under one hold of the shared lock, so that the core is not kept waiting.
const FRAMES_PER_HOLD: usize = 512;

thread_local! {
    /// Where bytes are read to. It stays empty: what was not written yet takes no memory.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(SCRATCH_BYTES));

    /// Where requests for the core are collected; empty whenever a task is left.
    static SUBMISSIONS: Cell<Vec<Submission>> = const { Cell::new(Vec::new()) };
}

/// A connection and its buffers. It is a future written by hand: there may be ten thousand that wait, and this is all
/// that each of them has.
pub(super) struct Connection {
    /// `None` while the answer to a four-letter word has it.
    wire: Option<Wire>,
    step: Step,
    stage: Stage,
    /// Received bytes that are not a whole frame yet, or must wait for room in the lane.
    pending: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    large: Vec<LargeShare>,
    /// Until when the client must have asked for a session, or must have read its last reply.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Only if somebody wants to know.
    span: Option<Box<Span>>,
    /// The last to be dropped: the socket is closed before the lane is given up.
    berth: Berth,
}

impl Future for Connection {
    type Output = ();

    /// Serves the client until either side closes. Whatever happens, a panic included, the berth is given up at the end.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let span = self.span.take();
        let entered = span.as_deref().map(Span::enter);
        let mut submissions = SUBMISSIONS.take();
        let result = self.go_on(context, &mut submissions);
        debug_assert!(submissions.is_empty(), "they are handed over before anything is waited for");
        SUBMISSIONS.set(submissions);
        drop(entered);
        self.span = span;
        result
    }
}

impl Connection {
    pub(super) fn new(wire: Wire, berth: Berth) -> Connection {
        let span = debug_span!("client", peer = %berth.cell.peer, session = tracing::field::Empty);
        let deadline = Some(patience(&berth.shared));
        Connection {
            wire: Some(wire),
            step: Step::Look,
            stage: Stage::First,
            pending: Vec::new(),
            output: Vec::new(),
            sent: 0,
            large: Vec::new(),
            deadline,
            span: (!span.is_disabled()).then(|| Box::new(span)),
            berth,
        }
    }

    fn go_on(&mut self, context: &mut Context<'_>, submissions: &mut Vec<Submission>) -> Poll<()> {
        loop {
            self.step = match &mut self.step {
                Step::Look => self.look(submissions),
                &mut Step::Wait(input) => match ready!(self.poll_wake(input, context, submissions)) {
                    Wake::Received | Wake::Sent => Step::Look,
                    Wake::Bell => {
                        self.resume(submissions);
                        Step::Look
                    }
                    Wake::Timeout => {
                        self.berth.shared.metrics.sessionless_expired.increment();
                        debug!("closed: no session was asked for, or the last reply was not read, in time");
                        Step::End
                    }
                    Wake::Gone => Step::End,
                },
                Step::Errand(errand) => ready!(errand.as_mut().poll(context)),
                Step::End => return Poll::Ready(()),
            };
        }
    }

    /// Does what can be done at once.
    fn look(&mut self, submissions: &mut Vec<Submission>) -> Step {
        if let Stage::Word(word) = self.stage {
            return self.answer_word(word);
        }
        if let Some(errand) = self.submit(submissions) {
            return Step::Errand(errand);
        }
        match self.collect_output() {
            Collected::Wait => Step::Wait(self.prepare_to_wait()),
            Collected::Room => {
                // A write among the requests must not wait for the client to read.
                self.resume(submissions);
                Step::Look
            }
            Collected::End => Step::End,
        }
    }

    /// Hands over what is for the core; if there is no room for that, it is an errand.
    fn submit(&self, submissions: &mut Vec<Submission>) -> Option<Errand> {
        let shared = &self.berth.shared;
        let amount = submissions.len();
        if amount == 0 {
            return None;
        }
        if shared.inbox.try_submit(submissions).is_ok() {
            shared.core.attend(&shared.inbox, amount);
            return None;
        }
        let (shared, mut submissions) = (shared.clone(), std::mem::take(submissions));
        Some(Box::pin(async move {
            shared.inbox.submit(&mut submissions).await;
            shared.core.attend(&shared.inbox, amount);
            Step::Look
        }))
    }

    /// Takes what the lane has to send.
    fn collect_output(&mut self) -> Collected {
        let mut lane = self.berth.cell.lock();
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
            self.berth.shared.stats.add(&unreported);
            // Taking the outbox may have made room for requests that wait here.
            room_now = !had_room && lane.has_room();
            if !self.output.is_empty() {
                // From here on the core must not send past it.
                lane.take_back();
            }
        }
        let draining = lane.phase == Phase::Draining;
        let done = draining && self.output.is_empty() && lane.is_drained();
        drop(lane);
        if draining && self.deadline.is_none() {
            self.deadline = Some(patience(&self.berth.shared));
        }
        if room_now {
            return Collected::Room;
        }
        if done { Collected::End } else { Collected::Wait }
    }

    fn note_close(&self, reason: CloseReason) {
        match reason {
            CloseReason::BadFrame => {
                self.berth.shared.metrics.bad_frames.increment();
                debug!("closed: the client sent bytes that are no request");
            }
            CloseReason::OutboxFull => {
                warn!(peer = %self.berth.cell.peer, "closed: the client does not read its replies and events");
            }
            CloseReason::AnsweredOutOfOrder => {
                warn!(
                    peer = %self.berth.cell.peer,
                    "closed: the leader answered a later request of the client first; please report this"
                );
            }
            CloseReason::AnswerMismatch => {
                warn!(peer = %self.berth.cell.peer, "closed: the leader's answer belongs to another request");
            }
            other => debug!(reason = ?other, "closed"),
        }
    }

    /// Goes on with bytes that had to wait.
    fn resume(&mut self, submissions: &mut Vec<Submission>) {
        if self.stage == Stage::Connecting {
            let lane = self.berth.cell.lock();
            if lane.phase != Phase::Handshake {
                self.stage = Stage::Serving;
                self.deadline = None;
                if let Some(session) = lane.session {
                    Span::current().record("session", tracing::field::display(session.id));
                }
            }
        }
        self.take_pending(submissions);
    }

    /// Waits for the socket, the bell or the deadline, whichever comes first.
    fn poll_wake(
        &mut self,
        input: Input,
        context: &mut Context<'_>,
        submissions: &mut Vec<Submission>,
    ) -> Poll<Wake> {
        if let Poll::Ready(wake) = self.poll_write(context) {
            return Poll::Ready(wake);
        }
        if input == Input::Read
            && let Poll::Ready(wake) = self.poll_read(context, submissions)
        {
            return Poll::Ready(wake);
        }
        if self.berth.cell.poll_bell(context).is_ready() {
            return Poll::Ready(Wake::Bell);
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(context).map(|()| Wake::Timeout),
            None => Poll::Pending,
        }
    }

    /// Lends the sending half to the core if nothing but the next request is waited for: a task that keeps requests for
    /// which there was no room must be told of every answer.
    fn prepare_to_wait(&self) -> Input {
        match self.stage {
            Stage::First => Input::Read,
            Stage::Word(_) | Stage::Connecting => Input::Left,
            Stage::Serving => {
                let mut lane = self.berth.cell.lock();
                let has_room = lane.has_room();
                if has_room && self.pending.is_empty() && self.output.is_empty() && self.large.is_empty() {
                    lane.lend();
                }
                // A draining client's bytes are read and thrown away: closing a socket with unread input
                // would make the kernel drop the last reply.
                if has_room || lane.phase == Phase::Draining { Input::Read } else { Input::Left }
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Wake> {
        if self.output.is_empty() {
            return Poll::Pending;
        }
        let Some(wire) = &mut self.wire else { return Poll::Ready(Wake::Gone) };
        loop {
            match Pin::new(&mut *wire).poll_write(context, &self.output[self.sent..]) {
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

    fn poll_read(&mut self, context: &mut Context<'_>, submissions: &mut Vec<Submission>) -> Poll<Wake> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Some(wire) = &mut self.wire else { return Poll::Ready(Wake::Gone) };
            let mut buffer = ReadBuf::uninit(scratch.spare_capacity_mut());
            match Pin::new(wire).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(Wake::Gone),
                Poll::Ready(Ok(())) => {
                    self.berth.shared.metrics.bytes_received.add(buffer.filled().len() as u64);
                    if self.pending.is_empty() {
                        let used = self.take_bytes(buffer.filled(), submissions);
                        self.pending.extend_from_slice(&buffer.filled()[used..]);
                    } else {
                        self.pending.extend_from_slice(buffer.filled());
                        self.take_pending(submissions);
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
    fn take_pending(&mut self, submissions: &mut Vec<Submission>) {
        let mut pending = std::mem::take(&mut self.pending);
        let used = self.take_bytes(&pending, submissions);
        if used < pending.len() {
            pending.drain(..used);
            self.pending = pending;
        }
    }

    /// Looks at received bytes; returns how many of them were used.
    fn take_bytes(&mut self, bytes: &[u8], submissions: &mut Vec<Submission>) -> usize {
        let mut used = 0;
        if self.stage == Stage::First {
            used = self.take_first(bytes);
        }
        while self.stage == Stage::Serving {
            let (count, more) = self.take_requests(&bytes[used..], submissions);
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
            let counted = {
                let mut lane = self.berth.cell.lock();
                lane.count_received();
                lane.sent(0)
            };
            // The answer shows it.
            self.berth.shared.stats.add(&counted);
            self.stage = Stage::Word(word);
            return LENGTH_SIZE;
        }
        match frame::peek(bytes, self.frame_length_max()) {
            Framed::Partial => 0,
            Framed::Refused { length } => {
                debug!(length, "refused: not a connect request");
                self.berth.cell.lock().close(CloseReason::BadFrame);
                bytes.len()
            }
            Framed::Complete { length } => {
                let payload = &bytes[LENGTH_SIZE..LENGTH_SIZE + length];
                let mut lane = self.berth.cell.lock();
                lane.count_received();
                match ConnectRequest::decode(&mut Reader::new(payload)) {
                    Ok(request) => {
                        let lane = lane.id;
                        self.berth.shared.inbox.push_event(Event::Connect { lane, request });
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
    fn take_requests(&mut self, bytes: &[u8], submissions: &mut Vec<Submission>) -> (usize, More) {
        let now_ms = self.berth.shared.clock.monotonic_ms();
        let replica = self.berth.shared.read();
        let mut lane = self.berth.cell.lock();
        if lane.phase == Phase::Draining {
            return (bytes.len(), More::No);
        }
        let mut used = 0;
        for _ in 0..FRAMES_PER_HOLD {
            if !lane.has_room() {
                // This task must hear when there is room again.
                lane.take_back();
                return (used, More::No);
            }
            let rest = &bytes[used..];
            match frame::peek(rest, self.berth.shared.config.limits.jute_max_buffer as usize) {
                Framed::Partial => {
                    return (used, More::No);
                }
                Framed::Refused { length } => {
                    debug!(length, "closed: frame length is not allowed");
                    lane.close(CloseReason::BadFrame);
                    return (bytes.len(), More::No);
                }
                Framed::Complete { length } => {
                    match self.berth.shared.large_requests.admit(length) {
                        Ok(Some(share)) => {
                            // This task gives it back when the request is answered.
                            lane.take_back();
                            self.large.push(share);
                        }
                        Ok(None) => {}
                        Err(_) => {
                            self.berth.shared.metrics.large_requests_rejected.increment();
                            lane.close(CloseReason::Throttled);
                            return (bytes.len(), More::No);
                        }
                    }
                    let payload = &rest[LENGTH_SIZE..LENGTH_SIZE + length];
                    submissions.extend(replica.receive(&mut lane, payload, now_ms));
                    used += LENGTH_SIZE + length;
                }
            }
        }
        (used, More::Yes)
    }

    fn frame_length_max(&self) -> usize {
        self.berth.shared.config.limits.jute_max_buffer as usize
    }

    /// Answers a four-letter word and closes.
    fn answer_word(&mut self, word: Word) -> Step {
        let Some(wire) = self.wire.take() else { return Step::End };
        let (shared, cell) = (self.berth.shared.clone(), self.berth.cell.clone());
        let pending = std::mem::take(&mut self.pending);
        Step::Errand(Box::pin(async move {
            write_answer(word, wire, &pending, &shared, &cell).await;
            Step::End
        }))
    }
}

async fn write_answer(word: Word, mut wire: Wire, rest: &[u8], shared: &Shared, cell: &LaneCell) {
    let text = crate::words::answer(word, &mut wire, rest, shared, cell).await;
    if wire.write_all(text.as_bytes()).await.is_ok() {
        // Input that was not read would turn the close into a reset, and the answer might be lost.
        let _ = wire.shutdown().await;
        crate::words::discard_input(&mut wire).await;
    }
}

/// How long is waited for a client that has no session.
fn patience(shared: &Arc<Shared>) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(shared.config.listen.sessionless_timeout))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpStream};
    use zebu_node::{LaneSession, Lanes};
    use zebu_proto::SessionId;
    use zebu_proto::client::watch::EventType;
    use zebu_tree::{Tree, TreeOptions};

    use super::*;
    use crate::brain::Brain;
    use crate::clock::Clock;
    use crate::config::ServerConfig;
    use crate::inbox::Delivery;
    use crate::post::Post;

    /// A connection that serves, and the client's end.
    async fn serving() -> (Connection, TcpStream) {
        serving_with(ServerConfig::built_in()).await
    }

    async fn serving_with(config: ServerConfig) -> (Connection, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let clock = Clock::start();
        let Brain { replica, .. } = Brain::new(&config, Tree::new(TreeOptions::default()), None, &clock, 0);
        let shared = Arc::new(Shared::new(config, clock, replica, 0));
        let credentials = shared.per_address.admit(peer.ip(), None).unwrap();
        let (wire, sending) = Wire::new(stream);
        let mut connection = Connection::new(wire, Berth::new(shared, peer, credentials, Some(sending)));
        connection.berth.cell.lock().phase = Phase::Serving;
        connection.stage = Stage::Serving;
        (connection, client)
    }

    async fn is_rung(cell: &LaneCell) -> bool {
        std::future::poll_fn(|context| Poll::Ready(cell.poll_bell(context).is_ready())).await
    }

    /// The core answers, the task sends the answer before the core comes to it, and there is room again: whoever keeps
    /// requests for which there was none has to hear of that, though nothing is left to be sent.
    #[tokio::test]
    async fn a_task_that_keeps_requests_hears_of_every_answer() {
        for (kept, rung) in [(&b""[..], false), (&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 11][..], true)] {
            let (mut connection, _client) = serving().await;
            connection.pending = kept.to_vec();
            let (shared, cell) = (connection.berth.shared.clone(), connection.berth.cell.clone());
            let post = Post::new(tokio::runtime::Handle::current(), shared.stats.clone());
            let mut lanes = post.batch(&shared.lanes);
            let id = cell.lock().id;
            lanes.with(id, |lane| lane.push_event(1, EventType::NodeDeleted, "/a"));
            assert_eq!(connection.collect_output(), Collected::Wait);
            std::future::poll_fn(|context| connection.poll_write(context)).await;
            assert_eq!(connection.prepare_to_wait(), Input::Read, "there is room");
            lanes.deliver();
            assert_eq!(is_rung(&cell).await, rung);
        }
    }

    #[tokio::test]
    async fn writes_for_which_there_is_no_room_wait_for_it() {
        let mut config = ServerConfig::built_in();
        config.limits.global_outstanding_limit = 1;
        let (connection, mut client) = serving_with(config).await;
        let (shared, cell) = (connection.berth.shared.clone(), connection.berth.cell.clone());
        cell.lock().session = Some(LaneSession { id: SessionId(1), timeout_ms: 10_000 });
        for xid in 1..=3 {
            let delete = [0, 0, 0, 18, 0, 0, 0, xid, 0, 0, 0, 2, 0, 0, 0, 2, b'/', b'a', 0, 0, 0, 0];
            client.write_all(&delete).await.unwrap();
        }
        let task = tokio::spawn(connection);
        for expected in 1..=3 {
            let mut delivery = Delivery::default();
            let comes = async {
                while delivery.events.is_empty() {
                    tokio::task::yield_now().await;
                    shared.inbox.take(&mut delivery);
                }
            };
            tokio::time::timeout(Duration::from_secs(30), comes).await.unwrap();
            let xids: Vec<_> = delivery
                .events
                .iter()
                .map(|event| match event {
                    Event::Write(submission) => submission.xid,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!((xids, shared.inbox.outstanding()), (vec![expected], 1));
            shared.inbox.release(1);
        }
        drop(client);
        task.await.unwrap();
        assert_eq!(shared.connections.load(Ordering::Acquire), 0);
    }

    /// There may be ten thousand that do nothing. With what the runtime adds to it, this makes 256 bytes; one more would
    /// make 384.
    #[test]
    fn a_connection_is_small() {
        let bytes = size_of::<Connection>();
        assert!(bytes <= 152, "{bytes} bytes");
    }
}
