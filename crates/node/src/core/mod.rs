//! The core: prepares writes into transactions or forwards them to the leader, hands transactions to the log,
//! and applies them when they are committed.
//!
//! It never blocks, and fails only when the server must stop. The caller holds the replica exclusively for
//! [`Node::commit`], and shared for all other functions.

mod batch;
mod commit;
mod digest_monitor;
mod drain;
mod error;
mod hand_over;
mod reply;
mod role;
mod state;
mod suspend;

pub(crate) use batch::BatchBuilder;
pub use batch::{AfterAppend, LogBatch};
pub(crate) use digest_monitor::{DigestMonitor, DigestVerdict};
pub(crate) use drain::Drain;
pub use error::CommitError;
pub(crate) use reply::{AppliedTxn, reply_to_sync, reply_to_write};
pub(crate) use role::NodeRole;
pub(crate) use state::NodeState;

use zebu_proto::client::ConnectRequest;
use zebu_proto::{ErrorCode, SessionId, Zxid};
use zebu_zab::{Peer, PeerSettings, PeerStatus, RecoveredHistory};

use crate::audit::{AuditEvent, WriteAdmission};
use crate::clock::Now;
use crate::connect::AdmittedConnect;
use crate::connection::{ConnectionId, Connections, DisconnectReason};
use crate::consensus::{Consensus, ConsensusPeer, EnsembleMember, Standalone};
use crate::context::ServeContext;
use crate::ensemble::Effect;
use crate::notice::OperatorNotice;
use crate::pending_request::AnsweredRequests;
use crate::primary::Primary;
use crate::receive::{RequestKind, SubmittedRequest};
use crate::replica::Replica;
use crate::session::TrackerReport;
use crate::settings::{LeaderClients, NodeSettings};

/// An event of a client connection.
#[derive(Debug)]
pub enum ClientEvent {
    /// A connection sent its connect request.
    Connect {
        /// The connection.
        connection: ConnectionId,
        /// The connect request.
        request: ConnectRequest,
    },
    /// A connection sent a write, or a sync to an ensemble member.
    Request(SubmittedRequest),
    /// A connection is closed. Each connection has one such event; its session does not expire before it.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
        /// The session of the connection, if it had one.
        session: Option<SessionId>,
        /// Time of the client's last request, in monotonic milliseconds.
        touched_ms: i64,
    },
}

/// The state machine of a server.
#[derive(Debug)]
pub struct Node {
    pub(crate) state: NodeState,
    pub(crate) role: NodeRole,
}

impl Node {
    /// Creates a standalone server from a loaded replica. Its sessions get a full timeout from now.
    pub fn new(settings: NodeSettings, replica: &Replica, now: Now) -> Node {
        let consensus = Consensus::Standalone(Standalone::new(replica.last_zxid()));
        let state = NodeState::new(settings, consensus, replica, now);
        let role = NodeRole::Primary(Box::new(Primary::new(&state, None, replica, now)));
        Node { state, role }
    }

    /// Creates an ensemble member, which looks for a leader. The replica matches the log.
    pub fn ensemble_member(
        settings: NodeSettings,
        peer: PeerSettings,
        recovered: RecoveredHistory,
        replica: &Replica,
        now: Now,
    ) -> Node {
        assert_eq!(replica.last_zxid(), recovered.last, "the state of a member is that of its log");
        let mut actions = Vec::new();
        let peer = Peer::new(peer, recovered, now.monotonic_ms, &mut actions);
        let member = EnsembleMember::new(Box::new(peer), actions);
        Node::from_member(settings, member, replica, now)
    }

    /// Creates an ensemble member with another peer, for tests that script the ensemble.
    pub fn with_peer(
        settings: NodeSettings,
        peer: Box<dyn ConsensusPeer>,
        replica: &Replica,
        now: Now,
    ) -> Node {
        Node::from_member(settings, EnsembleMember::new(peer, Vec::new()), replica, now)
    }

    fn from_member(settings: NodeSettings, member: EnsembleMember, replica: &Replica, now: Now) -> Node {
        let state = NodeState::new(settings, Consensus::Member(Box::new(member)), replica, now);
        let mut node = Node { state, role: NodeRole::NotServing };
        let mut context = ServeContext { replica, connections: &mut NoConnections, now };
        node.process_effects(&mut context);
        node
    }

