//! A follower or an observer: discovery, synchronization, then broadcast under one leader. Each phase is a
//! type. An unexpected packet ends the connection, never the process.

mod blocked_packets;
mod broadcast;
mod discovery;
mod learner_masters;
mod role_change;
mod snapshot_tail;
mod sync;

use std::collections::VecDeque;

use zebu_proto::quorum::{DiskRoom, Packet, PeerAnnouncement};
use zebu_proto::{ServerId, SessionId, Zxid};

use crate::action::{Action, LinkCloseReason, PeerEffect, ServingRole};
use crate::election::ElectionResult;
use crate::event::{IoId, LinkId, PeerEvent};
use crate::membership::Configuration;
use crate::observer_master::ObserverMaster;
use crate::packet_name::packet_name;
use crate::peer_context::PeerContext;
use crate::role::Role;
use crate::step_down::StepDown;
use crate::zab_state::ZabState;
use blocked_packets::BlockedPackets;
pub(crate) use learner_masters::{LearnerMasters, hash3};
use role_change::RoleChange;
use snapshot_tail::SnapshotTail;

/// The number of times that the pause between attempts doubles before it reaches `retry_ms`.
const QUICK_TRIES: u32 = 5;

/// A server that has a leader.
#[derive(Debug)]
pub(crate) struct Learner {
    leader: ServerId,
    /// The server it is connected to, and the alternatives.
    masters: LearnerMasters,
    link: LinkId,
    /// The role it announced in FOLLOWERINFO or OBSERVERINFO. The leader uses this role until the learner
    /// reconnects, even if a new config changes it.
    role: Role,
    vote: LearnerVote,
    /// The epoch in which a quorum already had this leader, by their votes.
    established_epoch: Option<i64>,
    step: LearnerStep,
    tries_left: u32,
    /// When the first attempt to connect started, in milliseconds.
    connecting_since_ms: i64,
    /// When the last packet was received or the phase started, in milliseconds.
    last_heard_ms: i64,
    /// Packets that were received while the disk changes the history.
    blocked_packets: BlockedPackets,
    /// Whether the link was lost while the disk changed the history. The role ends when the disk is done.
    is_link_lost: bool,
    /// The config that came with NEWLEADER.
    announced_config: Option<Box<Configuration>>,
    /// What the leader has told about itself in LEADERINFO.
    leader_zebu: Option<PeerAnnouncement>,
    /// Set when an activated config changes the role or the leader of this server.
    role_change: Option<RoleChange>,
    /// The observers of this server, while it serves and observer masters are enabled.
    observer_master: Option<Box<ObserverMaster>>,
}

/// Whether the leader may count the acks of this voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LearnerVote {
    /// It counts.
    Counted,
    /// Its accepted epoch is later than the leader's epoch, so it learns as an observer does.
    Withheld,
}

/// The start of a learner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LearnerStart {
    pub(crate) now_ms: i64,
    /// The delay before it connects, in milliseconds.
    pub(crate) pause_ms: i64,
}

/// The phase of a learner.
#[derive(Debug)]
enum LearnerStep {
    /// Discovery: connects.
    Dialing(DialState),
    /// Discovery: waits for LEADERINFO.
    AwaitingLeaderInfo,
    /// Discovery: writes the accepted epoch.
    SavingEpoch(SavingEpoch),
    /// Synchronization: waits for DIFF, TRUNC or SNAP.
    AwaitingSync { epoch: u32 },
    /// Synchronization: receives a snapshot.
    ReceivingSnapshot { epoch: u32, zxid: Zxid },
    /// Synchronization: receives transactions after the snapshot, until NEWLEADER.
    ReceivingSnapshotTail(SnapshotTail),
    /// Synchronization: the snapshot replaces the own history.
    InstallingSnapshot { io: IoId, epoch: u32, zxid: Zxid, uncommitted: VecDeque<crate::EncodedTxn> },
    /// Synchronization: the log is truncated.
    Truncating { io: IoId, epoch: u32, to: Zxid },
    /// Synchronization: its own history is useless, and the disk moves it aside.
    Quarantining { io: IoId },
    /// Synchronization: receives missing transactions.
    ReceivingDiff(ReceivingDiff),
    /// Synchronization: history and current epoch become durable.
    SavingNewLeader { io: IoId, epoch: u32, progress: LearnerProgress },
    /// Synchronization: has acked NEWLEADER and waits for UPTODATE.
    AwaitingUpToDate { epoch: u32, progress: LearnerProgress },
    /// Broadcast: serves clients.
    Serving { epoch: u32, progress: LearnerProgress },
}

