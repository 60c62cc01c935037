//! The leader: discovery of an epoch, synchronization of the learners, then broadcast. Each phase is a type.
//! A learner that breaks the protocol loses its connection; the leader goes on.

mod awaited_voters;
mod broadcast;
mod commit;
mod discovery;
mod disk;
mod liveness;
mod quorum_check;
mod reconfig;
mod sync;
mod votes;

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use crate::action::{Action, LinkCloseReason, PeerEffect, ServingRole};
use crate::event::{IoId, LinkId, PeerEvent};
use crate::learner_handler::{HandlerStep, LearnerHandler, ReplicationView, SyncPhase};
use crate::packet_name::packet_name;
use crate::peer_context::PeerContext;
use crate::quorum::QuorumRule;
use crate::role::Role;
use crate::status::LearnerStatus;
use crate::step_down::StepDown;
use crate::zab_state::ZabState;
use awaited_voters::AwaitedVoters;
use commit::Acks;
use discovery::AnnouncedLearner;
use quorum_check::QuorumCheck;
use reconfig::SteppingDown;
use sync::committable_zxid;

/// A server that was elected.
#[derive(Debug)]
pub(crate) struct Leader {
    step: LeaderStep,
    learners: BTreeMap<LinkId, LearnerHandler>,
    /// Servers that follow another leader, or are one. Unused once this leader is established.
    following_others: BTreeSet<ServerId>,
    next_ping_ms: i64,
    quorum_check: QuorumCheck,
    awaited_voters: AwaitedVoters,
    /// The configs that were activated under this leader, each with its designated leader.
    activated_configs: BTreeMap<Zxid, ServerId>,
    /// A reused buffer for collecting acks.
    ack_buffer: Acks,
}

/// The phase of a leader.
#[derive(Debug)]
enum LeaderStep {
    /// Discovery: collects the accepted epochs of a quorum.
    CollectingEpochs { accepted_epochs: BTreeMap<ServerId, i64>, until_ms: i64 },
    /// Discovery: writes its own accepted epoch.
    SavingEpoch { io: IoId, epoch: u32, until_ms: i64 },
    /// Discovery: waits for the ACKEPOCHs of a quorum.
    AwaitingEpochAcks { epoch: u32, acked: BTreeSet<ServerId>, until_ms: i64 },
    /// Synchronization: sends its history to a quorum.
    Synchronizing(Synchronization),
    /// Broadcast: proposes and commits.
    Broadcasting { epoch: u32 },
    /// Broadcast without new proposals: the role ends when all are committed.
    Resigning { epoch: u32 },
    /// Another server leads in the activated config: no further commits.
    SteppingDown(SteppingDown),
}

#[derive(Debug)]
struct Synchronization {
    epoch: u32,
    /// The last transaction of the initial history.
    initial_zxid: Zxid,
    /// The id of the write of the own current epoch.
    save_epoch_io: IoId,
    acked: BTreeSet<ServerId>,
    until_ms: i64,
}

impl Leader {
    pub(crate) fn new(context: &mut PeerContext<'_>) -> Result<Leader, StepDown> {
        let mut accepted_epochs = BTreeMap::new();
        accepted_epochs.insert(context.state.settings.me, context.state.accepted_epoch);
        let mut leader = Leader {
            step: LeaderStep::CollectingEpochs {
                accepted_epochs,
                until_ms: context.now_ms + init_limit_ms(context.state),
            },
            learners: BTreeMap::new(),
            following_others: BTreeSet::new(),
            next_ping_ms: context.now_ms + context.state.settings.tick_ms / 2,
            quorum_check: QuorumCheck::new(),
            awaited_voters: AwaitedVoters::default(),
            activated_configs: BTreeMap::new(),
            ack_buffer: Acks::new(),
        };
        leader.choose_epoch(context)?;
        Ok(leader)
    }

    pub(crate) fn serving(&self) -> Option<ServingRole> {
        match self.step {
            LeaderStep::Broadcasting { epoch }
            | LeaderStep::Resigning { epoch }
            | LeaderStep::SteppingDown(SteppingDown { epoch, .. }) => Some(ServingRole::Leading { epoch }),
            LeaderStep::CollectingEpochs { .. }
            | LeaderStep::SavingEpoch { .. }
            | LeaderStep::AwaitingEpochAcks { .. }
            | LeaderStep::Synchronizing(_) => None,
        }
    }