    /// Handles an event. [`Node::take_effects`] returns its effects.
    pub fn handle(&mut self, event: ClientEvent, context: &mut ServeContext<'_, impl Connections>) {
        match event {
            ClientEvent::Connect { connection, request } => {
                self.handle_connect(connection, &request, context)
            }
            ClientEvent::Request(submitted) => self.handle_request(submitted, context),
            ClientEvent::Disconnected { connection, session, touched_ms } => {
                self.disconnect_fences(connection);
                if let Some(drain) = &mut self.state.drain {
                    drain.left(connection, &self.state.metrics);
                }
                if let Some(member) = self.state.member_mut() {
                    member.connections.remove(&connection);
                }
                match (&mut self.role, session) {
                    (NodeRole::Primary(primary), Some(session)) => {
                        primary.detach(session, connection, touched_ms)
                    }
                    (NodeRole::Learner(learner), Some(session)) => {
                        learner.detach(session, connection, touched_ms)
                    }
                    (NodeRole::ReadOnly(read_only), Some(session)) => {
                        read_only.detach(session, connection, touched_ms)
                    }
                    (NodeRole::Suspended(suspended), Some(session)) => {
                        suspended.detach(session, connection, touched_ms)
                    }
                    (NodeRole::NotServing, _) | (_, None) => {}
                }
            }
        }
        self.process_effects(context);
    }

    /// Handles an event of the ensemble or of the disk. A standalone server has only the room on its disk.
    pub fn handle_peer(
        &mut self,
        event: zebu_zab::PeerEvent,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if let zebu_zab::PeerEvent::DiskRoom { room } = event {
            self.state.record_disk_room(room);
        }
        if let Some(member) = self.state.member_mut() {
            member.peer.handle(event, context.now.monotonic_ms, &mut member.pending_actions);
            self.process_effects(context);
        }
    }

    /// Records that the log of a standalone server is durable up to this transaction.
    pub fn log_persisted(&mut self, last: Zxid) {
        if let Consensus::Standalone(standalone) = &mut self.state.consensus {
            standalone.persisted = last;
        }
    }

    /// Handles deadlines: elections and pings, read-only mode, then session expiry, empty containers and
    /// expired TTL nodes.
    pub fn tick(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        if let Some(member) = self.state.member_mut()
            && member.peer.next_deadline() <= context.now.monotonic_ms
        {
            // This runs first: a leader that lost its learners must not expire the sessions of their clients.
            member.peer.timeout(context.now.monotonic_ms, &mut member.pending_actions);
            self.process_effects(context);
        }
        self.answer_kept_connects(context);
        self.enter_read_only_if_due(context);
        self.expire_fences(context);
        self.tick_drain(context);
        self.start_read_checks(context);
        match &mut self.role {
            NodeRole::Primary(primary) => primary.tick(&mut self.state, context),
            NodeRole::Learner(learner) => learner.tick(context),
            NodeRole::ReadOnly(read_only) => read_only.tick(context),
            NodeRole::Suspended(_) => self.tick_suspended(context),
            NodeRole::NotServing => return,
        }
        self.process_effects(context);
    }

    /// The next deadline of [`Node::tick`], in monotonic milliseconds.
    pub fn next_deadline(&self) -> i64 {
        let role = match &self.role {
            NodeRole::Primary(primary) => primary.next_deadline(),
            NodeRole::ReadOnly(read_only) => read_only.next_deadline(),
            NodeRole::Learner(learner) => learner.next_deadline(),
            NodeRole::Suspended(suspended) => suspended.next_deadline(),
            NodeRole::NotServing => i64::MAX,
        };
        let role = role
            .min(self.read_only_deadline())
            .min(self.state.fences.next_deadline())
            .min(self.drain_deadline())
            .min(self.kept_connects_deadline());
        match &self.state.consensus {
            Consensus::Standalone(_) => role,
            Consensus::Member(member) => role.min(member.peer.next_deadline()),
        }
    }

    /// Moves the effects since the last call into `effects`, in order.
    pub fn take_effects(&mut self, effects: &mut Vec<Effect>) {
        self.state.prep_queue_times.flush(&self.state.metrics.prep_queue_time);
        let allows_snapshot = self.allows_snapshot();
        let NodeState { consensus, batch, random, .. } = &mut self.state;
        match consensus {
            Consensus::Standalone(_) => {
                let batch = batch.take(random, allows_snapshot);
                effects.extend(batch.map(|batch| Effect::Append { io: None, batch }));
            }
            Consensus::Member(member) => {
                member.effects.flush(batch, random, allows_snapshot);
                member.effects.take(effects);
            }
        }
    }

