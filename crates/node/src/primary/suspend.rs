//! The end of a leader whose clients stay connected. Its clients are from now on those of a learner: the
//! next leader's history answers their proposals, or the requests are forwarded.

use std::collections::VecDeque;

use zebu_proto::SessionId;
use zebu_proto::txn::Txn;

use super::Primary;
use crate::connection::Connections;
use crate::consensus::{CommitItem, Proposal, RequestOrigin};
use crate::core::NodeState;
use crate::learner::{EndedLeader, LearnerRole};
use crate::receive::SubmittedRequest;
use crate::request_copy::RequestCopy;
use crate::session::SessionOwner;

/// A proposal whose request has no answer.
struct UnansweredProposal {
    session: SessionId,
    cxid: i32,
    origin: RequestOrigin,
    copy: Option<Box<RequestCopy>>,
    creates_session: bool,
}

impl UnansweredProposal {
    fn new(proposal: &mut Proposal) -> UnansweredProposal {
        UnansweredProposal {
            session: proposal.entry.header.session,
            cxid: proposal.entry.header.cxid,
            origin: std::mem::replace(&mut proposal.origin, RequestOrigin::NoClient),
            copy: proposal.copy.take(),
            creates_session: matches!(proposal.entry.txn, Txn::CreateSession { .. }),
        }
    }
}

impl Primary {
    /// Whether the clients of this role may stay connected when it ends. The leader itself knows each move of
    /// its epoch, and has closed the connections of those sessions.
    pub(crate) fn can_keep_connections(&self, state: &NodeState) -> bool {
        self.is_leader() && state.keeps_clients()
    }

    /// Ends the role without its connections. Returns its clients, and their requests that were not proposed.
    pub(crate) fn into_learner(
        mut self,
        state: &mut NodeState,
        connections: &mut impl Connections,
    ) -> (LearnerRole, VecDeque<SubmittedRequest>) {
        let mut unanswered = take_committed(state);
        unanswered.extend(self.in_flight.iter_mut().map(UnansweredProposal::new));
        let is_own = |session| matches!(self.sessions.owner(session), Some(SessionOwner::Connection(_)));
        // A local session became global for the request behind such a proposal.
        let (proposals, rest): (Vec<_>, Vec<_>) = unanswered
            .into_iter()
            .filter(|it| it.origin != RequestOrigin::NoClient || (it.creates_session && is_own(it.session)))
            .partition(|it| it.creates_session || it.copy.is_some());
        for proposal in rest {
            // Its client sent it before connections were kept.
            state.abort_request(proposal.origin, connections);
        }
        let apply_waiters = std::mem::take(&mut self.apply_waiters).into_iter();
        let syncs: Vec<_> = apply_waiters.filter_map(|waiter| waiter.end(&mut self.local_sessions)).collect();
        let ended = EndedLeader {
            serving_mode: self.serving_mode,
            epoch: self.epoch.unwrap_or_default(),
            sessions: self.sessions.connected().collect(),
            local_sessions: self.local_sessions,
        };
        let mut learner = LearnerRole::from_leader(ended, state);
        for UnansweredProposal { session, cxid, origin, copy, .. } in proposals {
            match (origin, copy) {
                (RequestOrigin::Request(pending), Some(copy)) => {
                    learner.await_write(session, cxid, pending, copy);
                }
                (RequestOrigin::Request(_), None)
                | (RequestOrigin::Connect { .. } | RequestOrigin::NoClient, _) => {
                    learner.await_session(session, origin);
                }
            }
        }
        for sync in syncs {
            learner.await_sync(sync);
        }
        let mut waiting = self.awaiting_next_leader;
        waiting.extend(self.deferred.into_client_requests());
        (learner, waiting)
    }
}

/// Takes the requests of the transactions that are committed and not applied yet.
fn take_committed(state: &mut NodeState) -> Vec<UnansweredProposal> {
    let Some(member) = state.member_mut() else { return Vec::new() };
    let transactions = member.commit_queue.iter_mut().filter_map(|item| match item {
        CommitItem::Transaction(proposal) => Some(UnansweredProposal::new(proposal)),
        CommitItem::Invalid(_)
        | CommitItem::Serve(_)
        | CommitItem::FromLearner { .. }
        | CommitItem::StreamSnapshot { .. } => None,
    });
    transactions.collect()
}
