//! Proof that this leader still leads. A follower that answers a ping had not left when the ping was sent.
//! Without these followers no other leader has a quorum. A confirmed ping stays confirmed, even if
//! connections or the config change. A read that needs a newer proof requests a ping on demand.
//!
//! The ACK of a proposal proves the same as the answer to a ping that left with the proposal. Then the
//! proposal takes a ping number, so that no later check counts it.

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use super::Leader;
use super::commit::acked_by_quorum;
use crate::event::{LinkId, PingNumber};
use crate::learner_handler::{LearnerHandler, PingStamp};
use crate::peer_context::PeerContext;
use crate::role::Role;

/// The number of on-demand pings that may leave within a millisecond. Checks that come meanwhile share the
/// next ping, or a proposal takes its place.
const ASKS_PER_MS_MAX: u32 = 1;

#[derive(Debug)]
pub(super) struct QuorumCheck {
    /// The number of pings sent. Pings to several learners at one time count once.
    pings_sent: u64,
    /// The number of the ping that a quorum has to answer.
    requested: u64,
    /// The newest ping that a quorum has answered.
    confirmed: PingStamp,
    /// On-demand pings that left at `asked_ms`.
    asks: u32,
    /// When the last on-demand ping left, in milliseconds.
    asked_ms: i64,
}

/// The last transaction that was sent to each learner.
pub(super) type SentProposals = Vec<(LinkId, Zxid)>;

/// The reason for a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PingReason {
    /// Half a tick has passed.
    Periodic,
    /// A caller needs a newer proof.
    OnDemand,
}

impl QuorumCheck {
    pub(super) fn new() -> QuorumCheck {
        QuorumCheck { pings_sent: 0, requested: 0, confirmed: PingStamp::NONE, asks: 0, asked_ms: i64::MIN }
    }

    /// Whether a check waits for answers.
    fn is_open(&self) -> bool {
        self.requested > self.confirmed.number
    }

    /// The first time at which another on-demand ping may leave, in milliseconds.
    fn next_ask_ms(&self) -> i64 {
        if self.asks < ASKS_PER_MS_MAX { self.asked_ms } else { self.asked_ms + 1 }
    }

    fn record_ask(&mut self, now_ms: i64) {
        if now_ms == self.asked_ms {
            self.asks += 1;
        } else {
            (self.asked_ms, self.asks) = (now_ms, 1);
        }
    }
}

impl Leader {
    /// Whether a quorum has answered a ping that was sent at `since_ms` or later.
    pub(crate) fn has_quorum_since(&self, since_ms: i64) -> bool {
        self.quorum_check.confirmed.sent_ms >= since_ms
    }

    /// Whether a quorum has answered this ping or a later one.
    pub(crate) fn quorum_has_answered(&self, ping: PingNumber) -> bool {
        self.quorum_check.confirmed.number >= ping.0
    }

    /// Starts a check. Returns the number of the ping that a quorum has to answer.
    pub(crate) fn start_quorum_check(&mut self, context: &mut PeerContext<'_>) -> PingNumber {
        let requested = self.quorum_check.pings_sent + 1;
        self.quorum_check.requested = requested;
        self.send_on_demand_pings(context);
        self.update_confirmed_ping(context);
        PingNumber(requested)
    }

    /// Sends the ping of every half tick to all learners.
    pub(super) fn send_periodic_pings(&mut self, context: &mut PeerContext<'_>) {
        let accepts_pings =
            |(&link, learner): (&LinkId, &LearnerHandler)| learner.accepts_pings().then_some(link);
        let links = self.learners.iter().filter_map(accepts_pings).collect();
        self.send_pings(links, PingReason::Periodic, context);
    }

    /// When [`Leader::send_on_demand_pings`] has work to do, in milliseconds. A follower that has just
    /// started to serve may need a ping.
    pub(super) fn on_demand_ping_deadline(&self) -> i64 {
        let is_left = self.quorum_check.is_open() && self.followers_to_ping().next().is_some();
        if is_left { self.quorum_check.next_ask_ms() } else { i64::MAX }
    }

    /// Pings the followers that the current check still needs. Each has at most one on-demand ping in
    /// flight; later checks share the next one.
    pub(super) fn send_on_demand_pings(&mut self, context: &mut PeerContext<'_>) {
        if !self.quorum_check.is_open() || context.now_ms < self.quorum_check.next_ask_ms() {
            return;
        }
        let links: Vec<LinkId> = self.followers_to_ping().collect();
        if !links.is_empty() {
            self.quorum_check.record_ask(context.now_ms);
            self.send_pings(links, PingReason::OnDemand, context);
        }
    }

