//! setACL. Later requests are checked against the new ACL, even before it is applied.

use zebu_proto::client::SetAclRequest;
use zebu_proto::txn::{SetAclTxn, Txn};
use zebu_proto::{ErrorCode, Permissions};

use crate::access::PrepareRefusal;
use crate::path;
use crate::prep::scope::{PrepareScope, next_version};

pub(super) fn prepare(
    stage: &mut PrepareScope<'_, '_>,
    request: SetAclRequest,
) -> Result<Txn, PrepareRefusal> {
    stage.context.session?;
    let path = request.path.ok_or(ErrorCode::BadArguments)?;
    path::validate(&path)?;
    let acl = stage.fixup_acl(request.acl)?;
    let node = stage.target(&path)?;
    stage.permit(&node.acl, Permissions::ADMIN)?;
    let version = next_version(node.stat.aversion, request.version)?;
    let mut after = node.clone();
    after.acl = stage.shared_acl(&acl);
    after.stat.aversion = version;
    stage.update(&path, &node, after);
    Ok(Txn::SetAcl(SetAclTxn { path, acl: Some(acl), version }))
}
