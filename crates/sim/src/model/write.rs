//! Writes of the model: the effect of a request at its zxid, and its required reply.

use std::collections::BTreeMap;
use std::rc::Rc;

use zebu_proto::client::{CreateMode, CreateOp};
use zebu_proto::{ErrorCode, Permissions, SessionId, Stat};

use super::{Model, ModelLifetime, ModelNode, ModelSession, name_of, parent_of};
use crate::operation::{NodePath, WriteOperation};

/// The change of a node, for watchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelChange {
    Created,
    Deleted,
    Data,
    Children,
}

/// The effect of a write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ModelEffect {
    /// No effect.
    Error(ErrorCode),
    Created {
        path: NodePath,
        stat: Stat,
        answer: CreateOp,
    },
    Deleted {
        path: NodePath,
    },
    Set {
        path: NodePath,
        stat: Stat,
    },
    AclSet {
        path: NodePath,
        stat: Stat,
    },
    Reconfigured {
        data: std::sync::Arc<[u8]>,
        stat: Stat,
    },
    Checked,
    /// The node of a createIfNotExists existed.
    Existed {
        path: NodePath,
    },
    /// A part of a subtree was deleted.
    TreeDeleted {
        deleted: i64,
        more: bool,
    },
}

/// The context of a transaction: zxid, time, session and privilege.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxnContext {
    pub(crate) zxid: i64,
    pub(crate) time_ms: i64,
    pub(crate) session: SessionId,
    pub(crate) privilege: Privilege,
    pub(crate) scope: SessionScope,
    /// The bytes that deletes of one request may have.
    pub(crate) deletes_bytes_max: usize,
}

/// The servers that know a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionScope {
    Ensemble,
    /// One server: the session is local and has no transaction.
    OneServer,
}

/// Whether ACLs apply to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    Common,
    Super,
}

/// Nodes that a transaction changes or deletes.
pub(super) type ChangedNodes = BTreeMap<NodePath, Option<Rc<ModelNode>>>;

/// Changes that are not in the model yet.
pub(super) struct ModelOverlay<'a> {
    model: &'a Model,
    pub(super) txn: TxnContext,
    changed: ChangedNodes,
    events: Vec<(NodePath, ModelChange)>,
}

