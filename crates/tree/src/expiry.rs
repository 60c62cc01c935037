//! The nodes that the server removes by itself: used containers that are empty, expired TTL nodes, and
//! ephemerals whose session is unknown after a restart.

use zebu_proto::{SessionId, StatPersisted};

use crate::options::TtlNodes;
use crate::owner::Lifetime;
use crate::tree::Tree;

impl Tree {
    /// Paths of empty containers and expired TTL nodes, sorted. `never_used_ms` is how long a container may
    /// wait for its first child; zero means forever.
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

    /// Adds the owners of ephemerals that are missing in the session table, and returns them. For a
    /// standalone server or a new leader, right after loading. As unused sessions they expire, and a
    /// transaction deletes their nodes. Without that transaction a replay would lose a node that was created
    /// later under the same name.
    ///
    /// TTL nodes that look like ephemerals, because TTL nodes are disabled, are kept: a setting must not cost
    /// data.
    pub fn adopt_orphaned_ephemerals(&mut self, timeout_ms: i32) -> Vec<SessionId> {
        let is_orphaned = |session: &SessionId| {
            let is_ttl = matches!(Lifetime::of_owner(session.0, TtlNodes::Enabled), Lifetime::Ttl(_));
            !is_ttl && !self.sessions.contains_key(session)
        };
        let orphaned: Vec<SessionId> = self.ephemerals.keys().copied().filter(is_orphaned).collect();
        self.sessions.extend(orphaned.iter().map(|&session| (session, timeout_ms)));
        orphaned
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
