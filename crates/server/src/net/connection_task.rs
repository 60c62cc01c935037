//! The task of one client connection: reads and parses requests, submits writes to the core, sends
//! the outbox.
//!
//! All frames of one socket read are parsed under one shared replica lock. All pending output
//! leaves in one write.
//! Bytes are parsed in the read buffer of the thread. The task keeps only an unfinished frame, so
//! an idle connection owns no buffer.
//! Reading and writing are independent. A client may send many requests before it reads a reply, up
//! to the limits of its connection.

mod authentication;
mod input;
mod listing;

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tracing::{Span, debug, debug_span, trace, warn};
use zebu_node::limits;
use zebu_node::{ConnectionPhase, DisconnectReason, SubmittedRequest};

use super::client_sasl::expire_exchange;
use super::client_socket::ClientSocket;
use super::connection_guard::ConnectionGuard;
use super::connection_state::{
    ConnectionStage, ConnectionStep, InputMode, OutputOutcome, SlowTask, WakeReason,
};
use crate::core::context::ServerContext;
use crate::four_letter::FourLetterWord;
use crate::four_letter::collect;
use crate::net::large_requests::LargeRequestPermit;

/// Most bytes of one read. All connections of a thread share the buffer.
const READ_BUFFER_BYTES: usize = 64 * 1024;

thread_local! {
    /// The read buffer. Its length stays 0, so pages that were never written take no memory.
    static READ_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };

    /// Requests for the core, collected during one poll. Empty between polls.
    static CLIENT_REQUESTS: Cell<Vec<SubmittedRequest>> = const { Cell::new(Vec::new()) };
}

/// A connection and its buffers. The future is written by hand to keep it small: ten thousand of
/// them may wait.
pub(super) struct ConnectionTask<S = ClientSocket> {
    /// `None` while the reply to a four-letter word is sent.
    socket: Option<S>,
    step: ConnectionStep,
    stage: ConnectionStage,
    /// Received bytes that are no complete frame yet, or wait for room in the request queue.
    unparsed: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Unsent bytes last reported to the server-wide sum.
    unread: usize,
    large_permits: Option<LargeRequestPermit>,
    /// Limit for the connect request, or for reading the last reply while the connection drains.
    deadline: Option<Pin<Box<Sleep>>>,
    /// `None` if the span is disabled.
    span: Option<Box<Span>>,
    /// The last field, so that the socket is closed before the guard releases the connection.
    guard: ConnectionGuard,
}

impl<S: TaskSocket> Future for ConnectionTask<S> {
    type Output = ();

    /// Serves the client until either side closes. The guard is dropped at the end, also after a
    /// panic.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let span = self.span.take();
        let entered = span.as_deref().map(Span::enter);
        let mut requests = CLIENT_REQUESTS.take();
        let result = self.drive(context, &mut requests);
        debug_assert!(requests.is_empty(), "they are handed over before anything is waited for");
        CLIENT_REQUESTS.set(requests);
        drop(entered);
        self.span = span;
        result
    }
}

impl<S> Drop for ConnectionTask<S> {
    fn drop(&mut self) {
        self.note_unread(0);
    }
}

impl<S> ConnectionTask<S> {
    fn note_unread(&mut self, now: usize) {
        if self.unread != now {
            self.guard.shared.unread_answers.note(self.unread, now);
            self.unread = now;
        }
    }
}

/// The socket of a task. Plain and TLS connections are different types, so that plain ones stay small.
pub(super) trait TaskSocket: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Tells the client that the connection ends, if its protocol has a word for it and the socket takes it
    /// without waiting.
    fn send_close_notify(&mut self, _: &mut Context<'_>) {}

    /// Whether the system holds received bytes that the runtime may not know of.
    fn has_unread(&self) -> bool {
        false
    }
}

impl TaskSocket for ClientSocket {
    fn has_unread(&self) -> bool {
        self.has_unread()
    }
}

