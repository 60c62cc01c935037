//! multi: all or nothing, and one transaction either way.

use zebu_proto::ErrorCode;
use zebu_proto::client::MultiOp;
use zebu_proto::txn::{SubTxn, Txn};

use crate::access::PrepareRefusal;
use crate::prep::keeper::Lowered;
use crate::prep::scope::PrepareScope;
use crate::prep::{check, create, delete, keeper, set_data};

pub(super) fn prepare(stage: &mut PrepareScope<'_, '_>, ops: Vec<MultiOp>) -> Result<Txn, PrepareRefusal> {
    // A null path is found before the first operation is checked.
    if ops.iter().any(|op| op.path().is_none()) {
        return Err(PrepareRefusal::Broken);
    }
    let mut parts = Vec::with_capacity(ops.len());
    let mut failed = false;
    // Counted on the way: expanded ACLs can make a short request very long.
    let mut bytes = 0;
    for op in ops {
        if failed {
            parts.push(SubTxn(Txn::error(ErrorCode::RuntimeInconsistency)));
            continue;
        }
        match prepare_part(stage, op) {
            Ok(prepared) => {
                // One part, but for a removeRecursive: that is one per node.
                let before = parts.len();
                prepared.add_to(&mut parts);
                bytes += parts.iter().skip(before).map(SubTxn::encoded_length).sum::<usize>();
                if bytes > stage.context.policy.transaction_bytes_max {
                    return Err(PrepareRefusal::TooLong { bytes });
                }
            }
            Err(refusal @ (PrepareRefusal::Broken | PrepareRefusal::TooLong { .. })) => return Err(refusal),
            Err(PrepareRefusal::Failed(code)) => {
                stage.roll_back();
                parts.push(SubTxn(Txn::error(code)));
                failed = true;
            }
        }
    }
    Ok(Txn::Multi(parts))
}

fn prepare_part(stage: &mut PrepareScope<'_, '_>, op: MultiOp) -> Result<Lowered, PrepareRefusal> {
    Ok(Lowered::One(match op {
        // Servers of older releases know create only; the body is the same.
        MultiOp::Create(request) => match create::prepare(stage, request)? {
            Txn::Create2(create) => Txn::Create(create),
            txn => txn,
        },
        MultiOp::Delete(request) => delete::prepare(stage, request)?,
        MultiOp::SetData(request) => set_data::prepare(stage, request)?,
        MultiOp::Check(request) => check::prepare(stage, request)?,
        MultiOp::Keeper(part) => return keeper::prepare_part(stage, *part),
    }))
}
