//! The writes and checks of ClickHouse Keeper, as transactions that every ZooKeeper server applies. A write
//! that finds nothing to do becomes a check, which changes nothing.

use zebu_proto::client::create::CreateMode;
use zebu_proto::client::{
    CheckRequest, CheckStatRequest, CreateRequest, DeleteRequest, KeeperCheck, KeeperPart, KeeperWrite,
    RemoveRecursiveRequest,
};
use zebu_proto::txn::{CheckTxn, SubTxn, Txn};
use zebu_proto::{ErrorCode, Permissions};

use crate::access::PrepareRefusal;
use crate::path;
use crate::prep::scope::PrepareScope;
use crate::prep::subtree::SubtreeNodes;
use crate::prep::{create, delete};

/// The transactions of one request.
pub(super) enum Lowered {
    /// As those of ZooKeeper's request.
    One(Txn),
    /// The path of a request without effect.
    Nothing(Box<str>),
    /// Deletes, leaves first.
    Deletes(Vec<SubTxn>),
}

impl Lowered {
    /// The transaction of a request outside a multi. A check at the top level is no transaction: ZooKeeper
    /// servers do not decode it.
    fn into_txn(self) -> Txn {
        match self {
            Lowered::One(txn) => txn,
            Lowered::Nothing(path) => Txn::Multi(vec![no_effect(path)]),
            Lowered::Deletes(parts) => Txn::Multi(parts),
        }
    }

    /// Appends the parts of a multi.
    pub(super) fn add_to(self, parts: &mut Vec<SubTxn>) {
        match self {
            Lowered::One(txn) => parts.push(SubTxn(txn)),
            Lowered::Nothing(path) => parts.push(no_effect(path)),
            Lowered::Deletes(deletes) => parts.extend(deletes),
        }
    }
}

fn no_effect(path: Box<str>) -> SubTxn {
    SubTxn(Txn::Check(CheckTxn { path, version: 0 }))
}

pub(super) fn prepare(stage: &mut PrepareScope<'_, '_>, request: KeeperWrite) -> Result<Txn, PrepareRefusal> {
    Ok(prepare_write(stage, request)?.into_txn())
}

pub(super) fn prepare_part(
    stage: &mut PrepareScope<'_, '_>,
    part: KeeperPart,
) -> Result<Lowered, PrepareRefusal> {
    match part {
        KeeperPart::Write(write) => prepare_write(stage, write),
        KeeperPart::Check(KeeperCheck::NotExists(request)) => check_not_exists(stage, request),
        KeeperPart::Check(KeeperCheck::Stat(request)) => check_stat(stage, *request),
    }
}

fn prepare_write(stage: &mut PrepareScope<'_, '_>, request: KeeperWrite) -> Result<Lowered, PrepareRefusal> {
    match request {
        KeeperWrite::CreateIfNotExists(request) => create_if_not_exists(stage, request),
        KeeperWrite::RemoveRecursive(request) => remove_recursive(stage, request),
        KeeperWrite::TryRemove(request) => try_remove(stage, request),
    }
}

/// The order of the checks is Keeper's: an existing node hides an invalid ACL, but no missing permission.
fn create_if_not_exists(
    stage: &mut PrepareScope<'_, '_>,
    request: CreateRequest,
) -> Result<Lowered, PrepareRefusal> {
    stage.context.session?;
    let path = request.path.as_deref().ok_or(PrepareRefusal::Broken)?;
    let (parent_path, _) = path::split_target(path)?;
    let parent = stage.get(parent_path).map_err(|error| stage.reserved_or(path, error))?;
    stage.permit(&parent.acl, Permissions::CREATE)?;
    if parent.session.is_some() {
        return Err(ErrorCode::NoChildrenForEphemerals.into());
    }
    // Sequential nodes never exist, and other kinds of nodes have requests of their own.
    if !matches!(CreateMode::from_flags(request.flags), Some(CreateMode::Persistent | CreateMode::Ephemeral))
    {
        return Err(ErrorCode::BadArguments.into());
    }
    if stage.exists(path) {
        return Ok(Lowered::Nothing(path.into()));
    }
    create::prepare(stage, request).map(Lowered::One)
}

fn try_remove(stage: &mut PrepareScope<'_, '_>, request: DeleteRequest) -> Result<Lowered, PrepareRefusal> {
    let path = request.path.clone().ok_or(PrepareRefusal::Broken)?;
    match delete::prepare(stage, request) {
        Err(PrepareRefusal::Failed(ErrorCode::NoNode | ErrorCode::BadVersion | ErrorCode::NotEmpty)) => {
            path::validate(&path)?;
            Ok(Lowered::Nothing(path))
        }
        prepared => prepared.map(Lowered::One),
    }
}

fn remove_recursive(
    stage: &mut PrepareScope<'_, '_>,
    request: RemoveRecursiveRequest,
) -> Result<Lowered, PrepareRefusal> {
    stage.context.session?;
    let root = request.path.ok_or(PrepareRefusal::Broken)?;
    path::validate(&root)?;
    let (parent_path, _) = path::split_target(&root)?;
    if path::is_of_the_system(&root) {
        return Err(ErrorCode::BadArguments.into());
    }
    let Ok(parent) = stage.get(parent_path) else { return Ok(Lowered::Nothing(root)) };
    stage.permit(&parent.acl, Permissions::DELETE)?;
    if !stage.exists(&root) {
        return Ok(Lowered::Nothing(root));
    }
    let nodes_max = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let nodes = SubtreeNodes::collect(stage, &root, nodes_max)?;
    let mut parts = Vec::with_capacity(nodes.paths.len());
    for path in nodes.paths {
        let txn = delete::prepare(stage, DeleteRequest { path: Some(path), version: -1 })?;
        parts.push(SubTxn(txn));
    }
    Ok(Lowered::Deletes(parts))
}

/// A node with another version is no reason to fail.
fn check_not_exists(
    stage: &mut PrepareScope<'_, '_>,
    request: CheckRequest,
) -> Result<Lowered, PrepareRefusal> {
    stage.context.session?;
    let path = request.path.ok_or(PrepareRefusal::Broken)?;
    path::validate(&path)?;
    let (parent_path, _) = path::split_target(&path)?;
    if let Ok(parent) = stage.get(parent_path) {
        stage.permit(&parent.acl, Permissions::READ)?;
    }
    match stage.get(&path) {
        Ok(node) if request.version == -1 || request.version == node.stat.version => {
            Err(ErrorCode::NodeExists.into())
        }
        Ok(_) | Err(_) => Ok(Lowered::Nothing(path)),
    }
}

fn check_stat(
    stage: &mut PrepareScope<'_, '_>,
    request: CheckStatRequest,
) -> Result<Lowered, PrepareRefusal> {
    stage.context.session?;
    let path = request.path.as_deref().ok_or(PrepareRefusal::Broken)?;
    path::validate(path)?;
    let node = stage.get(path)?;
    stage.permit(&node.acl, Permissions::READ)?;
    if !request.accepts(&stage.visible_stat(&node)) {
        return Err(ErrorCode::BadVersion.into());
    }
    Ok(Lowered::Nothing(path.into()))
}