#[derive(Debug)]
enum DialState {
    Waiting,
    Pausing { until_ms: i64 },
}

#[derive(Debug)]
struct SavingEpoch {
    io: IoId,
    epoch: u32,
    /// The current epoch for the ACKEPOCH.
    current_epoch: i32,
}

#[derive(Debug)]
struct ReceivingDiff {
    epoch: u32,
    committed: Zxid,
}

/// The acks and commits of a learner.
#[derive(Clone, Copy, Debug)]
struct LearnerProgress {
    /// The last transaction that was acknowledged or needs no ack of its own.
    acked: Zxid,
    /// The last transaction that is in the initial history or was committed by the leader.
    committed: Zxid,
}

impl LearnerStep {
    fn name(&self) -> &'static str {
        match self {
            LearnerStep::Dialing(_) => "connecting",
            LearnerStep::AwaitingLeaderInfo => "waiting for LEADERINFO",
            LearnerStep::SavingEpoch(_) => "saving the accepted epoch",
            LearnerStep::AwaitingSync { .. } => "waiting for DIFF, TRUNC or SNAP",
            LearnerStep::ReceivingSnapshot { .. } => "receiving a snapshot",
            LearnerStep::ReceivingSnapshotTail(_) => "receiving transactions after a snapshot",
            LearnerStep::InstallingSnapshot { .. } => "installing a snapshot",
            LearnerStep::Truncating { .. } => "truncating the log",
            LearnerStep::Quarantining { .. } => "moving the data aside",
            LearnerStep::ReceivingDiff(_) => "receiving a DIFF",
            LearnerStep::SavingNewLeader { .. } => "saving the current epoch",
            LearnerStep::AwaitingUpToDate { .. } => "waiting for UPTODATE",
            LearnerStep::Serving { .. } => "broadcast",
        }
    }
}

impl Learner {
    /// Starts to connect to a leader.
    pub(crate) fn new(
        election_result: ElectionResult,
        masters: LearnerMasters,
        link: LinkId,
        start: LearnerStart,
        out: &mut Vec<Action>,
    ) -> Learner {
        let ElectionResult { leader, established_epoch, .. } = election_result;
        let LearnerStart { now_ms, pause_ms } = start;
        let step = if pause_ms > 0 {
            LearnerStep::Dialing(DialState::Pausing { until_ms: now_ms + pause_ms })
        } else {
            let (to, port) = masters.current();
            out.push(Action::Peer(PeerEffect::Dial { link, to, port }));
            LearnerStep::Dialing(DialState::Waiting)
        };
        Learner {
            leader,
            tries_left: masters.attempts_max(),
            connecting_since_ms: now_ms + pause_ms,
            masters,
            link,
            role: Role::Participant,
            vote: LearnerVote::Counted,
            established_epoch,
            step,
            last_heard_ms: now_ms + pause_ms,
            blocked_packets: BlockedPackets::default(),
            is_link_lost: false,
            announced_config: None,
            leader_zebu: None,
            role_change: None,
            observer_master: None,
        }
    }

    /// The server that it is connected to, or connects to.
    pub(crate) fn master(&self) -> ServerId {
        self.masters.current().0
    }

    /// The observers of this server.
    pub(crate) fn observer_master(&self) -> Option<&ObserverMaster> {
        self.observer_master.as_deref()
    }

