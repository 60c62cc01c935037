//! Applies committed transactions in order. Each one fires its watches and sends its reply. Waiting reads run
//! before the next transaction changes the tree.

use zebu_metrics::Runs;
use zebu_proto::txn::{DIGEST_VERSION, Txn, TxnDigest, TxnEntry};
use zebu_tree::DigestMode;
use zebu_zab::{PeerEffect, PeerWarning};

use super::{CommitError, DigestVerdict, Node, NodeRole};
use crate::clock::Now;
use crate::connection::Connections;
use crate::consensus::{CommitItem, Consensus, Proposal, RequestOrigin};
use crate::context::ServeContext;
use crate::ensemble::Effect;
use crate::metrics::NodeMetrics;
use crate::replica::Replica;

impl Node {
    /// Whether [`Node::commit`] has transactions or other items to process.
    pub fn has_committed(&self) -> bool {
        match (&self.state.consensus, &self.role) {
            (Consensus::Member(member), _) => !member.commit_queue.is_empty(),
            (Consensus::Standalone(standalone), NodeRole::Primary(primary)) => {
                primary.has_next_up_to(standalone.persisted)
            }
            (
                Consensus::Standalone(_),
                NodeRole::Learner(_) | NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing,
            ) => false,
        }
    }

    /// Applies all committed transactions. Returns their number.
    ///
    /// # Errors
    /// An ensemble member that cannot apply a committed transaction must stop; a standalone server never
    /// fails.
    pub fn commit(
        &mut self,
        replica: &mut Replica,
        connections: &mut impl Connections,
        now: Now,
    ) -> Result<usize, CommitError> {
        let mut applied = 0;
        let metrics = self.state.metrics.clone();
        let mut latencies = AppliedLatencies::of(&metrics, &self.role);
        while let Some(item) = self.next_commit_item()? {
            match item {
                CommitItem::Transaction(proposal) => {
                    latencies.record(&proposal, now);
                    applied += self.apply(&proposal, replica, connections, now);
                }
                CommitItem::Invalid(_) => unreachable!("it is left where it is"),
                CommitItem::Serve(serving) => {
                    self.begin_serving(serving, &mut ServeContext { replica, connections, now });
                }
                CommitItem::FromLearner { link, server, packet } => {
                    let mut context = ServeContext { replica, connections, now };
                    self.handle_learner_packet(link, server, packet, &mut context);
                }
                CommitItem::StreamSnapshot { link, zxid } => {
                    self.effect(Effect::Peer(PeerEffect::StreamSnapshot { link, zxid }));
                }
            }
        }
        replica.count_applied();
        if let NodeRole::Primary(primary) = &mut self.role {
            primary.mark_applied(replica.last_zxid(), &self.state.metrics);
        }
        let mut context = ServeContext { replica, connections, now };
        self.process_effects(&mut context);
        self.start_read_checks(&mut context);
        Ok(applied)
    }

    fn next_commit_item(&mut self) -> Result<Option<CommitItem>, CommitError> {
        match (&mut self.state.consensus, &mut self.role) {
            (Consensus::Standalone(standalone), NodeRole::Primary(primary)) => {
                Ok(primary.pop_next_up_to(standalone.persisted).map(CommitItem::Transaction))
            }
            (
                Consensus::Standalone(_),
                NodeRole::Learner(_) | NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing,
            ) => Ok(None),
            (Consensus::Member(member), _) => {
                if let Some(CommitItem::Invalid(error)) = member.commit_queue.front() {
                    // The item stays in front, so that no later transaction is applied.
                    return Err(error.clone());
                }
                Ok(member.commit_queue.pop_front())
            }
        }
    }