    /// Whether a server is not connected, and the connected servers are not a quorum.
    pub(crate) fn lacks_quorum_without(&self, server: ServerId, state: &ZabState) -> bool {
        if matches!(
            self.step,
            LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. } | LeaderStep::SteppingDown(_)
        ) {
            return false;
        }
        let mut here: BTreeSet<ServerId> = self
            .learners
            .values()
            .filter_map(|learner| learner.step.identity())
            .map(|identity| identity.server)
            .collect();
        here.insert(state.settings.me);
        !here.contains(&server) && !state.is_quorum(&here)
    }

    /// Records that these servers follow another leader, or are one. Returns whether no quorum is possible
    /// without them.
    pub(crate) fn lost_to_other_leader(&mut self, servers: [ServerId; 2], state: &ZabState) -> bool {
        if matches!(
            self.step,
            LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. } | LeaderStep::SteppingDown(_)
        ) {
            return false;
        }
        self.following_others.extend(servers);
        let pending = state.pending_quorum().into_iter().flat_map(QuorumRule::voters);
        let voters = state.settings.quorum.voters().chain(pending);
        let left = voters.filter(|voter| !self.following_others.contains(voter)).collect();
        !state.is_quorum(&left)
    }

    /// All connections, for closing them when the role ends.
    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.learners.keys().copied()
    }

    pub(crate) fn status(&self) -> Vec<LearnerStatus> {
        self.learners.values().filter_map(LearnerHandler::status).collect()
    }

    /// Handles an event of a connection or of the disk.
    pub(crate) fn handle(&mut self, event: PeerEvent, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        match event {
            PeerEvent::Accepted { link } => {
                self.learners.insert(link, LearnerHandler::new(link, context.now_ms));
            }
            PeerEvent::LinkDown { link } => self.remove_learner(link, context.out),
            PeerEvent::Packet { link, packet } => {
                let Some(learner) = self.learners.get_mut(&link) else { return Ok(()) };
                learner.last_heard_ms = context.now_ms;
                let can_advance = can_advance(&packet);
                if let Packet::PingReply { zxid, room, .. } = packet {
                    learner.room = room.unwrap_or_default();
                    self.handle_ping_reply(link, zxid, context);
                }
                if let Err(reason) = self.handle_packet(link, packet, context) {
                    self.close_link(link, reason, context.out);
                }
                if can_advance {
                    return self.advance(context);
                }
            }
            PeerEvent::Sent { link, weight } => {
                if let Some(learner) = self.learners.get_mut(&link) {
                    learner.record_sent(weight, context.now_ms);
                }
                self.send_pending(link, context);
                return self.finish_resignation(context.state);
            }
            PeerEvent::SnapshotProgress { link } => {
                if let Some(learner) = self.learners.get_mut(&link) {
                    learner.last_heard_ms = context.now_ms;
                }
            }
            PeerEvent::SnapshotSent { link } => {
                if let Some(learner) = self.learners.get_mut(&link) {
                    learner.last_heard_ms = context.now_ms;
                }
                self.snapshot_sent(link, context);
            }
            PeerEvent::LogRead { link, read } => self.log_read(link, read, context),
            PeerEvent::Persisted { .. } => return self.advance(context),
            PeerEvent::DiskRoom { .. } => {
                self.hand_over_if_due(context);
                return self.finish_resignation(context.state);
            }
            PeerEvent::Notification { .. }
            | PeerEvent::ObserverAccepted { .. }
            | PeerEvent::Dialed { .. }
            | PeerEvent::DialFailed { .. }
            | PeerEvent::SnapshotReceived { .. }
            | PeerEvent::TruncateRefused { .. } => {}
        }
        Ok(())
    }

    /// Enters the next phase, or commits, if its condition is met.
    fn advance(&mut self, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        match &self.step {
            LeaderStep::CollectingEpochs { .. } => self.choose_epoch(context)?,
            LeaderStep::SavingEpoch { io, .. } if context.state.disk.has_done(*io) => {
                self.propose_epoch(context)
            }
            LeaderStep::SavingEpoch { .. } => {}
            LeaderStep::AwaitingEpochAcks { .. } => self.begin_synchronization(context),
            LeaderStep::Synchronizing(_) => self.establish(context),
            LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. } => self.maybe_commit(context),
            LeaderStep::SteppingDown(_) => {}
        }
        self.finish_resignation(context.state)
    }

    fn handle_packet(
        &mut self,
        link: LinkId,
        packet: Packet,
        context: &mut PeerContext<'_>,
    ) -> Result<(), LinkCloseReason> {
        match packet {
            Packet::FollowerInfo { accepted, info } => {
                let role = Role::Participant;
                self.handle_learner_info(link, AnnouncedLearner { role, accepted, info }, context)
            }
            Packet::ObserverInfo { accepted, info } => {
                let role = Role::Observer;
                self.handle_learner_info(link, AnnouncedLearner { role, accepted, info }, context)
            }
            Packet::AckEpoch { last, current_epoch } => {
                self.handle_ack_epoch(link, last, current_epoch, context)
            }
            Packet::Ack { zxid } => self.handle_ack(link, zxid, context),
            Packet::PingReply { .. } | Packet::Request { .. } | Packet::Revalidate { .. } => {
                self.forward_to_node(link, packet, context.out)
            }
            other => Err(self.unexpected_packet(link, &other)),
        }
    }

    /// Passes requests and session packets to the node.
    fn forward_to_node(
        &mut self,
        link: LinkId,
        packet: Packet,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkCloseReason> {
        let Some(learner) = self.learners.get(&link) else { return Ok(()) };
        match (&learner.step, &packet) {
            (HandlerStep::Replicating(identity, progress), _) if progress.phase == SyncPhase::UpToDate => {
                out.push(Action::FromLearner { link, server: identity.server, packet });
                Ok(())
            }
            (HandlerStep::Replicating(..), Packet::PingReply { .. }) => Ok(()),
            _ => Err(self.unexpected_packet(link, &packet)),
        }
    }

    fn unexpected_packet(&self, link: LinkId, packet: &Packet) -> LinkCloseReason {
        let step = self.learners.get(&link).map_or("unknown connection", |learner| learner.step.name());
        LinkCloseReason::UnexpectedPacket { step, packet: packet_name(packet) }
    }

    fn close_link(&mut self, link: LinkId, reason: LinkCloseReason, out: &mut Vec<Action>) {
        if self.learners.contains_key(&link) {
            out.push(Action::Peer(PeerEffect::Close { link, reason }));
            self.remove_learner(link, out);
        }
    }

    fn remove_learner(&mut self, link: LinkId, out: &mut Vec<Action>) {
        let Some(learner) = self.learners.remove(&link) else { return };
        if let Some(identity) = learner.step.identity() {
            self.awaited_voters.remove(identity.server);
        }
        if learner.is_up_to_date() {
            out.push(Action::LearnerLost { link });
        }
    }

    fn epoch(&self) -> Option<u32> {
        self.step.epoch()
    }

    /// The learners, and the view of the history for their handlers. `None` before the epoch is chosen.
    fn replication_view<'a>(
        &'a mut self,
        state: &'a ZabState,
    ) -> Option<(&'a mut BTreeMap<LinkId, LearnerHandler>, ReplicationView<'a>)> {
        let config = match &self.step {
            LeaderStep::Synchronizing(_) => state.last_seen_config(),
            LeaderStep::CollectingEpochs { .. }
            | LeaderStep::SavingEpoch { .. }
            | LeaderStep::AwaitingEpochAcks { .. }
            | LeaderStep::Broadcasting { .. }
            | LeaderStep::Resigning { .. }
            | LeaderStep::SteppingDown(_) => &state.settings.config,
        };
        let view = ReplicationView {
            history: &state.history,
            epoch: self.step.epoch()?,
            committable: committable_zxid(&self.step, state),
            delivered: state.delivered(),
            config,
            activated_configs: &self.activated_configs,
            send_window: state.settings.send_window,
            oversize: state.oversize,
        };
        Some((&mut self.learners, view))
    }

    /// Calls `f` with the handler of a connection and the view of the history.
    fn with_learner<R>(
        &mut self,
        link: LinkId,
        state: &ZabState,
        f: impl FnOnce(&mut LearnerHandler, &ReplicationView<'_>) -> R,
    ) -> Option<R> {
        let (learners, view) = self.replication_view(state)?;
        learners.get_mut(&link).map(|learner| f(learner, &view))
    }

    fn send_pending_to_all(&mut self, context: &mut PeerContext<'_>) {
        let before = self.sent_proposals();
        let Some((learners, view)) = self.replication_view(context.state) else { return };
        for learner in learners.values_mut() {
            learner.send_pending(&view, context.out);
        }
        self.count_proposals_as_pings(before, context.now_ms);
    }

    /// Sends as much as the send window of a learner allows.
    fn send_pending(&mut self, link: LinkId, context: &mut PeerContext<'_>) {
        self.with_learner(link, context.state, |learner, view| learner.send_pending(view, context.out));
    }
}

impl LeaderStep {
    fn epoch(&self) -> Option<u32> {
        match self {
            LeaderStep::CollectingEpochs { .. } | LeaderStep::SavingEpoch { .. } => None,
            LeaderStep::AwaitingEpochAcks { epoch, .. }
            | LeaderStep::Broadcasting { epoch }
            | LeaderStep::Resigning { epoch }
            | LeaderStep::SteppingDown(SteppingDown { epoch, .. }) => Some(*epoch),
            LeaderStep::Synchronizing(synchronization) => Some(synchronization.epoch),
        }
    }
}

/// Whether a packet can advance the phase or the commits. Most packets cannot.
fn can_advance(packet: &Packet) -> bool {
    !matches!(packet, Packet::Request { .. } | Packet::PingReply { .. } | Packet::Revalidate { .. })
}

/// The time limit of each phase before broadcast, and of the synchronization of a learner, in milliseconds.
fn init_limit_ms(state: &ZabState) -> i64 {
    state.settings.init_limit * state.settings.tick_ms
}
