//! One election of a server in the LOOKING state: the received votes, the own vote and the timers.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::quorum::ServerState;
use zebu_proto::{ServerId, Zxid};

use super::vote::{ElectionVote, ReceivedVote};
use super::{Candidacy, ElectionEffect, ElectorSettings, LoggedState, MembershipMode, notification};

/// The zxid of a server whose data cannot be trusted.
const UNTRUSTED_ZXID: Zxid = Zxid(-1);

/// An election counts as long once the resend delay is this many times the first one: after 6 s by default.
const LONG_ELECTION_RESENDS: i64 = 16;

/// Whether this server's own vote counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnVoteStatus {
    Counted,
    Withheld,
}

/// The effect of equal votes from all known voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnanimityRule {
    /// No better vote can arrive: the election ends at once.
    EndsElection,
    /// A voter may know a candidate that this server does not know, because the last elected server never
    /// led. The election waits for the finalize timeout.
    AwaitsFinalizeTimeout,
}

/// The elector's part of an election, for one received vote.
#[derive(Debug)]
pub(super) struct ElectionContext<'a> {
    pub(super) settings: &'a ElectorSettings,
    pub(super) round: &'a mut i64,
    pub(super) now_ms: i64,
    pub(super) out: &'a mut Vec<ElectionEffect>,
}

#[derive(Debug)]
pub(super) struct Looking {
    /// The vote of this server at the start of the round.
    initial_vote: ElectionVote,
    /// The best vote so far.
    proposed_vote: ElectionVote,
    own_vote_status: OwnVoteStatus,
    unanimity_rule: UnanimityRule,
    /// Votes of LOOKING servers, and others of the same round.
    received: BTreeMap<ServerId, ReceivedVote>,
    /// Votes of FOLLOWING and LEADING servers, of any round.
    out_of_election: BTreeMap<ServerId, ReceivedVote>,
    /// The leader whose connection was just lost. The election does not wait for its vote.
    lost_leader: Option<ServerId>,
    resend_ms: i64,
    resend_at_ms: i64,
    /// Set while a quorum agrees. The election ends at this time unless a better vote arrives.
    finalize_at_ms: Option<i64>,
    /// Until this time the server does not propose itself, and takes another candidate with its history.
    yields_until_ms: Option<i64>,
}

impl Looking {
    pub(super) fn new(
        settings: &ElectorSettings,
        logged_state: LoggedState,
        lost: Option<ServerId>,
        unanimity: UnanimityRule,
        now_ms: i64,
    ) -> Looking {
        let own = ElectionVote {
            leader: settings.me,
            zxid: logged_state.last_zxid,
            epoch: logged_state.current_epoch,
        };
        let is_voter = settings.has_own_vote();
        let initial = if settings.nominates_itself() { own } else { ElectionVote::NONE };
        let trusted = logged_state.last_zxid != UNTRUSTED_ZXID;
        Looking {
            initial_vote: initial,
            proposed_vote: initial,
            own_vote_status: if is_voter && trusted {
                OwnVoteStatus::Counted
            } else {
                OwnVoteStatus::Withheld
            },
            unanimity_rule: unanimity,
            received: BTreeMap::new(),
            out_of_election: BTreeMap::new(),
            lost_leader: lost,
            resend_ms: settings.resend_ms_min,
            resend_at_ms: now_ms + settings.resend_ms_min,
            finalize_at_ms: None,
            yields_until_ms: match logged_state.candidacy {
                // The others hear of it before they finish without it.
                Candidacy::Yields if initial == own && trusted => Some(now_ms + settings.finalize_ms / 2),
                Candidacy::Yields | Candidacy::Normal => None,
            },
        }
    }

    /// Whether this server waits for another candidate.
    pub(super) fn yields(&self) -> bool {
        self.yields_until_ms.is_some()
    }

    /// Whether a candidate replaces the proposed one. A server that yields prefers others to itself, if they
    /// have its history.
    fn is_replaced_by(&self, vote: &ElectionVote, settings: &ElectorSettings) -> bool {
        let history = |vote: &ElectionVote| (vote.epoch, vote.zxid);
        let is_preferred = settings.prefers(vote, &self.proposed_vote)
            || (self.yields()
                && vote.leader != settings.me
                && history(vote) >= history(&self.proposed_vote)
                && *vote != ElectionVote::NONE);
        is_preferred && settings.is_candidate(vote.leader)
    }

