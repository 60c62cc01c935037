//! A second, independent implementation of the tree of znodes. It keeps every state by zxid, so that a reply
//! can be compared with the state that it claims to come from.
//!
//! It shares only the wire records with the tree under test.

mod delete_tree;
mod keeper;
mod read;
mod reconfig;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use zebu_proto::{Permissions, SessionId, Stat};

use crate::operation::NodePath;

pub(crate) use read::ExpectedRead;
pub(crate) use reconfig::ModelReconfig;
pub(crate) use write::{ModelChange, ModelEffect, Privilege, SessionScope, TxnContext};

/// The lifetime of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelLifetime {
    UntilDeleted,
    WithSession(SessionId),
    /// Until it is empty again (a container).
    WhileUsed,
}

/// A node as it was after some transaction.
#[derive(Clone, Debug)]
pub(crate) struct ModelNode {
    pub(crate) data: Option<Arc<[u8]>>,
    pub(crate) permissions: i32,
    pub(crate) created: (i64, i64),
    pub(crate) modified: (i64, i64),
    pub(crate) version: i32,
    pub(crate) acl_version: i32,
    /// How many children were ever created.
    pub(crate) births: i32,
    pub(crate) children_changed: i64,
    pub(crate) stays: ModelLifetime,
    pub(crate) children: Rc<BTreeSet<Box<str>>>,
}

impl ModelNode {
    /// As clients see it.
    pub(crate) fn stat(&self) -> Stat {
        let children = self.children.len() as i32;
        let owner = match self.stays {
            ModelLifetime::WithSession(session) => session.0,
            ModelLifetime::UntilDeleted | ModelLifetime::WhileUsed => 0,
        };
        Stat {
            czxid: self.created.0,
            mzxid: self.modified.0,
            ctime: self.created.1,
            mtime: self.modified.1,
            version: self.version,
            // Creations and deletions.
            cversion: self.births + (self.births - children),
            aversion: self.acl_version,
            ephemeral_owner: owner,
            data_length: self.data.as_ref().map_or(0, |data| data.len() as i32),
            num_children: children,
            pzxid: self.children_changed,
        }
    }
}

/// All states of one path, oldest first.
type NodeVersions = Vec<(i64, Option<Rc<ModelNode>>)>;

/// The tree as it was after every transaction.
#[derive(Debug, Default)]
pub(crate) struct Model {
    nodes: BTreeMap<NodePath, NodeVersions>,
    sessions: BTreeMap<SessionId, ModelSession>,
    /// The changes that fire watches, in order.
    changes: Vec<(i64, NodePath, ModelChange)>,
    /// The paths that the last transaction with a change has changed.
    touched: (i64, Vec<NodePath>),
}

/// The zxid at which a session was closed, if it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelSession {
    pub(crate) closed: Option<i64>,
}

impl Model {
    /// The initial tree of a server, as `stat` reports it.
    pub(crate) fn new(mut initial: impl FnMut(&str) -> Option<(Stat, i32, Vec<Box<str>>)>) -> Model {
        let mut model = Model::default();
        for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
            let Some((stat, permissions, children)) = initial(path) else { continue };
            let node = ModelNode {
                data: Some(Arc::from([])),
                permissions,
                created: (stat.czxid, stat.ctime),
                modified: (stat.mzxid, stat.mtime),
                version: stat.version,
                acl_version: stat.aversion,
                births: (stat.cversion + stat.num_children) / 2,
                children_changed: stat.pzxid,
                stays: ModelLifetime::UntilDeleted,
                children: Rc::new(children.into_iter().collect()),
            };
            model.nodes.insert(NodePath::from(path), vec![(0, Some(Rc::new(node)))]);
        }
        model
    }

    /// The node after the last transaction.
    pub(crate) fn now(&self, path: &str) -> Option<&Rc<ModelNode>> {
        self.nodes.get(path)?.last()?.1.as_ref()
    }

    /// The node after a transaction.
    pub(crate) fn at(&self, path: &str, zxid: i64) -> Option<&Rc<ModelNode>> {
        let versions = self.nodes.get(path)?;
        let count = versions.partition_point(|(since, _)| *since <= zxid);
        versions[..count].last()?.1.as_ref()
    }

    /// Whether a node exists, without a break, after each transaction from one to another, and every client
    /// may read it all the time.
    pub(crate) fn is_steady(&self, path: &str, from: i64, to: i64) -> bool {
        let (Some(first), Some(versions)) = (self.at(path, from), self.nodes.get(path)) else { return false };
        let later = versions.iter().filter(|(since, _)| *since > from && *since <= to);
        let is_same =
            |node: &ModelNode| node.created == first.created && node.permissions & Permissions::READ != 0;
        is_same(first) && later.map(|(_, node)| node).all(|node| node.as_deref().is_some_and(is_same))
    }

    /// Every path that ever existed.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &NodePath> {
        self.nodes.keys()
    }

    /// The lifetime of a session.
    pub(crate) fn session(&self, session: SessionId) -> Option<ModelSession> {
        self.sessions.get(&session).copied()
    }

    /// Sessions that are open after the last transaction.
    pub(crate) fn open_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().filter(|(_, life)| life.closed.is_none()).map(|(&id, _)| id)
    }

    /// The changes after one zxid, up to another one, in order.
    pub(crate) fn changes(&self, behind: i64, up_to: i64) -> &[(i64, NodePath, ModelChange)] {
        let from = self.changes.partition_point(|(zxid, ..)| *zxid <= behind);
        let to = self.changes.partition_point(|(zxid, ..)| *zxid <= up_to);
        &self.changes[from..to.max(from)]
    }
}

/// The parent path; `None` for the root.
pub(crate) fn parent_of(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() == 1 => None,
        0 => Some("/"),
        at => Some(&path[..at]),
    }
}

pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
