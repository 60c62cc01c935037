//! What is not taken up before it is known that this server still leads: its followers may have left it for another
//! leader, who counts the timeouts of all sessions from its own beginning, and then nobody may be told here that a
//! session lives. What a held sync is followed by waits with it, because a client sees its requests in order.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::quorum::Packet;
use zebu_proto::{OpCode, SessionId};
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
    /// A sync of a learner's client, or a later request of the same session.
    Forwarded { link: LinkId, packet: Packet },
    /// A learner's question about a session. What comes behind it does not concern it.
    Question { link: LinkId, packet: Packet },
}

/// Whose requests stay in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// A client of this server.
    Lane(LaneId),
    /// A client of a learner: its other clients do not wait for its syncs.
    Session(LinkId, SessionId),
    /// The syncs of all clients of a learner: their answers have no number, only an order.
    Link(LinkId),
}

/// In the order in which they came, each with the ping that a quorum has to answer first. All that a client or a learner
/// may have on its way has limits elsewhere.
#[derive(Debug, Default)]
pub(super) struct Held {
    matters: VecDeque<(Option<PingNumber>, Matter)>,
    /// How many there are of each source: a leader that nobody follows may hold many before it notices.
    sources: BTreeMap<Source, usize>,
}

impl Matter {
    fn sources(&self) -> [Option<Source>; 2] {
        match self {
            Matter::Request(submission) => [Some(Source::Lane(submission.lane)), None],
            Matter::Forwarded { link, packet: Packet::Request { session, op, .. } } => {
                let is_sync = *op == OpCode::Sync.wire();
                [Some(Source::Session(*link, *session)), is_sync.then_some(Source::Link(*link))]
            }
            Matter::Forwarded { .. } | Matter::Resume { .. } | Matter::Question { .. } => [None, None],
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
        self.sources.contains_key(&source)
    }

    pub(super) fn push(&mut self, until: Option<PingNumber>, matter: Matter) {
        for source in matter.sources().into_iter().flatten() {
            *self.sources.entry(source).or_default() += 1;
        }
        self.matters.push_back((until, matter));
    }

    /// A learner is gone, and nobody waits for what it has asked.
    pub(super) fn forget_link(&mut self, gone: LinkId) {
        self.sources.retain(|source, _| match source {
            Source::Link(link) | Source::Session(link, _) => *link != gone,
            Source::Lane(_) => true,
        });
        self.matters.retain(|(_, matter)| match matter {
            Matter::Forwarded { link, .. } | Matter::Question { link, .. } => *link != gone,
            Matter::Request(_) | Matter::Resume { .. } => true,
        });
    }

    pub(super) fn give_up(self, desk: &mut Desk, lanes: &mut impl Lanes) {
        for (_, matter) in self.matters {
            desk.give_up(matter.origin(), lanes);
        }
    }

    fn next(&mut self, is_answered: impl Fn(PingNumber) -> bool) -> Option<Matter> {
        let (until, _) = self.matters.front()?;
        if until.is_some_and(|ping| !is_answered(ping)) {
            return None;
        }
        let (_, matter) = self.matters.pop_front()?;
        for source in matter.sources().into_iter().flatten() {
            if let Entry::Occupied(mut count) = self.sources.entry(source) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Some(matter)
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
        while let Some(matter) = self.held.next(|ping| desk.is_answered(ping)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(7);

    fn forwarded(link: LinkId, op: OpCode) -> Matter {
        let (session, op, payload) = (SESSION, op.wire(), Default::default());
        Matter::Forwarded { link, packet: Packet::Request { session, cxid: 1, op, payload, auth: None } }
    }

    fn sync(link: LinkId) -> Matter {
        forwarded(link, OpCode::Sync)
    }

    #[test]
    fn who_has_something_held_is_known_until_the_last_is_taken_up() {
        let (one, other) = (LinkId::accepted(1), LinkId::accepted(2));
        let (waits, next_waits) = (Source::Session(one, SESSION), Source::Link(other));
        let mut held = Held::default();
        held.push(Some(PingNumber(1)), sync(one));
        held.push(None, forwarded(one, OpCode::Create));
        held.push(None, Matter::Question { link: one, packet: Packet::Sync });
        held.push(Some(PingNumber(2)), sync(other));
        assert!(held.next(|_| false).is_none() && held.holds(waits) && held.holds(next_waits));
        let answered = |ping| ping <= PingNumber(1);
        assert!(held.holds(Source::Link(one)) && !held.holds(Source::Session(one, SessionId(8))));
        assert!(held.next(answered).is_some() && held.holds(waits), "one of two");
        assert!(!held.holds(Source::Link(one)), "the other one is no sync");
        assert!(held.next(answered).is_some() && !held.holds(waits), "a question keeps nobody waiting");
        assert!(held.next(answered).is_some() && held.next(answered).is_none() && held.holds(next_waits));
        held.forget_link(other);
        assert!(!held.holds(next_waits) && held.next(|_| true).is_none());
    }
}
