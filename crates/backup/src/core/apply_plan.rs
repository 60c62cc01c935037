//! How a live subtree becomes that of a backup, with a condition on everything that was read.
//!
//! Ephemeral nodes belong to living sessions: those of the backup are not created, those of the live tree
//! are not touched.

use std::collections::BTreeMap;
use std::sync::Arc;

use zebu_proto::Acl;
use zebu_tree::{Lifetime, Tree};

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// Its data; null is not the empty data.
    pub data: Option<Vec<u8>>,
    /// Its ACL.
    pub acl: Vec<Acl>,
    /// The version of the data.
    pub version: i32,
    /// The version of the ACL.
    pub aversion: i32,
    /// Whether it belongs to a session.
    pub is_ephemeral: bool,
}

/// A write to the live tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyStep {
    /// Creates a node that the live tree lacks.
    Create {
        /// Its path.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// Its ACL.
        acl: Arc<[Acl]>,
        /// Its lifetime: persistent, container or with a time to live.
        lifetime: Lifetime,
    },
    /// Sets the data of a node that has this version.
    Set {
        /// Its path.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// The version that was read.
        version: i32,
    },
    /// Sets the ACL of a node that has this ACL version.
    SetAcl {
        /// Its path.
        path: String,
        /// Its ACL.
        acl: Arc<[Acl]>,
        /// The version that was read.
        aversion: i32,
    },
    /// Deletes a node that the backup lacks and that has this version.
    Delete {
        /// Its path.
        path: String,
        /// The version that was read.
        version: i32,
    },
}

/// What happens to live nodes that the backup lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraNodes {
    /// They stay.
    Keep,
    /// They are deleted.
    Delete,
}

/// The writes, and what they leave as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyPlan {
    /// The writes in their order: creations from the top, changes, deletions from the bottom.
    pub steps: Vec<ApplyStep>,
    /// Live nodes that the backup lacks and that stay.
    pub extra: Vec<String>,
    /// Ephemeral nodes of the backup that are not created.
    pub ephemeral: Vec<String>,
}

/// The nodes below it belong to the servers.
pub const SERVERS: &str = "/zookeeper";

/// The nodes above a node, the topmost first, without the root.
pub fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(1).map(|(at, _)| &path[..at])
}

/// Plans the writes. `live` has by path the live subtree and the live nodes above it. Those above are created
/// if they are missing, and not changed. A plan for the root leaves [`SERVERS`] out.
pub fn plan_apply(
    wanted: &Tree,
    top: &str,
    live: &BTreeMap<String, LiveNode>,
    extra: ExtraNodes,
) -> ApplyPlan {
    let mut plan = ApplyPlan::default();
    let mut changes = Vec::new();
    let mut acls = Vec::new();
    for path in parents(top).filter(|path| !live.contains_key(*path)) {
        let Some(node) = wanted.node(path) else { continue };
        let (data, acl) = (node.data().map(<[u8]>::to_vec), node.acl().clone());
        let (path, lifetime) = (path.to_owned(), node.lifetime());
        plan.steps.push(ApplyStep::Create { path, data, acl, lifetime });
    }
    let mut due = vec![top.to_owned()];
    while let Some(path) = due.pop() {
        let Some(node) = wanted.node(&path) else { continue };
        if path == SERVERS {
            continue;
        }
        if let Lifetime::Session(_) = node.lifetime() {
            plan.ephemeral.push(path);
            continue;
        }
        let parent = if path == "/" { "" } else { path.as_str() };
        due.extend(node.children().map(|name| format!("{parent}/{name}")));
        let data = node.data().map(<[u8]>::to_vec);
        let acl = node.acl().clone();
        match live.get(&path) {
            None => {
                let lifetime = node.lifetime();
                plan.steps.push(ApplyStep::Create { path, data, acl, lifetime });
            }
            // A living session has the name: it stays.
            Some(found) if found.is_ephemeral => plan.extra.push(path),
            Some(found) => {
                if found.data != data {
                    changes.push(ApplyStep::Set { path: path.clone(), data, version: found.version });
                }
                if found.acl[..] != acl[..] {
                    acls.push(ApplyStep::SetAcl { path, acl, aversion: found.aversion });
                }
            }
        }
    }
    plan.steps.sort_by(|one, other| path_of(one).cmp(path_of(other)));
    plan.steps.append(&mut changes);
    plan.steps.append(&mut acls);
    add_extra_nodes(wanted, live, extra, &mut plan);
    plan
}

/// Deletes from the bottom what the backup lacks, unless an ephemeral node is below.
fn add_extra_nodes(
    wanted: &Tree,
    live: &BTreeMap<String, LiveNode>,
    extra: ExtraNodes,
    plan: &mut ApplyPlan,
) {
    let mut kept: Vec<&str> = Vec::new();
    // In the reverse order of paths, children come before their parents.
    for (path, node) in live.iter().rev() {
        if wanted.node(path).is_some() {
            continue;
        }
        let inside = |kept: &&str| kept.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if node.is_ephemeral || extra == ExtraNodes::Keep || kept.iter().any(inside) {
            kept.push(path);
            plan.extra.push(path.clone());
        } else {
            plan.steps.push(ApplyStep::Delete { path: path.clone(), version: node.version });
        }
    }
    plan.extra.sort_unstable();
}

/// The path of a step.
pub fn path_of(step: &ApplyStep) -> &str {
    match step {
        ApplyStep::Create { path, .. }
        | ApplyStep::Set { path, .. }
        | ApplyStep::SetAcl { path, .. }
        | ApplyStep::Delete { path, .. } => path,
    }
}
