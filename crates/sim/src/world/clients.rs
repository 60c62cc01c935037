//! Clients of a run: their session state machines, their sockets and their calls.

use std::rc::Rc;

use zebu_client::core::{ServerAddress, SessionAction, SessionRequest, SessionState, WatchRegistration};
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, SessionId, Zxid};

use super::{RunPhase, World};
use crate::check::g26_unnoticed_drain::{check_push, noticed};
use crate::check::{FrameKind, ServerMode, session_lease};
use crate::client::{ClientActivity, ReceivedFrame, SentFrame, SimClient, address_of, pause, server_of};
use crate::coverage::CoveredPath;
use crate::members::CONFIG;
use crate::network::{Host, NetworkMessage, SocketId, SocketSide};
use crate::operation::{NodePath, Operation, ReadOperation, SYNCED, WriteOperation};
use crate::queue::SimEvent;
use crate::server::process::Service;

/// The kind of frame that a client has just received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientNotice {
    Event,
    Reply,
}

impl World {
    pub(super) fn new_client(&mut self, client: usize) -> SimClient {
        self.born += 1;
        let shape = &self.core.parameters;
        SimClient::new(shape, client, self.born, self.core.now)
    }

    pub(super) fn client_host(&self, client: usize) -> Host {
        Host(self.servers.len() + client)
    }

    /// Executes all effects of the session state machine.
    pub(super) fn drive(&mut self, client: usize) {
        loop {
            let Some(action) = self.clients[client].session.poll_action() else { break };
            self.client_action(client, action);
        }
        self.write_client(client);
        let it = &mut self.clients[client];
        let Some(deadline) = it.deadline() else { return };
        let at = deadline.max(self.core.now + 1);
        if it.wake_at.is_none_or(|earlier| at < earlier) {
            it.wake_at = Some(at);
            self.core.push(at, SimEvent::ClientWake { client });
        }
    }

    fn client_action(&mut self, client: usize, action: SessionAction<usize>) {
        match action {
            SessionAction::Open { link, server, .. } => self.open_link(client, link, &server),
            SessionAction::Drop { link } => self.drop_link(client, link),
            SessionAction::Complete { token, outcome } => self.client_call_ends(client, token, outcome),
            SessionAction::Status(status) => {
                self.core.trace_line(format_args!(
                    "c{client} is {:?} with session {:#x}",
                    status.state, status.session.id.0
                ));
                self.session_status(client, status.state, status.session.id);
            }
            SessionAction::Probe { server } => self.probe(client, &server),
            // No client of the simulator has a Kerberos login.
            SessionAction::Feed { feed, signal } => self.feed_signal(client, feed, signal),
            SessionAction::Notify { .. }
            | SessionAction::Authenticate { .. }
            | SessionAction::Log(_)
            | SessionAction::End => {}
        }
    }

    /// A session is connected, if this is the state.
    fn session_status(&mut self, client: usize, state: SessionState, session: SessionId) {
        if state == SessionState::Suspended {
            self.check_unnoticed(client, "a lost connection");
        }
        let mode = match state {
            SessionState::Connected | SessionState::Reconnected => ServerMode::ReadWrite,
            SessionState::ReadOnly => ServerMode::ReadOnly,
            _ => return,
        };
        let Some(link) = self.clients[client].link else { return };
        let before = self.core.checker.sessions.get(&session).map(|view| view.mode);
        let timeout_ms = self.clients[client].timeout_ms();
        self.core.checker.session_began((client, link.server), session, timeout_ms, mode);
        match mode {
            ServerMode::ReadWrite => {
                self.core.checker.quiet.connected(client, link.server, self.core.now);
                if self.core.checker.is_local(session) {
                    let is_new = state == SessionState::Connected;
                    self.core.count(if is_new {
                        CoveredPath::LocalSession
                    } else {
                        CoveredPath::LocalSessionResumed
                    });
                }
                if before == Some(ServerMode::ReadOnly) || self.clients[client].was_read_only {
                    self.core.count(CoveredPath::ReadOnlyLeft);
                }
                self.clients[client].was_read_only = false;
            }
            ServerMode::ReadOnly => {
                self.core.count(CoveredPath::ReadOnlySession);
                self.clients[client].was_read_only = true;
            }
        }
    }

