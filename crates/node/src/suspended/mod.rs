//! A server that has lost its leader, or led itself, and keeps its client connections until the next leader
//! is found. Reads are answered from the tree, which only grows by committed transactions. Writes, syncs,
//! reads that wait for a fresh state, and connect requests wait.
//!
//! The connections of sessions continue only under the leader of the very next epoch. Then every move of
//! their sessions is in the log, or known to that leader. `docs/reliability.md` has the argument. A connect
//! request has shown nothing to its client, so any leader may answer it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zebu_proto::SessionId;
use zebu_proto::client::ConnectRequest;
use zebu_proto::txn::TxnEntry;
use zebu_tree::TxnOutcome;
use zebu_zab::ServingRole;

use crate::connection::{
    ClientConnection, ConnectionId, ConnectionPhase, Connections, DisconnectReason, ServingTerm,
};
use crate::consensus::RequestOrigin;
use crate::context::ServeContext;
use crate::core::NodeState;
use crate::learner::{KeptClients, LearnerRole};
use crate::receive::SubmittedRequest;
use crate::settings::NodeSettings;

/// The share of a session timeout for which a connection is kept at most.
const TIMEOUT_SHARE: i64 = 4;

/// The role of a server between two leaders.
#[derive(Debug)]
pub(crate) struct SuspendedRole {
    /// The end of the grace, in monotonic milliseconds.
    until_ms: i64,
    /// The sessions and unanswered requests of the ended role; `None` once their connections are closed.
    clients: Option<SuspendedClients>,
    /// Kept connections by the time at which they are closed, in monotonic milliseconds.
    deadlines: BTreeMap<i64, Vec<ConnectionId>>,
}

#[derive(Debug)]
struct SuspendedClients {
    /// The role that has ended.
    learner: Box<LearnerRole>,
    /// Requests that the ended role has not sent. The permits of requests and the slots of connections bound
    /// them.
    waiting: VecDeque<SubmittedRequest>,
}

impl SuspendedRole {
    /// Keeps the connections of a role that has ended, and closes those that cannot be kept. `served` has the
    /// connections of the role, and keeps those that stay.
    pub(crate) fn new(
        mut learner: Box<LearnerRole>,
        waiting: VecDeque<SubmittedRequest>,
        served: &mut BTreeSet<ConnectionId>,
        state: &mut NodeState,
        context: &mut ServeContext<'_, impl Connections>,
    ) -> SuspendedRole {
        learner.suspend(state, context.connections);
        let settings = &state.settings;
        let now_ms = context.now.monotonic_ms;
        let mut deadlines: BTreeMap<i64, Vec<ConnectionId>> = BTreeMap::new();
        served.retain(|&id| {
            let kept_ms = context.connections.with(id, |connection| {
                let session = connection.session.filter(|session| learner.is_served_by(session.id, id));
                match (connection.phase, session) {
                    // A closed session still receives its last reply.
                    (ConnectionPhase::Draining, _) if connection.queued_requests() == 0 => None,
                    (ConnectionPhase::Serving | ConnectionPhase::Draining, Some(session)) => {
                        Some(kept_ms(settings, session.timeout_ms))
                    }
                    (ConnectionPhase::Handshake, _) if connection.unanswered_connect().is_some() => {
                        connection
                            .unanswered_connect()
                            .map(|request| kept_ms(settings, timeout_of(settings, request)))
                    }
                    (
                        ConnectionPhase::Serving | ConnectionPhase::Draining | ConnectionPhase::Handshake,
                        _,
                    ) => {
                        connection.close(DisconnectReason::NotServing);
                        None
                    }
                    (ConnectionPhase::Closed(_), _) => None,
                }
            });
            let Some(Some(kept_ms)) = kept_ms else { return false };
            deadlines.entry(now_ms + kept_ms).or_default().push(id);
            state.metrics.connections_kept.increment();
            true
        });
        let until_ms = now_ms + settings.election_grace_ms;
        let clients = Some(SuspendedClients { learner, waiting });
        SuspendedRole { until_ms, clients, deadlines }
    }

    /// Whether no connection is kept.
    pub(crate) fn is_idle(&self) -> bool {
        self.deadlines.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        let first_ms = self.deadlines.keys().next().copied().unwrap_or(self.until_ms);
        let local_ms = self.clients.as_ref().map_or(i64::MAX, |clients| clients.learner.next_deadline());
        first_ms.min(local_ms)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.clients.as_ref().map_or(0, |clients| clients.learner.in_flight())
    }

    /// Closes the connections whose time is over, and expires local sessions. Returns whether the grace is
    /// over.
    pub(crate) fn tick(
        &mut self,
        served: &mut BTreeSet<ConnectionId>,
        context: &mut ServeContext<'_, impl Connections>,
    ) -> bool {
        while let Some(due) =
            self.deadlines.first_entry().filter(|due| *due.key() <= context.now.monotonic_ms)
        {
            for connection in due.remove() {
                context.close(connection, DisconnectReason::NotServing);
                served.remove(&connection);
            }
        }
        if let Some(SuspendedClients { learner, .. }) = &mut self.clients {
            learner.tick(context);
        }
        self.until_ms <= context.now.monotonic_ms
    }

    pub(crate) fn detach(&mut self, session: SessionId, connection: ConnectionId, touched_ms: i64) {
        if let Some(SuspendedClients { learner, .. }) = &mut self.clients {
            learner.detach(session, connection, touched_ms);
        }
    }

