//! Begins and ends the service of an ensemble member. A role begins with the current tree and ends as a
//! whole.

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
        let kept = kept.map(|suspended| {
            let serving_term = self.state.serving_term(serving.into());
            suspended.into_kept(serving_term, &mut self.state, context.connections)
        });
        context.replica.freshness.begin_role(self.has_strict_leader());
        match serving {
            ServingRole::Leading { .. } => {
                let mut primary = Primary::new(&self.state, Some(serving), context.replica, context.now);
                primary.close_orphans(&mut self.state, context);
                if let Some(KeptClients { sessions, local_sessions, requests }) = kept {
                    primary.adopt(sessions, local_sessions, context);
                    for request in requests {
                        primary.handle_request(&mut self.state, request, context);
                    }
                }
                self.role = NodeRole::Primary(Box::new(primary));
            }
            ServingRole::Following { .. } | ServingRole::Observing { .. } => {
                let mut learner = LearnerRole::new(&self.state, serving);
                learner.ask_for_move_records(&mut self.state);
                if let Some(KeptClients { sessions, local_sessions, requests }) = kept {
                    learner.adopt(sessions, local_sessions);
                    for request in requests {
                        learner.handle_request(&mut self.state, request, context);
                    }
                }
                self.role = NodeRole::Learner(Box::new(learner));
            }
        }
    }

    /// Returns the kept connections, if they may continue in a role. Otherwise they are closed.
    fn take_kept(
        &mut self,
        serving: ServingRole,
        connections: &mut impl Connections,
    ) -> Option<Box<SuspendedRole>> {
        let is_refused = matches!(serving, ServingRole::Leading { .. })
            && self.state.settings.leader_clients == LeaderClients::Refused;
        match &self.role {
            NodeRole::Suspended(suspended) if suspended.may_continue_in(serving) && !is_refused => {
                match std::mem::replace(&mut self.role, NodeRole::NotServing) {
                    NodeRole::Suspended(suspended) => Some(suspended),
                    other => {
                        self.role = other;
                        None
                    }
                }
            }
            NodeRole::Suspended(_)
            | NodeRole::Primary(_)
            | NodeRole::Learner(_)
            | NodeRole::ReadOnly(_)
            | NodeRole::NotServing => {
                self.close_kept(connections);
                None
            }
        }
    }

    /// Closes the connections that were kept without a leader.
    pub(crate) fn close_kept(&mut self, connections: &mut impl Connections) {
        if !matches!(self.role, NodeRole::Suspended(_)) {
            return;
        }
        if let NodeRole::Suspended(suspended) = std::mem::replace(&mut self.role, NodeRole::NotServing) {
            if let Some(member) = self.state.member_mut() {
                member.connections.clear();
            }
            suspended.abort(&mut self.state, connections);
        }
    }

    /// Whether the connection outlived the role in which it was accepted.
    pub(crate) fn is_kept(&self, connection: ConnectionId) -> bool {
        self.state.member().is_some_and(|member| member.connections.contains(&connection))
    }

    /// Closes kept connections whose time is over.
    pub(crate) fn tick_suspended(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let NodeRole::Suspended(suspended) = &mut self.role else { return };
        let Some(member) = self.state.member_mut() else { return };
        suspended.tick(&mut member.connections, context);
        if suspended.is_over() {
            self.close_kept(context.connections);
        }
    }

    /// Ends the role. A learner whose leader records moves keeps its client connections for a while. In all
    /// other cases the connections are closed and their requests are dropped.
    pub(crate) fn stop_serving(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let Some(member) = self.state.member_mut() else { return };
        member.commit_queue.retain(|item| match item {
            CommitItem::Serve(_) | CommitItem::FromLearner { .. } => false,
            CommitItem::Transaction(_) | CommitItem::Invalid(_) | CommitItem::StreamSnapshot { .. } => true,
        });
        let has_resigned = member.peer.has_resigned();
        // A read that waits for a fresh state cannot outlive the role.
        self.drop_fences(context.connections);
        if has_resigned {
            // The server is about to stop.
            self.close_kept(context.connections);
        } else {
            self.keep_connections(context);
        }
        let Some(member) = self.state.member_mut() else { return };
        if let NodeRole::Suspended(_) = self.role {
            return;
        }
        let connections = &mut *context.connections;
        for connection in std::mem::take(&mut member.connections) {
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

    /// Keeps the connections of a learner that has lost its leader.
    fn keep_connections(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        if !matches!(&self.role, NodeRole::Learner(learner) if learner.can_keep_connections()) {
            return;
        }
        let Some(member) = self.state.member_mut() else { return };
        let mut served = std::mem::take(&mut member.connections);
        // Without a leader no read proves how old its state is.
        context.replica.freshness.begin_role(false);
        if let NodeRole::Learner(learner) = std::mem::replace(&mut self.role, NodeRole::NotServing) {
            let suspended = SuspendedRole::new(learner, &mut served, &mut self.state, context);
            if suspended.is_over() {
                suspended.abort(&mut self.state, context.connections);
            } else {
                self.role = NodeRole::Suspended(Box::new(suspended));
            }
        }
        if let Some(member) = self.state.member_mut() {
            member.connections = served;
        }
        self.effect(Effect::Serve(ServeEffect::Stop));
    }

    /// Whether the leader has announced that it answers a sync only after a quorum check.
    fn has_strict_leader(&self) -> bool {
        let leader = self.state.member().and_then(|member| member.peer.leader_announcement());
        leader.is_some_and(|leader| leader.capabilities.has(Capabilities::STRICT_SYNC))
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
                    member.send_to_leader(Packet::PingReply { zxid, touched: Vec::new() });
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
