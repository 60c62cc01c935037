//! Encodes the reply from the outcome of a transaction.

use zebu_metrics::RequestClass;
use zebu_proto::client::multi::{MULTI_END, encode_error_result, encode_result_header};
use zebu_proto::jute::{encode_buffer, encode_bytes};
use zebu_proto::txn::{SubTxn, Txn};
use zebu_proto::{ErrorCode, Jute, OpCode};
use zebu_tree::{TxnOutcome, delete_tree_reply};

use crate::connection::{ClientConnection, DisconnectReason, RequestMeta, WriteSlot};
use crate::replica::Replica;
use crate::shape::ReplyShape;
use crate::traffic::SentReply;

/// A transaction that was just applied.
#[derive(Clone, Copy)]
pub(crate) struct AppliedTxn<'a> {
    pub(crate) txn: &'a Txn,
    pub(crate) outcome: &'a TxnOutcome,
}

/// The transaction cannot have come from the request in the slot.
struct ReplyMismatch;

/// The reason why a reply has no body.
enum ReplyBodyError {
    /// The reply is this error.
    Error(ErrorCode),
    /// The outcome does not match the request.
    Mismatch,
}

impl From<ReplyMismatch> for ReplyBodyError {
    fn from(ReplyMismatch: ReplyMismatch) -> ReplyBodyError {
        ReplyBodyError::Mismatch
    }
}

/// Answers the write in a slot, and the reads behind it. A transaction with the session and cxid of the
/// request may belong to an older request. Some clients restart their xids on every connection, and ZooKeeper
/// leaders let a session move while its writes are in flight. Such a connection is closed.
pub(crate) fn reply_to_write(
    connection: &mut ClientConnection,
    slot: u64,
    applied: AppliedTxn<'_>,
    replica: &Replica,
    now_ms: i64,
) {
    replica.metrics.requests_in_queue.record(connection.queued_requests() as u64);
    let Some(WriteSlot { meta, shape }) = connection.pop_write(slot) else { return };
    let sent = SentReply { meta, now_ms, outbox_before: connection.outbox_len(), refused_bytes: 0 };
    // Stats show no operation for a failed write.
    let op = if matches!(applied.outcome, TxnOutcome::Error(_)) { None } else { meta.op };
    let meta = RequestMeta { op, ..meta };
    let mut mismatch = false;
    connection.push_reply_of(RequestClass::Update, meta, replica.last_zxid().0, now_ms, |out| {
        encode_outcome(&shape, applied, replica, out).map_err(|failure| match failure {
            ReplyBodyError::Error(code) => code,
            ReplyBodyError::Mismatch => {
                mismatch = true;
                ErrorCode::RuntimeInconsistency
            }
        })
    });
    replica.observe_reply(connection, None, sent);
    if mismatch {
        connection.close(DisconnectReason::ReplyMismatch);
        return;
    }
    if shape == ReplyShape::Close {
        connection.drain();
    }
    replica.run_ready_requests(connection, now_ms);
}

/// Answers the sync in a slot, and the reads behind it.
pub(crate) fn reply_to_sync(connection: &mut ClientConnection, slot: u64, replica: &Replica, now_ms: i64) {
    let Some(WriteSlot { meta, shape }) = connection.pop_write(slot) else { return };
    let sent = SentReply { meta, now_ms, outbox_before: connection.outbox_len(), refused_bytes: 0 };
    let ReplyShape::Sync(path) = shape else {
        connection.close(DisconnectReason::ReplyMismatch);
        return;
    };
    connection.push_reply(meta, replica.last_zxid().0, now_ms, |out| {
        encode_buffer(path.as_deref().map(str::as_bytes), out);
        Ok(())
    });
    replica.observe_reply(connection, path.as_deref(), sent);
    replica.run_ready_requests(connection, now_ms);
}