    /// An observer connected to this server.
    pub(crate) fn accept_observer(&mut self, link: LinkId, context: &mut PeerContext<'_>) {
        match &mut self.observer_master {
            Some(observer_master) => observer_master.accept_observer(link, context.now_ms),
            None => context
                .out
                .push(Action::Peer(PeerEffect::Close { link, reason: LinkCloseReason::NotFollowing })),
        }
    }

    /// The bytes of the transactions that were received after a snapshot and wait for its installation.
    pub(crate) fn collected_bytes(&self) -> usize {
        match &self.step {
            LearnerStep::ReceivingSnapshotTail(snapshot_tail) => snapshot_tail.bytes(),
            _ => 0,
        }
    }

    /// The weight of the packets that wait for the disk.
    pub(crate) fn blocked_weight(&self) -> usize {
        self.blocked_packets.weight()
    }

    pub(crate) fn link(&self) -> LinkId {
        self.link
    }

    /// The role in which it serves clients.
    pub(crate) fn serving(&self) -> Option<ServingRole> {
        match self.step {
            LearnerStep::Serving { epoch, .. } => Some(match self.role {
                Role::Participant => ServingRole::Following { leader: self.leader, epoch },
                Role::Observer => ServingRole::Observing { leader: self.leader, epoch },
            }),
            LearnerStep::Dialing(_)
            | LearnerStep::AwaitingLeaderInfo
            | LearnerStep::SavingEpoch(_)
            | LearnerStep::AwaitingSync { .. }
            | LearnerStep::ReceivingSnapshot { .. }
            | LearnerStep::ReceivingSnapshotTail(_)
            | LearnerStep::InstallingSnapshot { .. }
            | LearnerStep::Truncating { .. }
            | LearnerStep::Quarantining { .. }
            | LearnerStep::ReceivingDiff(_)
            | LearnerStep::SavingNewLeader { .. }
            | LearnerStep::AwaitingUpToDate { .. } => None,
        }
    }

