//! Begins and ends the service of an ensemble member. A role begins with the current tree and ends as a
//! whole.

use std::collections::{BTreeSet, VecDeque};

use zebu_proto::quorum::{Capabilities, Packet};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{LinkId, ServingRole};

use super::effect::{Effect, ServeEffect};
use crate::connection::{ConnectionId, ConnectionPhase, Connections, DisconnectReason};
use crate::consensus::CommitItem;
use crate::context::ServeContext;
use crate::core::{Node, NodeRole};
use crate::learner::{KeptClients, LearnerRole};
use crate::primary::Primary;
use crate::settings::LeaderClients;
use crate::suspended::SuspendedRole;

impl Node {
    /// Begins a role. All transactions committed before are applied.
    pub(crate) fn begin_serving(
        &mut self,
        serving: ServingRole,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let kept = self.take_kept(serving, context.connections);
        self.state.term += 1;
        self.effect(Effect::Serve(ServeEffect::Serve(serving)));
        let has_strict_leader = self.leader_capabilities().has(Capabilities::STRICT_SYNC);
        if !has_strict_leader {
            // The next leader cannot prove what these reads wait for.
            self.drop_unproven_fences(context.connections);
        }
        let mut kept = kept.map_or_else(KeptClients::default, |suspended| {
            let serving_term = self.state.serving_term(serving.into());
            suspended.into_kept(serving_term, &mut self.state, context.connections)
        });
        context.replica.freshness.begin_role(self.leader_capabilities());
        if let Some(member) = self.state.member_mut() {
            member.kept_connects = std::mem::take(&mut kept.connects);
        }
        self.role = self.serving_role(serving, kept, context);
    }

    /// Answers the connect requests that have waited for this role. The server has applied the transactions
    /// that were committed while the role began: before, it would refuse a client that has seen them.
    pub(crate) fn answer_kept_connects(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let Some(member) = self.state.member_mut() else { return };
        for id in std::mem::take(&mut member.kept_connects) {
            let request = context.connections.with(id, |connection| connection.take_unanswered_connect());
            if let Some(request) = request.flatten() {
                self.handle_connect(id, &request, context);
            }
        }
    }

    /// When [`Node::answer_kept_connects`] is due, in monotonic milliseconds.
    pub(crate) fn kept_connects_deadline(&self) -> i64 {
        let waits = self.state.member().is_some_and(|member| !member.kept_connects.is_empty());
        if waits { 0 } else { i64::MAX }
    }

    /// Begins a role with the clients that were kept.
    fn serving_role(
        &mut self,
        serving: ServingRole,
        kept: KeptClients,
        context: &mut ServeContext<'_, impl Connections>,
    ) -> NodeRole {
        let KeptClients { sessions, local_sessions, requests, .. } = kept;
        match serving {
            ServingRole::Leading { .. } => {
                let mut primary = Primary::new(&self.state, Some(serving), context.replica, context.now);
                primary.close_orphans(&mut self.state, context);
                primary.adopt(sessions, local_sessions, context);
                for request in requests {
                    primary.handle_request(&mut self.state, request, context);
                }
                NodeRole::Primary(Box::new(primary))
            }
            ServingRole::Following { .. } | ServingRole::Observing { .. } => {
                let mut learner = LearnerRole::new(&self.state, serving);
                learner.ask_for_move_records(&mut self.state);
                learner.adopt(sessions, local_sessions);
                for request in requests {
                    learner.handle_request(&mut self.state, request, context);
                }
                NodeRole::Learner(Box::new(learner))
            }
        }
    }

    /// Returns the kept connections. Those of sessions are closed if they cannot continue in the role.
    fn take_kept(
        &mut self,
        serving: ServingRole,
        connections: &mut impl Connections,
    ) -> Option<Box<SuspendedRole>> {
        let NodeRole::Suspended(suspended) = &self.role else { return None };
        let is_refused = matches!(serving, ServingRole::Leading { .. })
            && self.state.settings.leader_clients == LeaderClients::Refused;
        if is_refused {
            self.close_kept(connections);
        } else if !suspended.may_continue_in(serving) {
            self.close_kept_sessions(connections);
        }
        match std::mem::replace(&mut self.role, NodeRole::NotServing) {
            NodeRole::Suspended(suspended) => Some(suspended),
            NodeRole::Primary(_) | NodeRole::Learner(_) | NodeRole::ReadOnly(_) | NodeRole::NotServing => {
                None
            }
        }
    }

    /// Closes all connections that were kept without a leader.
    pub(crate) fn close_kept(&mut self, connections: &mut impl Connections) {
        if !matches!(self.role, NodeRole::Suspended(_)) {
            return;
        }
        self.drop_fences(connections);
        if let NodeRole::Suspended(suspended) = std::mem::replace(&mut self.role, NodeRole::NotServing) {
            let mut served = self.take_served();
            suspended.abort(&mut served, &mut self.state, connections);
        }
    }

    /// Closes the connections of sessions that were kept without a leader. Connect requests go on waiting.
    pub(crate) fn close_kept_sessions(&mut self, connections: &mut impl Connections) {
        if !matches!(self.role, NodeRole::Suspended(_)) {
            return;
        }
        self.drop_fences(connections);
        let mut served = self.take_served();
        if let NodeRole::Suspended(suspended) = &mut self.role {
            suspended.close_sessions(&mut served, &mut self.state, connections);
        }
        if let Some(member) = self.state.member_mut() {
            member.connections = served;
        }
    }

