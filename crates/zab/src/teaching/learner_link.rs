//! A learner, as the one that it learns from sees it: who it is, how far the conversation has come, and a cursor into the
//! history. There is no queue: what it has not been sent yet is in the history.

use std::collections::VecDeque;

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use super::backlog::{Backlog, Reached};
use super::pings::Pings;
use crate::action::CloseReason;
use crate::entry::Entry;
use crate::event::LinkId;
use crate::settings::PeerSettings;
use crate::status::LearnerStatus;

/// Follower or observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Follower,
    Observer,
}

/// One connection of a learner.
#[derive(Debug)]
pub(crate) struct LearnerLink {
    pub(crate) step: Step,
    /// When it was heard of last, or took something.
    pub(crate) heard_ms: i64,
    /// What is on its way to it, as a sum of weights.
    pub(crate) waiting: usize,
    /// What it was asked, and has to answer. A follower counts nobody.
    pub(crate) pings: Pings,
}

/// How long a learner is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// While it is brought up to date.
    pub(crate) init_ms: i64,
    /// Once it serves.
    pub(crate) sync_ms: i64,
}

impl Patience {
    pub(crate) fn of(settings: &PeerSettings) -> Patience {
        let PeerSettings { init_limit, sync_limit, tick_ms, .. } = settings;
        Patience { init_ms: init_limit * tick_ms, sync_ms: sync_limit * tick_ms }
    }
}

/// Who is at the other end, once that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) server: ServerId,
    pub(crate) kind: Kind,
}

/// How far a learner has come.
#[derive(Debug)]
pub(crate) enum Step {
    /// Has not said who it is.
    Stranger,
    /// Waits for the epoch.
    AwaitingEpoch(Identity),
    /// Was told the epoch, has not promised it.
    Promising(Identity),
    /// Has promised the epoch and waits until a quorum has.
    Promised(Identity, Position),
    /// The log is asked whether it reaches back to its last transaction.
    Probing(Identity, Position),
    /// A whole state is on its way.
    Streaming(Identity, Zxid),
    /// The history flows.
    Flowing(Identity, Cursor),
}

/// What a learner has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) last: Zxid,
}

impl LearnerLink {
    /// One that has just connected.
    pub(crate) fn new(now_ms: i64) -> LearnerLink {
        LearnerLink { step: Step::Stranger, heard_ms: now_ms, waiting: 0, pings: Pings::new() }
    }

    pub(crate) fn is_up_to_date(&self) -> bool {
        matches!(&self.step, Step::Flowing(_, cursor) if cursor.phase == Phase::UpToDate)
    }

    /// Before it has accepted the history, what it is sent keeps it patient.
    pub(crate) fn takes_pings(&self) -> bool {
        matches!(
            &self.step,
            Step::Flowing(_, cursor) if matches!(cursor.phase, Phase::Accepted | Phase::UpToDate)
        )
    }

    /// What it took has left.
    pub(crate) fn took(&mut self, weight: usize, now_ms: i64) {
        self.waiting = self.waiting.saturating_sub(weight);
        if !self.is_up_to_date() {
            self.heard_ms = now_ms;
        }
    }

    /// Why the connection is to be given up, if it is: nothing is heard of the learner, or it is too far behind. What an
    /// observer has on disk is not known, so what was sent to it counts.
    pub(crate) fn patience_ended(
        &mut self,
        patience: Patience,
        (last, decided): (Zxid, Zxid),
        now_ms: i64,
    ) -> Option<CloseReason> {
        let Patience { init_ms, sync_ms } = patience;
        let silent_ms = if self.is_up_to_date() { sync_ms } else { init_ms };
        if self.heard_ms + silent_ms <= now_ms {
            return Some(CloseReason::Silent);
        }
        let Step::Flowing(identity, cursor) = &mut self.step else { return None };
        let sent = cursor.proposed;
        let reached = match (identity.kind, cursor.phase) {
            (_, Phase::Catching { .. } | Phase::AwaitingAck { .. }) => return None,
            (Kind::Follower, _) => Reached { has: cursor.acked, sent, last },
            (Kind::Observer, Phase::Accepted) => return None,
            (Kind::Observer, Phase::UpToDate) => Reached { has: sent, sent, last: decided },
        };
        let since_ms = cursor.backlog.lacks_since(reached, now_ms)?;
        (since_ms + sync_ms <= now_ms).then_some(CloseReason::TooFarBehind {
            server: identity.server,
            has: reached.has,
            last: reached.last,
            behind_ms: now_ms - since_ms,
        })
    }

    /// For reports; nothing before it has said who it is.
    pub(crate) fn status(&self, link: LinkId) -> Option<LearnerStatus> {
        let server = self.step.identity()?.server;
        let (synced, acked) = match &self.step {
            Step::Flowing(_, cursor) => (cursor.phase == Phase::UpToDate, cursor.acked),
            _ => (false, Zxid::ZERO),
        };
        Some(LearnerStatus { link, server, synced, acked })
    }
}

impl Step {
    pub(crate) fn identity(&self) -> Option<Identity> {
        match self {
            Step::Stranger => None,
            Step::AwaitingEpoch(identity)
            | Step::Promising(identity)
            | Step::Promised(identity, _)
            | Step::Probing(identity, _)
            | Step::Streaming(identity, _)
            | Step::Flowing(identity, _) => Some(*identity),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Step::Stranger => "the greeting",
            Step::AwaitingEpoch(_) => "the choice of an epoch",
            Step::Promising(_) => "the promise of an epoch",
            Step::Promised(..) => "the wait for a quorum",
            Step::Probing(..) | Step::Streaming(..) => "the synchronisation",
            Step::Flowing(..) => "the broadcast",
        }
    }
}

/// Where a learner stands in the history.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) phase: Phase,
    /// The last transaction that was sent.
    pub(crate) proposed: Zxid,
    /// The last transaction whose commit was sent.
    pub(crate) committed: Zxid,
    /// The last transaction that it has acknowledged, with everything before it.
    pub(crate) acked: Zxid,
    /// What has to follow a commit.
    pub(crate) answers: VecDeque<(Zxid, Packet)>,
    /// Old transactions from the log.
    pub(crate) reading: Reading,
    /// How far it is behind.
    pub(crate) backlog: Backlog,
}

/// How far the synchronisation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Transactions that are decided, or will be with this epoch, up to this one.
    Catching { up_to: Zxid },
    /// Has been told that this is the leader's history; its word is awaited. Commits wait too: some learners
    /// cannot take one now.
    AwaitingAck { up_to: Zxid },
    /// Has accepted it; waits for the quorum.
    Accepted,
    /// Serves.
    UpToDate,
}

/// Old transactions that are read back from the log.
#[derive(Debug)]
pub(crate) enum Reading {
    /// None.
    Nothing,
    /// Asked for.
    Asked,
    /// Here, to be sent.
    Here(VecDeque<Entry>),
}

impl Cursor {
    /// Behind a transaction that the learner has, up to the end of what is decided.
    pub(crate) fn new(after: Zxid, up_to: Zxid) -> Cursor {
        Cursor {
            phase: Phase::Catching { up_to },
            proposed: after,
            committed: after,
            acked: Zxid::ZERO,
            answers: VecDeque::new(),
            reading: Reading::Nothing,
            backlog: Backlog::default(),
        }
    }
}
