//! A follower or an observer: finds its leader, promises him its epoch, takes his history, then logs,
//! acknowledges and applies what he says. Each step is a type; a packet that has no place in the present one
//! ends the connection, never the process.

mod broadcast;
mod departure;
mod discovery;
mod sync;
mod targets;

use std::collections::VecDeque;

use zebu_proto::ServerId;
use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use crate::action::{Action, CloseReason, Serving};
use crate::election::{Decision, Role};
use crate::event::{Event, IoId, LinkId};
use crate::member::Member;
use crate::membership::Configuration;
use crate::observer_master::ObserverMaster;
use crate::packet_name::packet_name;
use crate::role_end::RoleEnd;
use departure::Departure;
pub(crate) use targets::{Targets, mixed};

/// The pause after a failed attempt doubles so often until it is the whole one.
const QUICK_TRIES: u32 = 5;

/// A server that has a leader.
#[derive(Debug)]
pub(crate) struct Learner {
    leader: ServerId,
    /// Whom it is connected to, and who else could be asked.
    targets: Targets,
    link: LinkId,
    /// What it has said that it is. The leader speaks to it accordingly, also when a new configuration has another
    /// place for it: until it comes again.
    role: Role,
    voice: Voice,
    /// The epoch in which a quorum had this leader already when it was found, by their votes.
    joined: Option<i64>,
    step: Step,
    tries_left: u32,
    /// When it began to connect.
    began_ms: i64,
    /// When the leader was heard of last, or the step began.
    heard_ms: i64,
    /// What came while the disk was at work that everything behind it needs.
    backlog: VecDeque<Packet>,
    contact: Contact,
    /// The configuration that came with the leader's history.
    announced: Option<Box<Configuration>>,
    /// Set when a new configuration has another place for it.
    departure: Option<Departure>,
    /// Observers that it serves while it serves itself, if it is to have any.
    observers: Option<Box<ObserverMaster>>,
}

/// Whether a learner that has a vote may be counted by its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    /// Yes.
    Counted,
    /// It has promised a later epoch than this leader's, so it learns as an observer does.
    Withheld,
}

/// When a learner begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) now_ms: i64,
    /// How long it waits before it connects.
    pub(crate) pause_ms: i64,
}

/// Whether the connection to the leader is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contact {
    Held,
    /// It went while the disk was changing the history. The role ends when history and disk are one again.
    Lost,
}

/// How far it has come.
#[derive(Debug)]
enum Step {
    /// Connects.
    Dialing(Dialing),
    /// Has said who it is; the leader names an epoch.
    Greeting,
    /// The epoch is being written.
    Promising(Promising),
    /// The leader decides how to bring it up to date.
    AwaitingHistory { epoch: u32 },
    /// A whole state is coming.
    ReceivingSnapshot { epoch: u32, zxid: Zxid },
    /// The state is here; what came behind it is kept until the leader says that it is complete.
    Collecting(Collecting),
    /// The state takes the place of the own history.
    Installing { io: IoId, epoch: u32, zxid: Zxid, rest: VecDeque<crate::Entry> },
    /// The log is being cut.
    Truncating { io: IoId, epoch: u32, to: Zxid },
    /// Cannot be brought up to date from its own history; that is being put away.
    SettingAside { io: IoId },
    /// Missing transactions are coming.
    Catching(Catching),
    /// Has all; it is being made durable.
    Accepting { io: IoId, epoch: u32, progress: Progress },
    /// Has accepted the history; the leader waits for a quorum.
    Accepted { epoch: u32, progress: Progress },
    /// Serves.
    Serving { epoch: u32, progress: Progress },
}

#[derive(Debug)]
enum Dialing {
    Waiting,
    Pausing { until_ms: i64 },
}

#[derive(Debug)]
struct Promising {
    io: IoId,
    epoch: u32,
    /// What to say once it is written.
    current_epoch: i32,
}

#[derive(Debug)]
struct Collecting {
    epoch: u32,
    snapshot: Zxid,
    tail: VecDeque<crate::Entry>,
    /// How many of them are committed.
    committed: usize,
}

#[derive(Debug)]
struct Catching {
    epoch: u32,
    committed: Zxid,
}

/// What was acknowledged, and what is decided.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Everything up to here needs no acknowledgement of its own, or has it.
    acked: Zxid,
    /// Everything up to here is part of the leader's history or was committed by him.
    committed: Zxid,
}

impl Step {
    fn name(&self) -> &'static str {
        match self {
            Step::Dialing(_) => "connecting",
            Step::Greeting => "greeting",
            Step::Promising(_) => "promising an epoch",
            Step::AwaitingHistory { .. } => "waiting for the history",
            Step::ReceivingSnapshot { .. } => "receiving a state",
            Step::Collecting(_) => "collecting what follows a state",
            Step::Installing { .. } => "installing a state",
            Step::Truncating { .. } => "truncating the log",
            Step::SettingAside { .. } => "setting the history aside",
            Step::Catching(_) => "catching up",
            Step::Accepting { .. } => "accepting the history",
            Step::Accepted { .. } => "waiting for the quorum",
            Step::Serving { .. } => "following",
        }
    }
}