impl<S: TaskSocket> ConnectionTask<S> {
    pub(super) fn new(socket: S, guard: ConnectionGuard) -> ConnectionTask<S> {
        let span = debug_span!("client", peer = %guard.entry.remote_address, session = tracing::field::Empty);
        let deadline = Some(sessionless_timer(&guard.shared));
        ConnectionTask {
            socket: Some(socket),
            step: ConnectionStep::Process,
            stage: ConnectionStage::FirstFrame,
            unparsed: Vec::new(),
            output: Vec::new(),
            sent: 0,
            unread: 0,
            large_permits: None,
            deadline,
            span: (!span.is_disabled()).then(|| Box::new(span)),
            guard,
        }
    }

    fn drive(&mut self, context: &mut Context<'_>, requests: &mut Vec<SubmittedRequest>) -> Poll<()> {
        loop {
            self.step = match &mut self.step {
                ConnectionStep::Process => self.process_ready(requests),
                &mut ConnectionStep::Wait(input) => match ready!(self.poll_wake(input, context, requests)) {
                    WakeReason::Received => ConnectionStep::Process,
                    WakeReason::Sent => {
                        if !self.unparsed.is_empty() {
                            // The unparsed bytes may have waited for the client to read its
                            // replies.
                            self.parse_unparsed(requests);
                        }
                        ConnectionStep::Process
                    }
                    WakeReason::Signalled => {
                        self.resume_parsing(requests);
                        ConnectionStep::Process
                    }
                    WakeReason::Timeout => {
                        if !expire_exchange(&self.guard.shared, &self.guard.entry) {
                            self.guard.shared.metrics.sessionless_expired.increment();
                            debug!(
                                "closed: no session was asked for, or the last reply was not read, in time"
                            );
                        }
                        ConnectionStep::Close
                    }
                    WakeReason::Disconnected => ConnectionStep::Close,
                },
                ConnectionStep::RunSlowTask(task) => ready!(task.as_mut().poll(context)),
                ConnectionStep::Close => {
                    if let Some(socket) = &mut self.socket {
                        socket.send_close_notify(context);
                    }
                    return Poll::Ready(());
                }
            };
        }
    }

    /// Does all work that needs no waiting.
    fn process_ready(&mut self, requests: &mut Vec<SubmittedRequest>) -> ConnectionStep {
        if let ConnectionStage::FourLetterWord(word) = self.stage {
            return self.answer_word(word);
        }
        if let Some(task) = self.submit_requests(requests) {
            return ConnectionStep::RunSlowTask(task);
        }
        if self.stage == ConnectionStage::Authenticating {
            return self.run_sasl(requests);
        }
        if self.stage == ConnectionStage::Listing && self.has_listing_left(requests) {
            return self.pause_listing();
        }
        match self.collect_output() {
            OutputOutcome::Wait => ConnectionStep::Wait(self.prepare_to_wait()),
            OutputOutcome::RoomFreed => {
                // A write among the unparsed requests must not wait for the client to read.
                self.resume_parsing(requests);
                ConnectionStep::Process
            }
            OutputOutcome::Close => ConnectionStep::Close,
        }
    }

    /// Submits the collected requests to the core. If the inbox is full, a slow task does it.
    fn submit_requests(&self, requests: &mut Vec<SubmittedRequest>) -> Option<SlowTask> {
        let shared = &self.guard.shared;
        let amount = requests.len();
        if amount == 0 {
            return None;
        }
        if shared.inbox.try_submit(requests).is_ok() {
            shared.core.run_or_wake(&shared.inbox, amount);
            return None;
        }
        let (shared, mut requests) = (shared.clone(), std::mem::take(requests));
        Some(Box::pin(async move {
            shared.metrics.throttle_waits.increment();
            let began = shared.clock.monotonic_ms();
            shared.inbox.submit(&mut requests).await;
            shared.metrics.throttle_wait_ms.record_elapsed(shared.clock.monotonic_ms() - began);
            shared.core.run_or_wake(&shared.inbox, amount);
            ConnectionStep::Process
        }))
    }