    /// Handles an event of the connection or of the disk.
    pub(crate) fn handle(&mut self, event: PeerEvent, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        match event {
            PeerEvent::Dialed { link }
                if link == self.link && matches!(self.step, LearnerStep::Dialing(DialState::Waiting)) =>
            {
                self.last_heard_ms = context.now_ms;
                self.send_learner_info(context);
                Ok(())
            }
            // A late event of a connection that this side has closed.
            PeerEvent::LinkDown { link } | PeerEvent::Packet { link, .. }
                if link == self.link
                    && matches!(self.step, LearnerStep::Dialing(DialState::Pausing { .. })) =>
            {
                Ok(())
            }
            PeerEvent::LinkDown { link } if link == self.link && self.is_blocked() => {
                self.is_link_lost = true;
                Ok(())
            }
            PeerEvent::DialFailed { link } | PeerEvent::LinkDown { link } if link == self.link => {
                self.handle_link_lost(context)
            }
            PeerEvent::Packet { link, packet } if link == self.link => {
                self.last_heard_ms = context.now_ms;
                if self.is_blocked() {
                    let bytes_max = context.state.settings.history.bytes;
                    self.blocked_packets.push(packet, self.link, bytes_max, context.out);
                    return Ok(());
                }
                self.handle_packet(packet, context)
            }
            PeerEvent::SnapshotProgress { link } if link == self.link => {
                self.last_heard_ms = context.now_ms;
                Ok(())
            }
            PeerEvent::SnapshotReceived { link } if link == self.link => {
                self.last_heard_ms = context.now_ms;
                self.snapshot_received()
            }
            PeerEvent::Persisted { .. } => self.handle_persisted(context),
            PeerEvent::TruncateRefused { io } => self.truncate_refused(io, context),
            PeerEvent::DiskRoom { .. } => Ok(()),
            other => {
                if let Some(observer_master) = &mut self.observer_master {
                    observer_master.handle(other, context);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn deadline(&self, state: &ZabState) -> i64 {
        if self.is_blocked() {
            return i64::MAX;
        }
        let silent = (self.last_heard_ms + self.silence_limit_ms(state)).min(self.leaves_at_ms(state));
        let silent = silent.min(self.disk_deadline(state));
        let silent = self
            .observer_master
            .as_ref()
            .map_or(silent, |observer_master| silent.min(observer_master.deadline()));
        match &self.step {
            LearnerStep::Dialing(DialState::Pausing { until_ms }) => silent.min(*until_ms),
            _ => silent,
        }
    }

    pub(crate) fn timeout(
        &mut self,
        next_link: impl FnOnce() -> LinkId,
        context: &mut PeerContext<'_>,
    ) -> Result<(), StepDown> {
        let now_ms = context.now_ms;
        if let LearnerStep::Dialing(DialState::Pausing { until_ms }) = self.step
            && until_ms <= now_ms
        {
            self.link = next_link();
            let (to, port) = self.masters.current();
            context.out.push(Action::Peer(PeerEffect::Dial { link: self.link, to, port }));
            self.step = LearnerStep::Dialing(DialState::Waiting);
        }
        if let Some(observer_master) = &mut self.observer_master {
            observer_master.timeout(context);
        }
        self.leave_if_due(context)?;
        let state = &*context.state;
        if self.disk_deadline(state) <= now_ms {
            let ms = now_ms - state.disk.busy_since_ms().unwrap_or(now_ms);
            return Err(StepDown::for_reason(LinkCloseReason::SlowDisk { ms }));
        }
        // While the disk works for the synchronization, the leader may have nothing to send.
        if now_ms >= self.last_heard_ms + self.silence_limit_ms(state) && !self.is_blocked() {
            return Err(StepDown::for_reason(LinkCloseReason::TimedOut));
        }
        Ok(())
    }

    /// Sends a packet to the leader, if this learner serves.
    pub(crate) fn send_to_leader(&mut self, mut packet: Packet, own_room: DiskRoom, out: &mut Vec<Action>) {
        if let LearnerStep::Serving { .. } = self.step {
            self.tell_room(own_room, &mut packet);
            let packet = match &mut self.observer_master {
                Some(observer_master) => observer_master.prepare_for_leader(packet),
                None => packet,
            };
            out.push(Action::Peer(PeerEffect::Send { link: self.link, packet }));
        }
    }

    /// A session has ended: its requests need no owner any more.
    pub(crate) fn session_ended(&mut self, session: SessionId) {
        if let Some(observer_master) = &mut self.observer_master {
            observer_master.session_ended(session);
        }
    }

    fn silence_limit_ms(&self, state: &ZabState) -> i64 {
        let settings = &state.settings;
        match self.step {
            LearnerStep::Serving { .. } => settings.sync_limit * settings.tick_ms,
            LearnerStep::Dialing(_) => settings.connect_limit * settings.tick_ms,
            LearnerStep::AwaitingLeaderInfo
            | LearnerStep::SavingEpoch(_)
            | LearnerStep::AwaitingSync { .. }
            | LearnerStep::ReceivingSnapshot { .. }
            | LearnerStep::ReceivingSnapshotTail(_)
            | LearnerStep::InstallingSnapshot { .. }
            | LearnerStep::Truncating { .. }
            | LearnerStep::Quarantining { .. }
            | LearnerStep::ReceivingDiff(_)
            | LearnerStep::SavingNewLeader { .. }
            | LearnerStep::AwaitingUpToDate { .. } => settings.init_limit * settings.tick_ms,
        }
    }

    /// The time at which a serving learner stops because its disk has not finished a write for syncLimit.
    /// Its clients would read data that is too old. The leader of an observer would not notice.
    fn disk_deadline(&self, state: &ZabState) -> i64 {
        let settings = &state.settings;
        match (&self.step, state.disk.busy_since_ms()) {
            (LearnerStep::Serving { .. }, Some(since_ms)) => {
                since_ms + settings.sync_limit * settings.tick_ms
            }
            _ => i64::MAX,
        }
    }

    /// The role for the next FOLLOWERINFO or OBSERVERINFO.
    fn role_for_leader(&self, state: &ZabState) -> Role {
        match self.vote {
            LearnerVote::Counted => state.settings.role,
            LearnerVote::Withheld => Role::Observer,
        }
    }

    /// Whether packets have to wait for the disk.
    fn is_blocked(&self) -> bool {
        matches!(
            self.step,
            LearnerStep::InstallingSnapshot { .. }
                | LearnerStep::Truncating { .. }
                | LearnerStep::Quarantining { .. }
        )
    }

    fn handle_packet(&mut self, packet: Packet, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        match &self.step {
            LearnerStep::AwaitingLeaderInfo => self.handle_leader_info(packet, context),
            LearnerStep::AwaitingSync { .. } => self.begin_sync(packet, context),
            LearnerStep::ReceivingSnapshotTail(_) => self.handle_snapshot_tail(packet, context),
            LearnerStep::ReceivingDiff(_) => self.handle_diff_packet(packet, context),
            LearnerStep::SavingNewLeader { .. }
            | LearnerStep::AwaitingUpToDate { .. }
            | LearnerStep::Serving { .. } => self.handle_broadcast_packet(packet, context),
            LearnerStep::Dialing(_)
            | LearnerStep::SavingEpoch(_)
            | LearnerStep::ReceivingSnapshot { .. }
            | LearnerStep::InstallingSnapshot { .. }
            | LearnerStep::Truncating { .. }
            | LearnerStep::Quarantining { .. } => Err(self.unexpected_packet(&packet)),
        }
    }

    fn handle_persisted(&mut self, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        if self.is_blocked() {
            // The timeout was suspended while the disk worked.
            self.last_heard_ms = context.now_ms;
        }
        match &self.step {
            LearnerStep::SavingEpoch(saving) if context.state.disk.has_done(saving.io) => {
                self.epoch_saved(context)
            }
            LearnerStep::Truncating { io, .. } if context.state.disk.has_done(*io) => {
                self.truncated(context.state)
            }
            LearnerStep::InstallingSnapshot { io, zxid, .. }
                if self.is_link_lost && context.state.disk.has_done(*io) =>
            {
                // Transactions after the snapshot were never acknowledged.
                context.state.snapshot_installed(
                    *zxid,
                    self.announced_config.as_ref().map(|announced| announced.version),
                );
                return Err(StepDown::for_reason(LinkCloseReason::ConnectionLost));
            }
            LearnerStep::InstallingSnapshot { io, .. } if context.state.disk.has_done(*io) => {
                self.snapshot_installed(context)
            }
            LearnerStep::Quarantining { io } if context.state.disk.has_done(*io) => {
                context.state.data_quarantined();
                return Err(StepDown::for_reason(LinkCloseReason::RoleEnded));
            }
            LearnerStep::ReceivingDiff(diff) => context.state.load_early(diff.committed, context.out),
            LearnerStep::SavingNewLeader { io, .. } if context.state.disk.has_done(*io) => {
                self.ack_new_leader(context)
            }
            LearnerStep::AwaitingUpToDate { .. } | LearnerStep::Serving { .. } => self.send_acks(context),
            _ => {}
        }
        if self.is_link_lost && !self.is_blocked() {
            return Err(StepDown::for_reason(LinkCloseReason::ConnectionLost));
        }
        while !self.is_blocked()
            && let Some(packet) = self.blocked_packets.pop(self.link, context.out)
        {
            self.handle_packet(packet, context)?;
        }
        Ok(())
    }

    fn unexpected_packet(&self, packet: &Packet) -> StepDown {
        StepDown::for_reason(LinkCloseReason::UnexpectedPacket {
            step: self.step.name(),
            packet: packet_name(packet),
        })
    }
}
