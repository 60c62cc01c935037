//! The basic steps of every change. Each keeps links, indexes, sizes and the digest consistent; none knows
//! transactions, watches or quotas.

use zebu_proto::{Buffer, StatPersisted};

use crate::acl_table::AclSlot;
use crate::arena::Arena;
use crate::digest;
use crate::node::{CreationOrder, NodeId, ZNode};
use crate::options::DigestMode;
use crate::owner::Lifetime;
use crate::path;
use crate::tree::Tree;

/// The content of a new node.
pub(crate) struct NodeRecord<'a> {
    pub(crate) data: &'a Buffer,
    /// Counts as a use of the ACL.
    pub(crate) acl: AclSlot,
    pub(crate) stat: &'a StatPersisted,
}

impl Tree {
    /// Adds a child that does not exist. The parent's stat is not changed.
    pub(crate) fn attach(&mut self, parent: NodeId, path: &str, record: NodeRecord<'_>) -> NodeId {
        let NodeRecord { data, acl, stat } = record;
        let name = path::split(path).map_or(path, |(_, name)| name);
        self.data_size += path.len() + data.as_ref().map_or(0, |data| data.len());
        let content = self.content_checksum(path, data.as_deref());
        let birth = CreationOrder::new(self.next_birth, digest::is_counted(path));
        self.next_birth += 1;
        let node = ZNode { parent, ..ZNode::new(name, content, acl, birth, stat) };
        let id = self.nodes.insert(node, data, stat);
        self.link(parent, id);
        self.names.insert(&self.nodes, id);
        self.index_owner(id, stat.ephemeral_owner);
        self.digest = self.digest.wrapping_add(self.digest_with(self.nodes.get(id), stat));
        id
    }

    /// Removes a node without children.
    pub(crate) fn detach(&mut self, id: NodeId, path: &str) {
        let node = self.nodes.get(id);
        debug_assert_eq!(self.nodes.branch(node).child_count, 0, "children are removed first");
        self.digest = self.digest.wrapping_sub(self.digest_of(id));
        let (owner, acl, parent) = (self.nodes.owner(node), node.acl, node.parent);
        self.data_size = self.data_size.saturating_sub(path.len() + node.data_length());
        self.names.remove(&self.nodes, id);
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
        data: &Buffer,
        change: impl FnOnce(&mut StatPersisted),
    ) {
        let content = self.content_checksum(path, data.as_deref());
        let before = self.nodes.get(id).data_length();
        self.data_size = self.data_size.saturating_sub(before) + data.as_ref().map_or(0, |data| data.len());
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
        let mut stat = self.nodes.stat(node);
        let before = self.known_digest(node).unwrap_or_else(|| self.digest_with(node, &stat));
        change_stat(&mut stat);
        change_nodes(&mut self.nodes);
        self.nodes.set_stat(id, &stat);
        let after = self.digest_with(self.nodes.get(id), &stat);
        self.nodes.note_digest(id, after);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(after);
    }

    /// Replaces the ACL of a node; `acl` counts as a use.
    pub(crate) fn replace_acl(&mut self, id: NodeId, acl: AclSlot) {
        let before = std::mem::replace(&mut self.nodes.get_mut(id).acl, acl);
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
