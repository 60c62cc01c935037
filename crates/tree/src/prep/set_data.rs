//! setData.

use zebu_proto::client::SetDataRequest;
use zebu_proto::txn::{SetDataTxn, Txn};
use zebu_proto::{ErrorCode, Permissions};

use crate::access::PrepareRefusal;
use crate::path;
use crate::prep::scope::{PrepareScope, next_version};

pub(super) fn prepare(
    stage: &mut PrepareScope<'_, '_>,
    request: SetDataRequest,
) -> Result<Txn, PrepareRefusal> {
    stage.context.session?;
    let path = request.path.ok_or(ErrorCode::BadArguments)?;
    path::validate(&path)?;
    let node = stage.target(&path)?;
    stage.permit(&node.acl, Permissions::WRITE)?;
    stage.tree.check_set_data_quota(&path, node.data_length, &request.data, stage.context.policy)?;
    let version = next_version(node.stat.version, request.version)?;
    let mut after = node.clone();
    after.data_length = request.data.as_ref().map_or(0, |data| data.len());
    after.content = stage.tree.content_checksum(&path, request.data.as_deref());
    after.stat.version = version;
    after.stat.mtime = stage.context.header.time_ms;
    after.stat.mzxid = stage.zxid();
    stage.update(&path, &node, after);
    Ok(Txn::SetData(SetDataTxn { path, data: request.data, version }))
}