impl<'a> ModelOverlay<'a> {
    pub(super) fn new(model: &'a Model, txn: TxnContext) -> ModelOverlay<'a> {
        ModelOverlay { model, txn, changed: BTreeMap::new(), events: Vec::new() }
    }

    /// The changed nodes and the changes that fire watches.
    pub(super) fn into_changes(self) -> (ChangedNodes, Vec<(NodePath, ModelChange)>) {
        (self.changed, self.events)
    }

    pub(super) fn get(&self, path: &str) -> Option<Rc<ModelNode>> {
        match self.changed.get(path) {
            Some(node) => node.clone(),
            None => self.model.now(path).cloned(),
        }
    }

    fn put(&mut self, path: &str, node: Option<ModelNode>) {
        self.changed.insert(NodePath::from(path), node.map(Rc::new));
    }

    fn run(&mut self, write: &WriteOperation) -> Result<ModelEffect, ErrorCode> {
        match write {
            WriteOperation::Create { path, data, mode, op, permissions } => {
                self.create(path, data, *mode, *op, *permissions)
            }
            WriteOperation::Delete { path, version } => self.delete(path, *version),
            WriteOperation::Keeper(part) => self.keeper(part),
            WriteOperation::Set { path, data, version } => {
                let mut node = self.permitted(path, Permissions::WRITE)?;
                checked(node.version, *version)?;
                node.data = Some(data.clone());
                node.version += 1;
                node.modified = (self.txn.zxid, self.txn.time_ms);
                let stat = node.stat();
                self.put(path, Some(node));
                self.events.push((path.clone(), ModelChange::Data));
                Ok(ModelEffect::Set { path: path.clone(), stat })
            }
            WriteOperation::Check { path, version } => {
                let node = self.permitted(path, Permissions::READ)?;
                checked(node.version, *version)?;
                Ok(ModelEffect::Checked)
            }
            WriteOperation::SetAcl { path, permissions, version } => {
                let mut node = self.permitted(path, Permissions::ADMIN)?;
                checked(node.acl_version, *version)?;
                node.permissions = *permissions;
                node.acl_version += 1;
                let stat = node.stat();
                self.put(path, Some(node));
                Ok(ModelEffect::AclSet { path: path.clone(), stat })
            }
        }
    }

    /// A copy of a node if every client has the permission.
    pub(super) fn permitted(&self, path: &str, permission: i32) -> Result<ModelNode, ErrorCode> {
        let node = self.get(path).ok_or(ErrorCode::NoNode)?;
        if node.permissions & permission == 0 && self.txn.privilege == Privilege::Common {
            return Err(ErrorCode::NoAuth);
        }
        Ok((*node).clone())
    }

    pub(super) fn create(
        &mut self,
        asked: &NodePath,
        data: &std::sync::Arc<[u8]>,
        mode: CreateMode,
        op: CreateOp,
        permissions: i32,
    ) -> Result<ModelEffect, ErrorCode> {
        if mode.is_ephemeral() && self.txn.scope == SessionScope::OneServer {
            return Err(ErrorCode::EphemeralOnLocalSession);
        }
        let above = parent_of(asked).ok_or(ErrorCode::NodeExists)?;
        let mut parent = self.permitted(above, Permissions::CREATE)?;
        let path: NodePath =
            if mode.is_sequential() { format!("{asked}{:010}", parent.births).into() } else { asked.clone() };
        if self.get(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.stays, ModelLifetime::WithSession(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let stays = match mode {
            _ if mode.is_ephemeral() => ModelLifetime::WithSession(self.txn.session),
            CreateMode::Container => ModelLifetime::WhileUsed,
            _ => ModelLifetime::UntilDeleted,
        };
        let here = (self.txn.zxid, self.txn.time_ms);
        let node = ModelNode {
            data: Some(data.clone()),
            permissions,
            created: here,
            modified: here,
            version: 0,
            acl_version: 0,
            births: 0,
            children_changed: here.0,
            stays,
            children: Rc::default(),
        };
        let stat = node.stat();
        parent.births += 1;
        parent.children_changed = here.0;
        Rc::make_mut(&mut parent.children).insert(name_of(&path).into());
        self.put(above, Some(parent));
        self.put(&path, Some(node));
        self.events.push((path.clone(), ModelChange::Created));
        self.events.push((NodePath::from(above), ModelChange::Children));
        Ok(ModelEffect::Created { path, stat, answer: op })
    }

    pub(super) fn delete(&mut self, path: &NodePath, version: i32) -> Result<ModelEffect, ErrorCode> {
        let above = parent_of(path).ok_or(ErrorCode::BadArguments)?;
        // The parent is checked first, and its ACL applies.
        self.permitted(above, Permissions::DELETE)?;
        let node = self.get(path).ok_or(ErrorCode::NoNode)?;
        checked(node.version, version)?;
        if !node.children.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.remove(path);
        Ok(ModelEffect::Deleted { path: path.clone() })
    }

    fn remove(&mut self, path: &NodePath) {
        let Some(above) = parent_of(path) else { return };
        if let Some(parent) = self.get(above) {
            let mut parent = (*parent).clone();
            parent.children_changed = self.txn.zxid;
            Rc::make_mut(&mut parent.children).remove(name_of(path));
            self.put(above, Some(parent));
        }
        self.put(path, None);
        self.events.push((path.clone(), ModelChange::Deleted));
        self.events.push((NodePath::from(above), ModelChange::Children));
    }
}

/// Checks that an expected version is the current one.
pub(super) fn checked(found: i32, asked: i32) -> Result<(), ErrorCode> {
    if asked == -1 || asked == found { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

impl Model {
    /// Executes a request as a whole or not at all. The effects are one per write; if one is an error, no
    /// write was executed and only the first error counts.
    pub(crate) fn execute(&mut self, place: TxnContext, writes: &[WriteOperation]) -> Vec<ModelEffect> {
        if !self.may_write(place) {
            return vec![ModelEffect::Error(ErrorCode::SessionExpired)];
        }
        let mut stage = ModelOverlay::new(self, place);
        let mut effects = Vec::new();
        let mut failed = false;
        for write in writes {
            let effect = stage.run(write).unwrap_or_else(ModelEffect::Error);
            failed = failed || matches!(effect, ModelEffect::Error(_));
            effects.push(effect);
            if failed {
                break;
            }
        }
        if !failed {
            let (changed, events) = stage.into_changes();
            self.commit(place.zxid, changed, events);
        }
        effects
    }

    /// Whether the session of a request is open, as far as the history says.
    pub(super) fn may_write(&self, place: TxnContext) -> bool {
        place.scope == SessionScope::OneServer
            || self.session(place.session).is_some_and(|life| life.closed.is_none())
    }

    pub(super) fn commit(&mut self, zxid: i64, changed: ChangedNodes, events: Vec<(NodePath, ModelChange)>) {
        self.touched = (zxid, changed.keys().cloned().collect());
        for (path, node) in changed {
            self.nodes.entry(path).or_default().push((zxid, node));
        }
        self.changes.extend(events.into_iter().map(|(path, change)| (zxid, path, change)));
    }

    /// A session begins.
    pub(crate) fn open_session(&mut self, session: SessionId) {
        self.sessions.insert(session, ModelSession { closed: None });
    }

    /// A session ends. Returns its deleted nodes.
    pub(crate) fn close_session(&mut self, place: TxnContext) -> Vec<NodePath> {
        let Some(life) = self.sessions.get_mut(&place.session).filter(|life| life.closed.is_none()) else {
            return Vec::new();
        };
        life.closed = Some(place.zxid);
        let owned = |node: &Rc<ModelNode>| node.stays == ModelLifetime::WithSession(place.session);
        let paths: Vec<NodePath> = self
            .nodes
            .iter()
            .filter(|(_, versions)| versions.last().is_some_and(|(_, it)| it.as_ref().is_some_and(owned)))
            .map(|(path, _)| path.clone())
            .collect();
        self.remove_all(place, &paths);
        paths
    }

    /// The server removes an empty container. False if it is none.
    pub(crate) fn remove_container(&mut self, place: TxnContext, path: &NodePath) -> bool {
        let removable = |node: &Rc<ModelNode>| {
            node.stays == ModelLifetime::WhileUsed && node.children.is_empty() && node.births > 0
        };
        if !self.now(path).is_some_and(removable) {
            return false;
        }
        self.remove_all(place, std::slice::from_ref(path));
        true
    }

    fn remove_all(&mut self, place: TxnContext, paths: &[NodePath]) {
        let mut stage = ModelOverlay::new(self, place);
        for path in paths {
            stage.remove(path);
        }
        let (changed, events) = stage.into_changes();
        self.commit(place.zxid, changed, events);
    }

    /// Paths that a transaction has changed, if it is the last one that has changed anything.
    pub(crate) fn changed_at(&self, zxid: i64) -> &[NodePath] {
        if self.touched.0 == zxid { &self.touched.1 } else { &[] }
    }
}
