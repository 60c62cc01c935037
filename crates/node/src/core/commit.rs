//! Committed transactions: applied in order, watchers told, the request answered, and the reads that
//! waited for it run before the next one changes the tree again.

use zebu_proto::client::multi::{MULTI_END, encode_error_result, encode_result_header};
use zebu_proto::jute::{encode_buffer, encode_bytes};
use zebu_proto::txn::{SubTxn, Txn};
use zebu_proto::{ErrorCode, Jute, OpCode, SessionId};
use zebu_tree::Outcome;

use super::{CommitError, Node};
use crate::agreement::{Origin, Proposal};
use crate::clock::Moment;
use crate::lane::{Asked, CloseReason, LaneSession, Lanes};
use crate::replica::Replica;
use crate::shape::ReplyShape;

impl Node {
    /// Applies everything that is committed. Returns how many transactions that were.
    ///
    /// # Errors
    /// A member that cannot apply what the ensemble has decided must stop; a standalone server can always.
    pub fn commit(
        &mut self,
        replica: &mut Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) -> Result<usize, CommitError> {
        let mut applied = 0;
        while let Some(proposal) = self.agreement.next_committed(self.persisted) {
            let outcome = replica.apply(&proposal.entry, lanes);
            self.finish(&proposal, &outcome, replica, lanes, now);
            self.accept_resumed(proposal.entry.header.zxid, lanes, now);
            applied += 1;
        }
        self.overlay.applied(replica.last_zxid());
        Ok(applied)
    }

    fn finish(
        &mut self,
        proposal: &Proposal,
        outcome: &Outcome,
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let session = proposal.entry.header.session;
        let now_ms = now.monotonic_ms;
        match proposal.origin {
            Origin::Request { lane, slot } => {
                self.answered += 1;
                lanes.with(lane, |lane| {
                    let Some((asked, shape)) = lane.pop_write(slot) else { return };
                    // Reports know no operation of a write that failed.
                    let op = if matches!(outcome, Outcome::Error(_)) { None } else { asked.op };
                    let asked = Asked { op, ..asked };
                    lane.push_reply(asked, replica.last_zxid().0, now_ms, |out| {
                        encode_outcome(&shape, outcome, &proposal.entry.txn, replica, out)
                    });
                    if shape == ReplyShape::Close {
                        lane.drain();
                    }
                    replica.drain_ready(lane, now_ms);
                });
            }
            Origin::Connect { lane, read_only } => {
                let Txn::CreateSession { timeout_ms } = proposal.entry.txn else {
                    unreachable!("a connect request is prepared into a session, never refused");
                };
                self.accept(lane, LaneSession { id: session, timeout_ms }, read_only, lanes, now);
            }
            Origin::Housekeeping => {}
        }
        if matches!(outcome, Outcome::SessionClosed { .. }) {
            self.end_session(session, proposal.origin, lanes);
        }
    }

    /// The connection that asked for it gets its answer first; any other is closed without a word.
    fn end_session(&mut self, session: SessionId, origin: Origin, lanes: &mut impl Lanes) {
        let Some(attached) = self.sessions.remove(session) else { return };
        if !matches!(origin, Origin::Request { lane, .. } if lane == attached) {
            lanes.with(attached, |lane| lane.close(CloseReason::SessionEnded));
        }
    }
}

fn encode_outcome(
    shape: &ReplyShape,
    outcome: &Outcome,
    txn: &Txn,
    replica: &Replica,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    if let Outcome::Error(code) = outcome {
        // Every code in an error transaction that was prepared here is known.
        return Err(ErrorCode::from_wire(*code).unwrap_or(ErrorCode::MarshallingError));
    }
    match shape {
        ReplyShape::Empty | ReplyShape::Close => {}
        ReplyShape::Path | ReplyShape::PathAndStat | ReplyShape::Stat => {
            encode_body(shape, outcome, txn, out)
        }
        ReplyShape::DataAndStat => {
            let node = replica.tree.node("/zookeeper/config").ok_or(ErrorCode::NoNode)?;
            encode_buffer(node.data(), out);
            node.stat().encode(out);
        }
        ReplyShape::Multi(ops) => encode_multi(ops, outcome, txn, out),
    }
    Ok(())
}

/// Path, stat, or both, as the shape wants them.
fn encode_body(shape: &ReplyShape, outcome: &Outcome, txn: &Txn, out: &mut Vec<u8>) {
    if matches!(shape, ReplyShape::Path | ReplyShape::PathAndStat) {
        encode_bytes(created_path(txn).as_bytes(), out);
    }
    if matches!(shape, ReplyShape::Stat | ReplyShape::PathAndStat) {
        match outcome {
            Outcome::Created { stat } | Outcome::DataSet { stat } | Outcome::AclSet { stat } => {
                stat.encode(out)
            }
            other => unreachable!("{shape:?} follows a node change, found {other:?}"),
        }
    }
}

/// A failed multi has no error in its header: every operation is an error result of its own.
fn encode_multi(ops: &[OpCode], outcome: &Outcome, txn: &Txn, out: &mut Vec<u8>) {
    let (Outcome::Multi(outcomes), Txn::Multi(parts)) = (outcome, txn) else {
        unreachable!("a multi that was not refused has an outcome per operation, found {outcome:?}");
    };
    for ((&op, outcome), SubTxn(part)) in ops.iter().zip(outcomes).zip(parts) {
        if let Outcome::Error(code) = outcome {
            encode_error_result(ErrorCode::from_wire(*code), out);
            continue;
        }
        encode_result_header(op, out);
        match op {
            OpCode::Create => encode_body(&ReplyShape::Path, outcome, part, out),
            OpCode::Create2 => encode_body(&ReplyShape::PathAndStat, outcome, part, out),
            OpCode::SetData => encode_body(&ReplyShape::Stat, outcome, part, out),
            _ => {}
        }
    }
    MULTI_END.encode(out);
}

fn created_path(txn: &Txn) -> &str {
    match txn {
        Txn::Create(create) | Txn::Create2(create) => &create.path,
        Txn::CreateContainer(create) => &create.path,
        Txn::CreateTtl(create) => &create.path,
        other => unreachable!("a node was created, found {other:?}"),
    }
}