    /// Checks what a client sees in a run whose only faults are drains.
    fn check_unnoticed(&mut self, client: usize, what: &str) {
        let is_only_fault = self.core.parameters.kinds.only_drains && self.phase == RunPhase::Safety;
        if is_only_fault && self.clients[client].can_move {
            self.core.checker.report(Err(noticed(client, what)));
        }
    }

    /// A client at a read-only server asks another server whether that accepts writes.
    fn probe(&mut self, client: usize, address: &ServerAddress) {
        let Some(server) = server_of(address) else { return };
        let (from, to) = (self.client_host(client), Host(server));
        if self.core.network.is_cut(from, to) || self.core.network.is_cut(to, from) {
            return;
        }
        let at = self.core.now + self.core.network.delay(from, to) + self.core.network.delay(to, from);
        let (number, port) = (self.clients[client].number, address.port);
        self.core.push(at, SimEvent::Probed { client, number, server, port });
    }

    /// The answer to a probe arrives.
    pub(super) fn probed(&mut self, client: usize, number: u64, server: usize, port: u16) {
        let process = self.servers[server].process();
        let accepts = process.is_some_and(|it| it.service == Service::Open && it.client_port() == port);
        let it = &mut self.clients[client];
        if it.number != number || self.servers[server].paused_until > self.core.now {
            return;
        }
        let instant = it.instant(self.core.now);
        it.session.probed(instant, address_of(server, port), accepts);
        self.drive(client);
    }

    fn client_call_ends(&mut self, client: usize, call: usize, outcome: zebu_client::core::CallOutcome) {
        let it = &mut self.clients[client];
        it.outstanding = it.outstanding.saturating_sub(1);
        // A closeSession has no call.
        if call == usize::MAX {
            return;
        }
        match outcome {
            Ok(answer) => {
                let operation = self.core.checker.calls[call].operation.clone();
                if let Operation::Feed(_) = &*operation {
                    self.feed_opened(client, Some(&answer));
                }
                self.core.trace_line(format_args!(
                    "c{client} call {call} is answered {} at {:#x}: {operation:?}",
                    answer.code, answer.zxid
                ));
                self.core.mix(answer.zxid as u64 ^ answer.code as u64);
                self.core.mix_bytes(&answer.body);
                self.core.checker.answered(call, &answer);
                self.count_answer(call, answer.code);
                if let Operation::Read { read: ReadOperation::Listing(listing), .. } = &*operation
                    && answer.code == 0
                {
                    self.clients[client].next_page = listing.next(&answer.body);
                }
                if answer.code == 0 && is_about_list(&operation) {
                    self.clients[client].learn_list(&answer.body);
                }
                if let Operation::Write(WriteOperation::Create { mode, .. }) = &*operation
                    && answer.code == 0
                    && mode.is_sequential()
                    && let Ok(path) = Box::<str>::decode(&mut Reader::new(&answer.body))
                {
                    self.clients[client].learn(&path);
                }
            }
            Err(failure) => {
                self.core.trace_line(format_args!(
                    "c{client} call {call} fails: {}, {:?}",
                    failure.cause, failure.delivery
                ));
                self.check_unnoticed(client, "a failed call");
                if let Operation::Feed(_) = &*self.core.checker.calls[call].operation {
                    self.feed_opened(client, None);
                }
                self.clients[client].waiting.retain(|it| *it != call);
                self.core.checker.failed(call);
            }
        }
    }

    fn count_answer(&mut self, call: usize, code: i32) {
        let it = &self.core.checker.calls[call];
        let Some(sent) = it.sent else { return };
        if self.core.checker.mode_of(sent.session) == ServerMode::ReadOnly {
            let is_refused = code == ErrorCode::NotReadOnly.wire();
            self.core.count(if is_refused {
                CoveredPath::ReadOnlyRefusal
            } else {
                CoveredPath::ReadOnlyRead
            });
        }
        if code == ErrorCode::EphemeralOnLocalSession.wire() {
            self.core.count(CoveredPath::LocalSessionRefused);
        }
    }

