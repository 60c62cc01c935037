//! A member of an ensemble: looks for a leader, leads, follows or observes. The elector lives as long as the
//! member; a role ends with the connections that it had, and the next election begins only when the disk has
//! finished, so that a vote names exactly what a restart would find.

use zebu_proto::quorum::{Notification, Packet, PeerState};
use zebu_proto::{ServerId, Zxid};

use crate::action::{Action, CloseReason, Serving};
use crate::election::{self, Decision, Elector};
use crate::entry::Entry;
use crate::event::{Event, LinkId, LogRead, PingNumber};
use crate::leader::Leader;
use crate::learner::{Learner, Start, Targets, mixed};
use crate::member::Member;
use crate::membership::Configuration;
use crate::observer_master::ObserverMaster;
use crate::role_end::{Pause, RoleEnd};
use crate::settings::{PeerSettings, Recovered, Trust};
use crate::status::Status;

/// A long pause is so many times the wait between attempts to join a leader.
const LONG_PAUSE_RETRIES: i64 = 8;

/// A member of an ensemble.
#[derive(Debug)]
pub struct Peer {
    member: Member,
    elector: Elector,
    role: Role,
    /// How many connections it has dialled.
    dialed: u64,
    /// How often it has looked for somebody to observe.
    turn: u64,
    stopping: Stopping,
}

/// What the member is doing.
#[derive(Debug)]
enum Role {
    /// Waits for the disk, or for a moment, before it looks for a leader.
    Settling {
        until_ms: i64,
        /// The leader whose connection broke.
        lost: Option<ServerId>,
    },
    /// Looks for a leader.
    Looking,
    /// Was elected.
    Leading(Box<Leader>),
    /// Follows or observes.
    Learning(Box<Learner>),
    /// Takes no part any more.
    Retired,
}

/// Whether the server is about to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    No,
    Asked,
}

impl Peer {
    /// Starts to look for a leader.
    pub fn new(settings: PeerSettings, recovered: Recovered, now_ms: i64, out: &mut Vec<Action>) -> Peer {
        let member = Member::new(settings, recovered);
        let mut ballots = Vec::new();
        let elector = Elector::new(member.elector(), member.standing(), now_ms, &mut ballots);
        let mut peer =
            Peer { member, elector, role: Role::Looking, dialed: 0, turn: 0, stopping: Stopping::No };
        peer.election(ballots, now_ms, out);
        peer
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event, now_ms: i64, out: &mut Vec<Action>) {
        if let Event::Persisted { io } = event {
            self.member.persisted(io, out);
        }
        if let Event::LogRead { read: LogRead::Entries(entries), .. } = &event {
            entries.iter().for_each(|entry| self.member.note_length(entry));
        }
        if let Event::TruncateRefused { io } = event {
            self.member.disk.persisted(io);
            self.member.rewind_refused(io, now_ms, out);
        }
        let result = match (&mut self.role, event) {
            (Role::Retired, Event::Notification { .. }) => Ok(()),
            (Role::Learning(learner), Event::ObserverAccepted { link }) => {
                learner.accept_observer(link, now_ms, out);
                Ok(())
            }
            (_, Event::ObserverAccepted { link }) => {
                out.push(Action::Close { link, reason: CloseReason::NotFollowing });
                Ok(())
            }
            (Role::Looking, Event::Notification { notification, .. })
                if self.member.adopts(&notification, out) =>
            {
                // Who counts has changed: the search begins anew, and this vote with it.
                self.look(None, now_ms, out);
                Ok(())
            }
            (_, Event::Notification { from, notification }) => {
                self.member.locate(from, &notification, out);
                let mut ballots = Vec::new();
                self.elector.handle(from, &notification, now_ms, &mut ballots);
                let deserted = self.is_deserted_by(from, &notification);
                self.election(ballots, now_ms, out);
                if deserted { Err(RoleEnd::LINK_LOST) } else { Ok(()) }
            }
            (Role::Leading(leader), event) => leader.handle(event, &mut self.member, now_ms, out),
            (_, Event::Accepted { link }) => {
                out.push(Action::Close { link, reason: CloseReason::NotLeading });
                Ok(())
            }
            (Role::Learning(learner), event) => learner.handle(event, &mut self.member, now_ms, out),
            (Role::Settling { .. } | Role::Looking | Role::Retired, _) => Ok(()),
        };
        self.conclude(result, now_ms, out);
    }

    /// Does what time asks for.
    pub fn timeout(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let result = match &mut self.role {
            Role::Settling { .. } | Role::Retired => Ok(()),
            Role::Looking => {
                let mut ballots = Vec::new();
                self.elector.timeout(now_ms, &mut ballots);
                self.election(ballots, now_ms, out);
                Ok(())
            }
            Role::Leading(leader) => leader.timeout(&self.member, now_ms, out),
            Role::Learning(learner) => {
                let dialed = &mut self.dialed;
                learner.timeout(&self.member, || next_link(dialed), now_ms, out)
            }
        };
        self.conclude(result, now_ms, out);
    }

