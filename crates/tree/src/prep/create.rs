//! create, create2, createContainer, createTTL.

use zebu_proto::client::{CreateMode, CreateOp, CreateRequest};
use zebu_proto::txn::{CreateContainerTxn, CreateTtlTxn, CreateTxn, Txn};
use zebu_proto::{ErrorCode, Permissions, StatPersisted};

use crate::access::PrepareRefusal;
use crate::options::TtlNodes;
use crate::owner::{self, CONTAINER_OWNER, TTL_MAX_MS};
use crate::path;
use crate::prep::scope::PrepareScope;
use crate::quota;

pub(super) fn prepare(
    stage: &mut PrepareScope<'_, '_>,
    mut request: CreateRequest,
) -> Result<Txn, PrepareRefusal> {
    let mode = check_flags(stage, &request)?;
    if mode.is_ephemeral() { stage.context.ephemeral_session } else { stage.context.session }?;
    let requested = request.path.take().ok_or(PrepareRefusal::Broken)?;
    let (parent_path, _) = path::split_target(&requested)?;
    if quota::breaks_apache(&requested) && !mode.is_sequential() {
        return Err(ErrorCode::BadArguments.into());
    }
    let acl = stage.fixup_acl(request.acl.take())?;
    let parent = stage.get(parent_path).map_err(|error| stage.reserved_or(&requested, error))?;
    stage.permit(&parent.acl, Permissions::CREATE)?;
    let numbered: Option<Box<str>> =
        mode.is_sequential().then(|| format!("{requested}{:010}", parent.stat.cversion).into());
    let path = numbered.as_deref().unwrap_or(&requested);
    path::validate(path)?;
    if stage.exists(path) {
        return Err(ErrorCode::NodeExists.into());
    }
    if stage.is_virtual(path) {
        return Err(ErrorCode::BadArguments.into());
    }
    if parent.session.is_some() {
        return Err(ErrorCode::NoChildrenForEphemerals.into());
    }
    stage.tree.check_create_quota(path, &request.data, stage.context.policy)?;

    let owner = owner_of(&request, mode, stage.context.header.session.0);
    let (zxid, time) = (stage.zxid(), stage.context.header.time_ms);
    let parent_cversion = parent.stat.cversion.wrapping_add(1);
    let mut parent_after = parent.clone();
    parent_after.child_count += 1;
    // As in apply: cversion never goes back, not even when it overflows.
    if parent_cversion > parent.stat.cversion {
        parent_after.stat.cversion = parent_cversion;
        parent_after.stat.pzxid = zxid;
    }
    stage.update(parent_path, &parent, parent_after);
    let stat = StatPersisted {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime: time,
        mtime: time,
        ephemeral_owner: owner,
        ..StatPersisted::default()
    };
    stage.insert(path, &request.data, &acl, stat);

    let path = numbered.unwrap_or(requested);
    let (data, acl, ttl_ms) = (request.data, Some(acl), request.ttl_ms);
    let ephemeral = mode.is_ephemeral();
    Ok(match request.op {
        CreateOp::Create => Txn::Create(CreateTxn { path, data, acl, ephemeral, parent_cversion }),
        CreateOp::Create2 => Txn::Create2(CreateTxn { path, data, acl, ephemeral, parent_cversion }),
        CreateOp::Container => Txn::CreateContainer(CreateContainerTxn { path, data, acl, parent_cversion }),
        CreateOp::Ttl => Txn::CreateTtl(CreateTtlTxn { path, data, acl, parent_cversion, ttl_ms }),
    })
}

/// Flags and time to live must fit each other and the operation.
fn check_flags(stage: &PrepareScope<'_, '_>, request: &CreateRequest) -> Result<CreateMode, ErrorCode> {
    let mode = CreateMode::from_flags(request.flags).ok_or(ErrorCode::BadArguments)?;
    if mode.has_ttl() {
        match stage.tree.options.ttl_nodes {
            TtlNodes::Disabled => return Err(ErrorCode::Unimplemented),
            TtlNodes::Enabled | TtlNodes::Emulate353 => {}
        }
        if !(1..=TTL_MAX_MS).contains(&request.ttl_ms) {
            return Err(ErrorCode::BadArguments);
        }
        // A TTL node comes from createTTL only; the other operations carry no time to live.
        if request.op != CreateOp::Ttl {
            return Err(ErrorCode::BadArguments);
        }
    } else if request.op == CreateOp::Ttl || request.ttl_ms >= 0 {
        return Err(ErrorCode::BadArguments);
    }
    Ok(mode)
}

/// The operation determines the kind of node; the flags only say whether a plain one is ephemeral.
fn owner_of(request: &CreateRequest, mode: CreateMode, session: i64) -> i64 {
    match request.op {
        CreateOp::Create | CreateOp::Create2 => {
            if mode.is_ephemeral() {
                session
            } else {
                0
            }
        }
        CreateOp::Container => CONTAINER_OWNER,
        CreateOp::Ttl => owner::ttl_owner(request.ttl_ms),
    }
}