    fn write_client(&mut self, client: usize) {
        let now = self.core.now;
        let it = &mut self.clients[client];
        let Some(link) = it.link else { return };
        if !it.session.wants_write() {
            return;
        }
        let mut bytes = Vec::new();
        let instant = it.instant(now);
        it.session.poll_write(instant, &mut bytes);
        if bytes.is_empty() {
            return;
        }
        let session = it.session.status().session.id;
        for requested in it.wire.leaving(&bytes) {
            match requested {
                SentFrame::Call { xid } => {
                    if let Some(call) = it.waiting.pop_front() {
                        self.core.checker.sent(call, session, xid);
                    }
                }
                SentFrame::Rewatch { xid, set } => {
                    self.core.trace_line(format_args!("c{client} watches again: {set:?}"));
                    self.core.checker.resending_watches(client, xid, set);
                }
                SentFrame::Close => self.core.checker.session_closing(session),
                SentFrame::Connect | SentFrame::Own => {}
            }
        }
        self.core.network.send(
            link.connection,
            SocketSide::Dialer,
            NetworkMessage::Bytes(bytes),
            now,
            &mut self.core.queue,
        );
    }

    /// Checks the leases of all clients.
    pub(super) fn check_leases(&mut self) {
        for client in 0..self.clients.len() {
            let it = &self.clients[client];
            // A suspended client does not use its lease.
            if it.clocks.suspended_until(self.core.now).is_some() {
                continue;
            }
            let (session, left) = (it.session.status().session.id, it.lease_left(self.core.now));
            let verdict = session_lease::check_lease(&self.core.checker, session, left);
            self.core.checker.report(verdict);
        }
    }

    pub(super) fn client_receives(&mut self, client: usize, connection: SocketId, message: NetworkMessage) {
        let NetworkMessage::Bytes(bytes) = message else { return };
        let it = &mut self.clients[client];
        if it.link.is_none_or(|link| link.connection != connection) {
            return;
        }
        it.wire.came(&bytes);
        loop {
            let it = &mut self.clients[client];
            let Some(link) = it.link.filter(|link| link.connection == connection) else { break };
            let Some((frame, received)) = it.wire.next() else { break };
            let session = it.session.status().session.id;
            let event = match &received {
                ReceivedFrame::Frame(frame) if matches!(frame.kind, FrameKind::Event { .. }) => {
                    ClientNotice::Event
                }
                _ => ClientNotice::Reply,
            };
            match received {
                ReceivedFrame::Push => {
                    let verdict = check_push(client, it.wire.understands(&frame));
                    self.core.checker.report(verdict);
                }
                ReceivedFrame::Frame(frame) => {
                    it.can_move |= it.wire.is_hello_answer(&frame);
                    self.core.checker.quiet.heard(client, self.core.now);
                    if event == ClientNotice::Event {
                        self.core.trace_line(format_args!(
                            "c{client} hears {:?} at {:#x}",
                            frame.kind, frame.zxid
                        ));
                    }
                    self.core.checker.frame(client, session, &frame);
                }
                ReceivedFrame::Greeting => self.core.checker.quiet.heard(client, self.core.now),
                ReceivedFrame::Garbage => {
                    let text = format!("client {client} received {frame:?}");
                    let violation = crate::history::Violation::new("wire", text);
                    self.core.checker.report(Err(violation));
                }
            }
            let it = &mut self.clients[client];
            let instant = it.instant(self.core.now);
            it.session.received(instant, link.link, &frame);
            self.drive(client);
            if self.is_restless(client, event) {
                self.core.trace_line(format_args!("c{client} goes elsewhere"));
                self.move_client(client);
            }
        }
    }

    /// Whether a client moves to another server now: most likely when it has just received a watch event.
    fn is_restless(&mut self, client: usize, event: ClientNotice) -> bool {
        let permille = self.core.parameters.workload.restless_permille;
        let it = &mut self.clients[client];
        let chance = match event {
            ClientNotice::Event => permille,
            ClientNotice::Reply => permille / 10,
        };
        it.activity == ClientActivity::Busy && it.random.permille(chance)
    }

    /// A client drops its connection, to move to another server.
    pub(super) fn move_client(&mut self, client: usize) {
        let now = self.core.now;
        let it = &mut self.clients[client];
        if let Some(link) = it.link.take() {
            let instant = it.instant(now);
            self.core.network.close(link.connection, SocketSide::Dialer, now, &mut self.core.queue);
            self.clients[client].session.lost(instant, link.link, "moves");
            self.core.checker.disconnected(client);
            self.drive(client);
        }
    }

