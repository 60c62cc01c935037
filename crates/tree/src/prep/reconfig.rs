//! reconfig: prepares the change of the config node. The membership checks are made in another crate.

use zebu_proto::txn::{SetDataTxn, Txn};
use zebu_proto::{ErrorCode, Permissions};

use crate::access::PrepareRefusal;
use crate::path::CONFIG;
use crate::prep::Reconfig;
use crate::prep::scope::PrepareScope;

/// The data version that the configuration always has.
const CONFIG_VERSION: i32 = -1;

pub(super) fn prepare(stage: &mut PrepareScope<'_, '_>) -> Result<Txn, PrepareRefusal> {
    let context = stage.context;
    if context.reconfig == Reconfig::Disabled {
        return Err(ErrorCode::ReconfigDisabled.into());
    }
    context.session?;
    let data = match &context.reconfig {
        Reconfig::Disabled => return Err(ErrorCode::ReconfigDisabled.into()),
        Reconfig::Refused(code) => return Err((*code).into()),
        Reconfig::Accepted(text) => text.clone(),
    };
    let node = stage.get(CONFIG)?;
    stage.permit(&node.acl, Permissions::WRITE)?;
    let mut after = node.clone();
    after.data_length = data.as_ref().map_or(0, |data| data.len());
    after.content = stage.tree.content_checksum(CONFIG, data.as_deref());
    after.stat.version = CONFIG_VERSION;
    after.stat.mtime = context.header.time_ms;
    after.stat.mzxid = stage.zxid();
    stage.update(CONFIG, &node, after);
    Ok(Txn::Reconfig(SetDataTxn { path: CONFIG.into(), data, version: CONFIG_VERSION }))
}
