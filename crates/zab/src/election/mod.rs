//! Fast leader election: every server votes for the best candidate that it knows of, tells all voters, and
//! changes its vote when it hears of a better one. It ends when all vote alike, when a quorum votes alike and
//! has been silent for a moment, or when a quorum says that it has a leader already.
//!
//! The elector lives as long as the server: while the server follows or leads, it answers those who look.
//! It decides nothing about history; a wrong choice costs time, never data.

mod answers;
mod candidate;
mod looking;

use std::collections::BTreeSet;

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{Notification, PeerState};
use zebu_proto::{ServerId, Zxid};

use answers::{Answer, Answers};
use candidate::Ballot;
pub use candidate::Candidate;
use looking::{Looking, Unanimity};

use crate::quorum::QuorumRule;

/// The round of a server's first election.
const FIRST_ROUND: i64 = 1;

/// What this server is in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It votes and may lead.
    Voter,
    /// It only learns who leads.
    Observer,
}

/// What an elector is told once.
#[derive(Clone, Debug)]
pub struct ElectorSettings {
    /// This server.
    pub me: ServerId,
    /// What it is in the configuration.
    pub role: Role,
    /// Who votes, and which sets of them decide.
    pub quorum: QuorumRule,
    /// Who votes, and which sets of them decide, in a configuration that was proposed. Then both count.
    pub pending: Option<QuorumRule>,
    /// Whether the list of voters may be another one elsewhere.
    pub members: Members,
    /// Who has no vote. Where the list is another one they may have one, and know who leads.
    pub observers: BTreeSet<ServerId>,
    /// The committed configuration, as it is told to others.
    pub config: Box<str>,
    /// First wait before votes are sent again.
    pub resend_ms_min: i64,
    /// The wait doubles up to this.
    pub resend_ms_max: i64,
    /// Silence that ends an election.
    pub finalize_ms: i64,
}

/// Whether the list of voters may be another one elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// It is the same everywhere.
    Fixed,
    /// It may change: a voter may vote for one who is not on this server's list.
    Changing,
    /// It may change; and a leader has refused this server, whose history is longer. If it is to have a vote,
    /// nobody else can lead.
    ChangingWithoutMe,
}

impl ElectorSettings {
    /// Whether a server may vote, now or if what is pending is decided.
    fn is_voter(&self, server: ServerId) -> bool {
        self.quorum.is_voter(server) || self.pending.as_ref().is_some_and(|pending| pending.is_voter(server))
    }

    /// Whether a server may be elected, now or if what is pending is decided.
    fn may_lead(&self, server: ServerId) -> bool {
        self.quorum.may_lead(server) || self.pending.as_ref().is_some_and(|pending| pending.may_lead(server))
    }

    /// Whether these servers may decide.
    fn is_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        self.quorum.is_quorum(servers)
            && self.pending.as_ref().is_none_or(|pending| pending.is_quorum(servers))
    }

    /// All who may vote.
    fn voters(&self) -> BTreeSet<ServerId> {
        let pending = self.pending.iter().flat_map(QuorumRule::voters);
        self.quorum.voters().chain(pending).collect()
    }

    /// Whether this server itself has a vote. Those without one listen to those who have.
    fn votes(&self) -> bool {
        self.is_voter(self.me)
    }

    /// Whether this server may put itself in: if what is in effect says so, or if it cannot go on without it.
    fn stands(&self) -> bool {
        let may_lead = match self.members {
            Members::Fixed | Members::Changing => self.quorum.may_lead(self.me),
            Members::ChangingWithoutMe => self.may_lead(self.me),
        };
        self.role == Role::Voter && may_lead
    }

    /// Whether one candidate is better: the later epoch, then the longer history, then the larger id. Of two
    /// with the same history, who has a vote already comes first: those who do not know what is pending know
    /// nobody else, and they would never agree with those who do.
    fn prefers(&self, one: &Candidate, other: &Candidate) -> bool {
        let rank = |it: &Candidate| (it.epoch, it.zxid, self.quorum.may_lead(it.leader), it.leader);
        rank(one) > rank(other)
    }

    /// Whether a server for which a voter votes may be voted for.
    fn is_candidate(&self, server: ServerId) -> bool {
        match self.members {
            Members::Fixed => self.may_lead(server),
            Members::Changing | Members::ChangingWithoutMe => {
                self.may_lead(server) || (!self.is_voter(server) && server != Candidate::NOBODY.leader)
            }
        }
    }
}

