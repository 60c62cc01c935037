//! Once the leader's history is accepted: proposals are logged and acknowledged when they are durable, commits
//! are applied when the leader has said that this learner may serve.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::sync::{commit, log};
use super::{Learner, Progress, Step};
use crate::action::{Action, CloseReason, Serving};
use crate::election::Role;
use crate::entry::Entry;
use crate::member::Member;
use crate::membership::Refused;
use crate::observer_master::ObserverMaster;
use crate::observing::ObserverMasters;
use crate::role_end::RoleEnd;
use crate::settings::Trust;

impl Learner {
    /// The history and the epoch are on disk: the leader may count on this learner.
    pub(super) fn accepted(&mut self, member: &mut Member, out: &mut Vec<Action>) {
        let Step::Accepting { epoch, progress, .. } = self.step else { return };
        if !member.is_volatile() {
            member.trust = Trust::Trusted;
        }
        member.note_refusal(Refused::No);
        let packet = Packet::Ack { zxid: Zxid::new(epoch, 0) };
        out.push(Action::Send { link: self.link, packet });
        self.step = Step::Accepted { epoch, progress };
        self.acknowledge(member, out);
    }

    /// Acknowledges what has become durable, one by one and in order. Observers have no say.
    pub(super) fn acknowledge(&mut self, member: &Member, out: &mut Vec<Action>) {
        let (Step::Accepted { progress, .. } | Step::Serving { progress, .. }) = &mut self.step else {
            return;
        };
        if self.role == Role::Observer || member.settings.role == Role::Observer {
            return;
        }
        let durable = member.disk.durable();
        while progress.acked < durable && progress.acked >= member.history.floor() {
            let Some(next) = member.history.after(progress.acked).map(|entry| entry.zxid) else { break };
            if next > durable {
                break;
            }
            progress.acked = next;
            out.push(Action::Send { link: self.link, packet: Packet::Ack { zxid: next } });
        }
    }

    pub(super) fn broadcast(
        &mut self,
        packet: Packet,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let observes = self.role == Role::Observer;
        match packet {
            // An observer is told of what is decided, nothing else concerns it.
            Packet::Proposal { .. } | Packet::Commit { .. } if observes && self.is_serving() => Ok(()),
            Packet::Proposal { zxid, entry } => {
                self.proposal(Entry { zxid, bytes: entry }, member, now_ms, out)
            }
            Packet::Commit { zxid } => self.committed(zxid, member, out),
            Packet::Inform { zxid, entry } if observes => self
                .proposal(Entry { zxid, bytes: entry }, member, now_ms, out)
                .and_then(|()| self.committed(zxid, member, out)),
            Packet::UpToDate => self.up_to_date(member, now_ms, out),
            Packet::Ping { .. } => {
                if let Step::Serving { progress, .. } = self.step {
                    out.push(Action::FromLeader { packet, after: progress.committed });
                }
                Ok(())
            }
            Packet::Revalidated { .. } | Packet::Sync => {
                if let Step::Serving { progress, .. } = self.step
                    && let Some(packet) = self.answer_here(packet, progress.committed, member, out)
                {
                    member.answer_behind(progress.committed, packet, out);
                }
                Ok(())
            }
            Packet::CommitAndActivate { zxid, designated_leader } => {
                if let Some(observers) = &mut self.observers {
                    observers.activates(zxid, designated_leader);
                }
                self.committed(zxid, member, out)?;
                self.activate(zxid, designated_leader, member, now_ms, out);
                Ok(())
            }
            Packet::InformAndActivate { zxid, entry, designated_leader } if observes => {
                self.proposal(Entry { zxid, bytes: entry }, member, now_ms, out)?;
                self.committed(zxid, member, out)?;
                self.activate(zxid, designated_leader, member, now_ms, out);
                Ok(())
            }
            other => Err(self.out_of_place(&other)),
        }
    }

    fn proposal(
        &mut self,
        entry: Entry,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let epoch = match self.step {
            Step::Accepting { epoch, .. } | Step::Accepted { epoch, .. } | Step::Serving { epoch, .. } => {
                epoch
            }
            _ => return Ok(()),
        };
        if entry.zxid.epoch() != epoch {
            let after = member.history.last();
            return Err(RoleEnd::because(CloseReason::Gap { after, found: entry.zxid }));
        }
        log(entry, member, now_ms, out).map_err(RoleEnd::because)
    }

    fn committed(&mut self, zxid: Zxid, member: &mut Member, out: &mut Vec<Action>) -> Result<(), RoleEnd> {
        let serves = self.is_serving();
        let Some(progress) = self.progress() else { return Ok(()) };
        commit(&mut progress.committed, zxid, member).map_err(RoleEnd::because)?;
        if serves {
            member.commit(zxid, out);
            if let Some(observers) = &mut self.observers {
                observers.decided_more(member, out);
            }
        }
        Ok(())
    }

    /// A quorum has accepted the history: it is decided, and so is what was committed meanwhile.
    fn up_to_date(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) -> Result<(), RoleEnd> {
        let Step::Accepted { epoch, progress } = self.step else { return Ok(()) };
        member.commit(progress.committed, out);
        if let Some(announced) = self.announced.take() {
            member.activate_announced(*announced, progress.committed, out);
        }
        if self.role != self.role_for_leader(member) {
            member.next_leader = Some(self.leader);
            return Err(RoleEnd::LINK_LOST);
        }
        out.push(Action::Send { link: self.link, packet: Packet::Ack { zxid: Zxid::new(epoch, 0) } });
        self.step = Step::Serving { epoch, progress };
        if self.role == Role::Voter && member.settings.observing.masters == ObserverMasters::Followers {
            self.observers = Some(Box::new(ObserverMaster::new(epoch, self.link, member, now_ms)));
        }
        out.push(Action::Serve(match self.role {
            Role::Voter => Serving::Following { leader: self.leader, epoch },
            Role::Observer => Serving::Observing { leader: self.leader, epoch },
        }));
        Ok(())
    }

    /// What the leader answers may be for an observer; what is left is for this server.
    fn answer_here(
        &mut self,
        packet: Packet,
        after: Zxid,
        member: &Member,
        out: &mut Vec<Action>,
    ) -> Option<Packet> {
        match &mut self.observers {
            Some(observers) => observers.answered(packet, after, member, out),
            None => Some(packet),
        }
    }

    fn is_serving(&self) -> bool {
        matches!(self.step, Step::Serving { .. })
    }

    fn progress(&mut self) -> Option<&mut Progress> {
        match &mut self.step {
            Step::Accepting { progress, .. }
            | Step::Accepted { progress, .. }
            | Step::Serving { progress, .. } => Some(progress),
            _ => None,
        }
    }
}
