//! What the directory of one writer must look like. It predicts the outcome of every operation; zxids are
//! known for what was acknowledged, and taken from the server for what was not.

use std::collections::BTreeMap;

use zebu_proto::ErrorCode;

use super::operation::{Access, Operation, Owner};
use crate::dump::{Dump, Node, Short};

/// One expected node.
#[derive(Clone, Debug)]
struct Expected {
    data: Vec<u8>,
    version: i32,
    aversion: i32,
    /// Children ever created: the number of the next numbered one.
    created: i32,
    owner: Owner,
    access: Access,
    czxid: Option<i64>,
    mzxid: Option<i64>,
    pzxid: Option<i64>,
}

/// The directory, by relative path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    nodes: BTreeMap<String, Expected>,
}

impl Model {
    /// Lets `operation` happen as transaction `zxid`, if that is known, and tells its error; zero is none.
    pub(crate) fn apply(&mut self, operation: &Operation, zxid: Option<i64>) -> i32 {
        match operation {
            Operation::Create { path, data, owner, .. } => {
                if self.nodes.contains_key(path) {
                    return ErrorCode::NodeExists.wire();
                }
                self.create(path, data, *owner, zxid);
            }
            Operation::CreateNumbered { parent, data, owner } => {
                let path = self.numbered(parent);
                self.create(&path, data, *owner, zxid);
            }
            Operation::Set { path, data, version } => {
                if *version != -1 && self.nodes.get(path).is_some_and(|node| node.version != *version) {
                    return ErrorCode::BadVersion.wire();
                }
                self.set(path, data, zxid);
            }
            Operation::Delete { path } => self.delete(path, zxid),
            Operation::SetAccess { path, access } => {
                let node = self.node(path);
                node.access = *access;
                node.aversion += 1;
            }
            Operation::SetBoth { paths, data } => paths.iter().for_each(|path| self.set(path, data, zxid)),
            Operation::CreateBoth { paths, data } => {
                paths.iter().for_each(|path| self.create(path, data, Owner::Nobody, zxid));
            }
            Operation::DeleteBoth { paths } => paths.iter().for_each(|path| self.delete(path, zxid)),
            Operation::SetBothAndFail { .. } => return ErrorCode::BadVersion.wire(),
        }
        0
    }

    /// The version of a node's data.
    pub(crate) fn version(&self, path: &str) -> Option<i32> {
        self.nodes.get(path).map(|node| node.version)
    }

    /// Children of `parent`, oldest names first.
    pub(crate) fn children(&self, parent: &str) -> Vec<String> {
        let prefix = format!("{parent}/");
        let below = self.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        below.filter(|(path, _)| parent_of(path) == parent).map(|(path, _)| path.clone()).collect()
    }

