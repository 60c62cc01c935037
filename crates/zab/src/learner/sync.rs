//! Taking over the leader's history: by what is missing, by cutting what he does not have, or by his whole
//! state. Nothing of a whole state reaches the disk before the leader has said that it is complete; an
//! interrupted transfer leaves nothing behind.

use std::collections::VecDeque;

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::{Catching, Collecting, Contact, Learner, Progress, Step};
use crate::action::{Action, CloseReason};
use crate::entry::Entry;
use crate::event::IoId;
use crate::history::follows;
use crate::member::Member;
use crate::role_end::RoleEnd;
use crate::settings::Trust;
use crate::wanted::Wanted;

impl Learner {
    /// The first packet says how it will go.
    pub(super) fn history_begins(
        &mut self,
        packet: Packet,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let Step::AwaitingHistory { epoch } = self.step else { return Err(self.out_of_place(&packet)) };
        belongs_to(epoch, &packet)?;
        match packet {
            // He does not know what to do with a learner that needs a whole state. Without a history it gets one.
            Packet::Diff { .. } | Packet::Trunc { .. } if member.wanted != Wanted::Rest => {
                let io = member.disk.order(now_ms);
                out.push(Action::SetAside { io });
                self.step = Step::SettingAside { io };
            }
            // Its zxid is what the leader has, not what is here: it changes nothing.
            Packet::Diff { .. } => {
                self.step = Step::Catching(Catching { epoch, committed: member.history.last() });
            }
            Packet::Trunc { zxid } => {
                if zxid < member.committed() {
                    let committed = member.committed();
                    return Err(RoleEnd::because(CloseReason::TruncatesCommitted { to: zxid, committed }));
                }
                if member.is_volatile() {
                    // Between its disk and its memory there is nothing that it could go back to.
                    member.ask_to_rewind();
                    return Err(RoleEnd::because(CloseReason::RoleEnded));
                }
                let io = member.disk.order(now_ms);
                out.push(Action::Truncate { io, to: zxid });
                self.step = Step::Truncating { io, epoch, to: zxid };
            }
            Packet::Snap { zxid } => self.step = Step::ReceivingSnapshot { epoch, zxid },
            // Leaders ping whom they have not heard of for a while.
            Packet::Ping { .. } => {}
            other => return Err(self.out_of_place(&other)),
        }
        Ok(())
    }

    /// Sets the own data aside, which is not the ensemble's, if the leader had his quorum without this server.
    pub(crate) fn give_up_state(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) -> bool {
        let Step::Serving { epoch, .. } = self.step else { return false };
        if self.joined != Some(i64::from(epoch)) || member.is_volatile() {
            return false;
        }
        out.push(Action::StopServing);
        for link in self.observers.take().iter().flat_map(|observers| observers.links()) {
            out.push(Action::Close { link, reason: CloseReason::RoleEnded });
        }
        member.forget_answers();
        let io = member.disk.order(now_ms);
        out.push(Action::SetAside { io });
        self.step = Step::SettingAside { io };
        true
    }

    pub(super) fn truncated(&mut self, member: &mut Member) {
        if let Step::Truncating { epoch, to, .. } = self.step {
            member.truncated(to);
            self.step = Step::Catching(Catching { epoch, committed: to });
        }
    }

    /// The own history does not have what the leader believes that both have: it began with a whole state that goes
    /// further. Only another one helps. Until that is here, the history stays, and the vote with it: this server may
    /// be needed to elect somebody, if the leader goes before.
    pub(super) fn truncate_refused(
        &mut self,
        io: IoId,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let Step::Truncating { io: waiting, epoch, to } = self.step else { return Ok(()) };
        if waiting != io {
            return Ok(());
        }
        member.wanted = Wanted::WholeState { epoch };
        match self.contact {
            // Who looked for a leader meanwhile would take from a new one the quorum that he waits for.
            Contact::Held => self.come_again(CloseReason::CannotTruncate(to), now_ms, out),
            Contact::Lost => return Err(RoleEnd::LINK_LOST),
        }
        Ok(())
    }

