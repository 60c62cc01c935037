//! The basic steps of every change. Each keeps links, indexes, sizes and the digest consistent; none knows
//! transactions, watches or quotas.

use std::sync::PoisonError;

use zebu_proto::StatPersisted;

use crate::acl_table::AclSlot;
use crate::arena::{Arena, NodeState};
use crate::data_store::NewData;
use crate::digest;
use crate::name_index::NamePlace;
use crate::node::{NodeId, ZNode};
use crate::options::DigestMode;
use crate::owner::Lifetime;
use crate::trait_table::NodeTraits;
use crate::tree::Tree;

/// The content of a new node.
pub(crate) struct NodeRecord<'a> {
    /// The last component of the path.
    pub(crate) name: &'a str,
    pub(crate) data: NewData<'a>,
    /// Counts as a use of the ACL.
    pub(crate) acl: AclSlot,
    pub(crate) stat: &'a StatPersisted,
}

impl Tree {
    /// Adds a child that does not exist. The parent's stat is not changed.
    pub(crate) fn attach(&mut self, place: NamePlace, path: &str, record: NodeRecord<'_>) -> NodeId {
        let (NodeRecord { name, data, acl, stat }, parent) = (record, place.parent);
        self.data_size += path.len() + data.length();
        let content = self.content_checksum(path, data.bytes());
        let traits = NodeTraits { owner: stat.ephemeral_owner, acl, is_counted: digest::is_counted(path) };
        let node = ZNode { parent, ..ZNode::new(name, content, stat) };
        let id = self.nodes.insert(node, data, traits, stat);
        self.link(parent, id);
        self.names.insert(&self.nodes, place, id);
        self.orders.get_mut().unwrap_or_else(PoisonError::into_inner).attached(&self.nodes, id);
        self.index_owner(id, stat.ephemeral_owner);
        if self.options.digest == DigestMode::On && traits.is_counted {
            self.digest = self.digest.wrapping_add(digest::node_digest(content, stat));
        }
        id
    }

    /// Removes a node without children.
    pub(crate) fn detach(&mut self, id: NodeId, path: &str) {
        let node = self.nodes.get(id);
        debug_assert_eq!(self.nodes.branch(node).child_count, 0, "children are removed first");
        self.digest = self.digest.wrapping_sub(self.digest_of(id));
        let (NodeTraits { owner, acl, .. }, parent) = (*self.nodes.traits(node), node.parent);
        self.data_size = self.data_size.saturating_sub(path.len() + node.data_length());
        self.names.remove(&self.nodes, id);
        self.orders.get_mut().unwrap_or_else(PoisonError::into_inner).detaching(&self.nodes, id);
        self.unindex_owner(id, owner);
        self.unlink(parent, id);
        self.acls.release(acl);
        if self.last_parent.0 == id {
            self.last_parent = (NodeId::ROOT, String::new());
        }
        self.nodes.remove(id);
    }

    /// Changes the stat of a node, but never its owner.
    pub(crate) fn change_stat(&mut self, id: NodeId, change: impl FnOnce(&mut StatPersisted)) {
        self.replace(id, |_| {}, change);
    }

    /// Replaces data and stat.
    pub(crate) fn replace_data(
        &mut self,
        id: NodeId,
        path: &str,
        data: NewData<'_>,
        change: impl FnOnce(&mut StatPersisted),
    ) {
        let content = self.content_checksum(path, data.bytes());
        let before = self.nodes.get(id).data_length();
        self.data_size = self.data_size.saturating_sub(before) + data.length();
        let replace = |nodes: &mut Arena| {
            nodes.set_data(id, data);
            nodes.get_mut(id).content = content;
        };
        self.replace(id, replace, change);
    }

    fn replace(
        &mut self,
        id: NodeId,
        change_nodes: impl FnOnce(&mut Arena),
        change_stat: impl FnOnce(&mut StatPersisted),
    ) {
        let node = self.nodes.get(id);
        let NodeState { mut stat, digest, .. } = self.nodes.state(node);
        let before = digest.unwrap_or_else(|| self.digest_with(node, &stat));
        change_stat(&mut stat);
        change_nodes(&mut self.nodes);
        let after = self.digest_with(self.nodes.get(id), &stat);
        self.nodes.set_stat(id, &stat, after);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(after);
    }

    /// Replaces the ACL of a node; `acl` counts as a use.
    pub(crate) fn replace_acl(&mut self, id: NodeId, acl: AclSlot) {
        let before = self.nodes.set_acl(id, acl);
        self.acls.release(before);
    }

    pub(crate) fn content_checksum(&self, path: &str, data: Option<&[u8]>) -> u32 {
        // For nodes outside the digest, the checksum is never used.
        if self.options.digest == DigestMode::Off || !digest::is_counted(path) {
            return 0;
        }
        digest::content_checksum(path, data)
    }

    /// Appends to the list of children.
    fn link(&mut self, parent: NodeId, id: NodeId) {
        let first = {
            let parent = self.nodes.branch_mut(parent);
            parent.child_count += 1;
            if parent.first_child == NodeId::NONE {
                parent.first_child = id;
            }
            parent.first_child
        };
        let last = if first == id { id } else { self.nodes.get(first).previous };
        if last != id {
            self.nodes.get_mut(last).next = id;
        }
        self.nodes.get_mut(id).previous = last;
        self.nodes.get_mut(first).previous = id;
    }

    fn unlink(&mut self, parent: NodeId, id: NodeId) {
        let node = self.nodes.get(id);
        let (next, previous) = (node.next, node.previous);
        let parent = self.nodes.branch_mut(parent);
        parent.child_count -= 1;
        let first = parent.first_child;
        if first == id {
            parent.first_child = next;
        } else {
            self.nodes.get_mut(previous).next = next;
        }
        // The next sibling, or the first child if this was the last, gets a new predecessor.
        let follower = next.some().unwrap_or(if first == id { NodeId::NONE } else { first });
        if let Some(follower) = follower.some() {
            self.nodes.get_mut(follower).previous = previous;
        }
    }

    fn index_owner(&mut self, id: NodeId, owner: i64) {
        match self.lifetime(owner) {
            Lifetime::Persistent | Lifetime::Unknown => {}
            Lifetime::Session(session) => {
                self.ephemerals.entry(session).or_default().insert(id);
                self.ephemeral_count += 1;
            }
            Lifetime::Container => {
                self.containers.insert(id);
            }
            Lifetime::Ttl(_) => {
                self.ttl_nodes.insert(id);
            }
        }
    }

    fn unindex_owner(&mut self, id: NodeId, owner: i64) {
        match self.lifetime(owner) {
            Lifetime::Persistent | Lifetime::Unknown => {}
            Lifetime::Session(session) => {
                if let Some(nodes) = self.ephemerals.get_mut(&session)
                    && nodes.remove(&id)
                {
                    self.ephemeral_count -= 1;
                    if nodes.is_empty() {
                        self.ephemerals.remove(&session);
                    }
                }
            }
            Lifetime::Container => {
                self.containers.remove(&id);
            }
            Lifetime::Ttl(_) => {
                self.ttl_nodes.remove(&id);
            }
        }
    }
}
