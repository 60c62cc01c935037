//! Clients of a run: their session machines, their sockets and their calls.

use std::rc::Rc;

use zebu_client::core::{Action, Request, SessionState, WatchRegistration};
use zebu_proto::{Jute, OpCode, Reader};

use super::{Phase, World};
use crate::check::{FrameKind, session_lease};
use crate::client::{Client, Link, Received, Requested, Wire, Zeal, pause, server_of};
use crate::members::CONFIG;
use crate::network::{ConnectionId, Host, Message, Port, Side};
use crate::operation::{Operation, Path, Read, Write};
use crate::queue::{Accepted, Event};

/// What a client has just heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Event,
    Reply,
}

impl World {
    pub(super) fn new_client(&mut self) -> Client {
        self.born += 1;
        let shape = &self.core.shape;
        Client::new(shape, self.born, self.core.now)
    }

    pub(super) fn client_host(&self, client: usize) -> Host {
        Host(self.servers.len() + client)
    }

    /// Does everything that the session machine wants done.
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
            self.core.push(at, Event::ClientWake { client });
        }
    }

    fn client_action(&mut self, client: usize, action: Action<usize>) {
        match action {
            Action::Open { link, server, .. } => {
                let port = server.port;
                let Some(server) = server_of(&server) else { return };
                let (from, now) = (self.client_host(client), self.core.now);
                let connection =
                    self.core.network.dial(from, Host(server), Port::Client, now, &mut self.core.queue);
                match port {
                    2181 => self.core.tell(format_args!("c{client} dials s{server}")),
                    port => self.core.tell(format_args!("c{client} dials s{server} at {port}")),
                }
                if self.servers[server].process().is_some_and(|process| process.client_port() != port) {
                    self.misdialed.insert(connection);
                }
                self.core.judge.dialed(client);
                let it = &mut self.clients[client];
                it.link = Some(Link { link, connection, server });
                it.wire = Wire::default();
            }
            Action::Drop { link } => {
                let now = self.core.now;
                if let Some(dropped) = self.clients[client].link.take_if(|it| it.link == link) {
                    self.core.network.close(dropped.connection, Side::Dialer, now, &mut self.core.queue);
                }
                self.core.judge.disconnected(client);
            }
            Action::Complete { ticket, outcome } => self.client_call_ends(client, ticket, outcome),
            Action::Status(status) => {
                self.core.tell(format_args!(
                    "c{client} is {:?} with session {:#x}",
                    status.state, status.session.id.0
                ));
                if matches!(status.state, SessionState::Connected | SessionState::Reconnected) {
                    let timeout_ms = self.clients[client].timeout_ms();
                    self.core.judge.session_began(client, status.session.id, timeout_ms);
                    if let Some(link) = self.clients[client].link {
                        self.core.judge.quiet.connected(client, link.server, self.core.now);
                    }
                }
            }
            Action::Notify { .. } | Action::Probe { .. } | Action::Note(_) | Action::End => {}
        }
    }

    fn client_call_ends(&mut self, client: usize, call: usize, outcome: zebu_client::core::Outcome) {
        let it = &mut self.clients[client];
        it.outstanding = it.outstanding.saturating_sub(1);
        // The end of a session has no call.
        if call == usize::MAX {
            return;
        }
        match outcome {
            Ok(answer) => {
                let operation = self.core.judge.calls[call].operation.clone();
                self.core.tell(format_args!(
                    "c{client} call {call} is answered {} at {:#x}: {operation:?}",
                    answer.code, answer.zxid
                ));
                self.core.mix(answer.zxid as u64 ^ answer.code as u64);
                self.core.mix_bytes(&answer.body);
                self.core.judge.answered(call, &answer);
                if answer.code == 0 && is_about_list(&operation) {
                    self.clients[client].learn_list(&answer.body);
                }
                if let Operation::Write(Write::Create { mode, .. }) = &*operation
                    && answer.code == 0
                    && mode.is_sequential()
                    && let Ok(path) = Box::<str>::decode(&mut Reader::new(&answer.body))
                {
                    self.clients[client].learn(&path);
                }
            }
            Err(failure) => {
                self.core.tell(format_args!(
                    "c{client} call {call} fails: {}, {:?}",
                    failure.cause, failure.delivery
                ));
                self.clients[client].waiting.retain(|it| *it != call);
                self.core.judge.failed(call);
            }
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
                Requested::Call { xid } => {
                    if let Some(call) = it.waiting.pop_front() {
                        self.core.judge.sent(call, session, xid);
                    }
                }
                Requested::Rewatch { xid, set } => {
                    self.core.tell(format_args!("c{client} watches again: {set:?}"));
                    self.core.judge.rewatching(client, xid, set);
                }
                Requested::Close => self.core.judge.session_closing(session),
                Requested::Connect | Requested::Own => {}
            }
        }
        self.core.network.send(
            link.connection,
            Side::Dialer,
            Message::Bytes(bytes),
            now,
            &mut self.core.queue,
        );
    }

    /// What clients believe of their sessions is true.
    pub(super) fn check_leases(&mut self) {
        for client in 0..self.clients.len() {
            let it = &self.clients[client];
            // A suspended client believes nothing.
            if it.clocks.suspended_until(self.core.now).is_some() {
                continue;
            }
            let (session, left) = (it.session.status().session.id, it.lease_left(self.core.now));
            let verdict = session_lease::check_lease(&self.core.judge, session, left);
            self.core.judge.note(verdict);
        }
    }

    pub(super) fn client_dialed(&mut self, connection: ConnectionId, accepted: Accepted) {
        let now = self.core.now;
        let found =
            self.clients.iter().position(|it| it.link.is_some_and(|link| link.connection == connection));
        let Some(client) = found else {
            // Nobody waits for it any more.
            return self.core.network.close(connection, Side::Dialer, now, &mut self.core.queue);
        };
        let it = &mut self.clients[client];
        let (instant, link) = (it.instant(now), it.link);
        if let Some(link) = link {
            match accepted {
                Accepted::Yes => it.session.opened(instant, link.link),
                Accepted::No => {
                    it.link = None;
                    it.session.lost(instant, link.link, "refused");
                }
            }
        }
        self.drive(client);
    }

    pub(super) fn client_receives(&mut self, client: usize, connection: ConnectionId, message: Message) {
        let Message::Bytes(bytes) = message else { return };
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
                Received::Frame(frame) if matches!(frame.kind, FrameKind::Event { .. }) => Told::Event,
                _ => Told::Reply,
            };
            match received {
                Received::Frame(frame) => {
                    self.core.judge.quiet.heard(client, self.core.now);
                    if event == Told::Event {
                        self.core.tell(format_args!("c{client} hears {:?} at {:#x}", frame.kind, frame.zxid));
                    }
                    self.core.judge.frame(client, session, &frame);
                }
                Received::Greeting => self.core.judge.quiet.heard(client, self.core.now),
                Received::Garbage => {
                    let text = format!("client {client} received {frame:?}");
                    let violation = crate::history::Violation::new("wire", text);
                    self.core.judge.note(Err(violation));
                }
            }
            let it = &mut self.clients[client];
            let instant = it.instant(self.core.now);
            it.session.received(instant, link.link, &frame);
            self.drive(client);
            if self.is_restless(client, event) {
                self.core.tell(format_args!("c{client} goes elsewhere"));
                self.move_client(client);
            }
        }
    }

    /// Whether a client goes to another server now: most likely when it has just been told of a change.
    fn is_restless(&mut self, client: usize, event: Told) -> bool {
        let permille = self.core.shape.workload.restless_permille;
        let it = &mut self.clients[client];
        let chance = match event {
            Told::Event => permille,
            Told::Reply => permille / 10,
        };
        it.zeal == Zeal::Busy && it.random.permille(chance)
    }

    /// A client breaks its connection, to go to another server.
    pub(super) fn move_client(&mut self, client: usize) {
        let now = self.core.now;
        let it = &mut self.clients[client];
        if let Some(link) = it.link.take() {
            let instant = it.instant(now);
            self.core.network.close(link.connection, Side::Dialer, now, &mut self.core.queue);
            self.clients[client].session.lost(instant, link.link, "moves");
            self.core.judge.disconnected(client);
            self.drive(client);
        }
    }

    pub(super) fn client_loses(&mut self, client: usize, connection: ConnectionId) {
        let it = &mut self.clients[client];
        let Some(link) = it.link.take_if(|link| link.connection == connection) else { return };
        let instant = it.instant(self.core.now);
        it.session.lost(instant, link.link, "closed");
        self.core.judge.disconnected(client);
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
            return self.core.push(it.stalled_until, Event::ClientWake { client });
        }
        it.wake_at = None;
        let instant = it.instant(now);
        it.session.tick(instant);
        self.drive(client);
    }

    /// The next calls of a client, and the moment of those behind them.
    pub(super) fn client_acts(&mut self, client: usize) {
        let now = self.core.now;
        let shape = &self.core.shape;
        let it = &mut self.clients[client];
        if it.zeal == Zeal::Idle {
            return;
        }
        let at = (now + pause(&mut it.random, &shape.workload)).max(it.stalled_until);
        self.core.push(at, Event::ClientActs { client });
        let it = &mut self.clients[client];
        if it.stalled_until > now {
            return;
        }
        let room = self.core.shape.workload.pipeline.saturating_sub(it.outstanding);
        if room == 0 {
            return;
        }
        let count = it.random.between(1, room as u64).min(it.budget);
        it.budget -= count;
        for _ in 0..count {
            let about_members = self.draw_about_members(client);
            let operation =
                about_members.unwrap_or_else(|| self.clients[client].draw(&self.core.shape.workload));
            self.call(client, operation);
        }
        self.drive(client);
    }

    /// Makes a call.
    pub(super) fn call(&mut self, client: usize, operation: Operation) -> usize {
        let mut body = Vec::new();
        operation.encode(&mut body);
        let op: OpCode = operation.op_code();
        let watched = operation.watch().map(|(intent, path)| (intent, Box::<str>::from(&**path)));
        let it = &mut self.clients[client];
        let watch = watched.map(|(intent, path)| WatchRegistration { watcher: it.watcher(), intent, path });
        let call = self.core.judge.called(client, Rc::new(operation));
        let it = &mut self.clients[client];
        let request = Request { op, body: body.into(), watch, losses_seen: it.session.losses() };
        it.outstanding += 1;
        it.waiting.push_back(call);
        let instant = it.instant(self.core.now);
        it.session.submit(instant, request, call);
        call
    }

    /// The last calls of a client: one write and one read that have to succeed.
    pub(super) fn last_calls(&mut self, client: usize) -> [usize; 2] {
        debug_assert_eq!(self.phase, Phase::Liveness);
        let path: Path = format!("/last{client}").into();
        let write = Operation::Write(Write::Create {
            path,
            data: std::sync::Arc::from(*b"last"),
            mode: zebu_proto::client::CreateMode::PersistentSequential,
            op: zebu_proto::client::CreateOp::Create,
            permissions: zebu_proto::Permissions::ALL,
        });
        let first = self.call(client, write);
        let root = Path::from("/");
        let read = crate::operation::Read::ChildrenAndStat(root);
        let second = self.call(client, Operation::Read { read, watch: false });
        self.drive(client);
        [first, second]
    }
}

fn is_about_list(operation: &Operation) -> bool {
    match operation {
        Operation::Reconfig { .. } => true,
        Operation::Read { read: Read::Get(path), .. } => &**path == CONFIG,
        _ => false,
    }
}