    fn apply(
        &mut self,
        proposal: &Proposal,
        replica: &mut Replica,
        connections: &mut impl Connections,
        now: Now,
    ) -> usize {
        let zxid = proposal.entry.header.zxid;
        if zxid <= replica.last_zxid() {
            // The tree was replaced by one that contains this transaction.
            self.state.abort_request(proposal.origin, connections);
            return 0;
        }
        if let (Some(audit), Txn::CloseSession(listed)) = (&mut self.state.audit, &proposal.entry.txn) {
            let session = proposal.entry.header.session;
            audit.end_session(session, listed.as_deref(), &replica.tree, now.wall_ms);
        }
        let outcome = replica.apply(&proposal.entry, connections);
        if let Consensus::Member(_) = self.state.consensus {
            self.compare_digest(&proposal.entry, replica, now);
        }
        let mut context = ServeContext { replica, connections, now };
        match &mut self.role {
            NodeRole::Primary(primary) => {
                primary.on_applied(&mut self.state, proposal, &outcome, &mut context);
            }
            NodeRole::Learner(learner) => {
                debug_assert_eq!(proposal.origin, RequestOrigin::NoClient, "a learner finds out who waits");
                learner.on_applied(&mut self.state, &proposal.entry, &outcome, &mut context);
            }
            NodeRole::Suspended(suspended) => {
                suspended.on_applied(&mut self.state, &proposal.entry, &outcome, &mut context);
            }
            NodeRole::ReadOnly(_) | NodeRole::NotServing => {
                self.state.abort_request(proposal.origin, connections)
            }
        }
        1
    }

    /// Compares digests. A mismatch never stops the server: it is counted and reported. Recovered data that
    /// never matched the ensemble is quarantined if the peer allows it.
    fn compare_digest(&mut self, entry: &TxnEntry, replica: &Replica, now: Now) {
        let tree = replica.tree();
        let comparable = |digest: &TxnDigest| digest.version == DIGEST_VERSION;
        let Some(digest) = entry.digest.filter(comparable) else { return };
        if tree.options().digest != DigestMode::On {
            return;
        }
        let (zxid, expected, found) = (entry.header.zxid, digest.tree_digest, tree.digest());
        let finding = match self.state.digest_monitor.compare(expected, found) {
            DigestVerdict::Equal | DigestVerdict::StillDiffers => return,
            DigestVerdict::EqualAgain { differed } => PeerWarning::DigestMatchesAgain { zxid, differed },
            DigestVerdict::Differs => PeerWarning::DigestMismatch { zxid, expected, found },
            DigestVerdict::ForeignData { differed } => {
                let Some(member) = self.state.member_mut() else { return };
                if !member.peer.quarantine_data(now.monotonic_ms, &mut member.pending_actions) {
                    return;
                }
                PeerWarning::DataQuarantined { zxid, differed }
            }
        };
        self.effect(Effect::Report(finding));
    }
}

/// Latencies of the transactions of one batch. Many of them are equal, because they share a round.
struct AppliedLatencies<'a> {
    propagation: Runs<'a>,
    /// Of a learner's transactions.
    learner: Option<Runs<'a>>,
    /// Of the requests of a primary's clients.
    own: Option<Runs<'a>>,
}

impl<'a> AppliedLatencies<'a> {
    fn of(metrics: &'a NodeMetrics, role: &NodeRole) -> AppliedLatencies<'a> {
        let (is_learner, is_primary) = match role {
            NodeRole::Primary(_) => (false, true),
            NodeRole::Learner(_) => (true, false),
            NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => (false, false),
        };
        AppliedLatencies {
            propagation: Runs::of(&metrics.propagation_latency),
            learner: is_learner.then(|| Runs::of(&metrics.commit_propagation_latency)),
            own: is_primary.then(|| Runs::of(&metrics.write_commit_time)),
        }
    }

    fn record(&mut self, proposal: &Proposal, now: Now) {
        let elapsed_ms = now.wall_ms - proposal.entry.header.time_ms;
        self.propagation.record_elapsed(elapsed_ms);
        if let Some(learner) = &mut self.learner {
            learner.record_elapsed(elapsed_ms);
        }
        if let (Some(own), RequestOrigin::Request(_)) = (&mut self.own, proposal.origin) {
            own.record_elapsed(elapsed_ms);
        }
    }
}
