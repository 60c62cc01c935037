//! From the outcome of a transaction to the reply.

use zebu_proto::client::multi::{MULTI_END, encode_error_result, encode_result_header};
use zebu_proto::jute::{encode_buffer, encode_bytes};
use zebu_proto::txn::{SubTxn, Txn, TxnEntry};
use zebu_proto::{ErrorCode, Jute, OpCode};
use zebu_tree::Outcome;

use crate::lane::{Asked, Lane};
use crate::replica::Replica;
use crate::shape::ReplyShape;

/// Answers the write in a slot, and the reads behind it.
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
    lane.push_reply(asked, replica.last_zxid().0, now_ms, |out| {
        encode_outcome(&shape, outcome, &entry.txn, replica, out)
    });
    if shape == ReplyShape::Close {
        lane.drain();
    }
    replica.drain_ready(lane, now_ms);
}

/// Answers the sync in a slot, and the reads behind it.
pub(crate) fn answer_sync(lane: &mut Lane, slot: u64, replica: &Replica, now_ms: i64) {
    let Some((asked, shape)) = lane.pop_write(slot) else { return };
    let ReplyShape::Sync(path) = shape else { unreachable!("a sync waits in its slot, found {shape:?}") };
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
        ReplyShape::Sync(_) => unreachable!("a sync makes no transaction"),
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