impl Learner {
    /// Turns to a leader.
    pub(crate) fn new(
        decision: Decision,
        targets: Targets,
        link: LinkId,
        start: Start,
        out: &mut Vec<Action>,
    ) -> Learner {
        let Decision { leader, joined, .. } = decision;
        let Start { now_ms, pause_ms } = start;
        let step = if pause_ms > 0 {
            Step::Dialing(Dialing::Pausing { until_ms: now_ms + pause_ms })
        } else {
            let (to, door) = targets.current();
            out.push(Action::Dial { link, to, door });
            Step::Dialing(Dialing::Waiting)
        };
        Learner {
            leader,
            tries_left: targets.tries(),
            began_ms: now_ms + pause_ms,
            targets,
            link,
            role: Role::Voter,
            voice: Voice::Counted,
            joined,
            step,
            heard_ms: now_ms + pause_ms,
            backlog: VecDeque::new(),
            contact: Contact::Held,
            announced: None,
            departure: None,
            observers: None,
        }
    }

    /// Whom it is connected to, or wants to be.
    pub(crate) fn master(&self) -> ServerId {
        self.targets.current().0
    }

    /// The observers that it serves.
    pub(crate) fn observers(&self) -> Option<&ObserverMaster> {
        self.observers.as_deref()
    }

    /// An observer has connected.
    pub(crate) fn accept_observer(&mut self, link: LinkId, now_ms: i64, out: &mut Vec<Action>) {
        match &mut self.observers {
            Some(observers) => observers.accept(link, now_ms),
            None => out.push(Action::Close { link, reason: CloseReason::NotFollowing }),
        }
    }

    pub(crate) fn leader(&self) -> ServerId {
        self.leader
    }

    pub(crate) fn link(&self) -> LinkId {
        self.link
    }

    /// What it does for clients.
    pub(crate) fn serving(&self) -> Option<Serving> {
        match self.step {
            Step::Serving { epoch, .. } => Some(match self.role {
                Role::Voter => Serving::Following { leader: self.leader, epoch },
                Role::Observer => Serving::Observing { leader: self.leader, epoch },
            }),
            _ => None,
        }
    }