    /// A connect request waits for the next leader, at most until the end of the grace.
    pub(crate) fn hold_connect(
        &mut self,
        connection: ConnectionId,
        request: &ConnectRequest,
        settings: &NodeSettings,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        context.connections.with(connection, |connection| connection.hold_connect(request));
        let own_ms = context.now.monotonic_ms + kept_ms(settings, timeout_of(settings, request));
        self.deadlines.entry(own_ms.min(self.until_ms)).or_default().push(connection);
    }

    /// A request waits for the next leader.
    pub(crate) fn handle_request(&mut self, state: &mut NodeState, submitted: SubmittedRequest) {
        match &mut self.clients {
            Some(SuspendedClients { learner, waiting })
                if learner.is_served_by(submitted.session, submitted.connection) =>
            {
                waiting.push_back(submitted);
            }
            Some(_) | None => state.drop_request(&submitted.pending()),
        }
    }

    /// A committed transaction is applied. It may answer a request that the ended leader got.
    pub(crate) fn on_applied(
        &mut self,
        state: &mut NodeState,
        entry: &TxnEntry,
        outcome: &TxnOutcome,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let Some(SuspendedClients { learner, .. }) = &mut self.clients else { return };
        learner.complete_syncs_before(state, entry, context);
        learner.on_applied(state, entry, outcome, context);
    }

    /// Whether the connections of sessions may continue in a role: no epoch lies between it and the ended
    /// one. In the same epoch, the leader may still hold the requests that would be sent again.
    pub(crate) fn may_continue_in(&self, serving: ServingRole) -> bool {
        self.clients
            .as_ref()
            .is_some_and(|clients| clients.learner.epoch().checked_add(1) == Some(serving.epoch()))
    }

    /// Returns the clients for the next role. Each kept connection gets its serving term. Requests of
    /// connections that were closed meanwhile are dropped.
    pub(crate) fn into_kept(
        self,
        serving_term: ServingTerm,
        state: &mut NodeState,
        connections: &mut impl Connections,
    ) -> KeptClients {
        let mut kept = KeptClients::default();
        if let Some(SuspendedClients { learner, waiting }) = self.clients {
            kept = learner.into_kept(state, connections);
            let unanswered = kept.requests.len();
            state.metrics.requests_repeated.add(unanswered as u64);
            kept.requests.extend(waiting);
            kept.requests.sort_by_key(|request| (request.connection, request.slot));
        }
        let mut open = BTreeSet::new();
        for id in self.deadlines.into_values().flatten() {
            let is_open = connections.with(id, |connection| {
                if connection.unanswered_connect().is_some() {
                    kept.connects.push(id);
                }
                continue_in(connection, serving_term)
            });
            if is_open == Some(true) {
                open.insert(id);
            }
        }
        state.metrics.connections_continued.add(open.len() as u64);
        kept.sessions.retain(|(_, connection)| open.contains(connection));
        kept.requests.retain(|request| {
            let is_open = open.contains(&request.connection);
            if !is_open {
                state.drop_request(&request.pending());
            }
            is_open
        });
        kept
    }

    /// Closes the connections of sessions. Connect requests go on waiting. `served` keeps their connections.
    pub(crate) fn close_sessions(
        &mut self,
        served: &mut BTreeSet<ConnectionId>,
        state: &mut NodeState,
        connections: &mut impl Connections,
    ) {
        let Some(SuspendedClients { learner, waiting }) = self.clients.take() else { return };
        self.deadlines.retain(|_, due| {
            due.retain(|&id| {
                let waits = connections.with(id, |connection| {
                    let waits = connection.unanswered_connect().is_some();
                    if !waits {
                        connection.close(DisconnectReason::NotServing);
                    }
                    waits
                });
                if waits != Some(true) {
                    served.remove(&id);
                }
                waits == Some(true)
            });
            !due.is_empty()
        });
        for submitted in waiting {
            state.abort_request(RequestOrigin::Request(submitted.pending()), connections);
        }
        learner.abort(state, connections);
    }

    /// Closes all connections, as at the end of a role without grace.
    pub(crate) fn abort(
        mut self,
        served: &mut BTreeSet<ConnectionId>,
        state: &mut NodeState,
        connections: &mut impl Connections,
    ) {
        self.close_sessions(served, state, connections);
        for connection in self.deadlines.into_values().flatten() {
            connections.with(connection, |connection| connection.close(DisconnectReason::NotServing));
            served.remove(&connection);
        }
    }
}

/// Milliseconds for which a connection with this session timeout is kept.
fn kept_ms(settings: &NodeSettings, timeout_ms: i32) -> i64 {
    settings.election_grace_ms.min(i64::from(timeout_ms) / TIMEOUT_SHARE)
}

/// The session timeout that a connect request would get.
fn timeout_of(settings: &NodeSettings, request: &ConnectRequest) -> i32 {
    request.timeout_ms.clamp(settings.session_timeout_ms_min, settings.session_timeout_ms_max)
}

/// Continues an open connection in another serving term. Returns whether it is open.
fn continue_in(connection: &mut ClientConnection, serving_term: ServingTerm) -> bool {
    match connection.phase {
        ConnectionPhase::Serving | ConnectionPhase::Draining => {
            connection.serving_term = serving_term;
            true
        }
        ConnectionPhase::Handshake | ConnectionPhase::Closed(_) => false,
    }
}
