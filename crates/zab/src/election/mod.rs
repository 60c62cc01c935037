//! Fast leader election. Every server votes for the best candidate that it knows, notifies all voters, and
//! adopts a better vote when it receives one. An election ends when all voters agree, when a quorum agrees
//! until the finalize timeout, or when a quorum already has a leader.
//!
//! The elector lives as long as the server: while the server follows or leads, it answers LOOKING servers.
//! It has no part in the safety of the history; a wrong choice costs time, never data.

mod looking;
mod sent_votes;
mod vote;

use std::collections::BTreeSet;

use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{Notification, ServerState};
use zebu_proto::{ServerId, Zxid};

use looking::{ElectionContext, Looking, UnanimityRule};
use sent_votes::{SentVote, SentVotes};
pub use vote::ElectionVote;
use vote::ReceivedVote;

use crate::quorum::QuorumRule;
use crate::role::Role;

/// The round of a server's first election.
const FIRST_ROUND: i64 = 1;

/// The settings of an elector.
#[derive(Clone, Debug)]
pub struct ElectorSettings {
    /// The id of this server.
    pub me: ServerId,
    /// The role of this server in the config.
    pub role: Role,
    /// The voters of the committed config and their quorum rule.
    pub quorum: QuorumRule,
    /// The voters of a proposed config and their quorum rule. If set, an election needs a quorum of both.
    pub pending_quorum: Option<QuorumRule>,
    /// Whether other servers may have another config.
    pub membership_mode: MembershipMode,
    /// The servers without a vote. In a newer config they may have one, and know the leader.
    pub observers: BTreeSet<ServerId>,
    /// The config text for notifications.
    pub config: Box<str>,
    /// The first delay before a vote is sent again, in milliseconds.
    pub resend_ms_min: i64,
    /// The largest delay before a vote is sent again, in milliseconds. The delay doubles up to this.
    pub resend_ms_max: i64,
    /// The time without a better vote after which an election ends, in milliseconds.
    pub finalize_ms: i64,
}

/// Whether other servers may have another config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipMode {
    /// All servers have the same config.
    Static,
    /// The config may change: a voter may vote for a server that is not in the config of this server.
    Dynamic,
    /// The config may change, and a leader has refused this server because its history is longer. If the
    /// proposed config gives it a vote, no other server can lead.
    DynamicAfterRefusal,
}

impl ElectorSettings {
    /// Whether a server has a vote in the committed or the proposed config.
    fn is_voter(&self, server: ServerId) -> bool {
        self.quorum.is_voter(server)
            || self.pending_quorum.as_ref().is_some_and(|pending| pending.is_voter(server))
    }

    /// Whether a server may lead in the committed or the proposed config.
    fn may_lead(&self, server: ServerId) -> bool {
        self.quorum.may_lead(server)
            || self.pending_quorum.as_ref().is_some_and(|pending| pending.may_lead(server))
    }

    /// Whether these servers are a quorum of the committed and of the proposed config.
    fn is_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        self.quorum.is_quorum(servers)
            && self.pending_quorum.as_ref().is_none_or(|pending| pending.is_quorum(servers))
    }

    /// The voters of the committed and the proposed config.
    fn voters(&self) -> BTreeSet<ServerId> {
        let pending = self.pending_quorum.iter().flat_map(QuorumRule::voters);
        self.quorum.voters().chain(pending).collect()
    }

    /// Whether this server has a vote.
    fn has_own_vote(&self) -> bool {
        self.is_voter(self.me)
    }

    /// Whether this server may propose itself: by the committed config, or by the proposed one if it was
    /// refused.
    fn nominates_itself(&self) -> bool {
        let may_lead = match self.membership_mode {
            MembershipMode::Static | MembershipMode::Dynamic => self.quorum.may_lead(self.me),
            MembershipMode::DynamicAfterRefusal => self.may_lead(self.me),
        };
        self.role == Role::Participant && may_lead
    }

    /// Whether one candidate is better: the later epoch, then the larger zxid, then the larger id. With
    /// equal histories a voter of the committed config wins. Servers that do not know the proposed config
    /// know no other candidate, and both groups would never agree.
    fn prefers(&self, one: &ElectionVote, other: &ElectionVote) -> bool {
        let rank = |it: &ElectionVote| (it.epoch, it.zxid, self.quorum.may_lead(it.leader), it.leader);
        rank(one) > rank(other)
    }

    /// Whether the candidate of a voter can be voted for.
    fn is_candidate(&self, server: ServerId) -> bool {
        match self.membership_mode {
            MembershipMode::Static => self.may_lead(server),
            MembershipMode::Dynamic | MembershipMode::DynamicAfterRefusal => {
                self.may_lead(server) || (!self.is_voter(server) && server != ElectionVote::NONE.leader)
            }
        }
    }
}

/// The state of a server in an election: what a restart would recover from its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedState {
    /// The last transaction of the log; -1 if the data is not trusted. The server then neither votes nor is
    /// a candidate.
    pub last_zxid: Zxid,
    /// The current epoch.
    pub current_epoch: i64,
    /// Whether another server with the same history should lead.
    pub candidacy: Candidacy,
}

