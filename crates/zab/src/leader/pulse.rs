//! Whether this leader still leads, as far as it can know: who answers a ping had not left when the ping was sent, and
//! without those who answer there is no quorum for anybody else. What a quorum has answered once stays true, whatever
//! becomes of the connections and of the members. Whoever has to know more asks out of turn.

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use super::Leader;
use super::counting::decided_by;
use crate::action::Action;
use crate::event::{LinkId, PingNumber};
use crate::member::Member;
use crate::teaching::{Kind, LearnerLink, LearnerStep, Stamp};

#[derive(Debug)]
pub(super) struct Pulse {
    /// How many pings were sent; those of one moment count as one.
    sent: u64,
    /// The one that is to be answered.
    wanted: u64,
    /// The newest one that a quorum has answered.
    confirmed: Stamp,
}

/// Why a ping leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// Half a tick is over.
    Beat,
    /// Somebody has to know.
    Asked,
}

impl Pulse {
    pub(super) fn new() -> Pulse {
        Pulse { sent: 0, wanted: 0, confirmed: Stamp::NONE }
    }
}

impl Leader {
    /// Whether a quorum has answered a ping that was sent then or later.
    pub(crate) fn has_quorum_since(&self, since_ms: i64) -> bool {
        self.pulse.confirmed.sent_ms >= since_ms
    }

    /// Whether a quorum has answered this ping or a later one.
    pub(crate) fn has_answered(&self, ping: PingNumber) -> bool {
        self.pulse.confirmed.number >= ping.0
    }

    /// Asks whether they are still there. Returns the ping that a quorum has to answer; it is sent from now on.
    pub(crate) fn ask_quorum(&mut self, member: &Member, now_ms: i64, out: &mut Vec<Action>) -> PingNumber {
        let wanted = self.pulse.sent + 1;
        self.pulse.wanted = wanted;
        self.ask(member, now_ms, out);
        self.count_pings(member, now_ms);
        PingNumber(wanted)
    }

    /// Every half tick, to everybody.
    pub(super) fn beat(&mut self, member: &Member, now_ms: i64, out: &mut Vec<Action>) {
        let takes_pings = |(&link, learner): (&LinkId, &LearnerLink)| learner.takes_pings().then_some(link);
        let links = self.learners.iter().filter_map(takes_pings).collect();
        self.ping(links, Occasion::Beat, member, now_ms, out);
    }

    /// When [`Leader::ask`] has something to do: at once, or never. A follower that has begun to serve may have to be
    /// asked.
    pub(super) fn ask_deadline(&self) -> i64 {
        let is_left = self.pulse.wanted > self.pulse.confirmed.number && self.to_ask().next().is_some();
        if is_left { i64::MIN } else { i64::MAX }
    }

    /// Asks the followers that have not been asked. Each has one ping out of turn at a time, so that questions that come
    /// meanwhile share the next one.
    pub(super) fn ask(&mut self, member: &Member, now_ms: i64, out: &mut Vec<Action>) {
        if self.pulse.wanted <= self.pulse.confirmed.number {
            return;
        }
        let links: Vec<LinkId> = self.to_ask().collect();
        if !links.is_empty() {
            self.ping(links, Occasion::Asked, member, now_ms, out);
        }
    }

    /// A learner has answered a ping.
    pub(super) fn ping_answered(
        &mut self,
        link: LinkId,
        zxid: Zxid,
        member: &Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let Some(learner) = self.learners.get_mut(&link) else { return };
        learner.pings.answered(zxid);
        self.count_pings(member, now_ms);
        self.ask(member, now_ms, out);
    }

    fn to_ask(&self) -> impl Iterator<Item = LinkId> + '_ {
        let wanted = self.pulse.wanted;
        self.learners
            .iter()
            .filter(move |(_, learner)| follows(learner).is_some() && learner.pings.lacks(wanted))
            .map(|(&link, _)| link)
    }

    fn ping(
        &mut self,
        links: Vec<LinkId>,
        occasion: Occasion,
        member: &Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        self.pulse.sent += 1;
        let stamp = Stamp { number: self.pulse.sent, sent_ms: now_ms };
        let zxid = member.history.last();
        for link in links {
            let Some(learner) = self.learners.get_mut(&link) else { continue };
            // Before it serves, a learner takes pings and answers none.
            match (follows(learner), occasion) {
                (Some(_), Occasion::Beat) => learner.pings.sent(stamp, zxid),
                (Some(_), Occasion::Asked) => learner.pings.asked(stamp, zxid),
                (None, _) => {}
            }
            learner.send(link, Packet::Ping { zxid }, out);
        }
    }

    /// Looks for the newest ping that a quorum has answered. This server needs no ping to know itself.
    fn count_pings(&mut self, member: &Member, now_ms: i64) {
        let own = Stamp { number: self.pulse.sent.max(self.pulse.wanted), sent_ms: now_ms };
        let mut answered = vec![(member.settings.me, own)];
        for learner in self.learners.values() {
            answered.extend(follows(learner).map(|server| (server, learner.pings.newest_answered())));
        }
        let of = |quorum| decided_by(quorum, &answered);
        let old = of(&member.settings.quorum);
        let both = member.pending_quorum().map_or(old, |new| old.min(of(new)));
        self.pulse.confirmed = self.pulse.confirmed.max(both.unwrap_or(Stamp::NONE));
    }
}

/// Who it is, if it is a follower that answers pings.
fn follows(learner: &LearnerLink) -> Option<ServerId> {
    match &learner.step {
        LearnerStep::Flowing(identity, _) if identity.kind == Kind::Follower && learner.is_up_to_date() => {
            Some(identity.server)
        }
        _ => None,
    }
}