    /// The client requests that were answered or dropped since the last call.
    pub fn take_completed(&mut self) -> AnsweredRequests {
        std::mem::take(&mut self.state.completed_requests)
    }

    /// Transactions that were requested here and are not applied yet.
    pub fn in_flight(&self) -> usize {
        let requested = match &self.role {
            NodeRole::Primary(primary) => primary.in_flight(),
            NodeRole::Learner(learner) => learner.in_flight(),
            NodeRole::Suspended(suspended) => suspended.in_flight(),
            NodeRole::ReadOnly(_) | NodeRole::NotServing => 0,
        };
        match &self.state.consensus {
            Consensus::Standalone(_) => requested,
            Consensus::Member(member) => requested + member.unapplied_txns(),
        }
    }

    /// Sessions by deadline, for the `dump` command. Only a primary or a read-only server has deadlines: a
    /// learner shows the sessions of its tree.
    pub fn session_report(&self) -> TrackerReport {
        match &self.role {
            NodeRole::Primary(primary) => primary.session_report(),
            NodeRole::ReadOnly(read_only) => read_only.session_report(),
            NodeRole::Learner(_) | NodeRole::Suspended(_) | NodeRole::NotServing => TrackerReport::default(),
        }
    }

    /// Local sessions by deadline; `None` if this server has none in its current role.
    pub fn local_session_report(&self) -> Option<TrackerReport> {
        match &self.role {
            NodeRole::Primary(primary) => primary.local_session_report(),
            NodeRole::Learner(learner) => learner.local_session_report(),
            NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => None,
        }
    }

    /// Probability with which a new session is dropped, for monitoring.
    pub fn drop_probability(&self) -> f64 {
        self.state.throttle.drop_probability()
    }

    /// The status of an ensemble member; `None` for a standalone server.
    pub fn status(&self) -> Option<PeerStatus> {
        match &self.state.consensus {
            Consensus::Standalone(_) => None,
            Consensus::Member(member) => Some(member.peer.status()),
        }
    }

    /// Committed transactions whose digest did not match the tree after they were applied.
    pub fn digest_mismatches(&self) -> u64 {
        self.state.digest_monitor.mismatches()
    }

    /// Whether an ensemble member is without a role; `None` for a standalone server.
    pub fn is_looking(&self) -> Option<bool> {
        self.state.member().map(|member| member.peer.is_looking())
    }

    /// Whether this server forwards writes to a leader.
    pub fn is_learner(&self) -> bool {
        matches!(self.role, NodeRole::Learner(_))
    }

    /// Whether this primary accepts requests that make the tree larger. Other roles leave it to the leader.
    pub fn has_room_to_grow(&self) -> bool {
        !matches!(&self.role, NodeRole::Primary(_)) || self.state.has_room_to_grow()
    }

    /// Syncs of a leader's clients and learners that wait for their transactions.
    pub fn pending_syncs(&self) -> usize {
        match &self.role {
            NodeRole::Primary(primary) => primary.pending_syncs(),
            NodeRole::Learner(_) | NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => 0,
        }
    }

    /// The notices for the operator since the last call.
    pub fn take_notices(&mut self) -> Vec<OperatorNotice> {
        self.state.notices.take()
    }

    /// Begins the audit trail, which [`Node::take_audit_events`] empties.
    pub fn enable_audit(&mut self) {
        self.state.audit = Some(Box::default());
    }

    /// Refuses writes of clients, or accepts them again, because of the state of the audit log.
    pub fn refuse_unaudited_writes(&mut self, refuse: bool) {
        if let Some(audit) = &mut self.state.audit {
            audit.admission = if refuse { WriteAdmission::Refused } else { WriteAdmission::Accepted };
        }
    }

    /// Requests whose audit line waits for their transaction.
    pub fn unaudited_requests(&self) -> usize {
        self.state.audit.as_ref().map_or(0, |audit| audit.pending_count())
    }

    /// Moves the audit events since the last call into `events`.
    pub fn take_audit_events(&mut self, events: &mut Vec<AuditEvent>) {
        if let Some(audit) = &mut self.state.audit {
            audit.take(events);
        }
    }

    /// Whether this leader takes no more writes because it hands over leadership.
    pub fn is_resigning(&self) -> bool {
        matches!(&self.role, NodeRole::Primary(_)) && !self.state.can_confirm_sessions()
    }

    /// Whether the resignation is complete.
    pub fn has_resigned(&self) -> bool {
        match &self.state.consensus {
            Consensus::Standalone(_) => true,
            Consensus::Member(member) => member.peer.has_resigned(),
        }
    }

