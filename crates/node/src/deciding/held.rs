//! What is not taken up before it is known that this server still leads: its followers may have left it for another
//! leader, who counts the timeouts of all sessions from its own beginning, and then nobody may be told here that a
//! session lives. What a held sync is followed by waits with it, because a client sees its requests in order.

use std::collections::VecDeque;

use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::quorum::Packet;
use zebu_zab::{LinkId, PingNumber};

use super::Decider;
use crate::agreement::Origin;
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{LaneId, LaneSession, Lanes};
use crate::receive::Submission;
use crate::replica::Replica;

/// Something that was asked for.
#[derive(Debug)]
pub(super) enum Matter {
    /// A sync of a client of this server, or what came behind it.
    Request(Submission),
    /// A connection that takes up a session again.
    Resume { lane: LaneId, session: LaneSession, read_only: ReadOnlyField },
    /// A sync of a learner's client, or what came behind it.
    Forwarded { link: LinkId, packet: Packet },
    /// A learner's question about a session. What comes behind it does not concern it.
    Question { link: LinkId, packet: Packet },
}

/// Whose requests stay in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Lane(LaneId),
    Link(LinkId),
}

/// In the order in which they came, each with the ping that a quorum has to answer first. All that a client or a learner
/// may have on its way has limits elsewhere.
#[derive(Debug, Default)]
pub(super) struct Held(VecDeque<(Option<PingNumber>, Matter)>);

impl Matter {
    fn source(&self) -> Option<Source> {
        match self {
            Matter::Request(submission) => Some(Source::Lane(submission.lane)),
            Matter::Forwarded { link, .. } => Some(Source::Link(*link)),
            Matter::Resume { .. } | Matter::Question { .. } => None,
        }
    }

    fn origin(&self) -> Origin {
        match self {
            Matter::Request(submission) => Origin::Request { lane: submission.lane, slot: submission.slot },
            Matter::Resume { lane, read_only, .. } => Origin::Connect { lane: *lane, read_only: *read_only },
            Matter::Forwarded { .. } | Matter::Question { .. } => Origin::Nobody,
        }
    }
}

impl Held {
    /// Whether something of this source waits.
    pub(super) fn holds(&self, source: Source) -> bool {
        self.0.iter().any(|(_, matter)| matter.source() == Some(source))
    }

    pub(super) fn push(&mut self, until: Option<PingNumber>, matter: Matter) {
        self.0.push_back((until, matter));
    }

    /// A learner is gone, and nobody waits for what it has asked.
    pub(super) fn forget_link(&mut self, gone: LinkId) {
        self.0.retain(|(_, matter)| match matter {
            Matter::Forwarded { link, .. } | Matter::Question { link, .. } => *link != gone,
            Matter::Request(_) | Matter::Resume { .. } => true,
        });
    }

    pub(super) fn give_up(self, desk: &mut Desk, lanes: &mut impl Lanes) {
        for (_, matter) in self.0 {
            desk.give_up(matter.origin(), lanes);
        }
    }

    fn next(&mut self, desk: &Desk) -> Option<Matter> {
        let (until, _) = self.0.front()?;
        if until.is_none_or(|ping| desk.is_answered(ping)) {
            return self.0.pop_front().map(|(_, matter)| matter);
        }
        None
    }
}

impl Decider {
    /// Takes up what was held, as far as it may be. Returns whether there was anything.
    pub(crate) fn take_up(
        &mut self,
        desk: &mut Desk,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) -> TakenUp {
        let mut taken_up = TakenUp::Nothing;
        while let Some(matter) = self.held.next(desk) {
            taken_up = TakenUp::Something;
            match matter {
                Matter::Request(submission) => self.carry_out(desk, submission, replica, lanes, now),
                Matter::Resume { lane, session, read_only } => {
                    self.give_session(desk, (lane, session, read_only), replica, lanes, now);
                }
                Matter::Forwarded { link, packet } | Matter::Question { link, packet } => {
                    self.serve_learner(desk, link, packet, replica, lanes, now);
                }
            }
        }
        taken_up
    }
}

/// What came of [`Decider::take_up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenUp {
    Nothing,
    Something,
}
