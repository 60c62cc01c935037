//! check: a condition of a multi. Changes nothing.

use zebu_proto::Permissions;
use zebu_proto::client::CheckRequest;
use zebu_proto::txn::{CheckTxn, Txn};

use crate::access::Refusal;
use crate::path;
use crate::prep::stage::{Stage, next_version};

pub(super) fn prepare(stage: &mut Stage<'_, '_>, request: CheckRequest) -> Result<Txn, Refusal> {
    stage.context.session?;
    let path = request.path.ok_or(Refusal::Broken)?;
    path::validate(&path)?;
    let node = stage.get(&path)?;
    stage.permit(&node.acl, Permissions::READ)?;
    // What is stored is one more than what was checked, as every reader of old logs expects.
    let version = next_version(node.stat.version, request.version)?;
    Ok(Txn::Check(CheckTxn { path, version }))
}
