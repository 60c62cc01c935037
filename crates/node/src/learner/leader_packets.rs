//! Packets of the leader besides transactions. A reply follows the transactions that it depends on. If they
//! are committed and not applied yet, the reply waits for them.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::{LearnerRole, PendingSync, send_to_leader};
use crate::connect::PendingConnect;
use crate::connection::{Connections, DisconnectReason};
use crate::context::ServeContext;
use crate::core::{NodeState, reply_to_sync};
use crate::pending_request::PendingRequest;
use crate::replica::Replica;
use crate::session::{MoveRecords, is_question};

/// A reply of the leader, and the last transaction before it.
#[derive(Debug)]
pub(super) struct LeaderReply {
    after: Zxid,
    kind: LeaderReplyKind,
}

#[derive(Debug)]
enum LeaderReplyKind {
    /// A sync is complete.
    Synced(PendingRequest),
    /// The session is valid; this connection may have it.
    SessionValid(PendingConnect),
}

impl LeaderReply {
    /// The connection that waits for the validation of its session.
    pub(super) fn validated(&self) -> Option<PendingConnect> {
        match self.kind {
            LeaderReplyKind::Synced(_) => None,
            LeaderReplyKind::SessionValid(connect) => Some(connect),
        }
    }

    pub(super) fn sync_slot(&self) -> Option<PendingRequest> {
        match self.kind {
            LeaderReplyKind::Synced(request) => Some(request),
            LeaderReplyKind::SessionValid(_) => None,
        }
    }
}

impl LearnerRole {
    /// Handles a packet that the Zab peer does not handle itself. It follows the transaction `after`.
    pub(crate) fn handle_leader_packet(
        &mut self,
        state: &mut NodeState,
        packet: Packet,
        after: Zxid,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        match packet {
            Packet::Ping { zxid } => {
                let touched = self.take_touched(state.settings.tick_ms, context);
                send_to_leader(state, Packet::PingReply { zxid, touched, room: None });
            }
            Packet::Sync => match self.pending_syncs.pop_front() {
                Some(PendingSync::Fences) => state.fences.leader_answered(after),
                None => {}
                Some(PendingSync::Client(sync)) => {
                    let kind = LeaderReplyKind::Synced(sync.pending);
                    self.queue_leader_reply(state, LeaderReply { after, kind }, context);
                }
            },
            Packet::Revalidated { session, valid } if is_question(session) => {
                // Another answer is not for this server: a client asked at a server that forwards anything.
                if self.move_records == MoveRecords::Asked {
                    self.move_records = if valid { MoveRecords::Kept } else { MoveRecords::Unknown };
                }
            }
            Packet::Revalidated { session, valid } => match self.next_revalidation(session) {
                Some(connect) if valid => {
                    let kind = LeaderReplyKind::SessionValid(connect);
                    self.queue_leader_reply(state, LeaderReply { after, kind }, context);
                }
                Some(connect) => context.reject_session(connect),
                None => {}
            },
            // The Zab peer handles all other packets.
            Packet::Request { .. }
            | Packet::Proposal { .. }
            | Packet::Ack { .. }
            | Packet::Commit { .. }
            | Packet::PingReply { .. }
            | Packet::Revalidate { .. }
            | Packet::Inform { .. }
            | Packet::CommitAndActivate { .. }
            | Packet::NewLeader { .. }
            | Packet::FollowerInfo { .. }
            | Packet::UpToDate
            | Packet::Diff { .. }
            | Packet::Trunc { .. }
            | Packet::Snap { .. }
            | Packet::ObserverInfo { .. }
            | Packet::LeaderInfo { .. }
            | Packet::AckEpoch { .. }
            | Packet::InformAndActivate { .. } => {}
        }
    }

    fn queue_leader_reply(
        &mut self,
        state: &mut NodeState,
        reply: LeaderReply,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        self.leader_replies.push_back(reply);
        self.deliver_leader_replies(state, context);
    }

    /// Returns the first reply whose transactions are applied. A leader may confirm a session whose upgrade
    /// to a global one is not committed yet; only that session's reply waits.
    fn next_applied_reply(&self, replica: &Replica) -> Option<usize> {
        let is_in_the_making = |reply: &LeaderReply| match reply.kind {
            LeaderReplyKind::SessionValid(connect) => self.forwarded.is_creating_session(connect.session.id),
            LeaderReplyKind::Synced(_) => false,
        };
        let reached = self.leader_replies.iter().take_while(|reply| reply.after <= replica.last_zxid());
        reached.map(is_in_the_making).position(|is_in_the_making| !is_in_the_making)
    }

    /// Delivers the replies whose transactions are applied.
    pub(super) fn deliver_leader_replies(
        &mut self,
        state: &mut NodeState,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        while let Some(index) = self.next_applied_reply(context.replica) {
            let Some(LeaderReply { kind, .. }) = self.leader_replies.remove(index) else { return };
            match kind {
                LeaderReplyKind::Synced(PendingRequest { connection, slot, charged_bytes }) => {
                    state.completed_requests.add(charged_bytes);
                    context.connections.with(connection, |connection| {
                        if connection.is_idle() {
                            // The connection was closed meanwhile.
                        } else if connection.is_first(slot) {
                            reply_to_sync(connection, slot, context.replica, context.now.monotonic_ms);
                        } else {
                            connection.close(DisconnectReason::ReplyOutOfOrder);
                        }
                    });
                }
                LeaderReplyKind::SessionValid(connect) => {
                    self.accept_revalidated(state, connect, context);
                }
            }
        }
    }
}
