//! Reads of the model: the answer that the state after a transaction gives.

use std::sync::Arc;

use zebu_proto::{ErrorCode, Permissions, SessionId, Stat};

use super::{Model, Stays};
use crate::operation::{Path, Read, SeveralRead};

/// What a read has to say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    Error(ErrorCode),
    Data(Option<Arc<[u8]>>, Stat),
    Stat(Stat),
    Names(Vec<Box<str>>),
    NamesAndStat(Vec<Box<str>>, Stat),
    Permissions(i32, Stat),
    Count(i32),
    Paths(Vec<Path>),
    Several(Vec<Expected>),
}

impl Model {
    /// The answer to a read of a session at a state.
    pub(crate) fn read(&self, read: &Read, session: SessionId, zxid: i64) -> Expected {
        let node = |path: &Path| self.at(path, zxid).ok_or(ErrorCode::NoNode);
        let readable = |path: &Path| {
            let node = node(path)?;
            if node.permissions & Permissions::READ == 0 { Err(ErrorCode::NoAuth) } else { Ok(node) }
        };
        let answer = match read {
            Read::Get(path) => readable(path).map(|node| Expected::Data(node.data.clone(), node.stat())),
            Read::Exists(path) => readable(path).map(|node| Expected::Stat(node.stat())),
            Read::Children(path) => {
                readable(path).map(|node| Expected::Names(node.children.iter().cloned().collect()))
            }
            Read::ChildrenAndStat(path) => readable(path)
                .map(|node| Expected::NamesAndStat(node.children.iter().cloned().collect(), node.stat())),
            Read::Acl(path) => node(path).and_then(|node| {
                let may = Permissions::READ | Permissions::ADMIN;
                if node.permissions & may == 0 {
                    return Err(ErrorCode::NoAuth);
                }
                Ok(Expected::Permissions(node.permissions, node.stat()))
            }),
            Read::DescendantCount(path) => readable(path).map(|_| Expected::Count(self.below(path, zxid))),
            Read::Ephemerals(prefix) => Ok(Expected::Paths(self.owned(prefix, session, zxid))),
            Read::Several(reads) => {
                let each = |read: &SeveralRead| {
                    let read = match read {
                        SeveralRead::Get(path) => Read::Get(path.clone()),
                        SeveralRead::Children(path) => Read::Children(path.clone()),
                    };
                    self.read(&read, session, zxid)
                };
                Ok(Expected::Several(reads.iter().map(each).collect()))
            }
        };
        answer.unwrap_or_else(Expected::Error)
    }

    fn below(&self, path: &str, zxid: i64) -> i32 {
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let is_below = |it: &&Path| it.len() > prefix.len() && it.starts_with(&prefix);
        self.paths().filter(is_below).filter(|it| self.at(it, zxid).is_some()).count() as i32
    }

    fn owned(&self, prefix: &str, session: SessionId, zxid: i64) -> Vec<Path> {
        let is_owned = |path: &&Path| {
            path.starts_with(prefix)
                && self.at(path, zxid).is_some_and(|node| node.stays == Stays::WithSession(session))
        };
        self.paths().filter(is_owned).cloned().collect()
    }
}