    pub(crate) fn handle_connect(
        &mut self,
        connection: ConnectionId,
        request: &ConnectRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if self.is_draining() {
            context.close(connection, DisconnectReason::Drained);
            return;
        }
        if self.holds_connects() {
            return self.hold_connect(connection, request, context);
        }
        if !self.accepts_clients() {
            context.close(connection, DisconnectReason::NotServing);
            return;
        }
        // A zxid of an earlier epoch is contained in the state, or was never committed. A read-only server
        // may have shown the latter; until the next write no server would accept the client.
        let contained = context.replica.last_zxid().max(self.role.epoch_start().unwrap_or(Zxid::ZERO));
        let timeout_ms = match self.state.admit(request, contained, context.now) {
            Ok(timeout_ms) => timeout_ms,
            Err(reason) => {
                context.close(connection, reason);
                return;
            }
        };
        if let Some(member) = self.state.member_mut() {
            member.connections.insert(connection);
        }
        if self.state.keeps_clients() {
            context.connections.with(connection, |connection| connection.hold_connect(request));
        }
        let admitted = AdmittedConnect { connection, timeout_ms, request };
        match &mut self.role {
            NodeRole::Primary(primary) => {
                primary.handle_connect(&mut self.state, admitted, context);
            }
            NodeRole::Learner(learner) => {
                learner.handle_connect(&mut self.state, admitted, context);
            }
            NodeRole::ReadOnly(read_only) => {
                read_only.handle_connect(&mut self.state, admitted, context);
            }
            NodeRole::Suspended(_) | NodeRole::NotServing => {}
        }
    }

    /// Whether connect requests wait for the next leader.
    fn holds_connects(&self) -> bool {
        match &self.role {
            NodeRole::Primary(primary) => {
                primary.is_leader() && self.accepts_clients() && self.state.awaits_next_leader()
            }
            NodeRole::Suspended(_) => true,
            NodeRole::Learner(_) | NodeRole::ReadOnly(_) | NodeRole::NotServing => false,
        }
    }

    fn hold_connect(
        &mut self,
        connection: ConnectionId,
        request: &ConnectRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if let NodeRole::Suspended(suspended) = &mut self.role {
            suspended.hold_connect(connection, request, &self.state.settings, context);
        } else {
            // The end of the role begins the grace.
            context.connections.with(connection, |connection| connection.hold_connect(request));
        }
        if let Some(member) = self.state.member_mut() {
            member.connections.insert(connection);
        }
    }

    fn accepts_clients(&self) -> bool {
        match &self.role {
            NodeRole::Primary(primary) => {
                !primary.is_leader() || self.state.settings.leader_clients == LeaderClients::Served
            }
            NodeRole::Learner(_) | NodeRole::ReadOnly(_) => true,
            NodeRole::Suspended(_) | NodeRole::NotServing => false,
        }
    }

    pub(crate) fn handle_request(
        &mut self,
        submitted: SubmittedRequest,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        if submitted.serving_term.term != self.state.term && !self.is_kept(submitted.connection) {
            // The serving term of the connection has ended, and the connection is closed.
            self.state.metrics.stale_requests.increment();
            self.state.completed_requests.add(submitted.charged_bytes);
            return;
        }
        if self.state.fences.must_hold(&submitted) {
            return self.state.fences.hold(submitted);
        }
        if let RequestKind::Fence(fence) = submitted.kind {
            return self.begin_fence(submitted, fence, context);
        }
        if let Some(audit) = &mut self.state.audit
            && audit.begin(&submitted) == WriteAdmission::Refused
        {
            // The audit log cannot be written, and nothing may change without it.
            self.state.reply_error(submitted.pending(), ErrorCode::NotReadOnly, context);
            return;
        }
        match &mut self.role {
            NodeRole::Primary(primary) => primary.handle_request(&mut self.state, submitted, context),
            NodeRole::Learner(learner) => learner.handle_request(&mut self.state, submitted, context),
            NodeRole::ReadOnly(read_only) => read_only.handle_request(&mut self.state, submitted, context),
            NodeRole::Suspended(suspended) => suspended.handle_request(&mut self.state, submitted),
            NodeRole::NotServing => self.state.drop_request(&submitted.pending()),
        }
    }
}

/// No client is connected before the start.
struct NoConnections;

impl Connections for NoConnections {
    fn with<R>(
        &mut self,
        _: ConnectionId,
        _: impl FnOnce(&mut crate::connection::ClientConnection) -> R,
    ) -> Option<R> {
        None
    }
}
