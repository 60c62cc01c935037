//! Timeouts of a leader: pings, silent or lagging learners, a lost quorum, a blocked disk.

use std::collections::BTreeSet;

use zebu_proto::ServerId;

use super::{Leader, LeaderStep};
use crate::action::LinkCloseReason;
use crate::event::LinkId;
use crate::learner_handler::{LearnerHandler, LearnerTimeouts};
use crate::peer_context::PeerContext;
use crate::step_down::StepDown;

impl Leader {
    pub(crate) fn deadline(&self) -> i64 {
        let until_ms = match &self.step {
            LeaderStep::CollectingEpochs { until_ms, .. }
            | LeaderStep::SavingEpoch { until_ms, .. }
            | LeaderStep::AwaitingEpochAcks { until_ms, .. } => *until_ms,
            LeaderStep::Synchronizing(synchronization) => synchronization.until_ms,
            LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. } => i64::MAX,
            LeaderStep::SteppingDown(stepping_down) => stepping_down.check_at_ms,
        };
        until_ms.min(self.next_ping_ms).min(self.on_demand_ping_deadline())
    }

    pub(crate) fn timeout(&mut self, context: &mut PeerContext<'_>) -> Result<(), StepDown> {
        let gives_up = match &self.step {
            LeaderStep::CollectingEpochs { until_ms, .. }
            | LeaderStep::SavingEpoch { until_ms, .. }
            | LeaderStep::AwaitingEpochAcks { until_ms, .. } => *until_ms <= context.now_ms,
            LeaderStep::Synchronizing(synchronization) => synchronization.until_ms <= context.now_ms,
            LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. } | LeaderStep::SteppingDown(_) => {
                false
            }
        };
        if gives_up {
            return Err(StepDown::for_reason(LinkCloseReason::NoQuorum));
        }
        self.step_down_if_due(context)?;
        self.send_on_demand_pings(context);
        if self.next_ping_ms > context.now_ms {
            return Ok(());
        }
        self.next_ping_ms = context.now_ms + (context.state.settings.tick_ms / 2).max(1);
        self.close_lagging_learners(context);
        self.send_periodic_pings(context);
        self.require_quorum(context)?;
        self.awaited_voters.expire(context.now_ms);
        self.compare_latencies(context);
        self.hand_over_if_due(context);
        self.finish_resignation(context.state)
    }

    /// Closes connections of learners that are silent or lag too far behind. They reconnect and are
    /// synchronized.
    fn close_lagging_learners(&mut self, context: &mut PeerContext<'_>) {
        let timeouts = LearnerTimeouts::from_settings(&context.state.settings);
        let ends = (context.state.history.last(), context.state.committed());
        let give_up = |(&link, learner): (&LinkId, &mut LearnerHandler)| {
            learner.check_timeouts(timeouts, ends, context.now_ms).map(|reason| (link, reason))
        };
        let given_up: Vec<(LinkId, LinkCloseReason)> = self.learners.iter_mut().filter_map(give_up).collect();
        for (link, reason) in given_up {
            self.close_link(link, reason, context.out);
        }
    }

    /// A leader without a quorum, or with a blocked disk, cannot commit: it steps down.
    fn require_quorum(&self, context: &PeerContext<'_>) -> Result<(), StepDown> {
        if !matches!(self.step, LeaderStep::Broadcasting { .. } | LeaderStep::Resigning { .. }) {
            return Ok(());
        }
        let limit_ms = context.state.settings.sync_limit * context.state.settings.tick_ms;
        let hangs =
            context.state.disk.busy_since_ms().is_some_and(|since_ms| since_ms + limit_ms <= context.now_ms);
        let mut present: BTreeSet<ServerId> = BTreeSet::from([context.state.settings.me]);
        present.extend(self.learners.values().filter_map(|learner| {
            let (identity, progress) = learner.step.replicating()?;
            identity.is_follower_after_ack(progress).then_some(identity.server)
        }));
        if hangs || !context.state.is_quorum(&present) {
            return Err(StepDown::for_reason(LinkCloseReason::NoQuorum));
        }
        Ok(())
    }
}
