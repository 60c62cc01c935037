//! A leader: agrees on an epoch with a quorum, gives everybody its history, then proposes, counts and commits.
//! Each step is a type. A learner that breaks the protocol loses its connection, nothing else.

mod broadcast;
mod counting;
mod discovery;
mod liveness;
mod pulse;
mod reconfig;
mod sync;

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::quorum::Packet;
use zebu_proto::{ServerId, Zxid};

use crate::action::{Action, CloseReason, Serving};
use crate::event::{Event, IoId, LinkId};
use crate::member::Member;
use crate::packet_name::packet_name;
use crate::peer::LearnerStatus;
use crate::quorum::QuorumRule;
use crate::role_end::RoleEnd;
use crate::teaching::{Course, Kind, LearnerLink, LearnerStep, Phase};
use counting::Acks;
use pulse::Pulse;
use reconfig::Leaving;
use sync::decided;

/// A server that was elected.
#[derive(Debug)]
pub(crate) struct Leader {
    step: Step,
    learners: BTreeMap<LinkId, LearnerLink>,
    /// Servers that have another leader, or are one. Not asked for any more once this one is established.
    elsewhere: BTreeSet<ServerId>,
    next_beat_ms: i64,
    pulse: Pulse,
    /// Configurations that have taken effect since this leader leads, and whom each made the leader.
    activated: BTreeMap<Zxid, ServerId>,
    /// Room to collect acknowledgements in.
    acks: Acks,
}

/// How far it has come.
#[derive(Debug)]
enum Step {
    /// Hears which epochs were promised before.
    Gathering { promised: BTreeMap<ServerId, i64>, until_ms: i64 },
    /// Writes its own promise.
    Promising { io: IoId, epoch: u32, until_ms: i64 },
    /// Waits until a quorum has promised the epoch.
    Polling { epoch: u32, promised: BTreeSet<ServerId>, until_ms: i64 },
    /// Gives its history to a quorum.
    Synchronising(Synchronising),
    /// Leads.
    Established { epoch: u32 },
    /// Finishes what was proposed, then leads no more.
    HandingOver { epoch: u32 },
    /// Has no place in the new configuration, or another one: it decides nothing more.
    Leaving(Leaving),
}

#[derive(Debug)]
struct Synchronising {
    epoch: u32,
    /// The end of the history that this epoch begins with.
    initial: Zxid,
    /// The write of the own epoch.
    adopted: IoId,
    accepted: BTreeSet<ServerId>,
    until_ms: i64,
}

impl Leader {
    pub(crate) fn new(member: &mut Member, now_ms: i64, out: &mut Vec<Action>) -> Result<Leader, RoleEnd> {
        let mut promised = BTreeMap::new();
        promised.insert(member.settings.me, member.accepted_epoch);
        let mut leader = Leader {
            step: Step::Gathering { promised, until_ms: now_ms + limit_ms(member) },
            learners: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            next_beat_ms: now_ms + member.settings.tick_ms / 2,
            pulse: Pulse::new(),
            activated: BTreeMap::new(),
            acks: Acks::new(),
        };
        leader.choose_epoch(member, now_ms, out)?;
        Ok(leader)
    }

    pub(crate) fn serving(&self) -> Option<Serving> {
        match self.step {
            Step::Established { epoch }
            | Step::HandingOver { epoch }
            | Step::Leaving(Leaving { epoch, .. }) => Some(Serving::Leading { epoch }),
            _ => None,
        }
    }

    /// Whether a server is not here, and those who are here are no quorum yet.
    pub(crate) fn misses(&self, server: ServerId, member: &Member) -> bool {
        if matches!(self.step, Step::Established { .. } | Step::HandingOver { .. } | Step::Leaving(_)) {
            return false;
        }
        let mut here: BTreeSet<ServerId> = self
            .learners
            .values()
            .filter_map(|learner| learner.step.identity())
            .map(|identity| identity.server)
            .collect();
        here.insert(member.settings.me);
        !here.contains(&server) && !member.is_quorum(&here)
    }

