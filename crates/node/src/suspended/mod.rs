//! A learner that has lost its leader and keeps its client connections until the next one is found. Reads
//! are answered from the tree, which only grows by committed transactions. Writes and syncs wait.
//!
//! The connections continue only under the leader of the very next epoch. Then every move of their sessions
//! is in the log, or known to that leader. `docs/reliability.md` has the argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zebu_proto::SessionId;
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

/// The share of a session timeout for which a connection is kept at most.
const TIMEOUT_SHARE: i64 = 4;

#[derive(Debug)]
pub(crate) struct SuspendedRole {
    /// The role that has ended, with its sessions and unanswered requests.
    learner: Box<LearnerRole>,
    /// Requests that arrived since. The permits of requests and the slots of connections bound them.
    waiting: VecDeque<SubmittedRequest>,
    /// Kept connections by the time at which they are closed, in monotonic milliseconds.
    deadlines: BTreeMap<i64, Vec<ConnectionId>>,
}

impl SuspendedRole {
    /// Keeps the connections of a role that has ended, and closes those that cannot be kept. `served` has the
    /// connections of the role, and keeps those that stay.
    pub(crate) fn new(
        mut learner: Box<LearnerRole>,
        served: &mut BTreeSet<ConnectionId>,
        state: &mut NodeState,
        context: &mut ServeContext<'_, impl Connections>,
    ) -> SuspendedRole {
        learner.suspend(state, context.connections);
        let grace_ms = state.settings.election_grace_ms;
        let now_ms = context.now.monotonic_ms;
        let mut deadlines: BTreeMap<i64, Vec<ConnectionId>> = BTreeMap::new();
        served.retain(|&id| {
            let kept_ms = context.connections.with(id, |connection| {
                let session = connection.session.filter(|session| learner.is_served_by(session.id, id));
                match (connection.phase, session) {
                    // A closed session still receives its last reply.
                    (ConnectionPhase::Draining, _) if connection.queued_requests() == 0 => None,
                    (ConnectionPhase::Serving | ConnectionPhase::Draining, Some(session)) => {
                        Some(grace_ms.min(i64::from(session.timeout_ms) / TIMEOUT_SHARE))
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
        SuspendedRole { learner, waiting: VecDeque::new(), deadlines }
    }

    /// Whether no connection is kept any more.
    pub(crate) fn is_over(&self) -> bool {
        self.deadlines.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> i64 {
        let grace_ms = self.deadlines.keys().next().copied().unwrap_or(i64::MAX);
        grace_ms.min(self.learner.next_deadline())
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.learner.in_flight()
    }

    /// Closes the connections whose time is over, and expires local sessions.
    pub(crate) fn tick(
        &mut self,
        served: &mut BTreeSet<ConnectionId>,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        while let Some(due) =
            self.deadlines.first_entry().filter(|due| *due.key() <= context.now.monotonic_ms)
        {
            for connection in due.remove() {
                context.close(connection, DisconnectReason::NotServing);
                served.remove(&connection);
            }
        }
        self.learner.tick(context);
    }

    pub(crate) fn detach(&mut self, session: SessionId, connection: ConnectionId, touched_ms: i64) {
        self.learner.detach(session, connection, touched_ms);
    }

    /// A request waits for the next leader.
    pub(crate) fn handle_request(&mut self, state: &mut NodeState, submitted: SubmittedRequest) {
        if self.learner.is_served_by(submitted.session, submitted.connection) {
            self.waiting.push_back(submitted);
        } else {
            state.drop_request(&submitted.pending());
        }
    }

    /// A committed transaction is applied. It may answer a request that was forwarded to the lost leader.
    pub(crate) fn on_applied(
        &mut self,
        state: &mut NodeState,
        entry: &TxnEntry,
        outcome: &TxnOutcome,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.learner.complete_syncs_before(state, entry, context);
        self.learner.on_applied(state, entry, outcome, context);
    }

    /// Whether the kept connections may continue in a role: no epoch lies between it and the ended one. In
    /// the same epoch, the leader may still hold the requests that would be sent again.
    pub(crate) fn may_continue_in(&self, serving: ServingRole) -> bool {
        self.learner.epoch().checked_add(1) == Some(serving.epoch())
    }

    /// Returns the clients for the next role. Each kept connection gets its serving term. Requests of
    /// connections that were closed meanwhile are dropped.
    pub(crate) fn into_kept(
        self,
        serving_term: ServingTerm,
        state: &mut NodeState,
        connections: &mut impl Connections,
    ) -> KeptClients {
        let mut kept = self.learner.into_kept(state, connections);
        let unanswered = kept.requests.len();
        state.metrics.requests_repeated.add(unanswered as u64);
        kept.requests.extend(self.waiting);
        kept.requests.sort_by_key(|request| (request.connection, request.slot));
        let mut open = BTreeSet::new();
        for connection in self.deadlines.into_values().flatten() {
            let is_open = connections.with(connection, |connection| continue_in(connection, serving_term));
            if is_open == Some(true) {
                open.insert(connection);
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

    /// Closes all connections, as at the end of a role without grace.
    pub(crate) fn abort(self, state: &mut NodeState, connections: &mut impl Connections) {
        for connection in self.deadlines.into_values().flatten() {
            connections.with(connection, |connection| connection.close(DisconnectReason::NotServing));
        }
        for submitted in self.waiting {
            state.abort_request(RequestOrigin::Request(submitted.pending()), connections);
        }
        self.learner.abort(state, connections);
    }
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
