//! `tree`: a subtree as a drawing.

use zebu_client::{Client, Stat};

use crate::offline::count;
use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch, value};
use crate::shell::paths;
use crate::shell::reply::{Branch, Reply};
use crate::shell::session::Session;
use crate::shell::walk::{self, Depth, Subtree};

pub(crate) const ENTRY: Entry = Entry {
    name: "tree",
    syntax: "[-L depth] [-s] [path]",
    about: "Draws a subtree",
    examples: &["tree", "tree -L 2 /apps", "tree -s /apps", "tree --json /apps"],
    origin: Origin::Zebu,
    needs_session: true,
    flags: &[value("L", "So many levels"), switch("s", "With the length of data, and who is ephemeral")],
    parse,
};

struct Tree {
    path: String,
    depth: Depth,
    with_stat: bool,
}

fn parse(given: &Given) -> Parsed {
    let depth = match given.value("L") {
        None => Depth::All,
        Some(text) => Depth::Levels(
            text.parse()
                .map_err(|_| Failure::text(format!("a depth is a number of levels, not {text:?}")))?,
        ),
    };
    let path = given.word(0).unwrap_or("/").to_owned();
    Ok(Box::new(Tree { path, depth, with_stat: given.has("s") }))
}

impl Command for Tree {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let client = session.client()?;
            let tree = walk::list(&client, &self.path, self.depth).await?;
            let nodes = tree.depth_first();
            let stats = match self.with_stat {
                true => stats(&client, &nodes).await?,
                false => vec![None; nodes.len()],
            };
            let mut rows = nodes.iter().zip(stats);
            let root = rows.next().map(|(node, stat)| branch(node, node, stat, &tree));
            let root = root.ok_or_else(|| Failure::text("there is nothing"))?;
            Ok(Reply::Tree(grow(root, rows, &tree)))
        })
    }
}

/// Nodes follow each other depth first: a stack of open branches is all that is needed.
fn grow<'a>(root: Branch, rows: impl Iterator<Item = (&'a String, Option<Stat>)>, tree: &Subtree) -> Branch {
    let depth_of = |path: &str| path.trim_end_matches('/').matches('/').count();
    let mut open = vec![(depth_of(&root.name), root)];
    for (path, stat) in rows {
        let depth = depth_of(path);
        while open.len() > 1 && open.last().is_some_and(|(other, _)| *other >= depth) {
            close(&mut open);
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        open.push((depth, branch(path, name, stat, tree)));
    }
    while open.len() > 1 {
        close(&mut open);
    }
    open.pop().map(|(_, root)| root).expect("the root stays")
}

fn close(open: &mut Vec<(usize, Branch)>) {
    if let (Some((_, done)), Some((_, parent))) = (open.pop(), open.last_mut()) {
        parent.children.push(done);
    }
}

fn branch(path: &str, name: &str, stat: Option<Stat>, tree: &Subtree) -> Branch {
    let note = stat.map(|stat| {
        let bytes = u64::try_from(stat.data_length).unwrap_or(0);
        let ephemeral = if stat.ephemeral_owner != 0 { ", ephemeral" } else { "" };
        format!("{}{ephemeral}", count(bytes, "byte", "bytes"))
    });
    Branch { name: name.to_owned(), note, cut: tree.names(path).is_none(), children: Vec::new() }
}

async fn stats(client: &Client, nodes: &[String]) -> Result<Vec<Option<Stat>>, Failure> {
    let mut stats = Vec::with_capacity(nodes.len());
    for batch in nodes.chunks(256) {
        let asked: Vec<_> = batch.iter().map(|node| client.exists(node).send()).collect();
        for answer in asked {
            stats.push(answer.await?);
        }
    }
    Ok(stats)
}