    /// The path of the node that a numbered create would make now.
    pub(crate) fn numbered(&self, parent: &str) -> String {
        format!("{parent}/q{:010}", self.nodes[parent].created)
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The differences below `top`; empty if there are none.
    pub(crate) fn differences(&self, dump: &Dump, top: &str, session: i64) -> Vec<String> {
        let mut differences = Vec::new();
        let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
        for path in self.nodes.keys().filter(|path| !path.is_empty()) {
            *counts.entry(parent_of(path)).or_default() += 1;
        }
        for (path, expected) in &self.nodes {
            let count = counts.get(path.as_str()).copied().unwrap_or(0);
            match dump.0.get(&format!("{top}{path}")) {
                None => differences.push(format!("{top}{path} is missing")),
                Some(node) => {
                    if let Some(what) = expected.difference(node, count, session) {
                        differences.push(format!("{top}{path}: {what}, it is {}", Short(node)));
                    }
                }
            }
        }
        for (path, node) in dump.below(top) {
            if !self.nodes.contains_key(&path[top.len()..]) {
                differences.push(format!("{path} should not be there: {}", Short(node)));
            }
        }
        differences
    }

    /// Takes the zxids over from a tree that is as expected.
    pub(crate) fn adopt(&mut self, dump: &Dump, top: &str) {
        for (path, expected) in &mut self.nodes {
            if let Some(node) = dump.0.get(&format!("{top}{path}")) {
                expected.czxid = Some(node.stat.czxid);
                expected.mzxid = Some(node.stat.mzxid);
                expected.pzxid = Some(node.stat.pzxid);
            }
        }
    }

    fn node(&mut self, path: &str) -> &mut Expected {
        self.nodes.get_mut(path).expect("operations are made for nodes that the model has")
    }

    fn create(&mut self, path: &str, data: &[u8], owner: Owner, zxid: Option<i64>) {
        let node = Expected {
            data: data.to_vec(),
            version: 0,
            aversion: 0,
            created: 0,
            owner,
            access: Access::Open,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
        };
        self.nodes.insert(path.to_owned(), node);
        if !path.is_empty() {
            let parent = self.node(parent_of(path));
            parent.created += 1;
            parent.pzxid = zxid;
        }
    }

    fn set(&mut self, path: &str, data: &[u8], zxid: Option<i64>) {
        let node = self.node(path);
        node.data = data.to_vec();
        node.version += 1;
        node.mzxid = zxid;
    }

    fn delete(&mut self, path: &str, zxid: Option<i64>) {
        self.nodes.remove(path);
        self.node(parent_of(path)).pzxid = zxid;
    }
}

impl Expected {
    /// The first thing that is not as expected. A client sees a cversion that counts deletions too.
    fn difference(&self, node: &Node, children: i32, session: i64) -> Option<String> {
        let stat = &node.stat;
        let owner = if self.owner == Owner::Session { session } else { 0 };
        let cversion = 2 * self.created - children;
        let numbers: [(&str, i64, i64); 9] = [
            ("version", self.version.into(), stat.version.into()),
            ("aversion", self.aversion.into(), stat.aversion.into()),
            ("cversion", cversion.into(), stat.cversion.into()),
            ("numChildren", children.into(), stat.num_children.into()),
            ("dataLength", self.data.len() as i64, stat.data_length.into()),
            ("ephemeralOwner", owner, stat.ephemeral_owner),
            ("czxid", self.czxid.unwrap_or(stat.czxid), stat.czxid),
            ("mzxid", self.mzxid.unwrap_or(stat.mzxid), stat.mzxid),
            ("pzxid", self.pzxid.unwrap_or(stat.pzxid), stat.pzxid),
        ];
        if let Some((name, expected, _)) = numbers.iter().find(|(_, expected, real)| expected != real) {
            return Some(format!("{name} should be {expected}"));
        }
        if node.data.as_deref() != Some(&self.data) {
            return Some("other data was written".to_owned());
        }
        (node.acl != self.access.acl()).then(|| format!("the ACL should be {:?}", self.access))
    }
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use zebu_proto::Stat;
    use zebu_proto::client::CreateOp;

    use super::*;

    fn create(path: &str) -> Operation {
        Operation::Create {
            path: path.to_owned(),
            data: b"x".to_vec(),
            owner: Owner::Nobody,
            op: CreateOp::Create,
        }
    }

    /// A tree of one directory with one child, as a server would show it.
    fn dump(child_mzxid: i64) -> Dump {
        let node = |stat: Stat, children: &[&str]| Node {
            data: Some(b"x".to_vec()),
            stat,
            acl: Access::Open.acl(),
            children: children.iter().map(|name| (*name).to_owned()).collect(),
        };
        let top = Stat {
            czxid: 5,
            mzxid: 5,
            pzxid: 6,
            cversion: 1,
            num_children: 1,
            data_length: 1,
            ..Stat::default()
        };
        let child = Stat { czxid: 6, mzxid: child_mzxid, pzxid: 6, data_length: 1, ..Stat::default() };
        let nodes = [("/w".to_owned(), node(top, &["a"])), ("/w/a".to_owned(), node(child, &[]))];
        Dump(nodes.into_iter().collect())
    }

    #[test]
    fn acknowledged_writes_are_asked_for_and_others_are_not() {
        let mut model = Model::default();
        assert_eq!(model.apply(&create(""), Some(5)), 0);
        let differences = model.differences(&dump(6), "/w", 1);
        assert!(differences[0].starts_with("/w: cversion should be 0"), "{differences:?}");
        assert!(differences[1].starts_with("/w/a should not be there"), "{differences:?}");
        assert_eq!(model.apply(&create("/a"), None), 0);
        assert_eq!(model.differences(&dump(6), "/w", 1), Vec::<String>::new());
        model.adopt(&dump(6), "/w");
        assert_eq!(model.differences(&dump(7), "/w", 1).len(), 1);
        assert_eq!(model.apply(&create("/a"), Some(9)), ErrorCode::NodeExists.wire());
        assert_eq!(model.numbered(""), "/q0000000001");
        model.apply(&Operation::Delete { path: "/a".to_owned() }, Some(9));
        assert_eq!(model.numbered(""), "/q0000000001");
        assert_eq!(model.differences(&dump(6), "/w", 1).len(), 2);
    }
}