    /// Takes the outbox of the connection and decides how the task goes on.
    fn collect_output(&mut self) -> OutputOutcome {
        let mut connection = self.guard.entry.lock();
        if let ConnectionPhase::Closed(reason) = connection.phase {
            drop(connection);
            self.log_close(reason);
            return OutputOutcome::Close;
        }
        if connection.queued_requests() == 0 {
            self.large_permits = None;
        }
        let (traffic, session) = (connection.take_traffic(), connection.session);
        let mut room_now = false;
        if self.output.is_empty() {
            let allowance = self.allowance();
            let had_room = connection.has_room_below(allowance);
            let unreported = connection.take_outbox(&mut self.output);
            self.guard.shared.stats.add(&unreported);
            // Taking the outbox may have made room for the unparsed requests.
            room_now = !had_room && connection.has_room_below(allowance);
            if !self.output.is_empty() {
                // The task now holds earlier bytes, so no other thread may send before them.
                connection.require_task_send();
            }
        }
        let draining = connection.phase == ConnectionPhase::Draining;
        let done = draining && self.output.is_empty() && connection.is_drained();
        drop(connection);
        if draining && self.deadline.is_none() {
            self.deadline = Some(sessionless_timer(&self.guard.shared));
        }
        self.guard.record_traffic(traffic, session);
        if room_now {
            return OutputOutcome::RoomFreed;
        }
        if done { OutputOutcome::Close } else { OutputOutcome::Wait }
    }

    fn log_close(&self, reason: DisconnectReason) {
        match reason {
            DisconnectReason::BadFrame => {
                self.guard.shared.metrics.bad_frames.increment();
                debug!("closed: the client sent bytes that are no request");
            }
            DisconnectReason::OutboxFull => {
                warn!(peer = %self.guard.entry.remote_address, "closed: the client does not read its replies and events");
            }
            DisconnectReason::ReplyOutOfOrder => {
                warn!(
                    peer = %self.guard.entry.remote_address,
                    "closed: the leader answered a later request of the client first; please report this"
                );
            }
            DisconnectReason::ReplyMismatch => {
                warn!(peer = %self.guard.entry.remote_address, "closed: the leader's answer belongs to another request");
            }
            DisconnectReason::OtherEnsemble => {
                warn!(peer = %self.guard.entry.remote_address, "closed: the client expects another ensemble");
            }
            DisconnectReason::ClientClosed
            | DisconnectReason::SaslTimeout
            | DisconnectReason::SessionEnded
            | DisconnectReason::Replaced
            | DisconnectReason::AheadOfServer
            | DisconnectReason::Throttled
            | DisconnectReason::Shed
            | DisconnectReason::Drained
            | DisconnectReason::NoRoom
            | DisconnectReason::NotServing
            | DisconnectReason::ReadOnly => debug!(?reason, "closed"),
        }
    }

    /// Parses the bytes that waited for room or for the session.
    fn resume_parsing(&mut self, requests: &mut Vec<SubmittedRequest>) {
        if self.stage == ConnectionStage::Connecting {
            let connection = self.guard.entry.lock();
            if connection.phase != ConnectionPhase::Handshake {
                self.stage = ConnectionStage::Serving;
                self.deadline = None;
                if let Some(session) = connection.session {
                    Span::current().record("session", tracing::field::display(session.id));
                }
            }
        }
        self.parse_unparsed(requests);
    }

    /// Waits for the socket, a wakeup or the deadline.
    fn poll_wake(
        &mut self,
        input: InputMode,
        context: &mut Context<'_>,
        requests: &mut Vec<SubmittedRequest>,
    ) -> Poll<WakeReason> {
        if let Poll::Ready(wake) = self.poll_write(context) {
            return Poll::Ready(wake);
        }
        if input == InputMode::Read
            && let Poll::Ready(wake) = self.poll_read(context, requests)
        {
            return Poll::Ready(wake);
        }
        if self.guard.entry.poll_wakeup(context).is_ready() || self.leave_if_quiet(input) {
            return Poll::Ready(WakeReason::Signalled);
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(context).map(|()| WakeReason::Timeout),
            None => Poll::Pending,
        }
    }

