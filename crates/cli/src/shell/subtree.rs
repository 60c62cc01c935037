//! A subtree on its way: read with data and ACLs, many nodes at once, and written again elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use zebu_client::{Acl, Client, Error, ErrorCode, Pending, Version};

use super::failure::Failure;
use super::reply::Tally;
use super::subtree_file::{SavedNode, SavedTree};
use super::walk::{self, Depth};

/// Nodes on their way at once.
const BATCH: usize = 128;

/// What happens to nodes that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Nothing is written if there is one.
    Refuse,
    /// Their data and ACL are replaced.
    Overwrite,
}

/// Whether anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    Really,
    DryRun,
}

/// Whether a person is told how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Node,
    Subtree,
}

/// Reads a subtree. Ephemeral nodes belong to their sessions: they are left out and counted.
pub(crate) async fn read(client: &Client, root: &str, reach: Reach) -> Result<(SavedTree, u64), Failure> {
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
            let own = node == "/zookeeper" || node.starts_with("/zookeeper/");
            if data.stat.ephemeral_owner != 0 {
                ephemerals += 1;
            } else if !(own && prefix.is_empty()) {
                let path = node.strip_prefix(prefix).unwrap_or(node);
                let path = if node == root { "" } else { path }.to_owned();
                let data = (!data.is_null).then(|| data.data.to_vec());
                tree.nodes.push(SavedNode { path, data, acl: acl.entries });
            }
        }
    }
    bar.finish_and_clear();
    Ok((tree, ephemerals))
}

fn is_gone(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NoNode)
}

/// Writes a subtree below a node. What is above that node must be there.
pub(crate) async fn write(
    client: &Client,
    tree: &SavedTree,
    target: &str,
    existing: Existing,
    writing: Writing,
) -> Result<Tally, Failure> {
    let prefix = if target == "/" { "" } else { target };
    let place = |node: &SavedNode| match format!("{prefix}{}", node.path) {
        path if path.is_empty() => "/".to_owned(),
        path => path,
    };
    let present = find_present(client, tree, place).await?;
    // The root is always there and is no reason to refuse.
    let in_the_way = present.iter().zip(&tree.nodes).filter(|(there, node)| **there && place(node) != "/");
    let in_the_way: Vec<String> = in_the_way.map(|(_, node)| place(node)).collect();
    if let (Existing::Refuse, Some(first)) = (existing, in_the_way.first()) {
        let number = in_the_way.len();
        let text =
            format!("{number} of the nodes are there already, the first is {first}; nothing was written");
        return Err(Failure::text(text));
    }
    let mut tally = Tally::default();
    let bar = progress(tree.nodes.len());
    for (nodes, there) in tree.nodes.chunks(BATCH).zip(present.chunks(BATCH)) {
        let mut sent: Vec<(String, Vec<Pending<()>>)> = Vec::new();
        for (node, there) in nodes.iter().zip(there) {
            tally.bytes += node.data.as_ref().map_or(0, Vec::len) as u64;
            if *there {
                tally.overwritten += 1
            } else {
                tally.created += 1
            }
            if writing == Writing::Really {
                let path = place(node);
                let calls = if *there { overwrite(client, &path, node) } else { create(client, &path, node) };
                sent.push((path, calls));
            }
            bar.inc(1);
        }
        for (path, calls) in sent {
            for call in calls {
                call.await.map_err(|error| {
                    Failure::text(format!(
                        "{}; other nodes may have been written",
                        super::failure::error_text(&error, Some(&path))
                    ))
                })?;
            }
        }
    }
    bar.finish_and_clear();
    Ok(tally)
}

async fn find_present(
    client: &Client,
    tree: &SavedTree,
    place: impl Fn(&SavedNode) -> String,
) -> Result<Vec<bool>, Failure> {
    let mut present = Vec::with_capacity(tree.nodes.len());
    for batch in tree.nodes.chunks(BATCH) {
        let asked: Vec<_> = batch.iter().map(|node| client.exists(&place(node)).send()).collect();
        for answer in asked {
            present.push(answer.await?.is_some());
        }
    }
    Ok(present)
}

/// Entries whose scheme is `auth` never come back from a server; everything else is written as it was.
fn create(client: &Client, path: &str, node: &SavedNode) -> Vec<Pending<()>> {
    let acl = if node.acl.is_empty() { Acl::open() } else { node.acl.clone() };
    let mut create = client.create(path).acl(acl);
    create = match &node.data {
        Some(data) => create.data(data.clone()),
        None => create.null_data(),
    };
    let sent = create.send();
    vec![Box::pin(async move { sent.await.map(drop) })]
}

fn overwrite(client: &Client, path: &str, node: &SavedNode) -> Vec<Pending<()>> {
    let data = node.data.clone().unwrap_or_default();
    let set = client.set(path, data).version(Version::Any).send();
    let acl = client.set_acl(path, node.acl.clone()).send();
    vec![Box::pin(async move { set.await.map(drop) }), Box::pin(async move { acl.await.map(drop) })]
}

/// A bar of nodes on standard error, if that is a terminal.
fn progress(total: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} nodes, {eta} left");
    ProgressBar::new(total as u64).with_style(style.expect("the template is right"))
}
