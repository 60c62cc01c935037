//! A transaction is applied: whoever waits for it is answered, and what it means for sessions happens.

use zebu_proto::SessionId;
use zebu_proto::txn::Txn;
use zebu_tree::Outcome;

use super::Decider;
use crate::agreement::{Origin, Proposal};
use crate::clock::Moment;
use crate::core::{Desk, answer_write};
use crate::lane::{CloseReason, LaneSession, Lanes};
use crate::replica::Replica;
use crate::session::Owner;

impl Decider {
    pub(crate) fn finish(
        &mut self,
        desk: &mut Desk,
        proposal: &Proposal,
        outcome: &Outcome,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let entry = &proposal.entry;
        let session = entry.header.session;
        match proposal.origin {
            Origin::Request { lane, slot } => {
                desk.answered += 1;
                lanes.with(lane, |lane| {
                    answer_write(lane, slot, entry, outcome, replica, now.monotonic_ms);
                });
            }
            Origin::Connect { lane, read_only } => {
                let Txn::CreateSession { timeout_ms } = entry.txn else {
                    unreachable!("a connect request is prepared into a session, never refused");
                };
                self.accept(desk, (lane, LaneSession { id: session, timeout_ms }, read_only), lanes, now);
            }
            Origin::Nobody => {}
        }
        if matches!(outcome, Outcome::SessionClosed { .. }) {
            self.end_session(session, proposal.origin, lanes);
        }
        self.release(desk, entry.header.zxid, replica, lanes, now);
    }

    /// The connection that asked for it gets its answer first; any other is closed without a word.
    fn end_session(&mut self, session: SessionId, origin: Origin, lanes: &mut impl Lanes) {
        if self.local_sessions.are_new_ones() {
            self.ended.note(session);
        }
        let Some(Owner::Lane(attached)) = self.sessions.remove(session) else { return };
        if !matches!(origin, Origin::Request { lane, .. } if lane == attached) {
            lanes.with(attached, |lane| lane.close(CloseReason::SessionEnded));
        }
    }
}
