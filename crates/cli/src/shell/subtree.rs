//! Reads a subtree with data and ACLs, many nodes at once. It writes nothing; `subtree_writer` does.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use zebu_client::{Client, Error, ErrorCode, Stat};

use super::failure::Failure;
use super::subtree_file::{SavedNode, SavedTree};
use super::walk::{self, Depth};

/// Nodes on their way at once.
pub(super) const BATCH: usize = 128;
/// Digits that a server appends to the name of a sequential node.
const SEQUENCE_DIGITS: usize = 10;

/// How much of a subtree is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Node,
    Subtree,
}

/// What `/zookeeper` is, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZooKeeperNode {
    /// The server's own node: left out.
    OfServer,
    /// Below a chroot it is a node like others.
    OfUser,
}

impl ZooKeeperNode {
    /// Below this chroot; empty is the root of the server.
    pub(crate) fn below(chroot: &str) -> ZooKeeperNode {
        if chroot.is_empty() { ZooKeeperNode::OfServer } else { ZooKeeperNode::OfUser }
    }
}

/// The number that the next sequential node below a node gets: how many children were ever created there. The
/// stat counts creates and deletes together.
pub(super) fn next_sequence(stat: &Stat) -> i32 {
    let sum = i64::from(stat.cversion) + i64::from(stat.num_children);
    i32::try_from(sum / 2).unwrap_or(0)
}

/// The number at the end of a name, if it looks as if a server had given it.
pub(super) fn sequence_of(path: &str) -> Option<i32> {
    let start = path.len().checked_sub(SEQUENCE_DIGITS)?;
    let digits = path.get(start..).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

/// Reads a subtree. Ephemeral nodes belong to their sessions: they are left out and counted.
pub(crate) async fn read(
    client: &Client,
    root: &str,
    reach: Reach,
    zookeeper_node: ZooKeeperNode,
) -> Result<(SavedTree, u64), Failure> {
    let depth = match reach {
        Reach::Node => Depth::Levels(0),
        Reach::Subtree => Depth::All,
    };
    let list = walk::list(client, root, depth).await?.depth_first();
    let bar = progress(list.len());
    let prefix = if root == "/" { "" } else { root };
    let mut tree = SavedTree { root: root.to_owned(), nodes: Vec::with_capacity(list.len()) };
    let mut ephemerals = 0;
    for batch in list.chunks(BATCH) {
        let reads: Vec<_> =
            batch.iter().map(|node| (node, client.get(node).send(), client.get_acl(node).send())).collect();
        for (node, data, acl) in reads {
            bar.inc(1);
            let (data, acl) = match (data.await, acl.await) {
                (Ok(data), Ok(acl)) => (data, acl),
                (Err(error), _) | (_, Err(error)) if is_gone(&error) && node != root => continue,
                (Err(error), _) | (_, Err(error)) => return Err(error.into()),
            };
            let own = zookeeper_node == ZooKeeperNode::OfServer
                && (node == "/zookeeper" || node.starts_with("/zookeeper/"));
            if data.stat.ephemeral_owner != 0 {
                ephemerals += 1;
            } else if !(own && prefix.is_empty()) {
                let path = node.strip_prefix(prefix).unwrap_or(node);
                let path = if node == root { "" } else { path }.to_owned();
                let stat = data.stat;
                let data = (!data.is_null).then(|| data.data.to_vec());
                let next_sequence = Some(next_sequence(&stat));
                tree.nodes.push(SavedNode { path, data, acl: acl.entries, next_sequence });
            }
        }
    }
    bar.finish_and_clear();
    forget_unused_counters(&mut tree);
    Ok((tree, ephemerals))
}

/// Keeps the counters of nodes below which a name looks as if a server had given it; the others mean nothing
/// elsewhere.
fn forget_unused_counters(tree: &mut SavedTree) {
    let parent = |path: &str| path.rfind('/').map(|at| path[..at].to_owned());
    let names = tree.nodes.iter().filter(|node| sequence_of(&node.path).is_some());
    let used: BTreeSet<String> = names.filter_map(|node| parent(&node.path)).collect();
    for node in tree.nodes.iter_mut().filter(|node| !used.contains(&node.path)) {
        node.next_sequence = None;
    }
}

fn is_gone(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NoNode)
}

/// A count of nodes whose total is not known, on standard error, if that is a terminal.
pub(super) fn spinner(verb: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos} nodes {msg}, {elapsed}");
    ProgressBar::new_spinner().with_style(style.expect("the template is right")).with_message(verb)
}

/// A bar of nodes on standard error, if that is a terminal.
pub(super) fn progress(total: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} nodes, {eta} left");
    ProgressBar::new(total as u64).with_style(style.expect("the template is right"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_counts_creates() {
        let stat = |cversion, num_children| Stat { cversion, num_children, ..Stat::default() };
        assert_eq!(next_sequence(&stat(0, 0)), 0);
        // Three created, one of them deleted.
        assert_eq!(next_sequence(&stat(4, 2)), 3);
        assert_eq!(next_sequence(&stat(-1, 0)), 0);
    }
}
