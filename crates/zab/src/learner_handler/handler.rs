//! The learner handler: identity and phase of one learner, and its position in the history. It has no queue
//! of proposals: they are read from the history when they are sent.

use std::collections::VecDeque;

use zebu_proto::quorum::{DiskRoom, Packet, PeerAnnouncement};
use zebu_proto::{ServerId, Zxid};

use super::lag::{LagSample, LagTracker};
use super::pings::PingTracker;
use crate::action::LinkCloseReason;
use crate::encoded_txn::EncodedTxn;
use crate::event::LinkId;
use crate::latency::LatencyProbe;
use crate::role::Role;
use crate::settings::PeerSettings;
use crate::status::LearnerStatus;

/// One connection of a learner.
#[derive(Debug)]
pub(crate) struct LearnerHandler {
    pub(crate) link: LinkId,
    pub(crate) step: HandlerStep,
    /// When the learner was last heard or took data, in milliseconds.
    pub(crate) last_heard_ms: i64,
    /// The weight of the packets in the send queue.
    pub(crate) in_flight_weight: usize,
    /// The pings without a reply. An observer master does not use it.
    pub(crate) pings: PingTracker,
    /// Whether the ACKEPOCH of the learner counts for the epoch. It does not if the learner accepted this
    /// epoch or a later one before, or if its disk keeps no transactions.
    pub(crate) has_acked_epoch: bool,
    /// What a Zebu server has told about itself.
    pub(crate) zebu: Option<PeerAnnouncement>,
    /// The room on its disk.
    pub(crate) room: DiskRoom,
    /// From sending a proposal to its ACK.
    pub(crate) acks: LatencyProbe,
    /// Whether its ACKs are much slower than those of the others.
    pub(crate) is_slow: bool,
}

/// The timeouts of a learner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LearnerTimeouts {
    /// The limit during synchronization (`initLimit`), in milliseconds.
    pub(crate) init_ms: i64,
    /// The limit once the learner serves (`syncLimit`), in milliseconds.
    pub(crate) sync_ms: i64,
}

impl LearnerTimeouts {
    pub(crate) fn from_settings(settings: &PeerSettings) -> LearnerTimeouts {
        let PeerSettings { init_limit, sync_limit, tick_ms, .. } = settings;
        LearnerTimeouts { init_ms: init_limit * tick_ms, sync_ms: sync_limit * tick_ms }
    }
}

/// The server on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LearnerIdentity {
    pub(crate) server: ServerId,
    /// The role that it announced.
    pub(crate) role: Role,
}

impl LearnerIdentity {
    /// Whether this is a voter that has acked NEWLEADER, so that its acks of proposals count.
    pub(crate) fn is_follower_after_ack(self, progress: &ReplicationProgress) -> bool {
        match progress.phase {
            SyncPhase::SendingDiff { .. } | SyncPhase::AwaitingNewLeaderAck { .. } => false,
            SyncPhase::NewLeaderAcked | SyncPhase::UpToDate => self.role == Role::Participant,
        }
    }
}

/// The phase of a learner.
#[derive(Debug)]
pub(crate) enum HandlerStep {
    /// FOLLOWERINFO or OBSERVERINFO is awaited.
    Unidentified,
    /// The leader has not chosen its epoch yet.
    AwaitingEpoch(LearnerIdentity),
    /// LEADERINFO was sent; ACKEPOCH is awaited.
    EpochProposed(LearnerIdentity),
    /// ACKEPOCH was received; the handler waits for a quorum.
    EpochAcked(LearnerIdentity, LearnerPosition),
    /// The log is read, to find whether it reaches back to the learner's last transaction.
    CheckingLog(LearnerIdentity, LearnerPosition),
    /// A snapshot is being sent, up to this transaction.
    SendingSnapshot(LearnerIdentity, Zxid),
    /// Transactions are sent.
    Replicating(LearnerIdentity, ReplicationProgress),
}

/// The history of a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LearnerPosition {
    pub(crate) last: Zxid,
}

impl LearnerHandler {
    /// The handler of a new connection.
    pub(crate) fn new(link: LinkId, now_ms: i64) -> LearnerHandler {
        LearnerHandler {
            link,
            step: HandlerStep::Unidentified,
            last_heard_ms: now_ms,
            in_flight_weight: 0,
            pings: PingTracker::new(),
            has_acked_epoch: false,
            zebu: None,
            room: DiskRoom::Enough,
            acks: LatencyProbe::default(),
            is_slow: false,
        }
    }

    pub(crate) fn is_up_to_date(&self) -> bool {
        matches!(&self.step, HandlerStep::Replicating(_, progress) if progress.phase == SyncPhase::UpToDate)
    }

    /// Whether pings are sent. Before the ack of NEWLEADER, other packets keep the connection alive.
    pub(crate) fn accepts_pings(&self) -> bool {
        matches!(
            &self.step,
            HandlerStep::Replicating(_, progress) if matches!(progress.phase, SyncPhase::NewLeaderAcked | SyncPhase::UpToDate)
        )
    }

    /// Packets left the send queue.
    pub(crate) fn record_sent(&mut self, weight: usize, now_ms: i64) {
        self.in_flight_weight = self.in_flight_weight.saturating_sub(weight);
        if !self.is_up_to_date() {
            self.last_heard_ms = now_ms;
        }
    }

