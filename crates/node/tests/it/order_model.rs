//! A model of the frames that a connection must receive, computed from the log: a simple tree and simple
//! watches, one transaction at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};

use zebu_proto::client::EventType::{self, NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
use zebu_proto::txn::{SubTxn, Txn, TxnEntry};

/// A change of one node.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create { path: String, data: String },
    Delete { path: String },
    Set { path: String, data: String },
}

/// A node: data and version.
pub(crate) type Nodes = BTreeMap<String, (String, i32)>;

/// The tree after every transaction.
pub(crate) struct Past {
    states: BTreeMap<i64, Nodes>,
    changes: BTreeMap<i64, Vec<Change>>,
}

fn text(data: Option<&[u8]>) -> String {
    String::from_utf8(data.unwrap_or_default().to_vec()).unwrap()
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

fn changes(txn: &Txn) -> Vec<Change> {
    match txn {
        Txn::Error(_) | Txn::CreateSession { .. } | Txn::SetAcl(_) | Txn::Check(_) => Vec::new(),
        Txn::Create(create) | Txn::Create2(create) => {
            vec![Change::Create { path: create.path.to_string(), data: text(create.data.as_deref()) }]
        }
        Txn::Delete(path) => vec![Change::Delete { path: path.to_string() }],
        Txn::SetData(set) => {
            vec![Change::Set { path: set.path.to_string(), data: text(set.data.as_deref()) }]
        }
        Txn::CloseSession(paths) => {
            paths.iter().flatten().map(|path| Change::Delete { path: path.to_string() }).collect()
        }
        Txn::Multi(parts) if parts.iter().any(|SubTxn(part)| matches!(part, Txn::Error(_))) => Vec::new(),
        Txn::Multi(parts) => parts.iter().flat_map(|SubTxn(part)| changes(part)).collect(),
        Txn::CreateContainer(_) | Txn::CreateTtl(_) | Txn::DeleteContainer(_) | Txn::Reconfig(_) => {
            unreachable!("the random clients do not ask for it")
        }
    }
}

impl Past {
    pub(crate) fn of(history: &[TxnEntry]) -> Past {
        let mut nodes: Nodes = [("/".to_owned(), (String::new(), 0))].into();
        let mut past = Past { states: [(0, nodes.clone())].into(), changes: BTreeMap::new() };
        for entry in history {
            let changes = changes(&entry.txn);
            for change in &changes {
                match change {
                    Change::Create { path, data } => {
                        assert!(nodes.contains_key(parent(path)), "{path} has a parent");
                        assert!(nodes.insert(path.clone(), (data.clone(), 0)).is_none(), "{path} is new");
                    }
                    Change::Delete { path } => {
                        assert!(nodes.remove(path).is_some(), "{path} exists");
                        assert!(!nodes.keys().any(|other| parent(other) == path), "{path} is empty");
                    }
                    Change::Set { path, data } => {
                        let node = nodes.get_mut(path).unwrap();
                        *node = (data.clone(), node.1 + 1);
                    }
                }
            }
            past.states.insert(entry.header.zxid.0, nodes.clone());
            past.changes.insert(entry.header.zxid.0, changes);
        }
        past
    }

    pub(crate) fn at(&self, zxid: i64) -> &Nodes {
        &self.states[&zxid]
    }

    pub(crate) fn children(&self, zxid: i64, path: &str) -> BTreeSet<String> {
        let children = self.at(zxid).keys().filter(|other| *other != "/" && parent(other) == path);
        children.map(|child| child[child.rfind('/').unwrap() + 1..].to_owned()).collect()
    }

    /// What the holder of these watches is told of the transactions behind `after` up to `until`.
    pub(crate) fn events(
        &self,
        watches: &mut Watches,
        after: i64,
        until: i64,
    ) -> Vec<(i64, EventType, String)> {
        let mut events = Vec::new();
        for (&zxid, changes) in self.changes.range((Excluded(after), Included(until))) {
            for change in changes {
                watches.fire(change, &mut |kind, path| events.push((zxid, kind, path.to_owned())));
            }
        }
        events
    }
}

/// The watches of one connection.
#[derive(Default)]
pub(crate) struct Watches {
    pub(crate) data: BTreeSet<String>,
    pub(crate) child: BTreeSet<String>,
    pub(crate) persistent: BTreeSet<String>,
    pub(crate) recursive: BTreeSet<String>,
}

impl Watches {
    /// Forgets all on a path; whether there was one.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let sets = [&mut self.data, &mut self.child, &mut self.persistent, &mut self.recursive];
        sets.into_iter().fold(false, |found, set| set.remove(path) | found)
    }

    fn fire(&mut self, change: &Change, tell: &mut dyn FnMut(EventType, &str)) {
        match change {
            Change::Create { path, .. } => {
                if self.concerns_data(path) {
                    tell(NodeCreated, path);
                }
                self.fire_child(parent(path), tell);
            }
            Change::Set { path, .. } => {
                if self.concerns_data(path) {
                    tell(NodeDataChanged, path);
                }
            }
            Change::Delete { path } => {
                if self.concerns_data(path) | self.child.remove(path) {
                    tell(NodeDeleted, path);
                }
                self.fire_child(parent(path), tell);
            }
        }
    }

    fn concerns_data(&mut self, path: &str) -> bool {
        let above = |other: &String| other == "/" || other == path || path.starts_with(&format!("{other}/"));
        self.data.remove(path) | self.persistent.contains(path) | self.recursive.iter().any(above)
    }

    fn fire_child(&mut self, path: &str, tell: &mut dyn FnMut(EventType, &str)) {
        if self.child.remove(path) | self.persistent.contains(path) {
            tell(NodeChildrenChanged, path);
        }
    }
}
