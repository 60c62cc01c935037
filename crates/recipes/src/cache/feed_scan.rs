//! The scan of a cache: reads a subtree in pages, and compares it with the copy.

use std::collections::HashSet;

use zebu_client::{Compression, ErrorCode, Retry, ScanEntry, path};

use super::area::child_towards;
use super::copy::{CacheCopy, ChildReads};
use super::reads::is_unreadable;
use super::store::{CachedNode, below, put, remove};
use super::watch_source::WatchSource;
use crate::error::RecipeError;
use crate::retry::ReconnectRetry;

/// A parent whose children the scan is finding.
struct OpenParent {
    path: String,
    /// The number of its children, and the last change of the list.
    children: i32,
    pzxid: i64,
    found: i32,
}

/// What a scan has found so far.
#[derive(Default)]
struct SubtreeScan {
    seen: HashSet<String>,
    parents: Vec<OpenParent>,
    /// Nodes with children that the scan has left out: the client may not read them, or they are gone.
    incomplete: Vec<String>,
    /// Nodes whose compressed data is damaged.
    damaged: Vec<String>,
}

/// Reads a subtree, and removes nodes that are gone. Returns `false` if the server has no scans.
pub(super) async fn scan_subtree(copy: &CacheCopy, top: &str, at_least: i64) -> Result<bool, RecipeError> {
    let mut nodes = copy.client.scan(top).with_stats().with_data().compression(Compression::None);
    nodes = nodes.at_least(at_least).retry(Retry::Never);
    if let Some(levels) = copy.area.levels_below(top) {
        nodes = nodes.depth(levels);
    }
    let mut scan = SubtreeScan::default();
    let mut retry = ReconnectRetry::default();
    while let Some(entry) = nodes.next().await {
        match entry {
            Ok(entry) => {
                scan.store(copy, entry);
                copy.check_size(0)?;
                retry = ReconnectRetry::default();
            }
            Err(error) if error.is_unsupported_freshness() => return Ok(false),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => break,
            Err(error) if top != copy.area.root && is_unreadable(&error) => {
                copy.mark_unreadable(top, &error);
                return Ok(true);
            }
            Err(error) => retry.after(&copy.client, error).await?,
        }
    }
    let read_again = scan.finish(copy, top);
    copy.read_from(&mut WatchSource::None, read_again, ChildReads::New).await?;
    Ok(true)
}

impl SubtreeScan {
    fn store(&mut self, copy: &CacheCopy, entry: ScanEntry) {
        let ScanEntry { path, stat, data, .. } = entry;
        if self.damaged.last().is_some_and(|above| child_towards(above, &path).is_some()) {
            return;
        }
        let stat = stat.unwrap_or_default();
        self.leave_parents(|parent| path::parent(&path) == Some(&parent.path));
        if let Some(parent) = self.parents.last_mut()
            && stat.czxid <= parent.pzxid
        {
            parent.found += 1;
        }
        self.seen.insert(path.clone());
        let Ok(data) = copy.compression.unpack(data.unwrap_or_default()) else {
            self.damaged.push(path);
            return;
        };
        if copy.area.has_children_of(&path) {
            let (children, pzxid) = (stat.num_children, stat.pzxid);
            self.parents.push(OpenParent { path: path.clone(), children, pzxid, found: 0 });
        }
        copy.shared.unmark_unreadable(|unreadable| unreadable == path);
        copy.shared.change(|nodes| put(nodes, CachedNode { path, data, stat }));
    }

    /// Leaves parents until one is that of the next node.
    fn leave_parents(&mut self, is_parent: impl Fn(&OpenParent) -> bool) {
        while let Some(parent) = self.parents.pop() {
            if is_parent(&parent) {
                self.parents.push(parent);
                return;
            }
            // Children that were created or deleted meanwhile make a difference too, which a read removes.
            if parent.found != parent.children {
                self.incomplete.push(parent.path);
            }
        }
    }

    /// Removes what the scan has not found. Returns the nodes that must be read by themselves.
    fn finish(mut self, copy: &CacheCopy, top: &str) -> Vec<String> {
        self.leave_parents(|_| false);
        copy.shared.change(|nodes| {
            let known = nodes.contains_key(top).then(|| top.to_owned());
            let all = known.into_iter().chain(below(nodes, top).map(|(path, _)| path.clone()));
            let gone: Vec<String> = all.filter(|path| !self.seen.contains(path)).collect();
            // Nothing happens for a node whose parent is gone too.
            gone.iter().flat_map(|path| remove(nodes, path)).collect()
        });
        let left_out: HashSet<&str> = self.incomplete.iter().map(String::as_str).collect();
        copy.shared.unmark_unreadable(|unreadable| {
            child_towards(top, unreadable).is_some()
                && !path::parent(unreadable).is_some_and(|parent| left_out.contains(parent))
                && !self.damaged.iter().any(|damaged| damaged == unreadable)
        });
        self.incomplete.append(&mut self.damaged);
        self.incomplete
    }
}