/// What a server brings into an election: exactly what a restart would find on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its last transaction; -1 if its data cannot be trusted: then it neither votes nor is voted for.
    pub last_zxid: Zxid,
    /// The last epoch whose leader it accepted.
    pub current_epoch: i64,
}

/// How an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Who leads.
    pub leader: ServerId,
    /// What this server does now: leads, follows or observes.
    pub state: PeerState,
    /// The epoch in which a quorum had the leader already, by their votes; `None` if this server has elected it.
    pub joined: Option<i64>,
}

/// What the elector wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell a server. A newer message to the same server replaces one that was not sent yet.
    Send {
        /// Whom.
        to: ServerId,
        /// What.
        notification: Notification,
    },
    /// The election is over.
    Decided(Decision),
}

/// The vote of a server that has a leader.
#[derive(Clone, Copy, Debug)]
struct Settled {
    state: PeerState,
    vote: Candidate,
}

#[derive(Debug)]
enum State {
    Looking(Looking),
    Settled(Settled),
}

/// Takes part in elections.
#[derive(Debug)]
pub struct Elector {
    settings: ElectorSettings,
    round: i64,
    state: State,
    /// Whether the leader of the last election came to lead.
    last: LastElection,
    /// What servers without a vote were told last.
    answers: Answers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastElection {
    Held,
    Open,
}

impl Elector {
    /// Starts to look for a leader.
    pub fn new(settings: ElectorSettings, standing: Standing, now_ms: i64, out: &mut Vec<Action>) -> Elector {
        let looking = Looking::new(&settings, standing, None, Unanimity::Ends, now_ms);
        let last = LastElection::Held;
        let state = State::Looking(looking);
        let mut elector = Elector { settings, round: 0, state, last, answers: Answers::default() };
        elector.look(standing, None, now_ms, out);
        elector
    }

    /// Looks for a leader again, in a new round. If the connection to a leader broke, that is `lost`: the election
    /// need not wait for what it has to say.
    pub fn look(&mut self, standing: Standing, lost: Option<ServerId>, now_ms: i64, out: &mut Vec<Action>) {
        self.round = next_round(self.round);
        let unanimity = match (self.settings.members, self.last) {
            (Members::Fixed, _) | (_, LastElection::Held) => Unanimity::Ends,
            (Members::Changing | Members::ChangingWithoutMe, LastElection::Open) => Unanimity::MustLast,
        };
        let looking = Looking::new(&self.settings, standing, lost, unanimity, now_ms);
        self.state = State::Looking(looking);
        self.with_looking(|looking, settings, round| {
            looking.vote_for_proposal(settings, *round, out);
            looking.consider(settings, *round, now_ms);
        });
    }

    /// The members have changed.
    pub fn reconfigure(&mut self, settings: ElectorSettings) {
        self.settings = settings;
    }

    /// Takes a leader who was named by the one before him, without an election.
    pub fn designate(&mut self, leader: ServerId, standing: Standing, out: &mut Vec<Action>) {
        let vote = Candidate { leader, zxid: standing.last_zxid, epoch: standing.current_epoch };
        self.settle(vote, None, out);
    }

    /// Whether a server may be elected.
    pub fn may_lead(&self, server: ServerId) -> bool {
        self.settings.quorum.may_lead(server)
    }

    /// The round of this server's clock.
    pub fn round(&self) -> i64 {
        self.round
    }

    /// What this server does, as it tells others.
    pub fn state(&self) -> PeerState {
        match &self.state {
            State::Looking(_) => PeerState::Looking,
            State::Settled(settled) => settled.state,
        }
    }

    /// The leader's epoch is established. From now on this vote names it, or a server that restarts would not
    /// find a quorum of equal votes.
    pub fn established(&mut self, epoch: i64) {
        if let State::Settled(settled) = &mut self.state {
            settled.vote.epoch = epoch;
            self.last = LastElection::Held;
        }
    }

    /// When [`Elector::timeout`] has something to do.
    pub fn next_deadline(&self) -> Option<i64> {
        match &self.state {
            State::Looking(looking) => Some(looking.deadline()),
            State::Settled(_) => None,
        }
    }

