//! Patience: pings, learners that fell silent, a quorum that went away, a disk that hangs.

use std::collections::BTreeSet;

use zebu_proto::ServerId;

use super::{Leader, Step, limit_ms};
use crate::action::{Action, CloseReason};
use crate::member::Member;
use crate::role_end::RoleEnd;
use crate::teaching::{Cursor, Kind, LearnerStep, Phase, next_zxid};

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

    fn close_silent(&mut self, member: &Member, now_ms: i64, out: &mut Vec<Action>) {
        let sync_ms = member.settings.sync_limit * member.settings.tick_ms;
        let init_ms = limit_ms(member);
        let epoch = self.epoch();
        let mut silent = Vec::new();
        for (&link, learner) in &mut self.learners {
            let patience_ms = if learner.is_up_to_date() { sync_ms } else { init_ms };
            let unacked = match (&mut learner.step, epoch) {
                (LearnerStep::Flowing(identity, cursor), Some(epoch)) if identity.kind == Kind::Follower => {
                    cursor.unacked_since(epoch, now_ms)
                }
                _ => None,
            };
            let stalled = unacked.is_some_and(|since_ms| since_ms + sync_ms <= now_ms);
            if learner.heard_ms + patience_ms <= now_ms || stalled {
                silent.push(link);
            }
        }
        for link in silent {
            self.close(link, CloseReason::Silent, out);
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

impl Cursor {
    /// Since when its oldest proposal waits for an acknowledgement, as far as it was looked at.
    fn unacked_since(&mut self, epoch: u32, now_ms: i64) -> Option<i64> {
        if !matches!(self.phase, Phase::Accepted | Phase::UpToDate) || self.acked >= self.proposed {
            self.unacked = None;
            return None;
        }
        match self.unacked {
            Some((zxid, since_ms)) if zxid > self.acked => Some(since_ms),
            _ => {
                self.unacked = Some((next_zxid(self.acked, epoch), now_ms));
                Some(now_ms)
            }
        }
    }
}
