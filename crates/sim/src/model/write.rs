//! Writes of the model: what a request does at its place in the history, and what its answer must be.

use std::collections::BTreeMap;
use std::rc::Rc;

use zebu_proto::client::{CreateMode, CreateOp};
use zebu_proto::{ErrorCode, Permissions, SessionId, Stat};

use super::{Model, Node, SessionLife, Stays, name_of, parent_of};
use crate::operation::{Path, Write};

/// What happened to a node, for watchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Created,
    Deleted,
    Data,
    Children,
}

/// What a write did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Nothing.
    Error(ErrorCode),
    Created {
        path: Path,
        stat: Stat,
        answer: CreateOp,
    },
    Deleted {
        path: Path,
    },
    Set {
        path: Path,
        stat: Stat,
    },
    AclSet {
        path: Path,
        stat: Stat,
    },
    Reconfigured {
        data: std::sync::Arc<[u8]>,
        stat: Stat,
    },
    Checked,
}

/// Where in the history something happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) zxid: i64,
    pub(crate) time_ms: i64,
    pub(crate) session: SessionId,
    pub(crate) standing: Standing,
}

/// Whether permissions concern who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Common,
    Super,
}

/// Changes that are not in the model yet.
struct Stage<'a> {
    model: &'a Model,
    place: Place,
    changed: BTreeMap<Path, Option<Rc<Node>>>,
    events: Vec<(Path, Change)>,
}

