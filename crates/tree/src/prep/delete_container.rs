//! deleteContainer: the server removes an empty container or an expired TTL node. The request comes some time
//! after the candidate was found, so it is checked again.

use zebu_proto::ErrorCode;
use zebu_proto::txn::Txn;

use crate::access::PrepareRefusal;
use crate::expiry;
use crate::path;
use crate::prep::scope::PrepareScope;

pub(super) fn prepare(stage: &mut PrepareScope<'_, '_>, path: &str) -> Result<Txn, PrepareRefusal> {
    let (parent_path, _) = path::split_target(path)?;
    if path::is_special(path) {
        return Err(ErrorCode::BadArguments.into());
    }
    let node = stage.get(path)?;
    if node.child_count > 0 {
        return Err(ErrorCode::NotEmpty.into());
    }
    let lifetime = stage.tree.lifetime(node.stat.ephemeral_owner);
    let never_used_ms = stage.context.policy.container_never_used_ms;
    if !expiry::is_over(lifetime, &node.stat, stage.context.header.time_ms, never_used_ms) {
        return Err(ErrorCode::BadVersion.into());
    }
    stage.get(parent_path)?;
    stage.remove(path, &node);
    Ok(Txn::DeleteContainer(path.into()))
}
