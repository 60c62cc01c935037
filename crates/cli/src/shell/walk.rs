//! A subtree as a list of paths. Listings are sent many at once, in pages where the server has them; a node
//! that goes meanwhile is left out.

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use zebu_client::{Client, Error, ErrorCode, OneshotWatcher, path};

use super::subtree::spinner;

/// Listings that are on their way at once.
const BATCH: usize = 256;

/// Names on a page, which is thus shorter than a packet.
const PAGE: usize = 10_000;

/// How far down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    All,
    /// The node and this many levels below it.
    Levels(u32),
}

/// A node and what is below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subtree {
    root: String,
    /// The sorted names of the children, by the path of their parent. A node without an entry was not listed.
    children: BTreeMap<String, Vec<String>>,
}

impl Subtree {
    /// The names below a node; `None` if it was not listed.
    pub(crate) fn names(&self, node: &str) -> Option<&[String]> {
        self.children.get(node).map(Vec::as_slice)
    }

    /// Every path: a node, then all its children, then what is below each of them.
    pub(crate) fn children_then_descent(&self) -> Vec<String> {
        let mut paths = vec![self.root.clone()];
        let mut waiting = vec![self.root.clone()];
        while let Some(node) = waiting.pop() {
            let below: Vec<String> = self.below(&node).collect();
            paths.extend(below.iter().cloned());
            waiting.extend(below.into_iter().rev());
        }
        paths
    }

    /// Every path, parents before their children, each node directly followed by what is below it.
    pub(crate) fn depth_first(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut waiting = vec![self.root.clone()];
        while let Some(node) = waiting.pop() {
            let below: Vec<String> = self.below(&node).collect();
            waiting.extend(below.into_iter().rev());
            paths.push(node);
        }
        paths
    }

    fn below<'a>(&'a self, node: &'a str) -> impl Iterator<Item = String> + 'a {
        self.names(node).unwrap_or_default().iter().map(move |name| path::join(node, name))
    }
}

/// Lists a subtree. A terminal shows how many nodes are found.
pub(crate) async fn list(client: &Client, root: &str, depth: Depth) -> Result<Subtree, Error> {
    let mut tree = Subtree { root: root.to_owned(), ..Subtree::default() };
    let mut level = vec![root.to_owned()];
    let mut levels = 0;
    let bar = spinner("found");
    while !level.is_empty() && (depth == Depth::All || depth > Depth::Levels(levels)) {
        let mut next = Vec::new();
        for batch in level.chunks(BATCH) {
            for (node, names) in batch.iter().zip(lists(client, batch).await) {
                let names = match names {
                    Ok(names) => names,
                    Err(error) if error.code() == Some(ErrorCode::NoNode) && node != root => continue,
                    Err(error) => {
                        bar.finish_and_clear();
                        return Err(error);
                    }
                };
                bar.inc(names.len() as u64);
                add(&mut tree, node, names, &mut next);
            }
        }
        level = next;
        levels += 1;
    }
    bar.finish_and_clear();
    Ok(tree)
}

/// The names below each of these nodes.
async fn lists(client: &Client, nodes: &[String]) -> Vec<Result<Vec<String>, Error>> {
    let mut running = JoinSet::new();
    for (index, node) in nodes.iter().enumerate() {
        let (client, node) = (client.clone(), node.clone());
        running.spawn(async move { (index, names_below(&client, &node).await) });
    }
    let mut lists: Vec<_> = nodes.iter().map(|_| Ok(Vec::new())).collect();
    while let Some(done) = running.join_next().await {
        // A task ends early only if it panics.
        let (index, names) = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        lists[index] = names;
    }
    lists
}

async fn names_below(client: &Client, node: &str) -> Result<Vec<String>, Error> {
    let mut pages = client.children(node).pages(PAGE);
    let mut names = Vec::new();
    while let Some(page) = pages.next().await {
        names.extend(page?.children.into_iter().map(|child| child.name));
    }
    Ok(names)
}

/// Lists a subtree and leaves a watch for the children of every node.
pub(crate) async fn list_watched(
    client: &Client,
    root: &str,
) -> Result<(Subtree, Vec<(String, OneshotWatcher)>), Error> {
    let mut tree = Subtree { root: root.to_owned(), ..Subtree::default() };
    let mut watchers = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(node) = waiting.pop() {
        match client.children(&node).watched().await {
            Ok((list, watcher)) => {
                add(&mut tree, &node, list.names, &mut waiting);
                watchers.push((node, watcher));
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) && node != root => {}
            Err(error) => return Err(error),
        }
    }
    Ok((tree, watchers))
}

fn add(tree: &mut Subtree, node: &str, mut names: Vec<String>, next: &mut Vec<String>) {
    names.sort_unstable();
    next.extend(names.iter().map(|name| path::join(node, name)));
    tree.children.insert(node.to_owned(), names);
}

impl PartialOrd for Depth {
    fn partial_cmp(&self, other: &Depth) -> Option<std::cmp::Ordering> {
        let levels = |depth: &Depth| match depth {
            Depth::All => u64::MAX,
            Depth::Levels(levels) => u64::from(*levels),
        };
        levels(self).partial_cmp(&levels(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_orders() {
        let mut tree = Subtree { root: "/".to_owned(), ..Subtree::default() };
        let mut next = Vec::new();
        for (node, names) in [("/", "b a"), ("/a", "x"), ("/b", ""), ("/a/x", "")] {
            add(&mut tree, node, names.split_whitespace().map(str::to_owned).collect(), &mut next);
        }
        assert_eq!(tree.children_then_descent(), ["/", "/a", "/b", "/a/x"]);
        assert_eq!(tree.depth_first(), ["/", "/a", "/a/x", "/b"]);
        assert_eq!((tree.names("/b").map(<[String]>::len), tree.names("/a/x/y")), (Some(0), None));
    }
}
