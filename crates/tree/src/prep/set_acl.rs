//! setACL. Requests that follow are checked against the new list, even before it is applied.

use zebu_proto::client::SetAclRequest;
use zebu_proto::txn::{SetAclTxn, Txn};
use zebu_proto::{ErrorCode, Permissions};

use crate::access::Refusal;
use crate::path;
use crate::prep::stage::{Stage, next_version};

pub(super) fn prepare(stage: &mut Stage<'_, '_>, request: SetAclRequest) -> Result<Txn, Refusal> {
    stage.context.session?;
    let path = request.path.ok_or(ErrorCode::BadArguments)?;
    path::validate(&path)?;
    let acl = stage.fixup_acl(request.acl)?;
    let node = stage.get(&path)?;
    stage.permit(&node.acl, Permissions::ADMIN)?;
    let version = next_version(node.stat.aversion, request.version)?;
    let mut after = node.clone();
    after.acl = stage.shared_acl(&acl);
    after.stat.aversion = version;
    stage.update(&path, &node, after);
    Ok(Txn::SetAcl(SetAclTxn { path, acl: Some(acl), version }))
}