    /// Checks the timeouts: the learner is silent, or lags too far behind. Observers send no acks, so the
    /// transactions sent to them count.
    pub(crate) fn check_timeouts(
        &mut self,
        timeouts: LearnerTimeouts,
        (last, committed): (Zxid, Zxid),
        now_ms: i64,
    ) -> Option<LinkCloseReason> {
        let LearnerTimeouts { init_ms, sync_ms } = timeouts;
        let silent_ms = if self.is_up_to_date() { sync_ms } else { init_ms };
        if self.last_heard_ms + silent_ms <= now_ms {
            return Some(LinkCloseReason::TimedOut);
        }
        let HandlerStep::Replicating(identity, progress) = &mut self.step else { return None };
        let sent = progress.proposed;
        let sample = match (identity.role, progress.phase) {
            (_, SyncPhase::SendingDiff { .. } | SyncPhase::AwaitingNewLeaderAck { .. }) => return None,
            (Role::Participant, _) => LagSample { acked: progress.acked, sent, last },
            (Role::Observer, SyncPhase::NewLeaderAcked) => return None,
            (Role::Observer, SyncPhase::UpToDate) => LagSample { acked: sent, sent, last: committed },
        };
        let since_ms = progress.lag.lagging_since(sample, now_ms)?;
        (since_ms + sync_ms <= now_ms).then_some(LinkCloseReason::TooFarBehind {
            server: identity.server,
            has: sample.acked,
            last: sample.last,
            behind_ms: now_ms - since_ms,
        })
    }

    /// The status of the learner, once it is identified.
    pub(crate) fn status(&self) -> Option<LearnerStatus> {
        let server = self.step.identity()?.server;
        let progress = self.step.replicating().map(|(_, progress)| progress);
        let synced = progress.is_some_and(|progress| progress.phase == SyncPhase::UpToDate);
        let acked = progress.map_or(Zxid::ZERO, |progress| progress.acked);
        Some(LearnerStatus {
            link: self.link,
            server,
            synced,
            acked,
            zebu: self.zebu,
            room: self.room,
            ack_p99_ms: self.acks.p99_ms(),
            slow: self.is_slow,
        })
    }
}

impl HandlerStep {
    pub(crate) fn identity(&self) -> Option<LearnerIdentity> {
        match self {
            HandlerStep::Unidentified => None,
            HandlerStep::AwaitingEpoch(identity)
            | HandlerStep::EpochProposed(identity)
            | HandlerStep::EpochAcked(identity, _)
            | HandlerStep::CheckingLog(identity, _)
            | HandlerStep::SendingSnapshot(identity, _)
            | HandlerStep::Replicating(identity, _) => Some(*identity),
        }
    }

    /// The identity and the position of a learner that receives transactions.
    pub(crate) fn replicating(&self) -> Option<(&LearnerIdentity, &ReplicationProgress)> {
        match self {
            HandlerStep::Replicating(identity, progress) => Some((identity, progress)),
            HandlerStep::Unidentified
            | HandlerStep::AwaitingEpoch(_)
            | HandlerStep::EpochProposed(_)
            | HandlerStep::EpochAcked(..)
            | HandlerStep::CheckingLog(..)
            | HandlerStep::SendingSnapshot(..) => None,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            HandlerStep::Unidentified => "waiting for FOLLOWERINFO or OBSERVERINFO",
            HandlerStep::AwaitingEpoch(_) => "waiting for the epoch",
            HandlerStep::EpochProposed(_) => "waiting for ACKEPOCH",
            HandlerStep::EpochAcked(..) => "waiting for a quorum",
            HandlerStep::CheckingLog(..) | HandlerStep::SendingSnapshot(..) => "synchronization",
            HandlerStep::Replicating(..) => "replication",
        }
    }
}

/// The position of a learner in the history.
#[derive(Debug)]
pub(crate) struct ReplicationProgress {
    pub(crate) phase: SyncPhase,
    /// The last transaction that was sent.
    pub(crate) proposed: Zxid,
    /// The last transaction whose commit was sent.
    pub(crate) committed: Zxid,
    /// The last transaction that the learner has acknowledged.
    pub(crate) acked: Zxid,
    /// Replies that were not sent yet.
    pub(crate) replies: VecDeque<LearnerReply>,
    /// Transactions that are read from the log.
    pub(crate) log_fetch: LogFetch,
    /// How long the learner lags.
    pub(crate) lag: LagTracker,
}

/// A reply to a learner, to be sent after the commit of a transaction.
#[derive(Debug)]
pub(crate) struct LearnerReply {
    pub(crate) after: Zxid,
    pub(crate) packet: Packet,
}

/// The phase of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncPhase {
    /// Transactions up to `up_to` are sent, each with its commit.
    SendingDiff { up_to: Zxid },
    /// NEWLEADER was sent; its ACK is awaited. Commits wait too, because some learners reject them now.
    AwaitingNewLeaderAck { up_to: Zxid },
    /// The learner has acked NEWLEADER and waits for UPTODATE.
    NewLeaderAcked,
    /// UPTODATE was sent; the learner serves.
    UpToDate,
}

/// The state of reading transactions from the log.
#[derive(Debug)]
pub(crate) enum LogFetch {
    /// No read.
    Idle,
    /// A read was requested.
    Requested,
    /// The transactions of the last read that were not sent yet.
    Ready(VecDeque<EncodedTxn>),
}

impl ReplicationProgress {
    /// Starts after a transaction that the learner has, up to the last committable one.
    pub(crate) fn new(after: Zxid, up_to: Zxid) -> ReplicationProgress {
        ReplicationProgress {
            phase: SyncPhase::SendingDiff { up_to },
            proposed: after,
            committed: after,
            acked: Zxid::ZERO,
            replies: VecDeque::new(),
            log_fetch: LogFetch::Idle,
            lag: LagTracker::default(),
        }
    }
}