    pub(super) fn client_loses(&mut self, client: usize, connection: SocketId) {
        let it = &mut self.clients[client];
        if let Some(spare) = it.spare.take_if(|spare| spare.connection == connection) {
            let instant = it.instant(self.core.now);
            it.session.lost(instant, spare.link, "closed");
            return self.drive(client);
        }
        let Some(link) = it.link.take_if(|link| link.connection == connection) else { return };
        let instant = it.instant(self.core.now);
        it.session.lost(instant, link.link, "closed");
        self.core.checker.disconnected(client);
        self.drive(client);
    }

    pub(super) fn wake_client(&mut self, client: usize) {
        let now = self.core.now;
        let it = &mut self.clients[client];
        if it.wake_at.is_none_or(|at| at > now) {
            return;
        }
        if it.stalled_until > now {
            it.wake_at = Some(it.stalled_until);
            return self.core.push(it.stalled_until, SimEvent::ClientWake { client });
        }
        it.wake_at = None;
        let instant = it.instant(now);
        it.session.tick(instant);
        self.drive(client);
    }

    /// Makes the next calls of a client, and schedules the ones after them.
    pub(super) fn client_acts(&mut self, client: usize) {
        let now = self.core.now;
        let shape = &self.core.parameters;
        let it = &mut self.clients[client];
        if it.activity == ClientActivity::Idle {
            return;
        }
        let at = (now + pause(&mut it.random, &shape.workload)).max(it.stalled_until);
        self.core.push(at, SimEvent::ClientActs { client });
        let it = &mut self.clients[client];
        if it.stalled_until > now {
            return;
        }
        let room = self.core.parameters.workload.pipeline.saturating_sub(it.outstanding);
        if room == 0 {
            return;
        }
        let count = it.random.between(1, room as u64).min(it.budget);
        it.budget -= count;
        self.open_feed(client);
        for _ in 0..count {
            let operation = self.draw_call(client);
            self.call(client, operation);
        }
        self.drive(client);
    }

    fn draw_call(&mut self, client: usize) -> Operation {
        if client < self.core.parameters.syncing_clients {
            return Operation::Sync(NodePath::from(SYNCED));
        }
        let about_members = self.draw_about_members(client);
        let recent = Zxid(self.core.checker.acked);
        about_members.unwrap_or_else(|| self.clients[client].draw(&self.core.parameters.workload, recent))
    }

    /// Makes a call.
    pub(super) fn call(&mut self, client: usize, operation: Operation) -> usize {
        let mut body = Vec::new();
        operation.encode(&mut body);
        let op: OpCode = operation.op_code();
        let watched = operation.watch().map(|(intent, path)| (intent, Box::<str>::from(&**path)));
        let it = &mut self.clients[client];
        let watch = watched.map(|(intent, path)| WatchRegistration { watcher: it.watcher(), intent, path });
        let call = self.core.checker.called(client, Rc::new(operation));
        let it = &mut self.clients[client];
        let (disconnects_seen, connection) = (it.session.disconnects(), None);
        let request = SessionRequest { op, body: body.into(), watch, disconnects_seen, connection };
        it.outstanding += 1;
        it.waiting.push_back(call);
        let instant = it.instant(self.core.now);
        it.session.submit(instant, request, call);
        call
    }

    /// The last calls of a client: one write and one read that have to succeed.
    pub(super) fn last_calls(&mut self, client: usize) -> [usize; 2] {
        debug_assert_eq!(self.phase, RunPhase::Liveness);
        let path: NodePath = format!("/last{client}").into();
        let write = Operation::Write(WriteOperation::Create {
            path,
            data: std::sync::Arc::from(*b"last"),
            mode: zebu_proto::client::CreateMode::PersistentSequential,
            op: zebu_proto::client::CreateOp::Create,
            permissions: zebu_proto::Permissions::ALL,
        });
        let first = self.call(client, write);
        let root = NodePath::from("/");
        let read = crate::operation::ReadOperation::ChildrenAndStat(root);
        let second = self.call(client, Operation::plain_read(read, false));
        self.drive(client);
        [first, second]
    }
}

fn is_about_list(operation: &Operation) -> bool {
    match operation {
        Operation::Reconfig { .. } => true,
        Operation::Read { read: ReadOperation::Get(path), .. } => &**path == CONFIG,
        _ => false,
    }
}