    /// Takes an event of its connection, or of the disk.
    pub(crate) fn handle(
        &mut self,
        event: Event,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        match event {
            Event::Dialed { link }
                if link == self.link && matches!(self.step, Step::Dialing(Dialing::Waiting)) =>
            {
                self.heard_ms = now_ms;
                self.greet(member, out);
                Ok(())
            }
            // What was on its way when this side closed the connection.
            Event::LinkDown { link } | Event::Packet { link, .. }
                if link == self.link && matches!(self.step, Step::Dialing(Dialing::Pausing { .. })) =>
            {
                Ok(())
            }
            Event::LinkDown { link } if link == self.link && self.is_blocked() => {
                self.contact = Contact::Lost;
                Ok(())
            }
            Event::DialFailed { link } | Event::LinkDown { link } if link == self.link => {
                self.link_lost(member, now_ms)
            }
            Event::Packet { link, packet } if link == self.link => {
                self.heard_ms = now_ms;
                if self.is_blocked() {
                    self.backlog.push_back(packet);
                    return Ok(());
                }
                self.packet(packet, member, now_ms, out)
            }
            Event::SnapshotMoves { link } if link == self.link => {
                self.heard_ms = now_ms;
                Ok(())
            }
            Event::SnapshotReceived { link } if link == self.link => {
                self.heard_ms = now_ms;
                self.snapshot_received()
            }
            Event::Persisted { .. } => self.persisted(member, now_ms, out),
            Event::TruncateRefused { io } => self.truncate_refused(io, member, now_ms, out),
            other => {
                if let Some(observers) = &mut self.observers {
                    observers.handle(other, member, now_ms, out);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn deadline(&self, member: &Member) -> i64 {
        if self.is_blocked() {
            return i64::MAX;
        }
        let silent = (self.heard_ms + self.patience_ms(member)).min(self.departs_at_ms(member));
        let silent = silent.min(self.disk_deadline(member));
        let silent = self.observers.as_ref().map_or(silent, |observers| silent.min(observers.deadline()));
        match &self.step {
            Step::Dialing(Dialing::Pausing { until_ms }) => silent.min(*until_ms),
            _ => silent,
        }
    }

    pub(crate) fn timeout(
        &mut self,
        member: &Member,
        next_link: impl FnOnce() -> LinkId,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        if let Step::Dialing(Dialing::Pausing { until_ms }) = self.step
            && until_ms <= now_ms
        {
            self.link = next_link();
            let (to, door) = self.targets.current();
            out.push(Action::Dial { link: self.link, to, door });
            self.step = Step::Dialing(Dialing::Waiting);
        }
        if let Some(observers) = &mut self.observers {
            observers.timeout(member, now_ms, out);
        }
        self.depart(member, now_ms)?;
        if self.disk_deadline(member) <= now_ms {
            let ms = now_ms - member.disk.busy_since_ms().unwrap_or(now_ms);
            return Err(RoleEnd::because(CloseReason::SlowDisk { ms }));
        }
        // While the disk is at work for it, the leader may have nothing to say.
        if now_ms >= self.heard_ms + self.patience_ms(member) && !self.is_blocked() {
            return Err(RoleEnd::because(CloseReason::Silent));
        }
        Ok(())
    }

    /// Sends a packet to the leader if it is served under.
    pub(crate) fn tell_leader(&mut self, packet: Packet, out: &mut Vec<Action>) {
        if let Step::Serving { .. } = self.step {
            let packet = match &mut self.observers {
                Some(observers) => observers.telling(packet),
                None => packet,
            };
            out.push(Action::Send { link: self.link, packet });
        }
    }

    fn patience_ms(&self, member: &Member) -> i64 {
        let settings = &member.settings;
        match self.step {
            Step::Serving { .. } => settings.sync_limit * settings.tick_ms,
            Step::Dialing(_) => settings.connect_limit * settings.tick_ms,
            _ => settings.init_limit * settings.tick_ms,
        }
    }

    /// When a server that serves shows data that is too old, because its disk has not taken what came since. It then
    /// serves no more until the disk has finished. The leader of an observer would not notice.
    fn disk_deadline(&self, member: &Member) -> i64 {
        let settings = &member.settings;
        match (&self.step, member.disk.busy_since_ms()) {
            (Step::Serving { .. }, Some(since_ms)) => since_ms + settings.sync_limit * settings.tick_ms,
            _ => i64::MAX,
        }
    }

    /// What it is to be for its leader.
    fn role_for_leader(&self, member: &Member) -> Role {
        match self.voice {
            Voice::Counted => member.settings.role,
            Voice::Withheld => Role::Observer,
        }
    }

    /// Whether what comes has to wait for the disk.
    fn is_blocked(&self) -> bool {
        matches!(self.step, Step::Installing { .. } | Step::Truncating { .. } | Step::SettingAside { .. })
    }

    fn packet(
        &mut self,
        packet: Packet,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        match &self.step {
            Step::Greeting => self.leader_info(packet, member, now_ms, out),
            Step::AwaitingHistory { .. } => self.history_begins(packet, member, now_ms, out),
            Step::Collecting(_) => self.collect(packet, member, now_ms, out),
            Step::Catching(_) => self.catch_up(packet, member, now_ms, out),
            Step::Accepting { .. } | Step::Accepted { .. } | Step::Serving { .. } => {
                self.broadcast(packet, member, now_ms, out)
            }
            Step::Dialing(_)
            | Step::Promising(_)
            | Step::ReceivingSnapshot { .. }
            | Step::Installing { .. }
            | Step::Truncating { .. }
            | Step::SettingAside { .. } => Err(self.out_of_place(&packet)),
        }
    }

    fn persisted(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) -> Result<(), RoleEnd> {
        if self.is_blocked() {
            // What the leader said meanwhile was not listened to.
            self.heard_ms = now_ms;
        }
        match &self.step {
            Step::Promising(promising) if member.disk.has_done(promising.io) => self.promised(member, out),
            Step::Truncating { io, .. } if member.disk.has_done(*io) => self.truncated(member),
            Step::Installing { io, zxid, .. }
                if self.contact == Contact::Lost && member.disk.has_done(*io) =>
            {
                // What came behind the state was never acknowledged.
                member.installed(*zxid, self.announced.as_ref().map(|announced| announced.version));
                return Err(RoleEnd::LINK_LOST);
            }
            Step::Installing { io, .. } if member.disk.has_done(*io) => self.installed(member, now_ms, out),
            Step::SettingAside { io } if member.disk.has_done(*io) => {
                member.emptied();
                return Err(RoleEnd::because(CloseReason::RoleEnded));
            }
            Step::Catching(catching) => member.load_early(catching.committed, out),
            Step::Accepting { io, .. } if member.disk.has_done(*io) => self.accepted(member, out),
            Step::Accepted { .. } | Step::Serving { .. } => self.acknowledge(member, out),
            _ => {}
        }
        if self.contact == Contact::Lost && !self.is_blocked() {
            return Err(RoleEnd::LINK_LOST);
        }
        while !self.is_blocked()
            && let Some(packet) = self.backlog.pop_front()
        {
            self.packet(packet, member, now_ms, out)?;
        }
        Ok(())
    }

    fn out_of_place(&self, packet: &Packet) -> RoleEnd {
        RoleEnd::because(CloseReason::OutOfPlace { step: self.step.name(), packet: packet_name(packet) })
    }
}
