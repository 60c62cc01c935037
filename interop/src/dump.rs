//! The whole tree as the super user reads it through the protocol, and how two readings differ.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, ensure};
use zebu_proto::client::reply::{GetAclResponse, GetChildren2Response, GetDataResponse};
use zebu_proto::{Acl, Jute, OpCode, Reader, Stat};

use crate::client::Client;

/// Nodes asked for in one write.
const BATCH: usize = 100;

/// One node with everything that a client can see of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) stat: Stat,
    pub(crate) acl: Vec<Acl>,
    pub(crate) children: Vec<String>,
}

/// All nodes by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dump(pub(crate) BTreeMap<String, Node>);

impl Dump {
    /// Reads the tree. No client may write meanwhile.
    pub(crate) fn read(client: &mut Client) -> Result<Dump> {
        let mut nodes = BTreeMap::new();
        let mut waiting = vec!["/".to_owned()];
        while !waiting.is_empty() {
            let batch = waiting.split_off(waiting.len().saturating_sub(BATCH));
            for path in &batch {
                client.queue(OpCode::GetData, |out| read_request(path, out));
                client.queue(OpCode::GetAcl, |out| Some(Box::from(path.as_str())).encode(out));
                client.queue(OpCode::GetChildren2, |out| read_request(path, out));
            }
            client.flush()?;
            for path in batch {
                let node = receive(client).with_context(|| format!("read {path}"))?;
                let parent = if path == "/" { "" } else { &path };
                waiting.extend(node.children.iter().map(|name| format!("{parent}/{name}")));
                nodes.insert(path, node);
            }
        }
        Ok(Dump(nodes))
    }

    /// The nodes at and below `top`.
    pub(crate) fn below<'a>(&'a self, top: &'a str) -> impl Iterator<Item = (&'a String, &'a Node)> {
        self.0.iter().filter(move |(path, _)| is_below(path, top))
    }

    /// Every difference to what is there now, outside of `except`; at most a few are worth reading.
    pub(crate) fn differences(&self, now: &Dump, except: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut differences = Vec::new();
        for (path, old) in self.0.iter().filter(|(path, _)| !except(path)) {
            match now.0.get(path) {
                None => differences.push(format!("{path:?} is gone; it was {}", Short(old))),
                Some(new) if comparable(path, old) != comparable(path, new) => {
                    differences.push(format!("{path:?}\n    was {}\n    is  {}", Short(old), Short(new)));
                }
                Some(_) => {}
            }
        }
        for (path, new) in now.0.iter().filter(|(path, _)| !except(path)) {
            if !self.0.contains_key(path) {
                differences.push(format!("{path:?} was not there; it is {}", Short(new)));
            }
        }
        differences
    }
}

/// Whether `path` is `top` or below it.
pub(crate) fn is_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The configuration node is written by each server for itself at its start, outside of any transaction.
fn comparable(path: &str, node: &Node) -> Node {
    let mut node = node.clone();
    if path == "/zookeeper/config" {
        node.stat.mtime = 0;
        node.stat.mzxid = 0;
        node.stat.version = 0;
    }
    node
}

fn read_request(path: &str, out: &mut Vec<u8>) {
    Some(Box::from(path)).encode(out);
    false.encode(out);
}

fn receive(client: &mut Client) -> Result<Node> {
    let mut bodies = Vec::new();
    for _ in 0..3 {
        let (header, body) = client.reply()?;
        bodies.push((header.err, body));
    }
    ensure!(
        bodies.iter().all(|(error, _)| *error == 0),
        "errors {:?}",
        bodies.iter().map(|(error, _)| error)
    );
    let data = GetDataResponse::decode(&mut Reader::new(&bodies[0].1))?;
    let acl = GetAclResponse::decode(&mut Reader::new(&bodies[1].1))?;
    let children = GetChildren2Response::decode(&mut Reader::new(&bodies[2].1))?;
    ensure!(data.stat == acl.stat && data.stat == children.stat, "three reads gave three stats");
    let mut names: Vec<String> = children.children.into_iter().map(String::from).collect();
    names.sort();
    Ok(Node { data: data.data.map(|data| data.to_vec()), stat: data.stat, acl: acl.acl, children: names })
}

/// A node on one line, large data by its length.
pub(crate) struct Short<'a>(pub(crate) &'a Node);

impl fmt::Display for Short<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Node { data, stat, acl, children } = self.0;
        match data {
            Some(data) if data.len() > 60 => write!(formatter, "{} bytes", data.len())?,
            Some(data) => write!(formatter, "{:?}", String::from_utf8_lossy(data))?,
            None => formatter.write_str("null")?,
        }
        let acl: Vec<String> =
            acl.iter().map(|acl| format!("{:?}:{:?}:{}", acl.id.scheme, acl.id.id, acl.perms)).collect();
        write!(formatter, " {stat:?} {acl:?}")?;
        if children.len() <= 10 { write!(formatter, " children {children:?}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(nodes: &[(&str, i64)]) -> Dump {
        let node = |mzxid| Node {
            data: None,
            stat: Stat { mzxid, ..Stat::default() },
            acl: Acl::open(),
            children: Vec::new(),
        };
        Dump(nodes.iter().map(|(path, mzxid)| ((*path).to_owned(), node(*mzxid))).collect())
    }

    #[test]
    fn every_difference_is_found_and_exceptions_are_not_looked_at() {
        let before =
            dump(&[("/a", 1), ("/b", 1), ("/c", 1), ("/l", 1), ("/l/x", 1), ("/zookeeper/config", 1)]);
        let now = dump(&[("/a", 1), ("/b", 2), ("/d", 1), ("/l", 2), ("/lx", 1), ("/zookeeper/config", 2)]);
        let found = before.differences(&now, &|path| is_below(path, "/l"));
        let starts: Vec<&str> = found.iter().map(|text| text.split_whitespace().next().unwrap()).collect();
        assert_eq!(starts, ["\"/b\"", "\"/c\"", "\"/d\"", "\"/lx\""]);
    }
}