    /// Takes note that these servers follow another leader, or are one. Returns whether this one cannot be
    /// established without them.
    pub(crate) fn loses(&mut self, servers: [ServerId; 2], member: &Member) -> bool {
        if matches!(self.step, Step::Established { .. } | Step::HandingOver { .. } | Step::Leaving(_)) {
            return false;
        }
        self.elsewhere.extend(servers);
        let pending = member.pending_quorum().into_iter().flat_map(QuorumRule::voters);
        let voters = member.settings.quorum.voters().chain(pending);
        let left = voters.filter(|voter| !self.elsewhere.contains(voter)).collect();
        !member.is_quorum(&left)
    }

    /// All connections, to be closed when the role ends.
    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.learners.keys().copied()
    }

    pub(crate) fn status(&self) -> Vec<LearnerStatus> {
        self.learners.iter().filter_map(|(&link, learner)| learner.status(link)).collect()
    }

    /// Takes an event of a connection, or of the disk.
    pub(crate) fn handle(
        &mut self,
        event: Event,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        match event {
            Event::Accepted { link } => {
                self.learners.insert(link, LearnerLink::new(now_ms));
            }
            Event::LinkDown { link } => self.forget(link, out),
            Event::Packet { link, packet } => {
                let Some(learner) = self.learners.get_mut(&link) else { return Ok(()) };
                learner.heard_ms = now_ms;
                let decides = decides(&packet);
                if let Packet::PingReply { zxid, .. } = packet {
                    self.ping_answered(link, zxid, member, now_ms, out);
                }
                if let Err(reason) = self.packet(link, packet, member, out) {
                    self.close(link, reason, out);
                }
                if decides {
                    return self.progressed(member, now_ms, out);
                }
            }
            Event::Sent { link, weight } => {
                if let Some(learner) = self.learners.get_mut(&link) {
                    learner.took(weight, now_ms);
                }
                self.pump(link, member, out);
                return self.finish_hand_over(member);
            }
            Event::SnapshotMoves { link } => {
                if let Some(learner) = self.learners.get_mut(&link) {
                    learner.heard_ms = now_ms;
                }
            }
            Event::SnapshotSent { link } => {
                if let Some(learner) = self.learners.get_mut(&link) {
                    learner.heard_ms = now_ms;
                }
                self.snapshot_sent(link, member, out);
            }
            Event::LogRead { link, read } => self.log_read(link, read, member, out),
            Event::Persisted { .. } => return self.progressed(member, now_ms, out),
            Event::Notification { .. }
            | Event::ObserverAccepted { .. }
            | Event::Dialed { .. }
            | Event::DialFailed { .. }
            | Event::SnapshotReceived { .. }
            | Event::TruncateRefused { .. } => {}
        }
        Ok(())
    }

    /// Goes on if what was waited for is there.
    fn progressed(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) -> Result<(), RoleEnd> {
        match &self.step {
            Step::Gathering { .. } => self.choose_epoch(member, now_ms, out)?,
            Step::Promising { io, .. } if member.disk.has_done(*io) => {
                self.propose_epoch(member, now_ms, out)
            }
            Step::Promising { .. } => {}
            Step::Polling { .. } => self.adopt_epoch(member, now_ms, out),
            Step::Synchronising(_) => self.establish(member, now_ms, out),
            Step::Established { .. } | Step::HandingOver { .. } => self.count_acks(member, now_ms, out),
            Step::Leaving(_) => {}
        }
        self.finish_hand_over(member)
    }

    fn packet(
        &mut self,
        link: LinkId,
        packet: Packet,
        member: &mut Member,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        match packet {
            Packet::FollowerInfo { accepted, info } => {
                self.introduce(link, Kind::Follower, accepted, info, member, out)
            }
            Packet::ObserverInfo { accepted, info } => {
                self.introduce(link, Kind::Observer, accepted, info, member, out)
            }
            Packet::AckEpoch { last, current_epoch } => {
                self.epoch_promised(link, last, current_epoch, member, out)
            }
            Packet::Ack { zxid } => self.acknowledged(link, zxid, member, out),
            Packet::PingReply { .. } | Packet::Request { .. } | Packet::Revalidate { .. } => {
                self.pass_on(link, packet, out)
            }
            other => Err(self.out_of_place(link, &other)),
        }
    }

    /// Requests and sessions are not the business of agreement.
    fn pass_on(&mut self, link: LinkId, packet: Packet, out: &mut Vec<Action>) -> Result<(), CloseReason> {
        let Some(learner) = self.learners.get(&link) else { return Ok(()) };
        match (&learner.step, &packet) {
            (LearnerStep::Flowing(identity, cursor), _) if cursor.phase == Phase::UpToDate => {
                out.push(Action::FromLearner { link, server: identity.server, packet });
                Ok(())
            }
            (LearnerStep::Flowing(..), Packet::PingReply { .. }) => Ok(()),
            _ => Err(self.out_of_place(link, &packet)),
        }
    }

    fn out_of_place(&self, link: LinkId, packet: &Packet) -> CloseReason {
        let step = self.learners.get(&link).map_or("nothing", |learner| learner.step.name());
        CloseReason::OutOfPlace { step, packet: packet_name(packet) }
    }

    fn close(&mut self, link: LinkId, reason: CloseReason, out: &mut Vec<Action>) {
        if self.learners.contains_key(&link) {
            out.push(Action::Close { link, reason });
            self.forget(link, out);
        }
    }

    fn forget(&mut self, link: LinkId, out: &mut Vec<Action>) {
        let Some(learner) = self.learners.remove(&link) else { return };
        if learner.is_up_to_date() {
            out.push(Action::LearnerLost { link });
        }
    }

    fn epoch(&self) -> Option<u32> {
        self.step.epoch()
    }

    /// The learners, and what those move along that are in the history of this epoch.
    fn class<'a>(
        &'a mut self,
        member: &'a Member,
    ) -> Option<(&'a mut BTreeMap<LinkId, LearnerLink>, Course<'a>)> {
        let config = match &self.step {
            Step::Synchronising(_) => member.last_seen_text(),
            _ => &member.settings.config,
        };
        let course = Course {
            history: &member.history,
            epoch: self.step.epoch()?,
            decided: decided(&self.step, member),
            delivered: member.delivered(),
            config,
            activated: &self.activated,
            window: member.settings.window,
            oversize: member.oversize,
        };
        Some((&mut self.learners, course))
    }

    /// Does something with a learner that is in the history of this epoch.
    fn teach<R>(
        &mut self,
        link: LinkId,
        member: &Member,
        lesson: impl FnOnce(&mut LearnerLink, &Course<'_>) -> R,
    ) -> Option<R> {
        let (learners, course) = self.class(member)?;
        learners.get_mut(&link).map(|learner| lesson(learner, &course))
    }

    fn pump_all(&mut self, member: &Member, out: &mut Vec<Action>) {
        let Some((learners, course)) = self.class(member) else { return };
        for (&link, learner) in learners {
            learner.pump(link, &course, out);
        }
    }

    /// Sends what a learner can take.
    fn pump(&mut self, link: LinkId, member: &Member, out: &mut Vec<Action>) {
        self.teach(link, member, |learner, course| learner.pump(link, course, out));
    }
}

impl Step {
    fn epoch(&self) -> Option<u32> {
        match self {
            Step::Gathering { .. } | Step::Promising { .. } => None,
            Step::Polling { epoch, .. }
            | Step::Established { epoch }
            | Step::HandingOver { epoch }
            | Step::Leaving(Leaving { epoch, .. }) => Some(*epoch),
            Step::Synchronising(synchronising) => Some(synchronising.epoch),
        }
    }
}

/// Whether anything can be decided by a packet: there are many of the others.
fn decides(packet: &Packet) -> bool {
    !matches!(packet, Packet::Request { .. } | Packet::PingReply { .. } | Packet::Revalidate { .. })
}

/// How long a leader waits for each step, and for a learner that is being brought up to date.
fn limit_ms(member: &Member) -> i64 {
    member.settings.init_limit * member.settings.tick_ms
}