fn encode_outcome(
    shape: &ReplyShape,
    applied: AppliedTxn<'_>,
    replica: &Replica,
    out: &mut Vec<u8>,
) -> Result<(), ReplyBodyError> {
    if let TxnOutcome::Error(code) = applied.outcome {
        // Every error code of a transaction that was prepared here is known.
        return Err(ReplyBodyError::Error(
            ErrorCode::from_wire(*code).unwrap_or(ErrorCode::MarshallingError),
        ));
    }
    match shape {
        ReplyShape::Empty | ReplyShape::Close => {}
        ReplyShape::Path | ReplyShape::PathAndStat | ReplyShape::Stat => {
            encode_body(shape, applied, out)?;
        }
        ReplyShape::DataAndStat => {
            let node =
                replica.tree.node("/zookeeper/config").ok_or(ReplyBodyError::Error(ErrorCode::NoNode))?;
            encode_buffer(node.data(), out);
            node.stat().encode(out);
        }
        ReplyShape::Multi(ops) => encode_multi(ops, &[], applied, out)?,
        ReplyShape::MultiOfSubtrees { ops, roots } => encode_multi(ops, roots, applied, out)?,
        ReplyShape::NewOrOldPath => encode_bytes(new_or_old_path(applied.txn)?.as_bytes(), out),
        ReplyShape::DeletedTree => {
            let reply = delete_tree_reply(applied.txn).ok_or(ReplyMismatch)?;
            replica.metrics.tree_deletes.add(reply.deleted.unsigned_abs());
            reply.encode(out);
        }
        ReplyShape::Sync(_) => return Err(ReplyBodyError::Mismatch),
    }
    Ok(())
}

/// Encodes path, stat, or both, according to the shape.
fn encode_body(shape: &ReplyShape, applied: AppliedTxn<'_>, out: &mut Vec<u8>) -> Result<(), ReplyMismatch> {
    if matches!(shape, ReplyShape::Path | ReplyShape::PathAndStat) {
        let path = applied.txn.created_path().ok_or(ReplyMismatch)?;
        encode_bytes(path.as_bytes(), out);
    }
    if matches!(shape, ReplyShape::Stat | ReplyShape::PathAndStat) {
        match applied.outcome {
            TxnOutcome::Created { stat } | TxnOutcome::DataSet { stat } | TxnOutcome::AclSet { stat } => {
                stat.encode(out);
            }
            TxnOutcome::Error(_)
            | TxnOutcome::Deleted
            | TxnOutcome::Checked
            | TxnOutcome::SessionCreated
            | TxnOutcome::SessionClosed { .. }
            | TxnOutcome::Multi(_)
            | TxnOutcome::Reconfigured { .. } => return Err(ReplyMismatch),
        }
    }
    Ok(())
}

/// The path of a node that exists now. A transaction without effect is a check alone.
fn new_or_old_path(txn: &Txn) -> Result<&str, ReplyMismatch> {
    match txn {
        Txn::Check(check) => Ok(&check.path),
        Txn::Multi(parts) => {
            let [SubTxn(Txn::Check(check))] = &parts[..] else { return Err(ReplyMismatch) };
            Ok(&check.path)
        }
        txn => txn.created_path().ok_or(ReplyMismatch),
    }
}

/// A failed multi has no error in its header: each operation has its own error result.
fn encode_multi(
    ops: &[OpCode],
    roots: &[Box<str>],
    applied: AppliedTxn<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ReplyMismatch> {
    let (TxnOutcome::Multi(outcomes), Txn::Multi(parts)) = (applied.outcome, applied.txn) else {
        return Err(ReplyMismatch);
    };
    if parts.len() != outcomes.len() {
        return Err(ReplyMismatch);
    }
    let (mut results, mut roots) = (parts.iter().zip(outcomes), roots.iter());
    for &op in ops {
        let (SubTxn(part), outcome) = results.next().ok_or(ReplyMismatch)?;
        if op == OpCode::RemoveRecursive {
            let root = roots.next().ok_or(ReplyMismatch)?;
            skip_subtree(root, part, &mut results)?;
        }
        if let TxnOutcome::Error(code) = outcome {
            encode_error_result(ErrorCode::from_wire(*code), out);
            continue;
        }
        encode_result_header(op, out);
        let applied = AppliedTxn { txn: part, outcome };
        match op {
            OpCode::Create => encode_body(&ReplyShape::Path, applied, out)?,
            OpCode::Create2 => encode_body(&ReplyShape::PathAndStat, applied, out)?,
            OpCode::SetData => encode_body(&ReplyShape::Stat, applied, out)?,
            OpCode::CreateIfNotExists => encode_bytes(new_or_old_path(part)?.as_bytes(), out),
            // Wildcard: the results of all other operations have no body.
            _ => {}
        }
    }
    if results.next().is_some() {
        return Err(ReplyMismatch);
    }
    MULTI_END.encode(out);
    Ok(())
}

/// Skips the parts of one removeRecursive behind the first one. The delete of the root is the last of them.
fn skip_subtree<'a>(
    root: &str,
    first: &Txn,
    results: &mut impl Iterator<Item = (&'a SubTxn, &'a TxnOutcome)>,
) -> Result<(), ReplyMismatch> {
    let mut part = first;
    while let Txn::Delete(path) = part
        && **path != *root
    {
        let (SubTxn(next), _) = results.next().ok_or(ReplyMismatch)?;
        part = next;
    }
    Ok(())
}
