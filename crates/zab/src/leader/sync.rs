//! The beginning of a synchronisation: the choice of its kind, and the quorum that ends the first one.

use std::collections::VecDeque;

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::choice::{Choice, choose};
use super::learner_link::{Cursor, Identity, Phase, Position, Reading, Step as LearnerStep};
use super::{Leader, Step};
use crate::action::{Action, CloseReason, Serving};
use crate::event::{LinkId, LogRead};
use crate::member::Member;

impl Leader {
    /// The end of what may be committed to learners: decided, or decided by accepting this epoch.
    pub(super) fn decided(&self, member: &Member) -> Zxid {
        match &self.step {
            Step::Synchronising(synchronising) => synchronising.initial,
            _ => member.committed(),
        }
    }

    /// Begins to bring a learner up to date that has promised the epoch.
    pub(super) fn synchronise(&mut self, link: LinkId, member: &Member, out: &mut Vec<Action>) {
        let decided = self.decided(member);
        let Some(learner) = self.learners.get_mut(&link) else { return };
        let LearnerStep::Promised(identity, position) = learner.step else { return };
        match choose(&member.history, decided, position.last) {
            Choice::Diff { after } => {
                self.send(link, Packet::Diff { zxid: decided }, out);
                self.flow(link, identity, after, Reading::Nothing, member, out);
            }
            Choice::Truncate { to } => {
                self.send(link, Packet::Trunc { zxid: to }, out);
                self.flow(link, identity, to, Reading::Nothing, member, out);
            }
            Choice::Log { after } => {
                learner.step = LearnerStep::Probing(identity, Position { last: after });
                out.push(Action::ReadLog { link, after, up_to: member.history.floor() });
            }
            Choice::Snapshot => self.stream_snapshot(link, identity, member, out),
        }
    }

    fn stream_snapshot(&mut self, link: LinkId, identity: Identity, member: &Member, out: &mut Vec<Action>) {
        let zxid = member.delivered();
        if let Some(learner) = self.learners.get_mut(&link) {
            learner.step = LearnerStep::Streaming(identity, zxid);
            self.send(link, Packet::Snap { zxid }, out);
            out.push(Action::StreamSnapshot { link, zxid });
        }
    }

    /// The state is on its way; what was decided since it began follows, before the learner may rely on it.
    pub(super) fn snapshot_sent(&mut self, link: LinkId, member: &Member, out: &mut Vec<Action>) {
        let step = self.learners.get(&link).map(|learner| &learner.step);
        if let Some(&LearnerStep::Streaming(identity, zxid)) = step {
            self.flow(link, identity, zxid, Reading::Nothing, member, out);
        }
    }

    /// The log has answered.
    pub(super) fn log_read(&mut self, link: LinkId, read: LogRead, member: &Member, out: &mut Vec<Action>) {
        let decided = self.decided(member);
        let Some(learner) = self.learners.get_mut(&link) else { return };
        match (&mut learner.step, read) {
            (LearnerStep::Probing(identity, position), LogRead::Entries(entries)) => {
                let (identity, after) = (*identity, position.last);
                self.send(link, Packet::Diff { zxid: decided }, out);
                self.flow(link, identity, after, Reading::Here(VecDeque::from(entries)), member, out);
            }
            (LearnerStep::Probing(identity, _), LogRead::Unavailable) => {
                let identity = *identity;
                self.stream_snapshot(link, identity, member, out);
            }
            (LearnerStep::Flowing(_, cursor), LogRead::Entries(entries)) => {
                cursor.reading = Reading::Here(VecDeque::from(entries));
                self.pump(link, member, out);
            }
            (LearnerStep::Flowing(..), LogRead::Unavailable) => {
                self.close(link, CloseReason::HistoryGone, out);
            }
            _ => {}
        }
    }

    fn flow(
        &mut self,
        link: LinkId,
        identity: Identity,
        after: Zxid,
        reading: Reading,
        member: &Member,
        out: &mut Vec<Action>,
    ) {
        let decided = self.decided(member);
        if let Some(learner) = self.learners.get_mut(&link) {
            learner.step = LearnerStep::Flowing(identity, Cursor { reading, ..Cursor::new(after, decided) });
            self.pump(link, member, out);
        }
    }

    /// A quorum has accepted the history, this leader on its own disk among them: it is decided.
    pub(super) fn establish(&mut self, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) {
        let Step::Synchronising(synchronising) = &mut self.step else { return };
        if member.disk.has_done(synchronising.adopted) {
            synchronising.accepted.insert(member.settings.me);
        }
        if !member.is_quorum(&synchronising.accepted) {
            return;
        }
        if !synchronising.accepted.contains(&member.settings.me) {
            return;
        }
        let (epoch, initial) = (synchronising.epoch, synchronising.initial);
        self.step = Step::Established { epoch };
        member.commit(initial, out);
        let activated = member.activate_through(initial, out);
        out.push(Action::Serve(Serving::Leading { epoch }));
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            self.release(link, member, out);
        }
        if activated.is_some() {
            self.reconsider(member, now_ms);
        }
    }

    /// Lets a learner serve that has accepted the history, if there is a quorum.
    pub(super) fn release(&mut self, link: LinkId, member: &Member, out: &mut Vec<Action>) {
        if !matches!(self.step, Step::Established { .. } | Step::HandingOver { .. }) {
            return;
        }
        if let Some(learner) = self.learners.get_mut(&link)
            && let LearnerStep::Flowing(_, cursor) = &mut learner.step
            && cursor.phase == Phase::Accepted
        {
            cursor.phase = Phase::UpToDate;
            self.send(link, Packet::UpToDate, out);
            self.pump(link, member, out);
        }
    }
}
