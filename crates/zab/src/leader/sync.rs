//! The history of a new leader: who gets it, and the quorum whose word makes it decided.

use zebu_proto::Zxid;

use super::{Leader, Step};
use crate::action::{Action, Serving};
use crate::event::{LinkId, LogRead};
use crate::member::Member;

impl Leader {
    /// Begins to bring a learner up to date that has promised the epoch.
    pub(super) fn synchronise(&mut self, link: LinkId, member: &Member, out: &mut Vec<Action>) {
        self.teach(link, member, |learner, course| learner.synchronise(link, course, out));
    }

    /// The state is on its way.
    pub(super) fn snapshot_sent(&mut self, link: LinkId, member: &Member, out: &mut Vec<Action>) {
        self.teach(link, member, |learner, course| learner.snapshot_sent(link, course, out));
    }

    /// The log has answered.
    pub(super) fn log_read(&mut self, link: LinkId, read: LogRead, member: &Member, out: &mut Vec<Action>) {
        let result = self.teach(link, member, |learner, course| learner.log_read(link, read, course, out));
        if let Some(Err(reason)) = result {
            self.close(link, reason, out);
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
        if matches!(self.step, Step::Established { .. } | Step::HandingOver { .. }) {
            self.teach(link, member, |learner, course| learner.release(link, course, out));
        }
    }
}

/// The end of what may be committed to learners: decided, or decided by accepting this epoch.
pub(super) fn decided(step: &Step, member: &Member) -> Zxid {
    match step {
        Step::Synchronising(synchronising) => synchronising.initial,
        _ => member.committed(),
    }
}