    pub(super) fn snapshot_received(&mut self) -> Result<(), RoleEnd> {
        let Step::ReceivingSnapshot { epoch, zxid } = self.step else { return Ok(()) };
        self.step =
            Step::Collecting(Collecting { epoch, snapshot: zxid, tail: VecDeque::new(), committed: 0 });
        Ok(())
    }

    /// Behind a whole state: kept until the leader says that it is complete.
    pub(super) fn collect(
        &mut self,
        packet: Packet,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let Step::Collecting(collecting) = &mut self.step else { return Err(self.out_of_place(&packet)) };
        belongs_to(collecting.epoch, &packet)?;
        match packet {
            Packet::Proposal { zxid, entry } => collecting.take(Entry { zxid, bytes: entry }),
            Packet::Commit { zxid } | Packet::CommitAndActivate { zxid, .. } => collecting.commit(zxid),
            Packet::Inform { zxid, entry } | Packet::InformAndActivate { zxid, entry, .. } => {
                collecting.take(Entry { zxid, bytes: entry }).and_then(|()| collecting.commit(zxid))
            }
            Packet::NewLeader { zxid, config } => {
                if zxid != Zxid::new(collecting.epoch, 0) {
                    return Err(RoleEnd::because(CloseReason::UnknownZxid(zxid)));
                }
                self.announced = member.see_of_leader(config.as_deref(), out);
                let committed = collecting.committed_zxid();
                let epoch = collecting.epoch;
                let rest = collecting.tail.split_off(collecting.committed);
                let tail = std::mem::take(&mut collecting.tail);
                let io = member.disk.order(now_ms);
                let link = self.link;
                out.push(Action::InstallSnapshot { io, link, tail: tail.into(), zxid: committed });
                self.step = Step::Installing { io, epoch, zxid: committed, rest };
                return Ok(());
            }
            Packet::Ping { .. } => return Ok(()),
            other => return Err(self.out_of_place(&other)),
        }
        .map_err(RoleEnd::because)
    }

    pub(super) fn installed(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) {
        let Step::Installing { epoch, zxid, rest, .. } = &mut self.step else { return };
        let (epoch, zxid, rest) = (*epoch, *zxid, std::mem::take(rest));
        member.installed(zxid, self.announced.as_ref().map(|announced| announced.version));
        for entry in rest {
            member.append(entry, now_ms, out);
        }
        self.accept(epoch, Progress { acked: zxid, committed: zxid }, member, now_ms, out);
    }

    /// Behind the own history: logged at once.
    pub(super) fn catch_up(
        &mut self,
        packet: Packet,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let Step::Catching(Catching { epoch, committed }) = &mut self.step else {
            return Err(self.out_of_place(&packet));
        };
        belongs_to(*epoch, &packet)?;
        match packet {
            Packet::Proposal { zxid, entry } => log(Entry { zxid, bytes: entry }, member, now_ms, out),
            Packet::Commit { zxid } | Packet::CommitAndActivate { zxid, .. } => {
                commit(committed, zxid, member).inspect(|()| member.load_early(*committed, out))
            }
            Packet::Inform { zxid, entry } | Packet::InformAndActivate { zxid, entry, .. } => {
                log(Entry { zxid, bytes: entry }, member, now_ms, out)
                    .and_then(|()| commit(committed, zxid, member))
                    .inspect(|()| member.load_early(*committed, out))
            }
            Packet::NewLeader { zxid, config } => {
                if zxid != Zxid::new(*epoch, 0) {
                    return Err(RoleEnd::because(CloseReason::UnknownZxid(zxid)));
                }
                self.announced = member.see_of_leader(config.as_deref(), out);
                let progress = Progress { acked: *committed, committed: *committed };
                let epoch = *epoch;
                self.accept(epoch, progress, member, now_ms, out);
                return Ok(());
            }
            Packet::Ping { .. } => return Ok(()),
            other => return Err(self.out_of_place(&other)),
        }
        .map_err(RoleEnd::because)
    }