    /// Handles the reply of a learner to a ping.
    pub(super) fn handle_ping_reply(&mut self, link: LinkId, zxid: Zxid, context: &mut PeerContext<'_>) {
        let Some(learner) = self.learners.get_mut(&link) else { return };
        learner.pings.record_reply(zxid);
        self.update_confirmed_ping(context);
        self.send_on_demand_pings(context);
    }

    /// Handles the ACK of a proposal, which may have left in place of a ping.
    pub(super) fn handle_proposal_ack(&mut self, link: LinkId, zxid: Zxid, context: &mut PeerContext<'_>) {
        if let Some(learner) = self.learners.get_mut(&link)
            && learner.pings.record_ack(zxid)
        {
            self.update_confirmed_ping(context);
            self.send_on_demand_pings(context);
        }
    }

    /// The last transactions that were sent to the followers, while a check is open.
    pub(super) fn sent_proposals(&self) -> SentProposals {
        if !self.quorum_check.is_open() {
            return SentProposals::new();
        }
        let sent = |(&link, learner): (&LinkId, &LearnerHandler)| {
            synced_follower(learner)?;
            learner.step.replicating().map(|(_, progress)| (link, progress.proposed))
        };
        self.learners.iter().filter_map(sent).collect()
    }

    /// Lets the proposals that have left since `before` take the place of pings. All checks up to now are
    /// older than these proposals; a later check gets a higher number.
    pub(super) fn count_proposals_as_pings(&mut self, before: SentProposals, now_ms: i64) {
        let number = self.quorum_check.requested.max(self.quorum_check.pings_sent);
        for (link, sent) in before {
            let Some(learner) = self.learners.get_mut(&link) else { continue };
            let Some((_, progress)) = learner.step.replicating() else { continue };
            if progress.proposed > sent {
                let zxid = progress.proposed;
                learner.pings.record_proposal(PingStamp { number, sent_ms: now_ms }, zxid);
                self.quorum_check.pings_sent = number;
            }
        }
    }

    fn followers_to_ping(&self) -> impl Iterator<Item = LinkId> + '_ {
        let requested = self.quorum_check.requested;
        self.learners
            .iter()
            .filter(move |(_, learner)| {
                synced_follower(learner).is_some() && learner.pings.needs_ping(requested)
            })
            .map(|(&link, _)| link)
    }

    fn send_pings(&mut self, links: Vec<LinkId>, reason: PingReason, context: &mut PeerContext<'_>) {
        self.quorum_check.pings_sent += 1;
        let stamp = PingStamp { number: self.quorum_check.pings_sent, sent_ms: context.now_ms };
        let zxid = context.state.history.last();
        for link in links {
            let Some(learner) = self.learners.get_mut(&link) else { continue };
            // Before UPTODATE a learner does not answer pings.
            match (synced_follower(learner), reason) {
                (Some(_), PingReason::Periodic) => learner.pings.record_sent(stamp, zxid),
                (Some(_), PingReason::OnDemand) => learner.pings.record_on_demand(stamp, zxid),
                (None, _) => {}
            }
            learner.send(Packet::Ping { zxid }, context.out);
        }
    }

    /// Finds the newest ping that a quorum has answered. This server counts itself without a ping.
    fn update_confirmed_ping(&mut self, context: &PeerContext<'_>) {
        let own = PingStamp {
            number: self.quorum_check.pings_sent.max(self.quorum_check.requested),
            sent_ms: context.now_ms,
        };
        let mut answered = vec![(context.state.settings.me, own)];
        for learner in self.learners.values() {
            answered.extend(synced_follower(learner).map(|server| (server, learner.pings.newest_answered())));
        }
        let of = |quorum| acked_by_quorum(quorum, &answered);
        let old = of(&context.state.settings.quorum);
        let both = context.state.pending_quorum().map_or(old, |new| old.min(of(new)));
        self.quorum_check.confirmed = self.quorum_check.confirmed.max(both.unwrap_or(PingStamp::NONE));
    }
}

/// The server id of a follower that answers pings.
fn synced_follower(learner: &LearnerHandler) -> Option<ServerId> {
    let (identity, _) = learner.step.replicating()?;
    (identity.role == Role::Participant && learner.is_up_to_date()).then_some(identity.server)
}
