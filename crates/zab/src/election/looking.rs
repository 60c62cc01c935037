//! One search for a leader: the ballots heard so far, the own vote, and the clock of the search.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::quorum::PeerState;
use zebu_proto::{ServerId, Zxid};

use super::candidate::{Ballot, Candidate};
use super::{Action, ElectorSettings, Members, Standing, notification};

/// The zxid of a server whose data cannot be trusted.
const UNTRUSTED: Zxid = Zxid(-1);

/// A search is long when votes are sent again after so many times the first wait: with the usual 200 ms, after 6 s.
const LONG_WAITS: i64 = 16;

/// Whether this server's own vote counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Counted,
    Silent,
}

/// What it means that all voters whom this server knows say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanimity {
    /// Nobody better can come: the election is over.
    Ends,
    /// One of them may know a candidate whom this server does not: he did not lead when he was elected last.
    MustLast,
}

#[derive(Debug)]
pub(super) struct Looking {
    /// What this server put in at the beginning of the round.
    initial: Candidate,
    /// The best so far.
    proposal: Candidate,
    voice: Voice,
    unanimity: Unanimity,
    /// Ballots of this round.
    received: BTreeMap<ServerId, Ballot>,
    /// Ballots of servers that have a leader, of any round.
    settled: BTreeMap<ServerId, Ballot>,
    /// A leader that was just lost: whatever has become of it, its vote is not worth waiting for.
    lost: Option<ServerId>,
    resend_ms: i64,
    resend_at_ms: i64,
    /// Set while a quorum agrees: the election ends then, unless somebody better is heard of.
    decide_at_ms: Option<i64>,
}

impl Looking {
    pub(super) fn new(
        settings: &ElectorSettings,
        standing: Standing,
        lost: Option<ServerId>,
        unanimity: Unanimity,
        now_ms: i64,
    ) -> Looking {
        let own = Candidate { leader: settings.me, zxid: standing.last_zxid, epoch: standing.current_epoch };
        let is_voter = settings.votes();
        let initial = if settings.stands() { own } else { Candidate::NOBODY };
        let trusted = standing.last_zxid != UNTRUSTED;
        Looking {
            initial,
            proposal: initial,
            voice: if is_voter && trusted { Voice::Counted } else { Voice::Silent },
            unanimity,
            received: BTreeMap::new(),
            settled: BTreeMap::new(),
            lost,
            resend_ms: settings.resend_ms_min,
            resend_at_ms: now_ms + settings.resend_ms_min,
            decide_at_ms: None,
        }
    }

    pub(super) fn proposal(&self) -> Candidate {
        self.proposal
    }

    pub(super) fn deadline(&self) -> i64 {
        self.decide_at_ms.unwrap_or(self.resend_at_ms)
    }

    /// Who is told of the own vote: all voters, and whom they may not know yet. Who has looked in vain for long may
    /// have an old list whose voters are gone; its observers may have a vote by now.
    pub(super) fn audience(&self, settings: &ElectorSettings) -> BTreeSet<ServerId> {
        let mut audience = settings.voters();
        if settings.is_candidate(self.proposal.leader) {
            audience.insert(self.proposal.leader);
        }
        let long_ms = (LONG_WAITS * settings.resend_ms_min).min(settings.resend_ms_max);
        if settings.members != Members::Fixed && self.resend_ms >= long_ms {
            audience.extend(&settings.observers);
        }
        audience.remove(&settings.me);
        audience
    }

    /// Tells all who may decide, and counts the own vote.
    pub(super) fn vote_for_proposal(
        &mut self,
        settings: &ElectorSettings,
        round: i64,
        out: &mut Vec<Action>,
    ) {
        let message = notification(settings, PeerState::Looking, self.proposal, round);
        if self.voice == Voice::Counted {
            self.received.insert(settings.me, Ballot::of(&message));
        }
        for to in self.audience(settings) {
            out.push(Action::Send { to, notification: message.clone() });
        }
    }

    /// A ballot of a server that looks too.
    pub(super) fn count_looking(
        &mut self,
        from: ServerId,
        ballot: Ballot,
        settings: &ElectorSettings,
        round: &mut i64,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        if self.voice == Voice::Silent && settings.votes() || ballot.candidate.zxid == UNTRUSTED {
            return;
        }
        if ballot.round < *round {
            if self.proposal != Candidate::NOBODY {
                return;
            }
            // It has said nothing in its own round, and nobody would wait for it there.
            *round = ballot.round;
        }
        let votes_again = if ballot.round > *round {
            *round = ballot.round;
            self.received.clear();
            let better = settings.prefers(&ballot.candidate, &self.initial)
                && settings.is_candidate(ballot.candidate.leader);
            self.proposal = if better { ballot.candidate } else { self.initial };
            true
        } else if settings.prefers(&ballot.candidate, &self.proposal)
            && settings.is_candidate(ballot.candidate.leader)
        {
            self.proposal = ballot.candidate;
            true
        } else {
            false
        };
        if votes_again {
            self.vote_for_proposal(settings, *round, out);
        } else if settings.quorum.is_voter(settings.me) && settings.prefers(&self.proposal, &ballot.candidate)
        {
            // It began to look only now: what was said to it before went to somebody who had a leader.
            let message = notification(settings, PeerState::Looking, self.proposal, *round);
            out.push(Action::Send { to: from, notification: message });
        }
        self.received.insert(from, ballot);
        if self.lost == Some(from) {
            // It takes part, so it is waited for like the others.
            self.lost = None;
        }
        self.consider(settings, *round, now_ms);
    }