    /// Takes a notification of another server.
    pub fn handle(
        &mut self,
        from: ServerId,
        notification: &Notification,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let asks = notification.state == PeerState::Looking;
        if !self.settings.is_voter(from) {
            // Observers and servers that are in no configuration learn the leader this way. One that has a leader
            // does not ask, and one that is asked itself has only answered: it would be answered, answer in turn,
            // and so on for ever.
            if asks && !self.is_asking(from) {
                let pause_ms = self.settings.resend_ms_min / 2;
                if self.answers.is_due(from, self.current(), now_ms, pause_ms) {
                    out.push(self.answer(from));
                }
            }
            return;
        }
        match &self.state {
            State::Settled(_) if asks => out.push(self.answer(from)),
            State::Settled(_) => {}
            State::Looking(_) => {
                // Who is no voter elsewhere would be answered, answer in turn, and so on for ever.
                let votes = self.settings.quorum.is_voter(self.settings.me);
                if asks && notification.round < self.round && votes {
                    out.push(self.answer(from));
                }
                self.count(from, notification, now_ms, out);
            }
        }
    }

    /// Does what time asks for: sends the vote again, or ends the election.
    pub fn timeout(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let decided =
            self.with_looking(|looking, settings, round| looking.timeout(settings, *round, now_ms, out));
        if let Some(leader) = decided.flatten() {
            self.settle(leader, None, out);
        }
    }

    fn count(&mut self, from: ServerId, notification: &Notification, now_ms: i64, out: &mut Vec<Action>) {
        let ballot = Ballot::of(notification);
        let leader = ballot.candidate.leader;
        if !self.settings.is_voter(leader) && !self.settings.is_candidate(leader) {
            return;
        }
        let joined = self.with_looking(|looking, settings, round| match ballot.state {
            PeerState::Looking => {
                looking.count_looking(from, ballot, settings, round, now_ms, out);
                None
            }
            PeerState::Following | PeerState::Leading => looking.count_settled(from, ballot, settings, round),
            PeerState::Observing => None,
        });
        if let Some(vote) = joined.flatten() {
            let misled = self
                .with_looking(|looking, settings, _| looking.others_looking(settings.me))
                .unwrap_or_default();
            self.settle(vote, Some(vote.epoch), out);
            // They have this server's vote for somebody else, and might wait for it as his follower.
            out.extend(misled.into_iter().map(|server| self.answer(server)));
        }
    }

    fn settle(&mut self, vote: Candidate, joined: Option<i64>, out: &mut Vec<Action>) {
        let state = match self.settings.role {
            _ if vote.leader == self.settings.me => PeerState::Leading,
            Role::Voter => PeerState::Following,
            Role::Observer => PeerState::Observing,
        };
        self.state = State::Settled(Settled { state, vote });
        self.last = LastElection::Open;
        out.push(Action::Decided(Decision { leader: vote.leader, state, joined }));
    }

    /// Whether a server without a vote is told of the own vote again and again anyway.
    fn is_asking(&self, server: ServerId) -> bool {
        match &self.state {
            State::Looking(looking) => looking.audience(&self.settings).contains(&server),
            State::Settled(_) => false,
        }
    }

    /// What this server says now.
    fn current(&self) -> Answer {
        let (state, vote) = match &self.state {
            State::Looking(looking) => (PeerState::Looking, looking.proposal()),
            State::Settled(settled) => (settled.state, settled.vote),
        };
        Answer { state, vote, round: self.round }
    }

    fn answer(&self, to: ServerId) -> Action {
        let Answer { state, vote, round } = self.current();
        Action::Send { to, notification: notification(&self.settings, state, vote, round) }
    }

    fn with_looking<R>(
        &mut self,
        action: impl FnOnce(&mut Looking, &ElectorSettings, &mut i64) -> R,
    ) -> Option<R> {
        match &mut self.state {
            State::Looking(looking) => Some(action(looking, &self.settings, &mut self.round)),
            State::Settled(_) => None,
        }
    }
}

/// The round behind another one. Peers choose rounds, and the largest number has no next one: the count begins anew,
/// as it does in a server that was restarted. A server that is in a later round is caught up with when it is heard.
fn next_round(round: i64) -> i64 {
    round.checked_add(1).unwrap_or(FIRST_ROUND).max(FIRST_ROUND)
}

fn notification(settings: &ElectorSettings, state: PeerState, vote: Candidate, round: i64) -> Notification {
    Notification {
        state,
        leader: vote.leader,
        zxid: vote.zxid,
        round,
        epoch: vote.epoch,
        version: NotificationVersion::V2,
        config: Some(settings.config.clone()),
    }
}

#[cfg(test)]
mod tests;