    /// The leader's history is here. First it is made durable, then the epoch, then the leader hears of it.
    fn accept(
        &mut self,
        epoch: u32,
        progress: Progress,
        member: &mut Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        if member.is_volatile() {
            // The disk does not hold this history, and must not say that it does.
            member.accept_epoch_in_memory(epoch);
            self.step = Step::Accepting { io: member.disk.last_order(), epoch, progress };
            if member.disk.is_idle() {
                self.accepted(member, out);
            }
            return;
        }
        // The disk works in order: when the epoch is written, all appends before it are.
        let saved = member.save_current_epoch(epoch, now_ms, out);
        let io = match member.trust {
            Trust::Trusted => saved,
            Trust::Untrusted => member.mark_trusted(now_ms, out),
        };
        self.step = Step::Accepting { io, epoch, progress };
    }
}

/// The history of a leader holds nothing of a later epoch than his own.
fn belongs_to(epoch: u32, packet: &Packet) -> Result<(), RoleEnd> {
    match packet {
        Packet::Snap { zxid }
        | Packet::Proposal { zxid, .. }
        | Packet::Inform { zxid, .. }
        | Packet::InformAndActivate { zxid, .. }
            if zxid.epoch() > epoch =>
        {
            Err(RoleEnd::because(CloseReason::UnknownZxid(*zxid)))
        }
        _ => Ok(()),
    }
}

impl Collecting {
    /// Transactions that the state may hold already can come again.
    fn take(&mut self, entry: Entry) -> Result<(), CloseReason> {
        let last = self.tail.back().map_or(self.snapshot, |entry| entry.zxid);
        if entry.zxid <= last {
            return Ok(());
        }
        if !follows(last, entry.zxid) {
            return Err(CloseReason::Gap { after: last, found: entry.zxid });
        }
        self.tail.push_back(entry);
        Ok(())
    }

    fn commit(&mut self, zxid: Zxid) -> Result<(), CloseReason> {
        if zxid <= self.committed_zxid() {
            return Ok(());
        }
        if self.tail.get(self.committed).map(|entry| entry.zxid) != Some(zxid) {
            return Err(CloseReason::UnknownZxid(zxid));
        }
        self.committed += 1;
        Ok(())
    }

    fn committed_zxid(&self) -> Zxid {
        self.committed.checked_sub(1).map_or(self.snapshot, |index| self.tail[index].zxid)
    }
}

/// Appends what follows the own history. What is here already may come again.
pub(super) fn log(
    entry: Entry,
    member: &mut Member,
    now_ms: i64,
    out: &mut Vec<Action>,
) -> Result<(), CloseReason> {
    let last = member.history.last();
    if entry.zxid <= last {
        let known = entry.zxid <= member.history.floor() || member.history.contains(entry.zxid);
        return if known { Ok(()) } else { Err(CloseReason::Gap { after: last, found: entry.zxid }) };
    }
    if !follows(last, entry.zxid) {
        return Err(CloseReason::Gap { after: last, found: entry.zxid });
    }
    member.append(entry, now_ms, out);
    Ok(())
}

/// Notes a commit, which must be that of the next transaction; one that is known may come again.
pub(super) fn commit(committed: &mut Zxid, zxid: Zxid, member: &Member) -> Result<(), CloseReason> {
    if zxid <= *committed {
        return Ok(());
    }
    let next = if *committed < member.history.floor() {
        None
    } else {
        member.history.after(*committed).map(|entry| entry.zxid)
    };
    if next != Some(zxid) {
        return Err(CloseReason::UnknownZxid(zxid));
    }
    *committed = zxid;
    Ok(())
}
