//! Begins and ends the service of an ensemble member. A role begins with the current tree and ends as a
//! whole.

use zebu_proto::quorum::{Capabilities, Packet};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{LinkId, ServingRole};

use super::effect::{Effect, ServeEffect};
use crate::connection::{ConnectionPhase, Connections, DisconnectReason};
use crate::consensus::CommitItem;
use crate::context::ServeContext;
use crate::core::{Node, NodeRole};
use crate::learner::LearnerRole;
use crate::primary::Primary;

impl Node {
    /// Begins a role. All transactions committed before are applied.
    pub(crate) fn begin_serving(
        &mut self,
        serving: ServingRole,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.state.term += 1;
        self.effect(Effect::Serve(ServeEffect::Serve(serving)));
        context.replica.freshness.begin_role(self.has_strict_leader());
        self.role = match serving {
            ServingRole::Leading { .. } => {
                let mut primary = Primary::new(&self.state, serving.into(), context.replica, context.now);
                primary.close_orphans(&mut self.state, context);
                NodeRole::Primary(Box::new(primary))
            }
            ServingRole::Following { .. } | ServingRole::Observing { .. } => {
                NodeRole::Learner(Box::new(LearnerRole::new(&self.state, serving.into())))
            }
        };
    }

    /// Ends the role: closes all client connections and drops their requests.
    pub(crate) fn stop_serving(&mut self, connections: &mut impl Connections) {
        let Some(member) = self.state.member_mut() else { return };
        member.commit_queue.retain(|item| match item {
            CommitItem::Serve(_) | CommitItem::FromLearner { .. } => false,
            CommitItem::Transaction(_) | CommitItem::Invalid(_) | CommitItem::StreamSnapshot { .. } => true,
        });
        for connection in std::mem::take(&mut member.connections) {
            connections.with(connection, |connection| {
                // A closed session still receives its last reply.
                if connection.phase != ConnectionPhase::Draining || connection.queued_requests() > 0 {
                    connection.close(DisconnectReason::NotServing);
                }
            });
        }
        self.drop_fences(connections);
        match std::mem::replace(&mut self.role, NodeRole::NotServing) {
            NodeRole::Primary(primary) => primary.abort(&mut self.state, connections),
            NodeRole::Learner(learner) => learner.abort(&mut self.state, connections),
            NodeRole::ReadOnly(_) => {}
            NodeRole::NotServing => return,
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
            (NodeRole::NotServing, Some(member)) if member.is_about_to_serve() => {
                member.commit_queue.push_back(CommitItem::FromLearner { link, server, packet });
            }
            // This server is no longer the leader that the learner followed.
            (NodeRole::NotServing | NodeRole::ReadOnly(_) | NodeRole::Learner(_), _) => {}
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
            (NodeRole::NotServing, Packet::Ping { zxid }) => {
                if let Some(member) = self.state.member_mut() {
                    member.send_to_leader(Packet::PingReply { zxid, touched: Vec::new() });
                }
            }
            (NodeRole::NotServing | NodeRole::ReadOnly(_) | NodeRole::Primary(_), _) => {}
        }
    }

    /// Whether a snapshot may be requested: the tree of a member that does not serve may contain uncommitted
    /// transactions.
    pub(crate) fn allows_snapshot(&self) -> bool {
        match self.role {
            NodeRole::Primary(_) | NodeRole::Learner(_) => true,
            NodeRole::ReadOnly(_) | NodeRole::NotServing => false,
        }
    }
}