    /// When [`Peer::timeout`] has something to do.
    pub fn next_deadline(&self) -> i64 {
        match &self.role {
            Role::Settling { until_ms, .. } if self.member.disk.is_idle() => *until_ms,
            Role::Settling { .. } | Role::Retired => i64::MAX,
            Role::Looking => self.elector.next_deadline().unwrap_or(i64::MAX),
            Role::Leading(leader) => leader.deadline(),
            Role::Learning(learner) => learner.deadline(&self.member),
        }
    }

    /// The place of the next transaction; `None` if this server does not lead, or if the epoch has no place
    /// left (then it has begun to hand over).
    pub fn next_zxid(&self) -> Option<Zxid> {
        match &self.role {
            Role::Leading(leader) => leader.next_zxid(&self.member),
            _ => None,
        }
    }

    /// Proposes a transaction, which has the place that [`Peer::next_zxid`] just named.
    pub fn propose(&mut self, entry: Entry, now_ms: i64, out: &mut Vec<Action>) {
        match &mut self.role {
            Role::Leading(leader) => leader.propose(entry, &mut self.member, now_ms, out),
            _ => panic!("only a leader proposes, and only a leader was told a place"),
        }
    }

    /// The last transaction that was proposed by this leader, or the last of the history it began with.
    pub fn last_proposed(&self) -> Zxid {
        self.member.history.last()
    }

    /// Sends a packet to a learner behind the commit of `after`.
    pub fn answer_learner(&mut self, link: LinkId, after: Zxid, packet: Packet, out: &mut Vec<Action>) {
        if let Role::Leading(leader) = &mut self.role {
            leader.answer(link, after, packet, &self.member, out);
        }
    }

    /// Whether a quorum has answered a ping that this leader sent then or later: until then, nobody else led.
    pub fn has_quorum_since(&self, since_ms: i64) -> bool {
        matches!(&self.role, Role::Leading(leader) if leader.has_quorum_since(since_ms))
    }

    /// Asks whether a quorum is still there. Once [`Peer::has_answered`] knows the ping, it is certain that nobody else
    /// led at the moment of this call.
    pub fn ask_quorum(&mut self, now_ms: i64, out: &mut Vec<Action>) -> PingNumber {
        match &mut self.role {
            Role::Leading(leader) => leader.ask_quorum(&self.member, now_ms, out),
            Role::Settling { .. } | Role::Looking | Role::Learning(_) | Role::Retired => PingNumber(u64::MAX),
        }
    }

    /// Whether a quorum has answered this ping, or a later one.
    pub fn has_answered(&self, ping: PingNumber) -> bool {
        matches!(&self.role, Role::Leading(leader) if leader.has_answered(ping))
    }

    /// Sends a packet to the leader that this server serves under.
    pub fn tell_leader(&mut self, packet: Packet, out: &mut Vec<Action>) {
        if let Role::Learning(learner) = &mut self.role {
            learner.tell_leader(packet, out);
        }
    }

    /// The state that this member started with is not the leader's. If it serves a leader who had his quorum without it,
    /// it sets its data aside, and comes again for a whole state. Otherwise nothing is done: the leader's own state may
    /// be the wrong one, and a quorum must not give up its data for it. Returns whether it does.
    pub fn give_up_state(&mut self, now_ms: i64, out: &mut Vec<Action>) -> bool {
        match &mut self.role {
            Role::Learning(learner) => learner.give_up_state(&mut self.member, now_ms, out),
            Role::Settling { .. } | Role::Looking | Role::Leading(_) | Role::Retired => false,
        }
    }

    /// Leads no longer: what is proposed is finished, then the others choose again. For a server that stops.
    /// A server that does not lead just ends its role.
    pub fn hand_over(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.stopping = Stopping::Asked;
        let result = match &mut self.role {
            Role::Leading(leader) => leader.hand_over(&self.member),
            Role::Settling { .. } | Role::Looking | Role::Learning(_) | Role::Retired => {
                Err(RoleEnd::LINK_LOST)
            }
        };
        self.conclude(result, now_ms, out);
    }

    /// Whether [`Peer::hand_over`] has nothing left to wait for.
    pub fn has_handed_over(&self) -> bool {
        matches!(self.role, Role::Retired)
    }

    /// Whether it looks for a leader, and what is on its disk can be shown meanwhile: all of it is there, and none
    /// of it is known to be lost.
    pub fn is_cut_off(&self) -> bool {
        matches!(self.role, Role::Looking) && self.member.trust == Trust::Trusted
    }