    pub(super) fn proposed_vote(&self) -> ElectionVote {
        self.proposed_vote
    }

    pub(super) fn deadline(&self) -> i64 {
        let deadline_ms = self.finalize_at_ms.unwrap_or(self.resend_at_ms);
        self.yields_until_ms.map_or(deadline_ms, |until_ms| until_ms.min(deadline_ms))
    }

    /// The recipients of the own vote: all voters, and the proposed leader. In a long election the observers
    /// too: the known config may be old, and they may be voters now.
    pub(super) fn recipients(&self, settings: &ElectorSettings) -> BTreeSet<ServerId> {
        let mut recipients = settings.voters();
        if settings.is_candidate(self.proposed_vote.leader) {
            recipients.insert(self.proposed_vote.leader);
        }
        let long_ms = (LONG_ELECTION_RESENDS * settings.resend_ms_min).min(settings.resend_ms_max);
        if settings.membership_mode != MembershipMode::Static && self.resend_ms >= long_ms {
            recipients.extend(&settings.observers);
        }
        recipients.remove(&settings.me);
        recipients
    }

    /// Sends the own vote to all recipients, and counts it.
    pub(super) fn send_notifications(
        &mut self,
        settings: &ElectorSettings,
        round: i64,
        out: &mut Vec<ElectionEffect>,
    ) {
        if self.yields() {
            return;
        }
        let message = notification(settings, ServerState::Looking, self.proposed_vote, round);
        if self.own_vote_status == OwnVoteStatus::Counted {
            self.received.insert(settings.me, ReceivedVote::from_notification(&message));
        }
        for to in self.recipients(settings) {
            out.push(ElectionEffect::Send { to, notification: message.clone() });
        }
    }

    /// Counts the vote of a server in the LOOKING state.
    pub(super) fn count_looking_vote(
        &mut self,
        from: ServerId,
        received_vote: ReceivedVote,
        context: ElectionContext<'_>,
    ) {
        let ElectionContext { settings, round, now_ms, out } = context;
        if self.own_vote_status == OwnVoteStatus::Withheld && settings.has_own_vote()
            || received_vote.vote.zxid == UNTRUSTED_ZXID
        {
            return;
        }
        if received_vote.round < *round {
            if self.proposed_vote != ElectionVote::NONE {
                return;
            }
            // This server has proposed no candidate in its own round, so it joins the older round.
            *round = received_vote.round;
        }
        let votes_again = if received_vote.round > *round {
            *round = received_vote.round;
            self.received.clear();
            self.proposed_vote = self.initial_vote;
            self.adopt_if_better(&received_vote.vote, settings);
            true
        } else {
            self.adopt_if_better(&received_vote.vote, settings)
        };
        if votes_again {
            self.send_notifications(settings, *round, out);
        } else if settings.quorum.is_voter(settings.me)
            && !self.yields()
            && settings.prefers(&self.proposed_vote, &received_vote.vote)
        {
            // The sender has just started to look: while it had a leader, it ignored the earlier vote.
            let message = notification(settings, ServerState::Looking, self.proposed_vote, *round);
            out.push(ElectionEffect::Send { to: from, notification: message });
        }
        self.received.insert(from, received_vote);
        if self.lost_leader == Some(from) {
            // It takes part, so the election waits for its vote.
            self.lost_leader = None;
        }
        self.check_quorum(settings, *round, now_ms);
    }

    /// Proposes a better candidate. Returns whether it is better.
    fn adopt_if_better(&mut self, vote: &ElectionVote, settings: &ElectorSettings) -> bool {
        let is_better = self.is_replaced_by(vote, settings);
        if is_better {
            self.proposed_vote = *vote;
            self.yields_until_ms = None;
        }
        is_better
    }

    /// Counts the vote of a server that has a leader. Returns the vote to adopt if a quorum supports that
    /// leader.
    pub(super) fn count_out_of_election_vote(
        &mut self,
        from: ServerId,
        received_vote: ReceivedVote,
        settings: &ElectorSettings,
        round: &mut i64,
    ) -> Option<ElectionVote> {
        if received_vote.vote.leader == settings.me && self.own_vote_status == OwnVoteStatus::Withheld {
            // The vote names this server as the leader it was before it lost its data.
            return None;
        }
        if received_vote.round == *round {
            self.received.insert(from, received_vote);
            if may_have_leader(&self.received, &received_vote, settings)
                && check_leader(&self.received, &received_vote, settings.me, *round)
            {
                return Some(received_vote.vote);
            }
        }
        self.out_of_election.insert(from, received_vote);
        if may_have_leader(&self.out_of_election, &received_vote, settings)
            && check_leader(&self.out_of_election, &received_vote, settings.me, *round)
        {
            *round = received_vote.round;
            return Some(received_vote.vote);
        }
        None
    }

