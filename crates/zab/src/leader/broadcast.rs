//! Proposals, acknowledgements, answers. What becomes of acknowledgements is said in `counting.rs`.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::{Leader, Step};
use crate::action::{Action, CloseReason};
use crate::entry::Entry;
use crate::event::LinkId;
use crate::member::Member;
use crate::role_end::RoleEnd;
use crate::teaching::{Kind, LearnerStep, Phase, next_zxid};

impl Leader {
    pub(crate) fn next_zxid(&self, member: &Member) -> Option<Zxid> {
        match self.step {
            Step::Established { epoch } => Some(next_zxid(member.history.last(), epoch)),
            _ => None,
        }
    }

    pub(crate) fn propose(&mut self, entry: Entry, member: &mut Member, now_ms: i64, out: &mut Vec<Action>) {
        let expected = self.next_zxid(member);
        assert_eq!(Some(entry.zxid), expected, "a proposal has the place that was named for it");
        let is_last = entry.zxid.counter() >= member.settings.last_counter;
        member.append(entry, now_ms, out);
        if is_last && let Step::Established { epoch } = self.step {
            self.step = Step::HandingOver { epoch };
        }
        self.pump_all(member, out);
    }

    /// Takes no new proposals; ends when all are committed and told.
    pub(crate) fn hand_over(&mut self, member: &Member) -> Result<(), RoleEnd> {
        match self.step {
            Step::Established { epoch } => self.step = Step::HandingOver { epoch },
            Step::HandingOver { .. } | Step::Leaving(_) => {}
            Step::Gathering { .. }
            | Step::Promising { .. }
            | Step::Polling { .. }
            | Step::Synchronising(_) => {
                return Err(RoleEnd::LINK_LOST);
            }
        }
        self.finish_hand_over(member)
    }

    pub(super) fn finish_hand_over(&self, member: &Member) -> Result<(), RoleEnd> {
        match self.step {
            Step::HandingOver { .. } if member.committed() == member.history.last() => {
                // What is committed must reach those who stay before this leader is gone.
                let all_told = self.learners.values().all(|learner| match &learner.step {
                    LearnerStep::Flowing(identity, cursor) => {
                        identity.kind == Kind::Observer
                            || cursor.phase != Phase::UpToDate
                            || cursor.committed >= member.committed()
                    }
                    _ => true,
                });
                if all_told { Err(RoleEnd::LINK_LOST) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Sends a packet to a learner behind the commit of a transaction.
    pub(crate) fn answer(
        &mut self,
        link: LinkId,
        after: Zxid,
        packet: Packet,
        member: &Member,
        out: &mut Vec<Action>,
    ) {
        self.teach(link, member, |learner, course| learner.answer(link, after, packet, course, out));
    }

    /// A learner has something on disk.
    pub(super) fn acknowledged(
        &mut self,
        link: LinkId,
        zxid: Zxid,
        member: &Member,
        out: &mut Vec<Action>,
    ) -> Result<(), CloseReason> {
        let Some(epoch) = self.epoch() else { return Err(CloseReason::UnknownZxid(zxid)) };
        let Some(learner) = self.learners.get_mut(&link) else { return Ok(()) };
        let LearnerStep::Flowing(identity, cursor) = &mut learner.step else {
            return Err(CloseReason::OutOfPlace { step: learner.step.name(), packet: "ACK" });
        };
        if zxid == Zxid::new(epoch, 0) {
            // The first accepts the history, the second only says that the learner serves.
            if let Phase::AwaitingAck { up_to } = cursor.phase {
                cursor.phase = Phase::Accepted;
                cursor.acked = cursor.acked.max(up_to);
                let (server, kind) = (identity.server, identity.kind);
                if let Step::Synchronising(synchronising) = &mut self.step
                    && kind == Kind::Follower
                {
                    synchronising.accepted.insert(server);
                }
                self.release(link, member, out);
            }
            return Ok(());
        }
        if zxid <= cursor.acked || identity.kind == Kind::Observer {
            // Some learners acknowledge what was decided before they came.
            return Ok(());
        }
        if zxid > cursor.proposed || zxid != next_zxid(cursor.acked, epoch) {
            return Err(CloseReason::UnknownZxid(zxid));
        }
        cursor.acked = zxid;
        Ok(())
    }
}