    /// The members, if they may change.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.member.configuration()
    }

    /// New members that were proposed, and about which nothing is decided.
    pub fn pending_configuration(&self) -> Option<&Configuration> {
        self.member.pending()
    }

    /// Whether those who follow this leader now could decide in a configuration.
    pub fn has_quorum_of(&self, configuration: &Configuration) -> bool {
        match &self.role {
            Role::Leading(leader) => leader.has_quorum_of(configuration, &self.member),
            Role::Settling { .. } | Role::Looking | Role::Learning(_) | Role::Retired => false,
        }
    }

    /// What is going on.
    pub fn status(&self) -> Status {
        let (leader, learners) = match &self.role {
            Role::Leading(leader) => (Some(self.member.settings.me), leader.status()),
            Role::Learning(learner) => {
                let observers = learner.observers().map(ObserverMaster::status);
                (Some(learner.leader()), observers.unwrap_or_default())
            }
            Role::Settling { .. } | Role::Looking | Role::Retired => (None, Vec::new()),
        };
        Status {
            state: match &self.role {
                Role::Settling { .. } | Role::Looking | Role::Retired => PeerState::Looking,
                Role::Leading(_) | Role::Learning(_) => self.elector.state(),
            },
            leader,
            master: match &self.role {
                Role::Learning(learner) => Some(learner.master()),
                Role::Settling { .. } | Role::Looking | Role::Leading(_) | Role::Retired => None,
            },
            accepted_epoch: self.member.accepted_epoch,
            current_epoch: self.member.current_epoch,
            logged: self.member.history.last(),
            durable: self.member.disk.durable(),
            history_bytes: self.member.history.bytes(),
            committed: self.member.committed(),
            learners,
        }
    }

    /// What it does for clients now.
    pub fn serving(&self) -> Option<Serving> {
        match &self.role {
            Role::Leading(leader) => leader.serving(),
            Role::Learning(learner) => learner.serving(),
            Role::Settling { .. } | Role::Looking | Role::Retired => None,
        }
    }

    /// Whether this leader waits for somebody who has begun a later election or has another leader, and will not
    /// come: without him there is no quorum, and waiting for the end of the limit would help nobody.
    fn is_deserted_by(&mut self, from: ServerId, notification: &Notification) -> bool {
        let Peer { role, member, elector, .. } = self;
        match role {
            Role::Leading(leader) if member.settings.quorum.is_voter(from) => match notification.state {
                PeerState::Looking => notification.round > elector.round() && leader.misses(from, member),
                PeerState::Following if notification.leader != member.settings.me => {
                    leader.loses([from, notification.leader], member)
                }
                PeerState::Following | PeerState::Leading | PeerState::Observing => false,
            },
            Role::Leading(_) => false,
            Role::Settling { .. } | Role::Looking | Role::Learning(_) | Role::Retired => false,
        }
    }

    /// Does what the elector wants.
    fn election(&mut self, ballots: Vec<election::Action>, now_ms: i64, out: &mut Vec<Action>) {
        let mut decision = None;
        for ballot in ballots {
            match ballot {
                election::Action::Send { to, notification } => out.push(Action::Notify { to, notification }),
                election::Action::Decided(decided) => decision = Some(decided),
            }
        }
        if let Some(decision) = decision {
            let result = self.take_role(decision, now_ms, out);
            self.conclude(result, now_ms, out);
        }
    }

    fn take_role(&mut self, decision: Decision, now_ms: i64, out: &mut Vec<Action>) -> Result<(), RoleEnd> {
        match decision.state {
            PeerState::Leading => {
                let leader = Leader::new(&mut self.member, now_ms, out)?;
                self.role = Role::Leading(Box::new(leader));
            }
            PeerState::Following => {
                self.learn(decision, Targets::leader(decision.leader), 0, now_ms, out);
            }
            PeerState::Observing => {
                self.turn += 1;
                let targets = Targets::of_observer(decision.leader, self.turn, &self.member);
                let pause_ms = self.random_wait(self.member.settings.observing.reconnect_delay_ms);
                self.learn(decision, targets, pause_ms, now_ms, out);
            }
            PeerState::Looking => {}
        }
        Ok(())
    }

    fn learn(
        &mut self,
        decision: Decision,
        targets: Targets,
        pause_ms: i64,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let link = next_link(&mut self.dialed);
        let start = Start { now_ms, pause_ms };
        self.role = Role::Learning(Box::new(Learner::new(decision, targets, link, start, out)));
    }

    /// A wait below this, another one each time.
    fn random_wait(&self, below_ms: i64) -> i64 {
        let PeerSettings { me, observing, .. } = &self.member.settings;
        let number = mixed(observing.seed, me.0 as u64, self.turn.wrapping_add(self.dialed << 32));
        if below_ms > 0 { (number % below_ms as u64) as i64 } else { 0 }
    }

    /// After every event: the role may have ended, or its epoch may have been established; a settled server
    /// may look again.
    fn conclude(&mut self, result: Result<(), RoleEnd>, now_ms: i64, out: &mut Vec<Action>) {
        if let Err(end) = result {
            self.end_role(&end, now_ms, out);
        }
        if let Some(
            Serving::Leading { epoch } | Serving::Following { epoch, .. } | Serving::Observing { epoch, .. },
        ) = self.serving()
        {
            self.elector.established(i64::from(epoch));
        }
        if let Some(settings) = self.member.news_for_elector() {
            self.elector.reconfigure(settings);
        }
        self.member.trim();
        if let Role::Settling { until_ms, lost } = self.role
            && until_ms <= now_ms
            && self.member.disk.is_idle()
            && !self.member.rewinds(now_ms, out)
        {
            self.role = Role::Looking;
            match self.member.next_leader.take() {
                Some(leader) if self.may_follow(leader) => {
                    let mut ballots = Vec::new();
                    self.elector.designate(leader, self.member.standing(), &mut ballots);
                    self.election(ballots, now_ms, out);
                }
                _ => self.look(lost, now_ms, out),
            }
        }
    }

    /// Looks for a leader. `lost` is the one whose connection broke.
    fn look(&mut self, lost: Option<ServerId>, now_ms: i64, out: &mut Vec<Action>) {
        if self.member.rewinds(now_ms, out) {
            self.role = Role::Settling { until_ms: now_ms, lost };
            return;
        }
        if let Some(settings) = self.member.news_for_elector() {
            self.elector.reconfigure(settings);
        }
        let mut ballots = Vec::new();
        self.elector.look(self.member.standing(), lost, now_ms, &mut ballots);
        self.election(ballots, now_ms, out);
    }

    /// Whether a leader who was named may be taken: this server only if it may lead.
    fn may_follow(&self, leader: ServerId) -> bool {
        let me = self.member.settings.me;
        leader != me || (self.elector.may_lead(me) && self.member.trust == Trust::Trusted)
    }

    fn end_role(&mut self, end: &RoleEnd, now_ms: i64, out: &mut Vec<Action>) {
        if self.serving().is_some() {
            out.push(Action::StopServing);
        }
        match &self.role {
            Role::Leading(leader) => {
                for link in leader.links() {
                    out.push(Action::Close { link, reason: CloseReason::RoleEnded });
                }
            }
            Role::Learning(learner) => {
                let link = learner.link();
                out.push(Action::Close { link, reason: end.reason.clone() });
                out.push(Action::DiscardSnapshot { link });
                for link in learner.observers().into_iter().flat_map(ObserverMaster::links) {
                    out.push(Action::Close { link, reason: CloseReason::RoleEnded });
                }
            }
            Role::Settling { .. } | Role::Looking | Role::Retired => {}
        }
        let lost = match &self.role {
            // A follower that served this observer is no reason to doubt the leader.
            Role::Learning(learner) => Some(learner.leader()).filter(|leader| *leader == learner.master()),
            Role::Settling { .. } | Role::Looking | Role::Leading(_) | Role::Retired => None,
        };
        let wait_ms = self.wait_before_election();
        // What a leader has only spoken of, and what is not in the log, a restart would not know either.
        self.member.forget_pending_behind(self.member.history.last());
        self.member.forget_announced();
        self.member.forget_answers();
        self.role = match (self.stopping, end.pause) {
            (Stopping::Asked, _) => Role::Retired,
            (Stopping::No, Pause::None) => Role::Settling { until_ms: now_ms + wait_ms, lost },
            // The leader is there; the two did not get on.
            (Stopping::No, Pause::Retry) => {
                Role::Settling { until_ms: now_ms + self.member.settings.retry_ms, lost: None }
            }
            (Stopping::No, Pause::Long) => {
                let until_ms = now_ms + LONG_PAUSE_RETRIES * self.member.settings.retry_ms;
                Role::Settling { until_ms, lost: None }
            }
        };
    }

    /// Many observers may lose one master at once; they do not come all at once. Who was told where to go goes.
    fn wait_before_election(&self) -> i64 {
        match self.serving() {
            Some(Serving::Observing { .. }) if self.member.next_leader.is_none() => {
                self.random_wait(self.member.settings.observing.election_delay_ms)
            }
            Some(_) | None => 0,
        }
    }
}

fn next_link(dialed: &mut u64) -> LinkId {
    *dialed += 1;
    LinkId::dialed(*dialed)
}
