//! Patience: pings, learners that fell silent, a quorum that went away, a disk that hangs.

use std::collections::BTreeSet;

use zebu_proto::ServerId;

use super::{Leader, Step};
use crate::action::{Action, CloseReason};
use crate::event::LinkId;
use crate::member::Member;
use crate::role_end::RoleEnd;
use crate::teaching::{Kind, LearnerLink, LearnerStep, Patience, Phase};

impl Leader {
    pub(crate) fn deadline(&self) -> i64 {
        let until_ms = match &self.step {
            Step::Gathering { until_ms, .. }
            | Step::Promising { until_ms, .. }
            | Step::Polling { until_ms, .. } => *until_ms,
            Step::Synchronising(synchronising) => synchronising.until_ms,
            Step::Established { .. } | Step::HandingOver { .. } => i64::MAX,
            Step::Leaving(leaving) => leaving.look_at_ms,
        };
        until_ms.min(self.next_beat_ms).min(self.ask_deadline())
    }

    pub(crate) fn timeout(
        &mut self,
        member: &Member,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), RoleEnd> {
        let gives_up = match &self.step {
            Step::Gathering { until_ms, .. }
            | Step::Promising { until_ms, .. }
            | Step::Polling { until_ms, .. } => *until_ms <= now_ms,
            Step::Synchronising(synchronising) => synchronising.until_ms <= now_ms,
            Step::Established { .. } | Step::HandingOver { .. } | Step::Leaving(_) => false,
        };
        if gives_up {
            return Err(RoleEnd::because(CloseReason::Silent));
        }
        self.leave(member, now_ms)?;
        self.ask(member, now_ms, out);
        if self.next_beat_ms > now_ms {
            return Ok(());
        }
        self.next_beat_ms = now_ms + (member.settings.tick_ms / 2).max(1);
        self.close_silent(member, now_ms, out);
        self.beat(member, now_ms, out);
        self.keep_quorum(member, now_ms)?;
        self.finish_hand_over(member)
    }

    /// Gives up learners that fell silent or are too far behind: they come back and are synchronized.
    fn close_silent(&mut self, member: &Member, now_ms: i64, out: &mut Vec<Action>) {
        let patience = Patience::of(&member.settings);
        let ends = (member.history.last(), member.committed());
        let give_up = |(&link, learner): (&LinkId, &mut LearnerLink)| {
            learner.patience_ended(patience, ends, now_ms).map(|reason| (link, reason))
        };
        let given_up: Vec<(LinkId, CloseReason)> = self.learners.iter_mut().filter_map(give_up).collect();
        for (link, reason) in given_up {
            self.close(link, reason, out);
        }
    }

    /// A leader without a quorum, or without a disk, cannot decide anything: others should try.
    fn keep_quorum(&self, member: &Member, now_ms: i64) -> Result<(), RoleEnd> {
        if !matches!(self.step, Step::Established { .. } | Step::HandingOver { .. }) {
            return Ok(());
        }
        let patience_ms = member.settings.sync_limit * member.settings.tick_ms;
        let hangs = member.disk.busy_since_ms().is_some_and(|since_ms| since_ms + patience_ms <= now_ms);
        let mut present: BTreeSet<ServerId> = BTreeSet::from([member.settings.me]);
        present.extend(self.learners.values().filter_map(|learner| match &learner.step {
            LearnerStep::Flowing(identity, cursor)
                if identity.kind == Kind::Follower
                    && matches!(cursor.phase, Phase::Accepted | Phase::UpToDate) =>
            {
                Some(identity.server)
            }
            _ => None,
        }));
        if hangs || !member.is_quorum(&present) {
            return Err(RoleEnd::because(CloseReason::Silent));
        }
        Ok(())
    }
}
