//! A transaction of the leader is applied: if a client of this server asked for it, it is answered, and what it
//! means for sessions happens.

use zebu_proto::quorum::Touch;
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{ErrorCode, SessionId};
use zebu_tree::Outcome;

use super::Learner;
use super::forwarding::{Found, Kind};
use crate::agreement::Origin;
use crate::clock::Moment;
use crate::core::{Desk, answer_write};
use crate::lane::{CloseReason, LaneSession, Lanes};
use crate::replica::Replica;

impl Learner {
    pub(crate) fn finish(
        &mut self,
        desk: &mut Desk,
        entry: &TxnEntry,
        outcome: &Outcome,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let session = entry.header.session;
        let Found { origin, kind, lost } = self.forwarding.take(entry);
        for origin in lost {
            desk.give_up_because(CloseReason::AnsweredOutOfOrder, origin, lanes);
        }
        let refused = (kind == Some(Kind::MultiOfLocal)).then(|| refused_to_local(outcome));
        let outcome = refused.as_ref().unwrap_or(outcome);
        match origin {
            Origin::Request { lane, slot } => {
                desk.answered += 1;
                lanes.with(lane, |lane| {
                    if lane.is_idle() {
                        // It was closed meanwhile.
                    } else if is_moved(outcome) {
                        // The client has gone on elsewhere; nobody reads an answer here.
                        lane.close(CloseReason::Replaced);
                    } else if lane.is_first(slot) {
                        answer_write(lane, slot, entry, outcome, replica, now.monotonic_ms);
                    } else {
                        lane.close(CloseReason::AnsweredOutOfOrder);
                    }
                });
            }
            Origin::Connect { lane, read_only } => match entry.txn {
                Txn::CreateSession { timeout_ms } => {
                    self.accept(desk, (lane, LaneSession { id: session, timeout_ms }, read_only), lanes, now);
                }
                _ => desk.give_up(origin, lanes),
            },
            Origin::Nobody => {}
        }
        match (outcome, &entry.txn) {
            (Outcome::SessionCreated, &Txn::CreateSession { timeout_ms }) => {
                self.touched.push(Touch { session, timeout_ms });
            }
            (Outcome::SessionClosed { .. }, _) => self.end_session(session, origin, lanes),
            // It was to become global, and did not: there is no such session any more.
            (Outcome::Error(_), _) if kind == Some(Kind::CreateSession) => {
                self.end_session(session, origin, lanes);
            }
            _ => {}
        }
        self.release_local(desk, session, lanes, now);
        self.release(desk, replica, lanes, now);
    }

    /// The connection that asked for it gets its answer first; any other is closed without a word.
    fn end_session(&mut self, session: SessionId, origin: Origin, lanes: &mut impl Lanes) {
        let Some(attached) = self.attached.remove(&session) else { return };
        if !matches!(origin, Origin::Request { lane, .. } if lane == attached.lane) {
            lanes.with(attached.lane, |lane| lane.close(CloseReason::SessionEnded));
        }
    }
}

/// Whether the leader refused a request because its session is served elsewhere.
fn is_moved(outcome: &Outcome) -> bool {
    let moved = Outcome::error(ErrorCode::SessionMoved);
    match outcome {
        Outcome::Multi(parts) => parts.contains(&moved),
        outcome => *outcome == moved,
    }
}

/// To the leader a local session that asks for ephemeral nodes is none at all; its client is told what is the matter.
fn refused_to_local(outcome: &Outcome) -> Outcome {
    let expired = Outcome::error(ErrorCode::SessionExpired);
    match outcome {
        Outcome::Multi(parts) => Outcome::Multi(parts.iter().map(refused_to_local).collect()),
        outcome if *outcome == expired => Outcome::error(ErrorCode::EphemeralOnLocalSession),
        outcome => outcome.clone(),
    }
}
