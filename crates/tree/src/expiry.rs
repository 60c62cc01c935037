//! Which nodes the server removes by itself: used containers that are empty, TTL nodes whose time is up,
//! ephemerals whose session is unknown after a restart.

use zebu_proto::{SessionId, StatPersisted, Zxid};

use crate::options::TtlNodes;
use crate::owner::Lifetime;
use crate::tree::Tree;

impl Tree {
    /// Paths of empty containers and expired TTL nodes, sorted. `never_used_ms` is how long a container may
    /// wait for its first child; zero is for ever.
    pub fn removable(&self, now_ms: i64, never_used_ms: i64) -> Vec<Box<str>> {
        let candidates = self.containers.iter().chain(&self.ttl_nodes);
        let mut paths: Vec<Box<str>> = candidates
            .filter(|&&id| {
                let node = self.nodes.get(id);
                let stat = self.nodes.stat(node);
                let lifetime = self.lifetime(stat.ephemeral_owner);
                self.nodes.branch(node).child_count == 0 && is_over(lifetime, &stat, now_ms, never_used_ms)
            })
            .map(|&id| self.path_of(id).into_boxed_str())
            .collect();
        paths.sort_unstable();
        paths
    }

    /// Removes ephemerals whose session is not in the table, and says which. For a standalone server or a
    /// new leader, right after loading: no transaction is made, the last applied zxid stands for it.
    ///
    /// TTL nodes that look like ephemerals, because TTL nodes are switched off, are kept: a setting must not
    /// cost data.
    pub fn remove_orphaned_ephemerals(&mut self) -> Vec<Box<str>> {
        let is_orphaned = |session: &SessionId| {
            let is_ttl = matches!(Lifetime::of_owner(session.0, TtlNodes::Enabled), Lifetime::Ttl(_));
            !is_ttl && !self.sessions.contains_key(session)
        };
        let orphaned: Vec<SessionId> = self.ephemerals.keys().copied().filter(is_orphaned).collect();
        let mut paths = Vec::new();
        for session in orphaned {
            paths.append(&mut self.ephemerals_of(session));
        }
        let zxid: Zxid = self.last_zxid;
        for path in &paths {
            self.apply_delete(zxid, path, &mut |_| {});
        }
        paths
    }
}

/// Whether an empty node may be removed.
pub(crate) fn is_over(lifetime: Lifetime, stat: &StatPersisted, now_ms: i64, never_used_ms: i64) -> bool {
    let idle_ms = now_ms.saturating_sub(stat.mtime);
    match lifetime {
        Lifetime::Persistent | Lifetime::Session(_) | Lifetime::Unknown => false,
        Lifetime::Container => stat.cversion > 0 || (never_used_ms > 0 && idle_ms > never_used_ms),
        Lifetime::Ttl(ttl_ms) => ttl_ms != 0 && idle_ms > ttl_ms,
    }
}
