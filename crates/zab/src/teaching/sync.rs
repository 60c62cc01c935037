//! The beginning of a synchronisation: the choice of its kind, and the word that ends it.

use std::collections::VecDeque;

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::choice::{Choice, choose};
use super::learner_link::{Cursor, Identity, LearnerLink, Phase, Position, Reading, Step};
use super::stream::Course;
use crate::action::{Action, CloseReason};
use crate::event::{LinkId, LogRead};

impl LearnerLink {
    /// Begins to bring a learner up to date that has promised the epoch.
    pub(crate) fn synchronise(&mut self, link: LinkId, course: &Course<'_>, out: &mut Vec<Action>) {
        let Step::Promised(identity, position) = self.step else { return };
        if course.has_oversize_after(position.last) {
            return self.stream_snapshot(link, identity, course, out);
        }
        match choose(course.history, course.decided, position.last) {
            Choice::Diff { after } => {
                self.send(link, Packet::Diff { zxid: course.decided }, out);
                self.flow(link, identity, after, Reading::Nothing, course, out);
            }
            Choice::Truncate { to } => {
                self.send(link, Packet::Trunc { zxid: to }, out);
                self.flow(link, identity, to, Reading::Nothing, course, out);
            }
            Choice::Log { after } => {
                self.step = Step::Probing(identity, Position { last: after });
                out.push(Action::ReadLog { link, after, up_to: course.history.floor() });
            }
            Choice::Snapshot => self.stream_snapshot(link, identity, course, out),
        }
    }

    fn stream_snapshot(
        &mut self,
        link: LinkId,
        identity: Identity,
        course: &Course<'_>,
        out: &mut Vec<Action>,
    ) {
        let zxid = course.delivered;
        self.step = Step::Streaming(identity, zxid);
        self.send(link, Packet::Snap { zxid }, out);
        out.push(Action::StreamSnapshot { link, zxid });
    }

    /// The state is on its way; what was decided since it began follows, before the learner may rely on it.
    pub(crate) fn snapshot_sent(&mut self, link: LinkId, course: &Course<'_>, out: &mut Vec<Action>) {
        if let Step::Streaming(identity, zxid) = self.step {
            self.flow(link, identity, zxid, Reading::Nothing, course, out);
        }
    }

    /// The log has answered.
    pub(crate) fn log_read(
        &mut self,
        link: LinkId,
        read: LogRead,
        course: &Course<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        match (&mut self.step, read) {
            (Step::Probing(identity, position), LogRead::Entries(_))
                if course.has_oversize_after(position.last) =>
            {
                let identity = *identity;
                self.stream_snapshot(link, identity, course, out);
            }
            (Step::Flowing(_, cursor), LogRead::Entries(_)) if course.has_oversize_after(cursor.proposed) => {
                return Err(CloseReason::HistoryGone);
            }
            (Step::Probing(identity, position), LogRead::Entries(entries)) => {
                let (identity, after) = (*identity, position.last);
                self.send(link, Packet::Diff { zxid: course.decided }, out);
                self.flow(link, identity, after, Reading::Here(VecDeque::from(entries)), course, out);
            }
            (Step::Probing(identity, _), LogRead::Unavailable) => {
                let identity = *identity;
                self.stream_snapshot(link, identity, course, out);
            }
            (Step::Flowing(_, cursor), LogRead::Entries(entries)) => {
                cursor.reading = Reading::Here(VecDeque::from(entries));
                self.pump(link, course, out);
            }
            (Step::Flowing(..), LogRead::Unavailable) => return Err(CloseReason::HistoryGone),
            _ => {}
        }
        Ok(())
    }

    fn flow(
        &mut self,
        link: LinkId,
        identity: Identity,
        after: Zxid,
        reading: Reading,
        course: &Course<'_>,
        out: &mut Vec<Action>,
    ) {
        self.step = Step::Flowing(identity, Cursor { reading, ..Cursor::new(after, course.decided) });
        self.pump(link, course, out);
    }

    /// Lets a learner serve that has accepted the history.
    pub(crate) fn release(&mut self, link: LinkId, course: &Course<'_>, out: &mut Vec<Action>) {
        if let Step::Flowing(_, cursor) = &mut self.step
            && cursor.phase == Phase::Accepted
        {
            cursor.phase = Phase::UpToDate;
            self.send(link, Packet::UpToDate, out);
            self.pump(link, course, out);
        }
    }
}
