//! The nodes of a load, and how they come to be there: creates in a long pipeline, so that a million of them
//! take no more patience than the server's disk needs.

use std::collections::VecDeque;
use std::time::Instant;

use zebu_proto::{ErrorCode, OpCode};

use crate::body;
use crate::run::{BenchError, Progress};
use crate::server::BenchServer;
use crate::session::BenchSession;

/// Creates that are in flight at once: below the thousand at which a server stops reading from a client.
const WINDOW: usize = 500;

/// Replies between two looks at the progress.
const PROGRESS_STEP: u64 = 10_000;

/// Bytes of the last name of a leaf, unless more are asked for; enough for ten million leaves.
const NAME_BYTES_MIN: usize = 8;

/// Leaves, spread evenly over parents below a root; directly below the root if there are no parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The node above all; created with all that is above it.
    pub root: String,
    /// Nodes between the root and the leaves.
    pub parents: usize,
    /// Leaves in all.
    pub leaves: usize,
    /// Bytes of a leaf's last name; fewer than eight are eight.
    pub name_bytes: usize,
}

impl Nodes {
    /// Leaves directly below the root.
    pub fn flat(root: impl Into<String>, leaves: usize) -> Nodes {
        Nodes { root: root.into(), parents: 0, leaves, name_bytes: NAME_BYTES_MIN }
    }

    /// The same with names of this many bytes.
    pub fn named(self, name_bytes: usize) -> Nodes {
        Nodes { name_bytes, ..self }
    }

    /// The path of a leaf.
    pub fn leaf(&self, number: usize) -> String {
        let digits = self.name_bytes.max(NAME_BYTES_MIN) - 1;
        match self.parents {
            0 => format!("{}/n{number:0digits$}", self.root),
            parents => {
                let parent = number / self.leaves.div_ceil(parents).max(1);
                format!("{}/p{parent:04}/n{number:0digits$}", self.root)
            }
        }
    }

    /// Everything above the leaves, from the top down.
    fn above(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut path = String::new();
        for name in self.root.split('/').filter(|name| !name.is_empty()) {
            path = format!("{path}/{name}");
            paths.push(path.clone());
        }
        paths.extend((0..self.parents).map(|parent| format!("{}/p{parent:04}", self.root)));
        paths
    }
}

/// What one request in the pipeline was for.
enum Asked {
    Above(String),
    Leaf(usize),
    Replace(usize),
}

/// Creates the nodes; a leaf that exists gets the data. `progress` is called now and then.
pub async fn prepare(
    server: impl Into<BenchServer>,
    nodes: &Nodes,
    data_bytes: usize,
    mut progress: impl FnMut(Progress),
) -> Result<(), BenchError> {
    let started = Instant::now();
    fill(&server.into(), nodes, data_bytes, |replies, _, _| {
        if replies.is_multiple_of(PROGRESS_STEP) {
            progress(Progress { elapsed: started.elapsed(), replies });
        }
    })
    .await
}

/// The same, telling of every reply: how many there are now, when it was asked for and when it came.
pub(crate) async fn fill(
    server: &BenchServer,
    nodes: &Nodes,
    data_bytes: usize,
    mut replied: impl FnMut(u64, Instant, Instant),
) -> Result<(), BenchError> {
    let data = vec![b'z'; data_bytes];
    let mut session = BenchSession::open(server, 0).await?;
    let mut wanted =
        nodes.above().into_iter().map(Asked::Above).chain((0..nodes.leaves).map(Asked::Leaf)).peekable();
    let mut replacements = Vec::new();
    let mut in_flight = VecDeque::with_capacity(WINDOW);
    let mut replies = 0u64;
    loop {
        while in_flight.len() < WINDOW {
            let Some(asked) = replacements.pop().or_else(|| wanted.next()) else { break };
            push(&mut session, nodes, &asked, &data);
            in_flight.push_back((asked, Instant::now()));
        }
        if in_flight.is_empty() {
            break;
        }
        session.flush().await?;
        loop {
            let error = ErrorCode::from_wire(session.reply().await?.err);
            let Some((asked, at)) = in_flight.pop_front() else { return Err(BenchError::Garbage) };
            match (error, asked) {
                (None, _) | (Some(ErrorCode::NodeExists), Asked::Above(_)) => {}
                (Some(ErrorCode::NodeExists), Asked::Leaf(number)) => {
                    replacements.push(Asked::Replace(number));
                }
                (Some(error), Asked::Above(path)) => return Err(BenchError::Setup { path, error }),
                (Some(error), Asked::Leaf(number) | Asked::Replace(number)) => {
                    return Err(BenchError::Setup { path: nodes.leaf(number), error });
                }
            }
            replies += 1;
            replied(replies, at, Instant::now());
            if in_flight.is_empty() || !session.has_frame() {
                break;
            }
        }
    }
    session.close().await
}

fn push(session: &mut BenchSession, nodes: &Nodes, asked: &Asked, data: &[u8]) {
    match asked {
        Asked::Above(path) => {
            session.request(OpCode::Create, |out| body::create(path, b"", body::PERSISTENT, out))
        }
        Asked::Leaf(number) => {
            session.request(OpCode::Create, |out| {
                body::create(&nodes.leaf(*number), data, body::PERSISTENT, out)
            });
        }
        Asked::Replace(number) => {
            session.request(OpCode::SetData, |out| body::set(&nodes.leaf(*number), data, out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_spread_over_the_parents() {
        let nodes = Nodes { parents: 3, ..Nodes::flat("/a/b", 7) };
        assert_eq!(nodes.above(), ["/a", "/a/b", "/a/b/p0000", "/a/b/p0001", "/a/b/p0002"]);
        assert_eq!(nodes.leaf(0), "/a/b/p0000/n0000000");
        assert_eq!(nodes.leaf(6), "/a/b/p0002/n0000006");
        assert_eq!(Nodes::flat("/a", 3).leaf(2), "/a/n0000002");
        assert_eq!(Nodes::flat("/a", 3).named(12).leaf(2), "/a/n00000000002");
    }
}