    fn take_served(&mut self) -> BTreeSet<ConnectionId> {
        self.state.member_mut().map(|member| std::mem::take(&mut member.connections)).unwrap_or_default()
    }

    /// Whether the connection outlived the role in which it was accepted.
    pub(crate) fn is_kept(&self, connection: ConnectionId) -> bool {
        self.state.member().is_some_and(|member| member.connections.contains(&connection))
    }

    /// Closes kept connections whose time is over.
    pub(crate) fn tick_suspended(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let NodeRole::Suspended(suspended) = &mut self.role else { return };
        let Some(member) = self.state.member_mut() else { return };
        if suspended.tick(&mut member.connections, context) {
            self.close_kept(context.connections);
        }
    }

    /// Ends the role. Client connections are kept for a while, if each move of their sessions is known. In
    /// all other cases they are closed and their requests are dropped.
    pub(crate) fn stop_serving(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let Some(member) = self.state.member_mut() else { return };
        member.commit_queue.retain(|item| match item {
            CommitItem::Serve(_) | CommitItem::FromLearner { .. } => false,
            CommitItem::Transaction(_) | CommitItem::Invalid(_) | CommitItem::StreamSnapshot { .. } => true,
        });
        // They are among the connections that are kept or closed now.
        member.kept_connects.clear();
        if member.peer.has_resigned() {
            // The server is about to stop.
            self.close_kept(context.connections);
        } else {
            self.keep_connections(context);
        }
        if let NodeRole::Suspended(_) = self.role {
            return;
        }
        self.drop_fences(context.connections);
        let connections = &mut *context.connections;
        for connection in self.take_served() {
            connections.with(connection, |connection| {
                // A closed session still receives its last reply.
                if connection.phase != ConnectionPhase::Draining || connection.queued_requests() > 0 {
                    connection.close(DisconnectReason::NotServing);
                }
            });
        }
        match std::mem::replace(&mut self.role, NodeRole::NotServing) {
            NodeRole::Primary(primary) => primary.abort(&mut self.state, connections),
            NodeRole::Learner(learner) => learner.abort(&mut self.state, connections),
            NodeRole::ReadOnly(_) | NodeRole::Suspended(_) => {}
            NodeRole::NotServing => return,
        }
        self.effect(Effect::Serve(ServeEffect::Stop));
    }

    /// Keeps the connections of a leader that leads no more, or of a learner that has lost its leader.
    fn keep_connections(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let can_keep = match &self.role {
            NodeRole::Primary(primary) => primary.can_keep_connections(&self.state),
            NodeRole::Learner(learner) => learner.can_keep_connections(),
            NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => false,
        };
        if !can_keep {
            return;
        }
        let (learner, waiting) = match std::mem::replace(&mut self.role, NodeRole::NotServing) {
            NodeRole::Primary(primary) => primary.into_learner(&mut self.state, context.connections),
            NodeRole::Learner(learner) => (*learner, VecDeque::new()),
            NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => {
                unreachable!("such a role keeps no connections")
            }
        };
        let mut served = self.take_served();
        let suspended = SuspendedRole::new(Box::new(learner), waiting, &mut served, &mut self.state, context);
        self.role = NodeRole::Suspended(Box::new(suspended));
        self.state.fences.ask_next_leader();
        if let Some(member) = self.state.member_mut() {
            member.connections = served;
        }
        self.effect(Effect::Serve(ServeEffect::Stop));
    }

    /// What the leader has announced; nothing if it is no Zebu server.
    fn leader_capabilities(&self) -> Capabilities {
        let leader = self.state.member().and_then(|member| member.peer.leader_announcement());
        leader.map(|leader| leader.capabilities).unwrap_or_default()
    }

    /// Handles a learner's packet, or queues it until this server serves.
    pub(crate) fn handle_learner_packet(
        &mut self,
        link: LinkId,
        server: ServerId,
        packet: Packet,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        match (&mut self.role, self.state.member_mut()) {
            (NodeRole::Primary(primary), _) => {
                primary.handle_learner_packet(&mut self.state, link, packet, context);
            }
            (NodeRole::NotServing | NodeRole::Suspended(_), Some(member)) if member.is_about_to_serve() => {
                member.commit_queue.push_back(CommitItem::FromLearner { link, server, packet });
            }
            // This server is no longer the leader that the learner followed.
            (
                NodeRole::NotServing | NodeRole::Suspended(_) | NodeRole::ReadOnly(_) | NodeRole::Learner(_),
                _,
            ) => {}
        }
    }

    /// Handles a leader's packet, which follows the transaction `after`.
    pub(crate) fn handle_leader_packet(
        &mut self,
        packet: Packet,
        after: Zxid,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        match (&mut self.role, packet) {
            (NodeRole::Learner(learner), packet) => {
                learner.handle_leader_packet(&mut self.state, packet, after, context);
            }
            // This server is still applying transactions before it serves.
            (NodeRole::NotServing | NodeRole::Suspended(_), Packet::Ping { zxid }) => {
                if let Some(member) = self.state.member_mut() {
                    member.send_to_leader(Packet::PingReply { zxid, touched: Vec::new(), room: None });
                }
            }
            (
                NodeRole::NotServing | NodeRole::Suspended(_) | NodeRole::ReadOnly(_) | NodeRole::Primary(_),
                _,
            ) => {}
        }
    }

    /// Whether a snapshot may be requested: the tree of a member that does not serve may contain uncommitted
    /// transactions.
    pub(crate) fn allows_snapshot(&self) -> bool {
        match self.role {
            NodeRole::Primary(_) | NodeRole::Learner(_) => true,
            NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => false,
        }
    }
}
