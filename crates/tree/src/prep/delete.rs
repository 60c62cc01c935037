//! delete.

use zebu_proto::client::DeleteRequest;
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, Permissions};

use crate::access::PrepareRefusal;
use crate::path;
use crate::prep::scope::{PrepareScope, next_version};

pub(super) fn prepare(
    stage: &mut PrepareScope<'_, '_>,
    request: DeleteRequest,
) -> Result<Txn, PrepareRefusal> {
    stage.context.session?;
    let path = request.path.ok_or(PrepareRefusal::Broken)?;
    let (parent_path, _) = path::split_target(&path)?;
    if path::is_special(&path) {
        return Err(ErrorCode::BadArguments.into());
    }
    let parent = stage.get(parent_path).map_err(|error| stage.reserved_or(&path, error))?;
    stage.permit(&parent.acl, Permissions::DELETE)?;
    let node = stage.target(&path)?;
    next_version(node.stat.version, request.version)?;
    if node.child_count > 0 {
        return Err(ErrorCode::NotEmpty.into());
    }
    stage.remove(&path, &node);
    Ok(Txn::Delete(path))
}
