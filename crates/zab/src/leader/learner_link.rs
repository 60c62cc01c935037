//! A learner, as its leader sees it: who it is, how far the conversation has come, and a cursor into the
//! history. There is no queue: what it has not been sent yet is in the history.

use std::collections::VecDeque;

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use crate::entry::Entry;

/// Follower or observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Follower,
    Observer,
}

/// One connection of a learner.
#[derive(Debug)]
pub(super) struct LearnerLink {
    pub(super) step: Step,
    /// When it was heard of last, or took something.
    pub(super) heard_ms: i64,
    /// What is on its way to it, as a sum of weights.
    pub(super) waiting: usize,
}

/// Who is at the other end, once that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) server: ServerId,
    pub(super) kind: Kind,
}

/// How far a learner has come.
#[derive(Debug)]
pub(super) enum Step {
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
pub(super) struct Position {
    pub(super) last: Zxid,
}

impl Step {
    pub(super) fn identity(&self) -> Option<Identity> {
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

    pub(super) fn name(&self) -> &'static str {
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
pub(super) struct Cursor {
    pub(super) phase: Phase,
    /// The last transaction that was sent.
    pub(super) proposed: Zxid,
    /// The last transaction whose commit was sent.
    pub(super) committed: Zxid,
    /// The last transaction that it has acknowledged, with everything before it.
    pub(super) acked: Zxid,
    /// What has to follow a commit.
    pub(super) answers: VecDeque<(Zxid, Packet)>,
    /// Old transactions from the log.
    pub(super) reading: Reading,
    /// A transaction that it has not acknowledged, and since when that is watched.
    pub(super) unacked: Option<(Zxid, i64)>,
}

/// How far the synchronisation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
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
pub(super) enum Reading {
    /// None.
    Nothing,
    /// Asked for.
    Asked,
    /// Here, to be sent.
    Here(VecDeque<Entry>),
}

impl Cursor {
    /// Behind a transaction that the learner has, up to the end of what is decided.
    pub(super) fn new(after: Zxid, up_to: Zxid) -> Cursor {
        Cursor {
            phase: Phase::Catching { up_to },
            proposed: after,
            committed: after,
            acked: Zxid::ZERO,
            answers: VecDeque::new(),
            reading: Reading::Nothing,
            unacked: None,
        }
    }
}
