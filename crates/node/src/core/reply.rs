//! From the outcome of a transaction to the reply.

use zebu_proto::client::multi::{MULTI_END, encode_error_result, encode_result_header};
use zebu_proto::jute::{encode_buffer, encode_bytes};
use zebu_proto::txn::{SubTxn, Txn, TxnEntry};
use zebu_proto::{ErrorCode, Jute, OpCode};
use zebu_tree::Outcome;

use crate::lane::{Asked, CloseReason, Lane};
use crate::replica::Replica;
use crate::shape::ReplyShape;

/// The transaction is not what the request in the slot can have become.
struct Mismatch;

/// Why a reply has no body.
enum NoBody {
    /// The reply is this error.
    Error(ErrorCode),
    /// There is no reply that fits.
    Mismatch,
}

impl From<Mismatch> for NoBody {
    fn from(Mismatch: Mismatch) -> NoBody {
        NoBody::Mismatch
    }
}

/// Answers the write in a slot, and the reads behind it. A transaction with the session and the number of the request
/// may still be that of an older one: some clients count from the beginning on every connection, and ZooKeeper's
/// leaders let a session move while its writes are on their way. Such a connection is closed.
pub(crate) fn answer_write(
    lane: &mut Lane,
    slot: u64,
    entry: &TxnEntry,
    outcome: &Outcome,
    replica: &Replica,
    now_ms: i64,
) {
    let Some((asked, shape)) = lane.pop_write(slot) else { return };
    // Reports know no operation of a write that failed.
    let op = if matches!(outcome, Outcome::Error(_)) { None } else { asked.op };
    let asked = Asked { op, ..asked };
    let mut mismatch = false;
    lane.push_reply(asked, replica.last_zxid().0, now_ms, |out| {
        encode_outcome(&shape, outcome, &entry.txn, replica, out).map_err(|failure| match failure {
            NoBody::Error(code) => code,
            NoBody::Mismatch => {
                mismatch = true;
                ErrorCode::RuntimeInconsistency
            }
        })
    });
    if mismatch {
        lane.close(CloseReason::AnswerMismatch);
        return;
    }
    if shape == ReplyShape::Close {
        lane.drain();
    }
    replica.drain_ready(lane, now_ms);
}

/// Answers the sync in a slot, and the reads behind it.
pub(crate) fn answer_sync(lane: &mut Lane, slot: u64, replica: &Replica, now_ms: i64) {
    let Some((asked, shape)) = lane.pop_write(slot) else { return };
    let ReplyShape::Sync(path) = shape else {
        lane.close(CloseReason::AnswerMismatch);
        return;
    };
    lane.push_reply(asked, replica.last_zxid().0, now_ms, |out| {
        encode_buffer(path.as_deref().map(str::as_bytes), out);
        Ok(())
    });
    replica.drain_ready(lane, now_ms);
}

fn encode_outcome(
    shape: &ReplyShape,
    outcome: &Outcome,
    txn: &Txn,
    replica: &Replica,
    out: &mut Vec<u8>,
) -> Result<(), NoBody> {
    if let Outcome::Error(code) = outcome {
        // Every code in an error transaction that was prepared here is known.
        return Err(NoBody::Error(ErrorCode::from_wire(*code).unwrap_or(ErrorCode::MarshallingError)));
    }
    match shape {
        ReplyShape::Empty | ReplyShape::Close => {}
        ReplyShape::Path | ReplyShape::PathAndStat | ReplyShape::Stat => {
            encode_body(shape, outcome, txn, out)?;
        }
        ReplyShape::DataAndStat => {
            let node = replica.tree.node("/zookeeper/config").ok_or(NoBody::Error(ErrorCode::NoNode))?;
            encode_buffer(node.data(), out);
            node.stat().encode(out);
        }
        ReplyShape::Multi(ops) => encode_multi(ops, outcome, txn, out)?,
        ReplyShape::Sync(_) => return Err(NoBody::Mismatch),
    }
    Ok(())
}

/// Path, stat, or both, as the shape wants them.
fn encode_body(shape: &ReplyShape, outcome: &Outcome, txn: &Txn, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    if matches!(shape, ReplyShape::Path | ReplyShape::PathAndStat) {
        encode_bytes(created_path(txn)?.as_bytes(), out);
    }
    if matches!(shape, ReplyShape::Stat | ReplyShape::PathAndStat) {
        match outcome {
            Outcome::Created { stat } | Outcome::DataSet { stat } | Outcome::AclSet { stat } => {
                stat.encode(out);
            }
            _ => return Err(Mismatch),
        }
    }
    Ok(())
}

/// A failed multi has no error in its header: every operation is an error result of its own.
fn encode_multi(ops: &[OpCode], outcome: &Outcome, txn: &Txn, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    let (Outcome::Multi(outcomes), Txn::Multi(parts)) = (outcome, txn) else { return Err(Mismatch) };
    if ops.len() != parts.len() || ops.len() != outcomes.len() {
        return Err(Mismatch);
    }
    for ((&op, outcome), SubTxn(part)) in ops.iter().zip(outcomes).zip(parts) {
        if let Outcome::Error(code) = outcome {
            encode_error_result(ErrorCode::from_wire(*code), out);
            continue;
        }
        encode_result_header(op, out);
        match op {
            OpCode::Create => encode_body(&ReplyShape::Path, outcome, part, out)?,
            OpCode::Create2 => encode_body(&ReplyShape::PathAndStat, outcome, part, out)?,
            OpCode::SetData => encode_body(&ReplyShape::Stat, outcome, part, out)?,
            _ => {}
        }
    }
    MULTI_END.encode(out);
    Ok(())
}

fn created_path(txn: &Txn) -> Result<&str, Mismatch> {
    match txn {
        Txn::Create(create) | Txn::Create2(create) => Ok(&create.path),
        Txn::CreateContainer(create) => Ok(&create.path),
        Txn::CreateTtl(create) => Ok(&create.path),
        Txn::Error(_)
        | Txn::CreateSession { .. }
        | Txn::CloseSession(_)
        | Txn::Delete(_)
        | Txn::DeleteContainer(_)
        | Txn::SetData(_)
        | Txn::SetAcl(_)
        | Txn::Check(_)
        | Txn::Multi(_)
        | Txn::Reconfig(_) => Err(Mismatch),
    }
}
