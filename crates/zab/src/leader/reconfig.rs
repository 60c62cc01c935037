//! Activation of a config at the leader: the designated leader, and the hand-over if it is another server.

use std::collections::BTreeSet;

use zebu_proto::{ServerId, Zxid};

use super::{Leader, LeaderStep};
use crate::action::LinkCloseReason;
use crate::learner_handler::{HandlerStep, SyncPhase};
use crate::membership::Configuration;
use crate::peer_context::PeerContext;
use crate::quorum::QuorumRule;
use crate::role::Role;
use crate::step_down::StepDown;
use crate::zab_state::ZabState;

/// A leader that hands over: it waits until all learners have the commits and its clients have their
/// replies.
#[derive(Debug)]
pub(super) struct SteppingDown {
    pub(super) epoch: u32,
    /// The next check whether all learners have the commits.
    pub(super) check_at_ms: i64,
    /// The time at which the role ends in any case.
    until_ms: i64,
}

impl Leader {
    /// Whether the synced followers are a quorum of this config. A follower that became an observer does not
    /// count: it will reconnect as an observer and send no acks.
    pub(crate) fn has_quorum_of(&self, configuration: &Configuration, state: &ZabState) -> bool {
        let mut synced = BTreeSet::from([state.settings.me]);
        for learner in self.learners.values() {
            if let HandlerStep::Replicating(identity, progress) = &learner.step
                && identity.role == Role::Participant
                && progress.phase == SyncPhase::UpToDate
                && !state.settings.observers.contains(&identity.server)
            {
                synced.insert(identity.server);
            }
        }
        configuration.quorum().is_quorum(&synced)
    }

    /// A config was activated.
    pub(super) fn config_activated(&mut self, zxid: Zxid, context: &mut PeerContext<'_>) {
        let leader = self.update_designated_leader(&BTreeSet::new(), context);
        self.activated_configs.insert(zxid, leader);
    }

    /// Determines the designated leader; if it is another server, this leader starts to hand over.
    /// `accepted` are servers that acked the initial history, if no proposal followed it.
    pub(super) fn update_designated_leader(
        &mut self,
        accepted: &BTreeSet<ServerId>,
        context: &mut PeerContext<'_>,
    ) -> ServerId {
        let leader = self.designated_leader(accepted, context.state);
        if leader != context.state.settings.me
            && let Some(epoch) = self.epoch()
        {
            let look_at_ms = context.now_ms + context.state.settings.retry_ms;
            let until_ms =
                context.now_ms + context.state.settings.sync_limit * context.state.settings.tick_ms;
            self.step = LeaderStep::SteppingDown(SteppingDown { epoch, check_at_ms: look_at_ms, until_ms });
            context.state.designated_leader = Some(leader);
        }
        leader
    }

    /// This leader if it keeps its vote, otherwise the voter with the highest ack. A former observer sends
    /// no acks before it reconnects, but it may have acked the initial history.
    fn designated_leader(&self, accepted: &BTreeSet<ServerId>, state: &ZabState) -> ServerId {
        let me = state.settings.me;
        if state.keeps_voter_address() {
            return me;
        }
        let quorum: &QuorumRule = &state.settings.quorum;
        let history = accepted.iter().map(|server| (*server, state.committed()));
        let acks = self.acks(state).chain(history);
        let others = acks.filter(|(server, _)| *server != me && quorum.may_lead(*server));
        others.max_by_key(|&(server, acked)| (acked, server)).map_or(me, |(server, _)| server)
    }

    /// Ends the role once all serving learners have the commits, or at the time limit.
    pub(super) fn step_down_if_due(&mut self, context: &PeerContext<'_>) -> Result<(), StepDown> {
        let LeaderStep::SteppingDown(stepping_down) = &mut self.step else { return Ok(()) };
        if stepping_down.check_at_ms > context.now_ms {
            return Ok(());
        }
        stepping_down.check_at_ms = context.now_ms + context.state.settings.retry_ms;
        let all_committed = self.learners.values().all(|learner| {
            learner.step.replicating().is_none_or(|(_, progress)| {
                progress.phase != SyncPhase::UpToDate || progress.committed >= context.state.committed()
            })
        });
        let delivered = context.state.delivered() >= context.state.committed();
        if (all_committed && delivered) || stepping_down.until_ms <= context.now_ms {
            Err(StepDown::for_reason(LinkCloseReason::ConfigChanged))
        } else {
            Ok(())
        }
    }
}