impl Stage<'_> {
    fn get(&self, path: &str) -> Option<Rc<Node>> {
        match self.changed.get(path) {
            Some(node) => node.clone(),
            None => self.model.now(path).cloned(),
        }
    }

    fn put(&mut self, path: &str, node: Option<Node>) {
        self.changed.insert(Path::from(path), node.map(Rc::new));
    }

    fn run(&mut self, write: &Write) -> Result<Effect, ErrorCode> {
        match write {
            Write::Create { path, data, mode, op, permissions } => {
                self.create(path, data, *mode, *op, *permissions)
            }
            Write::Delete { path, version } => self.delete(path, *version),
            Write::Set { path, data, version } => {
                let mut node = self.permitted(path, Permissions::WRITE)?;
                checked(node.version, *version)?;
                node.data = Some(data.clone());
                node.version += 1;
                node.modified = (self.place.zxid, self.place.time_ms);
                let stat = node.stat();
                self.put(path, Some(node));
                self.events.push((path.clone(), Change::Data));
                Ok(Effect::Set { path: path.clone(), stat })
            }
            Write::Check { path, version } => {
                let node = self.permitted(path, Permissions::READ)?;
                checked(node.version, *version)?;
                Ok(Effect::Checked)
            }
            Write::SetAcl { path, permissions, version } => {
                let mut node = self.permitted(path, Permissions::ADMIN)?;
                checked(node.acl_version, *version)?;
                node.permissions = *permissions;
                node.acl_version += 1;
                let stat = node.stat();
                self.put(path, Some(node));
                Ok(Effect::AclSet { path: path.clone(), stat })
            }
        }
    }

    /// A copy of a node on which everybody has a permission.
    fn permitted(&self, path: &str, permission: i32) -> Result<Node, ErrorCode> {
        let node = self.get(path).ok_or(ErrorCode::NoNode)?;
        if node.permissions & permission == 0 && self.place.standing == Standing::Common {
            return Err(ErrorCode::NoAuth);
        }
        Ok((*node).clone())
    }

    fn create(
        &mut self,
        asked: &Path,
        data: &std::sync::Arc<[u8]>,
        mode: CreateMode,
        op: CreateOp,
        permissions: i32,
    ) -> Result<Effect, ErrorCode> {
        let above = parent_of(asked).ok_or(ErrorCode::NodeExists)?;
        let mut parent = self.permitted(above, Permissions::CREATE)?;
        let path: Path =
            if mode.is_sequential() { format!("{asked}{:010}", parent.births).into() } else { asked.clone() };
        if self.get(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.stays, Stays::WithSession(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let stays = match mode {
            _ if mode.is_ephemeral() => Stays::WithSession(self.place.session),
            CreateMode::Container => Stays::WhileUsed,
            _ => Stays::UntilDeleted,
        };
        let here = (self.place.zxid, self.place.time_ms);
        let node = Node {
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
        self.events.push((path.clone(), Change::Created));
        self.events.push((Path::from(above), Change::Children));
        Ok(Effect::Created { path, stat, answer: op })
    }

    fn delete(&mut self, path: &Path, version: i32) -> Result<Effect, ErrorCode> {
        let above = parent_of(path).ok_or(ErrorCode::BadArguments)?;
        // The parent is looked at first, and its permissions decide.
        self.permitted(above, Permissions::DELETE)?;
        let node = self.get(path).ok_or(ErrorCode::NoNode)?;
        checked(node.version, version)?;
        if !node.children.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.remove(path);
        Ok(Effect::Deleted { path: path.clone() })
    }

    fn remove(&mut self, path: &Path) {
        let Some(above) = parent_of(path) else { return };
        if let Some(parent) = self.get(above) {
            let mut parent = (*parent).clone();
            parent.children_changed = self.place.zxid;
            Rc::make_mut(&mut parent.children).remove(name_of(path));
            self.put(above, Some(parent));
        }
        self.put(path, None);
        self.events.push((path.clone(), Change::Deleted));
        self.events.push((Path::from(above), Change::Children));
    }
}

/// A version that is asked for must be the one that is there.
fn checked(found: i32, asked: i32) -> Result<(), ErrorCode> {
    if asked == -1 || asked == found { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

impl Model {
    /// Carries out a request as a whole or not at all. The effects are one per write; if one is an error,
    /// nothing has happened and only the first error counts.
    pub(crate) fn execute(&mut self, place: Place, writes: &[Write]) -> Vec<Effect> {
        let is_open = self.session(place.session).is_some_and(|life| life.closed.is_none());
        if !is_open {
            return vec![Effect::Error(ErrorCode::SessionExpired)];
        }
        let mut stage = Stage { model: self, place, changed: BTreeMap::new(), events: Vec::new() };
        let mut effects = Vec::new();
        let mut failed = false;
        for write in writes {
            let effect = stage.run(write).unwrap_or_else(Effect::Error);
            failed = failed || matches!(effect, Effect::Error(_));
            effects.push(effect);
            if failed {
                break;
            }
        }
        if !failed {
            let (changed, events) = (stage.changed, stage.events);
            self.commit(place.zxid, changed, events);
        }
        effects
    }

    pub(super) fn commit(
        &mut self,
        zxid: i64,
        changed: BTreeMap<Path, Option<Rc<Node>>>,
        events: Vec<(Path, Change)>,
    ) {
        self.touched = (zxid, changed.keys().cloned().collect());
        for (path, node) in changed {
            self.nodes.entry(path).or_default().push((zxid, node));
        }
        self.changes.extend(events.into_iter().map(|(path, change)| (zxid, path, change)));
    }

    /// A session begins.
    pub(crate) fn open_session(&mut self, session: SessionId) {
        self.sessions.insert(session, SessionLife { closed: None });
    }

    /// A session ends; what went with it.
    pub(crate) fn close_session(&mut self, place: Place) -> Vec<Path> {
        let Some(life) = self.sessions.get_mut(&place.session).filter(|life| life.closed.is_none()) else {
            return Vec::new();
        };
        life.closed = Some(place.zxid);
        let owned = |node: &Rc<Node>| node.stays == Stays::WithSession(place.session);
        let paths: Vec<Path> = self
            .nodes
            .iter()
            .filter(|(_, versions)| versions.last().is_some_and(|(_, it)| it.as_ref().is_some_and(owned)))
            .map(|(path, _)| path.clone())
            .collect();
        self.remove_all(place, &paths);
        paths
    }

    /// The server removes an empty container. False if it is none.
    pub(crate) fn remove_container(&mut self, place: Place, path: &Path) -> bool {
        let removable =
            |node: &Rc<Node>| node.stays == Stays::WhileUsed && node.children.is_empty() && node.births > 0;
        if !self.now(path).is_some_and(removable) {
            return false;
        }
        self.remove_all(place, std::slice::from_ref(path));
        true
    }

    fn remove_all(&mut self, place: Place, paths: &[Path]) {
        let mut stage = Stage { model: self, place, changed: BTreeMap::new(), events: Vec::new() };
        for path in paths {
            stage.remove(path);
        }
        let (changed, events) = (stage.changed, stage.events);
        self.commit(place.zxid, changed, events);
    }

    /// Paths that a transaction has changed, if it is the last one that has changed anything.
    pub(crate) fn changed_at(&self, zxid: i64) -> &[Path] {
        if self.touched.0 == zxid { &self.touched.1 } else { &[] }
    }
}