    /// A ballot of a server that has a leader; returns the vote to join in if a quorum has him.
    pub(super) fn count_settled(
        &mut self,
        from: ServerId,
        ballot: Ballot,
        settings: &ElectorSettings,
        round: &mut i64,
    ) -> Option<Candidate> {
        if ballot.candidate.leader == settings.me && self.voice == Voice::Silent {
            // They speak of the server that this one was before it forgot something.
            return None;
        }
        if ballot.round == *round {
            self.received.insert(from, ballot);
            if has_leader(&self.received, &ballot, settings)
                && leads(&self.received, &ballot, settings.me, *round)
            {
                return Some(ballot.candidate);
            }
        }
        self.settled.insert(from, ballot);
        if has_leader(&self.settled, &ballot, settings) && leads(&self.settled, &ballot, settings.me, *round)
        {
            *round = ballot.round;
            return Some(ballot.candidate);
        }
        None
    }

    /// Who else voted and has not said since that it has a leader.
    pub(super) fn others_looking(&self, me: ServerId) -> Vec<ServerId> {
        let other = |(server, ballot): (&ServerId, &Ballot)| {
            let looks = ballot.state == PeerState::Looking && !self.settled.contains_key(server);
            (looks && *server != me).then_some(*server)
        };
        self.received.iter().filter_map(other).collect()
    }

    /// Starts or ends the moment of silence that follows agreement. Every ballot makes it begin anew. It is for
    /// those who have not been heard: when all have said the same, nobody better can come.
    pub(super) fn consider(&mut self, settings: &ElectorSettings, round: i64, now_ms: i64) {
        let own = Ballot {
            candidate: self.proposal,
            round,
            state: PeerState::Looking,
            version: zebu_proto::quorum::election::NotificationVersion::V2,
        };
        let alike = |voter: ServerId| self.received.get(&voter).is_some_and(|ballot| ballot.is_alike(&own));
        let unanimous = settings.voters().into_iter().all(|voter| alike(voter) || self.lost == Some(voter));
        self.decide_at_ms = match has_quorum(&self.received, &own, settings) {
            true if unanimous && self.unanimity == Unanimity::Ends => Some(now_ms),
            true => Some(now_ms + settings.finalize_ms),
            false => None,
        };
    }

    /// Returns the leader if the silence has lasted.
    pub(super) fn timeout(
        &mut self,
        settings: &ElectorSettings,
        round: i64,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Option<Candidate> {
        if self.decide_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            return Some(self.proposal);
        }
        if self.decide_at_ms.is_none() && self.resend_at_ms <= now_ms {
            self.vote_for_proposal(settings, round, out);
            self.resend_ms = (self.resend_ms * 2).min(settings.resend_ms_max);
            self.resend_at_ms = now_ms + self.resend_ms;
        }
        None
    }
}

/// Whether the voters whose ballot is like this one are a quorum.
fn has_quorum(ballots: &BTreeMap<ServerId, Ballot>, wanted: &Ballot, settings: &ElectorSettings) -> bool {
    settings.is_quorum(&alike(ballots, wanted))
}

/// Whether voters with a ballot like this one may have a leader already. They may have decided without what is
/// pending here: it was never decided then, and whoever waited for its voters would wait for ever.
fn has_leader(ballots: &BTreeMap<ServerId, Ballot>, wanted: &Ballot, settings: &ElectorSettings) -> bool {
    let alike = alike(ballots, wanted);
    settings.quorum.is_quorum(&alike)
        || settings.pending.as_ref().is_some_and(|pending| pending.is_quorum(&alike))
}

fn alike(ballots: &BTreeMap<ServerId, Ballot>, wanted: &Ballot) -> BTreeSet<ServerId> {
    ballots.iter().filter(|(_, ballot)| ballot.is_alike(wanted)).map(|(server, _)| *server).collect()
}

/// Whether the one that they follow knows that he leads.
fn leads(ballots: &BTreeMap<ServerId, Ballot>, ballot: &Ballot, me: ServerId, round: i64) -> bool {
    let leader = ballot.candidate.leader;
    if leader == me {
        return round == ballot.round;
    }
    ballots.get(&leader).is_some_and(|ballot| ballot.state == PeerState::Leading)
}
