//! What a tree of znodes should be, written a second time and differently: every state that ever was is
//! kept by transaction, so that an answer can be compared with the state that it claims to come from.
//!
//! It shares nothing with the tree under test but the records of the wire.

mod read;
mod reconfig;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use zebu_proto::{SessionId, Stat};

use crate::operation::Path;

pub(crate) use read::Expected;
pub(crate) use reconfig::Request;
pub(crate) use write::{Change, Effect, Place, Standing};

/// How long a node stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    UntilDeleted,
    WithSession(SessionId),
    /// Until it is empty again.
    WhileUsed,
}

/// A node as it was after some transaction.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Option<Arc<[u8]>>,
    pub(crate) permissions: i32,
    pub(crate) created: (i64, i64),
    pub(crate) modified: (i64, i64),
    pub(crate) version: i32,
    pub(crate) acl_version: i32,
    /// How many children were ever created.
    pub(crate) births: i32,
    pub(crate) children_changed: i64,
    pub(crate) stays: Stays,
    pub(crate) children: Rc<BTreeSet<Box<str>>>,
}

impl Node {
    /// As clients see it.
    pub(crate) fn stat(&self) -> Stat {
        let children = self.children.len() as i32;
        let owner = match self.stays {
            Stays::WithSession(session) => session.0,
            Stays::UntilDeleted | Stays::WhileUsed => 0,
        };
        Stat {
            czxid: self.created.0,
            mzxid: self.modified.0,
            ctime: self.created.1,
            mtime: self.modified.1,
            version: self.version,
            // Births and deaths.
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
type Versions = Vec<(i64, Option<Rc<Node>>)>;

/// The tree as it was after every transaction.
#[derive(Debug, Default)]
pub(crate) struct Model {
    nodes: BTreeMap<Path, Versions>,
    sessions: BTreeMap<SessionId, SessionLife>,
    /// What watchers could have seen, in order.
    changes: Vec<(i64, Path, Change)>,
    /// What the last transaction that changed something has changed.
    touched: (i64, Vec<Path>),
}

/// When a session was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLife {
    pub(crate) closed: Option<i64>,
}

impl Model {
    /// The tree of a server that has seen nothing, as `stat` reports it.
    pub(crate) fn new(mut initial: impl FnMut(&str) -> Option<(Stat, i32, Vec<Box<str>>)>) -> Model {
        let mut model = Model::default();
        for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
            let Some((stat, permissions, children)) = initial(path) else { continue };
            let node = Node {
                data: Some(Arc::from([])),
                permissions,
                created: (stat.czxid, stat.ctime),
                modified: (stat.mzxid, stat.mtime),
                version: stat.version,
                acl_version: stat.aversion,
                births: (stat.cversion + stat.num_children) / 2,
                children_changed: stat.pzxid,
                stays: Stays::UntilDeleted,
                children: Rc::new(children.into_iter().collect()),
            };
            model.nodes.insert(Path::from(path), vec![(0, Some(Rc::new(node)))]);
        }
        model
    }

    /// The node after the last transaction.
    pub(crate) fn now(&self, path: &str) -> Option<&Rc<Node>> {
        self.nodes.get(path)?.last()?.1.as_ref()
    }

    /// The node after a transaction.
    pub(crate) fn at(&self, path: &str, zxid: i64) -> Option<&Rc<Node>> {
        let versions = self.nodes.get(path)?;
        let count = versions.partition_point(|(since, _)| *since <= zxid);
        versions[..count].last()?.1.as_ref()
    }

    /// Every path that ever was.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.nodes.keys()
    }

    /// A session's life.
    pub(crate) fn session(&self, session: SessionId) -> Option<SessionLife> {
        self.sessions.get(&session).copied()
    }

    /// Sessions that are open after the last transaction.
    pub(crate) fn open_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().filter(|(_, life)| life.closed.is_none()).map(|(&id, _)| id)
    }

    /// What changed behind one transaction, up to another one, in order.
    pub(crate) fn changes(&self, behind: i64, up_to: i64) -> &[(i64, Path, Change)] {
        let from = self.changes.partition_point(|(zxid, ..)| *zxid <= behind);
        let to = self.changes.partition_point(|(zxid, ..)| *zxid <= up_to);
        &self.changes[from..to.max(from)]
    }
}

/// The path above; `None` for the root.
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
