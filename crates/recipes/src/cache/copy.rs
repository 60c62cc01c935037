//! The copy of a cache: what it holds, whether it is complete, and how a node that was read changes it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use tokio::sync::watch;
use zebu_client::{Client, Compression, SessionState, path};

use super::area::{CacheArea, child_towards};
use super::changes::CacheChange;
use super::handle::CacheState;
use super::store::{CachedNode, Nodes, below, put, remove};
use crate::error::RecipeError;

/// The limit of nodes in one cache.
const NODES_MAX: usize = 1_000_000;

/// Which children of a node are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildReads {
    All,
    /// Children that the cache does not have: the others have their own events.
    New,
}

/// The copy, for the loops that keep it up to date.
pub(super) struct CacheCopy {
    pub(super) client: Client,
    pub(super) area: CacheArea,
    pub(super) compression: Compression,
    pub(super) shared: Arc<CacheState>,
    pub(super) synced: watch::Sender<bool>,
}

impl CacheCopy {
    pub(super) fn mark_stale(&self) {
        if self.synced.send_replace(false) {
            self.shared.publish(CacheChange::Stale);
        }
    }

    /// Marks the copy as complete. The data of a read-only server may be outdated, so that the next
    /// connection decides.
    pub(super) fn mark_synced(&self) {
        if self.client.state() == SessionState::ReadOnly {
            return;
        }
        // In this order: a caller that waited for `synced` does not receive the change afterwards.
        if !*self.synced.borrow() {
            self.shared.publish(CacheChange::Synced);
            self.synced.send_replace(true);
        }
    }

    /// Removes a deleted node and its descendants.
    pub(super) fn remove(&self, path: &str) {
        self.shared.change(|nodes| remove(nodes, path));
        self.forget_unreadable(path);
    }

    /// A node was deleted: neither it nor one below it is unreadable.
    pub(super) fn forget_unreadable(&self, path: &str) {
        self.shared
            .unmark_unreadable(|unreadable| unreadable == path || child_towards(path, unreadable).is_some());
    }

    /// Leaves out an existing node that cannot be read, with its descendants.
    pub(super) fn mark_unreadable(&self, path: &str, error: &dyn Display) {
        self.shared.change(|nodes| self.leave_out(nodes, path, error));
    }

    /// The same, for a caller that is changing the nodes.
    pub(super) fn leave_out(&self, nodes: &mut Nodes, path: &str, error: &dyn Display) -> Vec<CacheChange> {
        self.shared.unmark_unreadable(|unreadable| child_towards(path, unreadable).is_some());
        if self.shared.mark_unreadable(path) {
            tracing::warn!(%path, root = %self.area.root, %error, "ignored an unreadable node");
        }
        remove(nodes, path)
    }

    /// Stores a node that was read; returns the children to read.
    pub(super) fn store_node(
        &self,
        node: CachedNode,
        children: &[String],
        child_reads: ChildReads,
    ) -> Vec<String> {
        let path = &*node.path.clone();
        let mut children: BTreeSet<String> = children.iter().map(|name| path::join(path, name)).collect();
        self.shared.change(|nodes| {
            let mut changes = put(nodes, node);
            if self.area.has_children_of(path) {
                let stale = |child: &&String| path::parent(child) == Some(path) && !children.contains(*child);
                let gone: Vec<String> =
                    below(nodes, path).map(|(child, _)| child).filter(stale).cloned().collect();
                gone.iter().for_each(|child| changes.append(&mut remove(nodes, child)));
                self.shared.unmark_unreadable(|unreadable| {
                    child_towards(path, unreadable).is_some_and(|child| !children.contains(child))
                });
            }
            if child_reads == ChildReads::New {
                children.retain(|child| !nodes.contains_key(child));
            }
            changes
        });
        children.into_iter().collect()
    }

    /// Fails if the copy and so many nodes to come are beyond the limit.
    pub(super) fn check_size(&self, more: usize) -> Result<(), RecipeError> {
        if self.shared.len() + more <= NODES_MAX {
            return Ok(());
        }
        let root = &self.area.root;
        let what = format!("{root} has more than {NODES_MAX} nodes below it; follow a smaller part");
        Err(RecipeError::Invalid(what))
    }
}