/// Whether a server proposes itself at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Candidacy {
    /// It does.
    #[default]
    Normal,
    /// It first waits for a candidate with at least its history, because its own disk is full or slow. It
    /// proposes itself when none comes within half of the finalize timeout.
    Yields,
}

/// The result of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionResult {
    /// The elected leader.
    pub leader: ServerId,
    /// The new state of this server: LEADING, FOLLOWING or OBSERVING.
    pub state: ServerState,
    /// The epoch in which a quorum already had the leader, by their votes; `None` if this election elected
    /// it.
    pub established_epoch: Option<i64>,
}

/// The effects of an elector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionEffect {
    /// Send a notification. A newer one to the same server replaces one that was not sent yet.
    Send {
        /// The recipient.
        to: ServerId,
        /// The notification.
        notification: Notification,
    },
    /// The election is over.
    Elected(ElectionResult),
}

/// The vote of a server that has a leader.
#[derive(Clone, Copy, Debug)]
struct ElectedState {
    state: ServerState,
    vote: ElectionVote,
}

#[derive(Debug)]
enum ElectorState {
    Looking(Looking),
    Elected(ElectedState),
}

/// Takes part in elections.
#[derive(Debug)]
pub struct Elector {
    settings: ElectorSettings,
    round: i64,
    state: ElectorState,
    /// Whether the leader of the last election was established.
    last_election: LastElection,
    /// The last votes that were sent to servers without a vote.
    sent_votes: SentVotes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastElection {
    Established,
    Unconfirmed,
}

impl Elector {
    /// Starts the first election.
    pub fn new(
        settings: ElectorSettings,
        logged_state: LoggedState,
        now_ms: i64,
        out: &mut Vec<ElectionEffect>,
    ) -> Elector {
        let looking = Looking::new(&settings, logged_state, None, UnanimityRule::EndsElection, now_ms);
        let last = LastElection::Established;
        let state = ElectorState::Looking(looking);
        let mut elector =
            Elector { settings, round: 0, state, last_election: last, sent_votes: SentVotes::default() };
        elector.look_for_leader(logged_state, None, now_ms, out);
        elector
    }

    /// Starts an election in a new round. `lost` is the leader whose connection was lost; the election does
    /// not wait for its vote.
    pub fn look_for_leader(
        &mut self,
        logged_state: LoggedState,
        lost: Option<ServerId>,
        now_ms: i64,
        out: &mut Vec<ElectionEffect>,
    ) {
        self.round = next_round(self.round);
        let unanimity = match (self.settings.membership_mode, self.last_election) {
            (MembershipMode::Static, _) | (_, LastElection::Established) => UnanimityRule::EndsElection,
            (MembershipMode::Dynamic | MembershipMode::DynamicAfterRefusal, LastElection::Unconfirmed) => {
                UnanimityRule::AwaitsFinalizeTimeout
            }
        };
        let looking = Looking::new(&self.settings, logged_state, lost, unanimity, now_ms);
        self.state = ElectorState::Looking(looking);
        self.with_looking(|looking, settings, round| {
            looking.send_notifications(settings, *round, out);
            looking.check_quorum(settings, *round, now_ms);
        });
    }

    /// Applies a new config.
    pub fn reconfigure(&mut self, settings: ElectorSettings) {
        self.settings = settings;
    }

    /// Adopts the leader that the previous leader designated, without an election.
    pub fn set_designated_leader(
        &mut self,
        leader: ServerId,
        logged_state: LoggedState,
        out: &mut Vec<ElectionEffect>,
    ) {
        let vote = ElectionVote { leader, zxid: logged_state.last_zxid, epoch: logged_state.current_epoch };
        self.conclude_election(vote, None, out);
    }

    /// Whether a server may be elected.
    pub fn may_lead(&self, server: ServerId) -> bool {
        self.settings.quorum.may_lead(server)
    }

    /// The current round (logical clock).
    pub fn round(&self) -> i64 {
        self.round
    }

    /// The state of this server in its notifications.
    pub fn state(&self) -> ServerState {
        match &self.state {
            ElectorState::Looking(_) => ServerState::Looking,
            ElectorState::Elected(elected) => elected.state,
        }
    }

    /// The epoch of the leader is established. The vote names it from now on, so that a restarted server
    /// finds a quorum of equal votes.
    pub fn set_established_epoch(&mut self, epoch: i64) {
        if let ElectorState::Elected(elected) = &mut self.state {
            elected.vote.epoch = epoch;
            self.last_election = LastElection::Established;
        }
    }

    /// The next time at which [`Elector::timeout`] has work to do.
    pub fn next_deadline(&self) -> Option<i64> {
        match &self.state {
            ElectorState::Looking(looking) => Some(looking.deadline()),
            ElectorState::Elected(_) => None,
        }
    }

