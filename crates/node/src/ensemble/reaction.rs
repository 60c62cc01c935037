//! Processes the actions of the Zab peer. Most become effects for the runtime, some go to the role. Actions
//! that depend on the state wait until all earlier transactions are applied.

use zebu_proto::Zxid;
use zebu_zab::{Action, DiskCommand, EncodedTxn, LinkId, PeerEffect};

use super::effect::Effect;
use crate::connection::Connections;
use crate::consensus::{CommitItem, Consensus, decode_committed};
use crate::context::ServeContext;
use crate::core::{Node, NodeRole, NodeState};

impl Node {
    /// Processes the actions of the peer until none is pending.
    pub(crate) fn process_effects(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        self.update_leaderless(context);
        loop {
            while let Some(member) = self.state.member_mut()
                && !member.pending_actions.is_empty()
            {
                let spare = std::mem::take(&mut member.spare_actions);
                let mut actions = std::mem::replace(&mut member.pending_actions, spare);
                for action in actions.drain(..) {
                    self.apply_effect(action, context);
                }
                if let Some(member) = self.state.member_mut() {
                    member.spare_actions = actions;
                }
            }
            // A processed action may have confirmed leadership for deferred requests.
            let has_run_deferred = match &mut self.role {
                NodeRole::Primary(primary) => primary.run_deferred(&mut self.state, context),
                NodeRole::Learner(_)
                | NodeRole::ReadOnly(_)
                | NodeRole::Suspended(_)
                | NodeRole::NotServing => false,
            };
            let has_passed_fences = self.pass_fences(context);
            if !has_run_deferred && !has_passed_fences {
                return;
            }
        }
    }

    fn apply_effect(&mut self, action: Action, context: &mut ServeContext<'_, impl Connections>) {
        match action {
            Action::Peer(PeerEffect::StreamSnapshot { link, zxid }) => {
                self.queue_after_commits(CommitItem::StreamSnapshot { link, zxid }, context);
            }
            Action::Peer(effect) => {
                if let PeerEffect::Close { link, .. } = &effect {
                    self.cancel_snapshot_stream(*link);
                }
                self.effect(Effect::Peer(effect));
            }
            Action::Append { io, entry } => {
                let NodeState { consensus, batch, .. } = &mut self.state;
                if let Consensus::Member(member) = consensus {
                    batch.append_payload(entry.zxid, &entry.bytes);
                    member.effects.appended(io);
                }
            }
            Action::Disk(command) => self.command_disk(command, context),
            Action::Config(effect) => self.effect(Effect::Config(effect)),
            Action::Report(finding) => self.effect(Effect::Report(finding)),
            Action::Deliver(entry) => self.deliver(&entry),
            Action::Load(entry) => {
                // Clients must not read a transaction that is not committed.
                self.close_kept_sessions(context.connections);
                self.deliver(&entry);
            }
            Action::Serve(serving) => self.queue_after_commits(CommitItem::Serve(serving), context),
            Action::StopServing => self.stop_serving(context),
            Action::FromLearner { link, server, packet } => {
                self.handle_learner_packet(link, server, packet, context);
            }
            Action::LearnerLost { link } => {
                if let NodeRole::Primary(primary) = &mut self.role {
                    primary.learner_lost(link);
                }
            }
            Action::FromLeader { packet, after } => self.handle_leader_packet(packet, after, context),
        }
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        if let Some(member) = self.state.member_mut() {
            member.effects.push(effect);
        }
    }

    /// Queues a disk command. A command that replaces the state drops transactions committed for the old one.
    fn command_disk(&mut self, command: DiskCommand, context: &mut ServeContext<'_, impl Connections>) {
        let connections = &mut *context.connections;
        match &command {
            DiskCommand::Truncate { to, .. } => {
                if context.replica.last_zxid() > *to {
                    // The tree goes back. Otherwise only transactions go that no client has seen.
                    self.close_kept_sessions(connections);
                }
                self.drop_commits_after(*to, connections);
            }
            DiskCommand::InstallSnapshot { .. } | DiskCommand::Quarantine { .. } => {
                // The changes between the old tree and the new one cannot be told as events.
                self.close_kept_sessions(connections);
                self.drop_commit_queue(connections);
                self.state.digest_monitor.state_received();
            }
            DiskCommand::MarkTrusted { .. }
            | DiskCommand::SaveAcceptedEpoch { .. }
            | DiskCommand::SaveCurrentEpoch { .. } => {}
        }
        let allows_snapshot = self.allows_snapshot();
        let NodeState { consensus, batch, random, .. } = &mut self.state;
        if let Consensus::Member(member) = consensus {
            member.effects.push_disk(command, batch, random, allows_snapshot);
        }
    }

    /// Queues a transaction that is committed and durable. A leader's own proposals keep the origin of their
    /// request.
    fn deliver(&mut self, entry: &EncodedTxn) {
        let own = match &mut self.role {
            NodeRole::Primary(primary) => primary.pop_next_up_to(entry.zxid),
            NodeRole::Learner(_) | NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => {
                None
            }
        };
        let item = match own {
            Some(proposal) => {
                let zxid = proposal.entry.header.zxid;
                assert_eq!(zxid, entry.zxid, "what a leader has proposed is decided in order");
                CommitItem::Transaction(proposal)
            }
            None => decode_committed(entry),
        };
        if let Some(member) = self.state.member_mut() {
            member.commit_queue.push_back(item);
        }
    }

    /// Queues an item that depends on the state. It is processed at once if no transaction waits.
    fn queue_after_commits(&mut self, item: CommitItem, context: &mut ServeContext<'_, impl Connections>) {
        let Some(member) = self.state.member_mut() else { return };
        if !member.commit_queue.is_empty() {
            member.commit_queue.push_back(item);
            return;
        }
        match item {
            CommitItem::Serve(serving) => self.begin_serving(serving, context),
            CommitItem::StreamSnapshot { link, zxid } => {
                self.effect(Effect::Peer(PeerEffect::StreamSnapshot { link, zxid }))
            }
            CommitItem::Transaction(_) | CommitItem::Invalid(_) | CommitItem::FromLearner { .. } => {
                unreachable!("{item:?} goes its own way")
            }
        }
    }

    /// Drops the commit queue because the state is replaced: the new state contains its transactions, or they
    /// are void.
    fn drop_commit_queue(&mut self, connections: &mut impl Connections) {
        let Some(member) = self.state.member_mut() else { return };
        for item in std::mem::take(&mut member.commit_queue) {
            if let CommitItem::Transaction(proposal) = item {
                self.state.abort_request(proposal.origin, connections);
            }
        }
    }

    /// An observer without a log returns to the state on disk. Transactions that it has not applied yet are
    /// sent again.
    fn drop_commits_after(&mut self, to: Zxid, connections: &mut impl Connections) {
        let Some(member) = self.state.member_mut() else { return };
        let is_behind = |item: &CommitItem| matches!(item, CommitItem::Transaction(proposal) if proposal.entry.header.zxid > to);
        let (behind, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut member.commit_queue).into_iter().partition(is_behind);
        member.commit_queue = rest.into();
        for item in behind {
            if let CommitItem::Transaction(proposal) = item {
                self.state.abort_request(proposal.origin, connections);
            }
        }
    }

    fn cancel_snapshot_stream(&mut self, closed: LinkId) {
        if let Some(member) = self.state.member_mut() {
            member
                .commit_queue
                .retain(|item| !matches!(item, CommitItem::StreamSnapshot { link, .. } if *link == closed));
        }
    }
}
