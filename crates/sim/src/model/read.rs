//! Reads of the model: the reply according to the state after a transaction.

use std::sync::Arc;

use zebu_proto::{ErrorCode, Permissions, SessionId, Stat};

use super::{Model, ModelLifetime};
use crate::operation::{MultiReadOperation, NodePath, ReadOperation};

/// The expected reply to a read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExpectedRead {
    Error(ErrorCode),
    Data(Option<Arc<[u8]>>, Stat),
    Stat(Stat),
    Names(Vec<Box<str>>),
    NamesAndStat(Vec<Box<str>>, Stat),
    Permissions(i32, Stat),
    Count(i32),
    Paths(Vec<NodePath>),
    Several(Vec<ExpectedRead>),
}

impl Model {
    /// The reply to a read of a session at a state.
    pub(crate) fn read(&self, read: &ReadOperation, session: SessionId, zxid: i64) -> ExpectedRead {
        let node = |path: &NodePath| self.at(path, zxid).ok_or(ErrorCode::NoNode);
        let readable = |path: &NodePath| {
            let node = node(path)?;
            if node.permissions & Permissions::READ == 0 { Err(ErrorCode::NoAuth) } else { Ok(node) }
        };
        let answer = match read {
            ReadOperation::Get(path) => {
                readable(path).map(|node| ExpectedRead::Data(node.data.clone(), node.stat()))
            }
            ReadOperation::Exists(path) => readable(path).map(|node| ExpectedRead::Stat(node.stat())),
            ReadOperation::Children(path) => {
                readable(path).map(|node| ExpectedRead::Names(node.children.iter().cloned().collect()))
            }
            ReadOperation::ChildrenAndStat(path) => readable(path)
                .map(|node| ExpectedRead::NamesAndStat(node.children.iter().cloned().collect(), node.stat())),
            ReadOperation::Acl(path) => node(path).and_then(|node| {
                let may = Permissions::READ | Permissions::ADMIN;
                if node.permissions & may == 0 {
                    return Err(ErrorCode::NoAuth);
                }
                Ok(ExpectedRead::Permissions(node.permissions, node.stat()))
            }),
            ReadOperation::DescendantCount(path) => {
                readable(path).map(|_| ExpectedRead::Count(self.below(path, zxid)))
            }
            ReadOperation::Ephemerals(prefix) => Ok(ExpectedRead::Paths(self.owned(prefix, session, zxid))),
            // The listing checks compare it with the nodes.
            ReadOperation::Listing(_) => Err(ErrorCode::Unimplemented),
            ReadOperation::Several(reads) => {
                let each = |read: &MultiReadOperation| {
                    let read = match read {
                        MultiReadOperation::Get(path) => ReadOperation::Get(path.clone()),
                        MultiReadOperation::Children(path) => ReadOperation::Children(path.clone()),
                    };
                    self.read(&read, session, zxid)
                };
                Ok(ExpectedRead::Several(reads.iter().map(each).collect()))
            }
        };
        answer.unwrap_or_else(ExpectedRead::Error)
    }

    fn below(&self, path: &str, zxid: i64) -> i32 {
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let is_below = |it: &&NodePath| it.len() > prefix.len() && it.starts_with(&prefix);
        self.paths().filter(is_below).filter(|it| self.at(it, zxid).is_some()).count() as i32
    }

    fn owned(&self, prefix: &str, session: SessionId, zxid: i64) -> Vec<NodePath> {
        let is_owned = |path: &&NodePath| {
            path.starts_with(prefix)
                && self.at(path, zxid).is_some_and(|node| node.stays == ModelLifetime::WithSession(session))
        };
        self.paths().filter(is_owned).cloned().collect()
    }
}