    /// Allows direct sending if the task only waits for the next request. A task with unparsed
    /// requests must be woken by every reply, because a reply makes room.
    fn prepare_to_wait(&self) -> InputMode {
        match self.stage {
            ConnectionStage::FirstFrame => InputMode::Read,
            ConnectionStage::FourLetterWord(_)
            | ConnectionStage::Connecting
            | ConnectionStage::Authenticating
            | ConnectionStage::Listing => InputMode::Paused,
            ConnectionStage::Serving => {
                let mut connection = self.guard.entry.lock();
                let has_room = connection.has_room_below(self.allowance());
                if !has_room {
                    // A paused task reads on only if the reply that makes room wakes it.
                    connection.require_task_send();
                } else if self.unparsed.is_empty() && self.output.is_empty() && self.large_permits.is_none() {
                    connection.allow_direct_send();
                }
                // The bytes of a draining client are read and discarded. If a socket with unread
                // input is closed, the kernel drops the last reply.
                if has_room || connection.phase == ConnectionPhase::Draining {
                    InputMode::Read
                } else {
                    InputMode::Paused
                }
            }
        }
    }

    /// Closes the connection of a client that a stopping server sends away, if no bytes are on their way in
    /// either direction. The task has just found nothing to read.
    fn leave_if_quiet(&self, input: InputMode) -> bool {
        let is_leaving = self.guard.shared.stopping.load(Ordering::Acquire)
            && input == InputMode::Read
            && self.stage == ConnectionStage::Serving;
        is_leaving
            && self.unparsed.is_empty()
            && self.output.is_empty()
            && self.socket.as_ref().is_some_and(|socket| !socket.has_unread())
            && self.guard.entry.lock().leave_if_quiet()
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<WakeReason> {
        if self.output.is_empty() {
            return Poll::Pending;
        }
        let Some(socket) = &mut self.socket else { return Poll::Ready(WakeReason::Disconnected) };
        loop {
            match Pin::new(&mut *socket).poll_write(context, &self.output[self.sent..]) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.sent += count;
                    if self.sent == self.output.len() {
                        self.sent = 0;
                        self.output.clear();
                        limits::shrink_buffer(&mut self.output);
                        self.note_unread(0);
                        return Poll::Ready(WakeReason::Sent);
                    }
                }
                Poll::Ready(Ok(_) | Err(_)) => return Poll::Ready(WakeReason::Disconnected),
                Poll::Pending => {
                    let waiting = self.guard.entry.lock().outbox_len();
                    self.note_unread(self.output.len() - self.sent + waiting);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Bytes that the outbox may hold before the task stops parsing requests.
    fn allowance(&self) -> usize {
        self.guard.shared.unread_answers.allowance(self.output.len() - self.sent)
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        requests: &mut Vec<SubmittedRequest>,
    ) -> Poll<WakeReason> {
        let mut read_buffer = READ_BUFFER.take();
        if read_buffer.capacity() == 0 {
            read_buffer.reserve_exact(READ_BUFFER_BYTES);
        }
        let result = self.poll_read_into(&mut read_buffer, context, requests);
        READ_BUFFER.set(read_buffer);
        result
    }

    fn poll_read_into(
        &mut self,
        read_buffer: &mut Vec<u8>,
        context: &mut Context<'_>,
        requests: &mut Vec<SubmittedRequest>,
    ) -> Poll<WakeReason> {
        let Some(socket) = &mut self.socket else { return Poll::Ready(WakeReason::Disconnected) };
        let mut buffer = ReadBuf::uninit(read_buffer.spare_capacity_mut());
        match Pin::new(socket).poll_read(context, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(WakeReason::Disconnected),
            Poll::Ready(Ok(())) => {
                self.guard.shared.metrics.bytes_received.add(buffer.filled().len() as u64);
                if self.unparsed.is_empty() {
                    let used = self.parse_input(buffer.filled(), requests);
                    self.unparsed.extend_from_slice(&buffer.filled()[used..]);
                } else {
                    self.unparsed.extend_from_slice(buffer.filled());
                    self.parse_unparsed(requests);
                }
                Poll::Ready(WakeReason::Received)
            }
            Poll::Ready(Err(error)) => {
                trace!(%error, "the connection broke");
                Poll::Ready(WakeReason::Disconnected)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Sends the reply to a four-letter word and closes.
    fn answer_word(&mut self, word: FourLetterWord) -> ConnectionStep {
        let Some(mut socket) = self.socket.take() else { return ConnectionStep::Close };
        let (shared, entry) = (self.guard.shared.clone(), self.guard.entry.clone());
        let pending = std::mem::take(&mut self.unparsed);
        ConnectionStep::RunSlowTask(Box::pin(async move {
            collect::answer_and_close(word, &mut socket, &pending, &shared, &entry).await;
            ConnectionStep::Close
        }))
    }
}

/// Ten thousand connections may be idle. With the runtime's own data a task takes 256 bytes; one byte
/// more would make it 384. Sockets of tests are larger.
#[cfg(not(test))]
const _: () = assert!(size_of::<ConnectionTask>() <= 152);

/// The limit for a SASL exchange.
fn sleep_until_ms(shared: &Arc<ServerContext>, deadline_ms: i64) -> Pin<Box<Sleep>> {
    let left_ms = u64::try_from(deadline_ms - shared.clock.monotonic_ms()).unwrap_or(0);
    Box::pin(tokio::time::sleep(Duration::from_millis(left_ms)))
}

/// The limit for a client without a session.
fn sessionless_timer(shared: &Arc<ServerContext>) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(shared.config.listen.sessionless_timeout))
}

#[cfg(test)]
mod interleavings;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::Ordering;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use zebu_node::{AnsweredRequests, ClientEvent, ConnectionSession, Connections};
    use zebu_proto::client::watch::EventType;
    use zebu_proto::{SessionId, Zxid};
    use zebu_tree::{Tree, TreeOptions};

    use super::*;
    use crate::clock::Clock;
    use crate::config::ServerConfig;
    use crate::core::inbox::InboxBatch;
    use crate::core::node_builder::NodeParts;
    use crate::net::ClientPortKind;
    use crate::net::connections::ConnectionEntry;
    use crate::net::reply_sender::ReplySender;
    use crate::net::unread_answers::{UNREAD_TOTAL_MAX, UnreadAnswers};

    /// A connection in phase Serving, and the client's end.
    async fn serving() -> (ConnectionTask, TcpStream) {
        serving_with(ServerConfig::built_in()).await
    }

    async fn serving_with(config: ServerConfig) -> (ConnectionTask, TcpStream) {
        serving_within(config, UNREAD_TOTAL_MAX).await
    }

    async fn serving_within(config: ServerConfig, unread_max: usize) -> (ConnectionTask, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let clock = Clock::start();
        let NodeParts { replica, .. } =
            NodeParts::build(&config, Tree::new(TreeOptions::default()), None, &clock, 0);
        let mut shared = ServerContext::new(config, clock, replica, 0);
        shared.unread_answers = UnreadAnswers::new(unread_max);
        let shared = Arc::new(shared);
        let credentials = shared.per_address.admit(peer.ip(), None).unwrap();
        let (socket, writer) = ClientSocket::new(stream);
        let guard = ConnectionGuard::new(shared, peer, ClientPortKind::Client, credentials, Some(writer));
        let mut connection = ConnectionTask::new(socket, guard);
        connection.guard.entry.lock().phase = ConnectionPhase::Serving;
        connection.stage = ConnectionStage::Serving;
        (connection, client)
    }

    async fn is_woken(entry: &ConnectionEntry) -> bool {
        std::future::poll_fn(|context| Poll::Ready(entry.poll_wakeup(context).is_ready())).await
    }

    /// The core replies, and the task sends the reply before the core flushes its batch. The reply
    /// made room, so a task with unparsed requests must be woken, although nothing is left to send.
    #[tokio::test]
    async fn a_task_that_keeps_requests_hears_of_every_answer() {
        for (kept, rung) in [(&b""[..], false), (&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 11][..], true)] {
            let (mut connection, _client) = serving().await;
            connection.unparsed = kept.to_vec();
            let (shared, entry) = (connection.guard.shared.clone(), connection.guard.entry.clone());
            let reply_sender = ReplySender::new(tokio::runtime::Handle::current(), shared.stats.clone());
            let mut connections = reply_sender.begin_batch(&shared.connections);
            let id = entry.lock().id;
            connections.with(id, |connection| connection.push_event(1, EventType::NodeDeleted, "/a"));
            assert_eq!(connection.collect_output(), OutputOutcome::Wait);
            std::future::poll_fn(|context| connection.poll_write(context)).await;
            assert_eq!(connection.prepare_to_wait(), InputMode::Read, "there is room");
            connections.flush();
            assert_eq!(is_woken(&entry).await, rung);
        }
    }

    #[tokio::test]
    async fn writes_for_which_there_is_no_room_wait_for_it() {
        let mut config = ServerConfig::built_in();
        config.limits.global_outstanding_limit = 1;
        let (connection, mut client) = serving_with(config).await;
        let (shared, entry) = (connection.guard.shared.clone(), connection.guard.entry.clone());
        entry.lock().session = Some(ConnectionSession { id: SessionId(1), timeout_ms: 10_000 });
        for xid in 1..=3 {
            let delete = [0, 0, 0, 18, 0, 0, 0, xid, 0, 0, 0, 2, 0, 0, 0, 2, b'/', b'a', 0, 0, 0, 0];
            client.write_all(&delete).await.unwrap();
        }
        let task = tokio::spawn(connection);
        for expected in 1..=3 {
            let mut batch = InboxBatch::default();
            let comes = async {
                while batch.client_events.is_empty() {
                    tokio::task::yield_now().await;
                    shared.inbox.drain_into(&mut batch);
                }
            };
            tokio::time::timeout(Duration::from_secs(30), comes).await.unwrap();
            let xids: Vec<_> = batch
                .client_events
                .iter()
                .map(|event| match event {
                    ClientEvent::Request(request) => request.xid,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!((xids, shared.inbox.outstanding()), (vec![expected], 1));
            shared.inbox.release_permits(AnsweredRequests { requests: 1, bytes: 0 });
        }
        drop(client);
        task.await.unwrap();
        assert_eq!(shared.connection_count.load(Ordering::Acquire), 0);
    }

    /// A client that reads nothing may have up to 1 MiB of unread replies. If the sum over all
    /// clients is too high, it may have almost none. Events are sent in both cases, and a client
    /// that reads again gets everything.
    #[tokio::test]
    async fn the_answers_of_a_client_that_does_not_read_are_few_when_there_are_many_in_all() {
        const REQUESTS: u8 = 250;
        const ANSWER_BYTES: usize = 100_000;
        let path = "/zookeeper/config";
        for (unread_max, expected) in [(usize::MAX, 1 << 20..5 << 19), (0, 1..ANSWER_BYTES + 100)] {
            let (connection, mut client) = serving_within(ServerConfig::built_in(), unread_max).await;
            let (shared, entry) = (connection.guard.shared.clone(), connection.guard.entry.clone());
            let of_others = 1;
            shared.unread_answers.note(0, of_others);
            shared.write_replica().set_config(Some(vec![b'x'; ANSWER_BYTES].into()), Zxid(1), 0);
            let mut requests = Vec::new();
            for xid in 1..=REQUESTS {
                requests.extend([0, 0, 0, 30, 0, 0, 0, xid, 0, 0, 0, 4, 0, 0, 0, path.len() as u8]);
                requests.extend(path.bytes().chain([0]));
            }
            client.write_all(&requests).await.unwrap();
            let task = tokio::spawn(connection);
            let blocks = async {
                while shared.unread_answers.total() == of_others {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), blocks).await.unwrap();
            // The test and the task share one thread: the task does nothing more before the client
            // reads.
            let unread = shared.unread_answers.total() - of_others;
            assert!(expected.contains(&unread), "{unread} bytes");
            let reply_sender = ReplySender::new(tokio::runtime::Handle::current(), shared.stats.clone());
            let mut connections = reply_sender.begin_batch(&shared.connections);
            let id = entry.lock().id;
            connections.with(id, |connection| connection.push_event(1, EventType::NodeDeleted, "/a"));
            connections.flush();
            let mut xids = Vec::new();
            let reads = async {
                while xids.len() <= usize::from(REQUESTS) {
                    let mut frame = vec![0; client.read_u32().await.unwrap() as usize];
                    client.read_exact(&mut frame).await.unwrap();
                    xids.push(i32::from_be_bytes(frame[..4].try_into().unwrap()));
                }
            };
            tokio::time::timeout(Duration::from_secs(30), reads).await.unwrap();
            assert!(xids.contains(&-1), "the event");
            xids.retain(|xid| *xid != -1);
            assert_eq!(xids, (1..=i32::from(REQUESTS)).collect::<Vec<_>>());
            drop(client);
            task.await.unwrap();
            assert_eq!(shared.unread_answers.total(), of_others);
        }
    }
}
