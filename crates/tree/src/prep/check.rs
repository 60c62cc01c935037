//! check: a condition of a multi. Changes nothing.

use zebu_proto::Permissions;
use zebu_proto::client::CheckRequest;
use zebu_proto::txn::{CheckTxn, Txn};

use crate::access::PrepareRefusal;
use crate::path;
use crate::prep::scope::{PrepareScope, next_version};

pub(super) fn prepare(
    stage: &mut PrepareScope<'_, '_>,
    request: CheckRequest,
) -> Result<Txn, PrepareRefusal> {
    stage.context.session?;
    let path = request.path.ok_or(PrepareRefusal::Broken)?;
    path::validate(&path)?;
    let node = stage.get(&path)?;
    stage.permit(&node.acl, Permissions::READ)?;
    // The stored version is one more than the checked one, as every reader of old logs expects.
    let version = next_version(node.stat.version, request.version)?;
    Ok(Txn::Check(CheckTxn { path, version }))
}