    /// Handles the notification of another server.
    pub fn handle_notification(
        &mut self,
        from: ServerId,
        notification: &Notification,
        now_ms: i64,
        out: &mut Vec<ElectionEffect>,
    ) {
        let asks = notification.state == ServerState::Looking;
        if !self.settings.is_voter(from) {
            // Observers and servers outside the config learn the leader this way. A server with a leader
            // does not ask. A regular recipient of the own vote has only replied: replying again would start
            // an endless exchange.
            if asks && !self.is_recipient(from) {
                let pause_ms = self.settings.resend_ms_min / 2;
                if self.sent_votes.record_if_due(from, self.current_vote(), now_ms, pause_ms) {
                    out.push(self.reply_to(from));
                }
            }
            return;
        }
        match &self.state {
            ElectorState::Elected(_) if asks => out.push(self.reply_to(from)),
            ElectorState::Elected(_) => {}
            ElectorState::Looking(_) => {
                // If the sender does not count this server as a voter, replies to replies would never end.
                let votes = self.settings.quorum.is_voter(self.settings.me);
                let votes = votes && !self.yields();
                if asks && notification.round < self.round && votes {
                    out.push(self.reply_to(from));
                }
                self.count_vote(from, notification, now_ms, out);
            }
        }
    }

    /// Sends the vote again or ends the election, whichever is due.
    pub fn timeout(&mut self, now_ms: i64, out: &mut Vec<ElectionEffect>) {
        let elected =
            self.with_looking(|looking, settings, round| looking.timeout(settings, *round, now_ms, out));
        if let Some(leader) = elected.flatten() {
            self.conclude_election(leader, None, out);
        }
    }

    fn count_vote(
        &mut self,
        from: ServerId,
        notification: &Notification,
        now_ms: i64,
        out: &mut Vec<ElectionEffect>,
    ) {
        let received_vote = ReceivedVote::from_notification(notification);
        let leader = received_vote.vote.leader;
        if !self.settings.is_voter(leader) && !self.settings.is_candidate(leader) {
            return;
        }
        let established = self.with_looking(|looking, settings, round| match received_vote.state {
            ServerState::Looking => {
                let context = ElectionContext { settings, round, now_ms, out };
                looking.count_looking_vote(from, received_vote, context);
                None
            }
            ServerState::Following | ServerState::Leading => {
                looking.count_out_of_election_vote(from, received_vote, settings, round)
            }
            ServerState::Observing => None,
        });
        if let Some(vote) = established.flatten() {
            let misled = self
                .with_looking(|looking, settings, _| looking.other_looking_servers(settings.me))
                .unwrap_or_default();
            self.conclude_election(vote, Some(vote.epoch), out);
            // These servers hold an older vote of this server. Their candidate would wait for it as a
            // follower.
            out.extend(misled.into_iter().map(|server| self.reply_to(server)));
        }
    }

    fn conclude_election(
        &mut self,
        vote: ElectionVote,
        established: Option<i64>,
        out: &mut Vec<ElectionEffect>,
    ) {
        let state = match self.settings.role {
            _ if vote.leader == self.settings.me => ServerState::Leading,
            Role::Participant => ServerState::Following,
            Role::Observer => ServerState::Observing,
        };
        self.state = ElectorState::Elected(ElectedState { state, vote });
        self.last_election = LastElection::Unconfirmed;
        out.push(ElectionEffect::Elected(ElectionResult {
            leader: vote.leader,
            state,
            established_epoch: established,
        }));
    }

    /// Whether this server waits for another candidate.
    fn yields(&self) -> bool {
        matches!(&self.state, ElectorState::Looking(looking) if looking.yields())
    }

    /// Whether a server without a vote receives the own vote regularly anyway.
    fn is_recipient(&self, server: ServerId) -> bool {
        match &self.state {
            ElectorState::Looking(looking) => looking.recipients(&self.settings).contains(&server),
            ElectorState::Elected(_) => false,
        }
    }

    /// The current vote of this server.
    fn current_vote(&self) -> SentVote {
        let (state, vote) = match &self.state {
            ElectorState::Looking(looking) => (ServerState::Looking, looking.proposed_vote()),
            ElectorState::Elected(elected) => (elected.state, elected.vote),
        };
        SentVote { state, vote, round: self.round }
    }

    fn reply_to(&self, to: ServerId) -> ElectionEffect {
        let SentVote { state, vote, round } = self.current_vote();
        ElectionEffect::Send { to, notification: notification(&self.settings, state, vote, round) }
    }

    fn with_looking<R>(
        &mut self,
        action: impl FnOnce(&mut Looking, &ElectorSettings, &mut i64) -> R,
    ) -> Option<R> {
        match &mut self.state {
            ElectorState::Looking(looking) => Some(action(looking, &self.settings, &mut self.round)),
            ElectorState::Elected(_) => None,
        }
    }
}

/// The round after another one. Peers choose rounds, and the largest number has no successor: the count
/// restarts, as after a restart of the server. The server adopts a later round when it receives one.
fn next_round(round: i64) -> i64 {
    round.checked_add(1).unwrap_or(FIRST_ROUND).max(FIRST_ROUND)
}

fn notification(
    settings: &ElectorSettings,
    state: ServerState,
    vote: ElectionVote,
    round: i64,
) -> Notification {
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