    /// The other servers whose last vote was in the LOOKING state.
    pub(super) fn other_looking_servers(&self, me: ServerId) -> Vec<ServerId> {
        let other = |(server, received_vote): (&ServerId, &ReceivedVote)| {
            let looks =
                received_vote.state == ServerState::Looking && !self.out_of_election.contains_key(server);
            (looks && *server != me).then_some(*server)
        };
        self.received.iter().filter_map(other).collect()
    }

    /// Starts or stops the finalize timer. Every vote restarts it. The timer waits for voters that have not
    /// voted; if all agree, the election ends at once.
    pub(super) fn check_quorum(&mut self, settings: &ElectorSettings, round: i64, now_ms: i64) {
        let own = ReceivedVote {
            vote: self.proposed_vote,
            round,
            state: ServerState::Looking,
            version: zebu_proto::quorum::election::NotificationVersion::V2,
        };
        let alike = |voter: ServerId| {
            self.received.get(&voter).is_some_and(|received_vote| received_vote.agrees_with(&own))
        };
        let unanimous =
            settings.voters().into_iter().all(|voter| alike(voter) || self.lost_leader == Some(voter));
        self.finalize_at_ms = match has_quorum(&self.received, &own, settings) {
            true if unanimous && self.unanimity_rule == UnanimityRule::EndsElection => Some(now_ms),
            true => Some(now_ms + settings.finalize_ms),
            false => None,
        };
    }

    /// Returns the elected vote if the finalize timer has expired; sends the own vote again if that is due.
    pub(super) fn timeout(
        &mut self,
        settings: &ElectorSettings,
        round: i64,
        now_ms: i64,
        out: &mut Vec<ElectionEffect>,
    ) -> Option<ElectionVote> {
        if self.yields_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            // No other candidate has this history.
            self.yields_until_ms = None;
            self.send_notifications(settings, round, out);
            self.check_quorum(settings, round, now_ms);
        }
        if self.finalize_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            return Some(self.proposed_vote);
        }
        if self.finalize_at_ms.is_none() && self.resend_at_ms <= now_ms {
            self.send_notifications(settings, round, out);
            self.resend_ms = (self.resend_ms * 2).min(settings.resend_ms_max);
            self.resend_at_ms = now_ms + self.resend_ms;
        }
        None
    }
}

/// Whether the voters with an equal vote are a quorum.
fn has_quorum(
    received_votes: &BTreeMap<ServerId, ReceivedVote>,
    vote: &ReceivedVote,
    settings: &ElectorSettings,
) -> bool {
    settings.is_quorum(&supporters(received_votes, vote))
}

/// Whether voters with an equal vote may already have a leader. They may have elected it without the pending
/// config, which was then never committed. Waiting for voters of the pending config could block for ever.
fn may_have_leader(
    received_votes: &BTreeMap<ServerId, ReceivedVote>,
    vote: &ReceivedVote,
    settings: &ElectorSettings,
) -> bool {
    let alike = supporters(received_votes, vote);
    settings.quorum.is_quorum(&alike)
        || settings.pending_quorum.as_ref().is_some_and(|pending| pending.is_quorum(&alike))
}

fn supporters(received_votes: &BTreeMap<ServerId, ReceivedVote>, vote: &ReceivedVote) -> BTreeSet<ServerId> {
    received_votes
        .iter()
        .filter(|(_, received_vote)| received_vote.agrees_with(vote))
        .map(|(server, _)| *server)
        .collect()
}

/// Whether the proposed leader itself is known to be LEADING.
fn check_leader(
    received_votes: &BTreeMap<ServerId, ReceivedVote>,
    received_vote: &ReceivedVote,
    me: ServerId,
    round: i64,
) -> bool {
    let leader = received_vote.vote.leader;
    if leader == me {
        return round == received_vote.round;
    }
    received_votes.get(&leader).is_some_and(|received_vote| received_vote.state == ServerState::Leading)
}
