//! Committed transactions: applied in order, watchers told, the request answered, and the reads that
//! waited for it run before the next one changes the tree again.

use zebu_proto::txn::{DIGEST_VERSION, TxnDigest, TxnEntry};
use zebu_tree::DigestMode;
use zebu_zab::Finding;

use super::{CommitError, DigestVerdict, Node, Role};
use crate::agreement::{Agreement, Decided, Origin, Proposal};
use crate::clock::Moment;
use crate::ensemble::Order;
use crate::lane::Lanes;
use crate::replica::Replica;

impl Node {
    /// Whether [`Node::commit`] has something to do.
    pub fn has_committed(&self) -> bool {
        match (&self.desk.agreement, &self.role) {
            (Agreement::Member(member), _) => !member.decided.is_empty(),
            (Agreement::Standalone(standalone), Role::Deciding(decider)) => {
                decider.is_next_up_to(standalone.persisted)
            }
            (Agreement::Standalone(_), Role::Learning(_) | Role::Reading(_) | Role::Idle) => false,
        }
    }

    /// Applies everything that is committed. Returns how many transactions that were.
    ///
    /// # Errors
    /// A member that cannot apply what the ensemble has decided must stop; a standalone server always can.
    pub fn commit(
        &mut self,
        replica: &mut Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) -> Result<usize, CommitError> {
        let mut applied = 0;
        while let Some(decided) = self.next_decided()? {
            match decided {
                Decided::Transaction(proposal) => {
                    applied += self.apply(&proposal, replica, lanes, now);
                }
                Decided::Broken(_) => unreachable!("it is left where it is"),
                Decided::Serve(serving) => self.begin_serving(serving, replica, lanes, now),
                Decided::FromLearner { link, server, packet } => {
                    self.hear_learner(link, server, packet, replica, lanes, now);
                }
                Decided::StreamSnapshot { link, zxid } => {
                    self.order(Order::StreamSnapshot { link, zxid });
                }
            }
        }
        if let Role::Deciding(decider) = &mut self.role {
            decider.applied(replica.last_zxid());
        }
        self.settle(replica, lanes, now);
        Ok(applied)
    }

    fn next_decided(&mut self) -> Result<Option<Decided>, CommitError> {
        match (&mut self.desk.agreement, &mut self.role) {
            (Agreement::Standalone(standalone), Role::Deciding(decider)) => {
                Ok(decider.next_up_to(standalone.persisted).map(Decided::Transaction))
            }
            (Agreement::Standalone(_), Role::Learning(_) | Role::Reading(_) | Role::Idle) => Ok(None),
            (Agreement::Member(member), _) => match member.decided.front() {
                // It stays in front: nothing behind it is ever applied.
                Some(Decided::Broken(error)) => Err(error.clone()),
                _ => Ok(member.decided.pop_front()),
            },
        }
    }

    fn apply(
        &mut self,
        proposal: &Proposal,
        replica: &mut Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) -> usize {
        let zxid = proposal.entry.header.zxid;
        if zxid <= replica.last_zxid() {
            // The state was replaced by one that holds it.
            self.desk.give_up(proposal.origin, lanes);
            return 0;
        }
        let outcome = replica.apply(&proposal.entry, lanes);
        if let Agreement::Member(_) = self.desk.agreement {
            self.compare_digest(&proposal.entry, replica, now);
        }
        match &mut self.role {
            Role::Deciding(decider) => {
                decider.finish(&mut self.desk, proposal, &outcome, replica, lanes, now);
            }
            Role::Learning(learner) => {
                debug_assert_eq!(proposal.origin, Origin::Nobody, "a learner finds out who waits");
                learner.finish(&mut self.desk, &proposal.entry, &outcome, replica, lanes, now);
            }
            Role::Reading(_) | Role::Idle => self.desk.give_up(proposal.origin, lanes),
        }
        1
    }

    /// Never a reason to stop: a difference is counted and told. Data that the member started with and that was never
    /// the ensemble's is given up if that costs nothing.
    fn compare_digest(&mut self, entry: &TxnEntry, replica: &Replica, now: Moment) {
        let tree = replica.tree();
        let comparable = |digest: &TxnDigest| digest.version == DIGEST_VERSION;
        let Some(digest) = entry.digest.filter(comparable) else { return };
        if tree.options().digest != DigestMode::On {
            return;
        }
        let (zxid, expected, found) = (entry.header.zxid, digest.tree_digest, tree.digest());
        let finding = match self.desk.digests.compare(expected, found) {
            DigestVerdict::Equal | DigestVerdict::StillDiffers => return,
            DigestVerdict::EqualAgain { differed } => Finding::DigestsEqualAgain { zxid, differed },
            DigestVerdict::Differs => Finding::DigestDiffers { zxid, expected, found },
            DigestVerdict::Foreign { differed } => {
                let Some(member) = self.desk.member() else { return };
                if !member.peer.give_up_state(now.monotonic_ms, &mut member.wanted) {
                    return;
                }
                Finding::StateGivenUp { zxid, differed }
            }
        };
        self.order(Order::Report(finding));
    }
}
