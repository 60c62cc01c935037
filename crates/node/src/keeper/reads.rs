//! Lists and checks of ClickHouse Keeper. They are answered at once, with the whole result.

use std::collections::VecDeque;

use zebu_proto::client::{
    ChildKind, FilteredListRequest, KeeperCheck, KeeperRead, ListRecursiveRequest, ListedContent,
};
use zebu_proto::jute::{encode_buffer, encode_bytes, encode_count};
use zebu_proto::{ErrorCode, Jute};
use zebu_tree::watch::WatchKind;
use zebu_tree::{NodeRef, path};

use super::{LIST_BYTES_MAX, LIST_RECURSIVE_NODES_MAX};
use crate::read::ReadContext;

impl ReadContext<'_> {
    /// Encodes the body of the reply.
    pub(crate) fn keeper_read(&self, request: &KeeperRead, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        match request {
            KeeperRead::List(request) => self.filtered_list(request, out),
            KeeperRead::ListRecursive(request) => self.list_recursive(request, out),
            KeeperRead::Check(check) => self.keeper_check(check),
        }
    }

    /// More than names needs the permission READ on every child.
    fn filtered_list(&self, request: &FilteredListRequest, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let content = request.content.unwrap_or(ListedContent { stats: false, data: false });
        if request.kind == ChildKind::All && !content.stats && !content.data {
            self.get_children2(&request.path, request.watch, out)?;
            if request.content.is_some() {
                encode_count(0, out);
                encode_count(0, out);
            }
            return Ok(());
        }
        let parent = self.readable_node(&request.path)?;
        let start = out.len();
        let mut children = Vec::new();
        let mut child = parent.first_child();
        while let Some(node) = child {
            self.work.add_visits(1);
            if !self.may_read(&node) {
                return Err(ErrorCode::NoAuth);
            }
            if node.is_of_kind(request.kind) {
                children.push(node);
            }
            child = node.next_sibling();
        }
        let check_length = |out: &Vec<u8>| self.check_list_length(out.len() - start);
        encode_count(children.len(), out);
        children.iter().for_each(|child| encode_bytes(child.name().as_bytes(), out));
        parent.stat().encode(out);
        if request.content.is_some() {
            encode_count(if content.stats { children.len() } else { 0 }, out);
            for child in children.iter().filter(|_| content.stats) {
                child.stat().encode(out);
                check_length(out)?;
            }
            encode_count(if content.data { children.len() } else { 0 }, out);
            for child in children.iter().filter(|_| content.data) {
                encode_buffer(child.data(), out);
                check_length(out)?;
            }
        }
        check_length(out)?;
        self.watch(&request.path, request.watch, WatchKind::Child)
    }

    /// Level by level. A node that the client may not read is left out with all nodes below it.
    fn list_recursive(&self, request: &ListRecursiveRequest, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let root = self.readable_node(&request.root)?;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let start = out.len();
        let (mut count, mut visited) = (0, 0);
        encode_count(0, out);
        let top = if &*request.root == "/" { "" } else { &*request.root };
        let mut parents: VecDeque<(NodeRef<'_>, String)> = VecDeque::from([(root, top.to_owned())]);
        'levels: while let Some((parent, parent_path)) = parents.pop_front() {
            let mut child = parent.first_child();
            while let Some(node) = child {
                if count == limit {
                    break 'levels;
                }
                visited += 1;
                self.work.add_visits(1);
                if visited > LIST_RECURSIVE_NODES_MAX {
                    return Err(ErrorCode::MarshallingError);
                }
                if self.may_read(&node) {
                    let path = format!("{parent_path}/{}", node.name());
                    encode_bytes(path.as_bytes(), out);
                    self.check_list_length(out.len() - start)?;
                    count += 1;
                    if node.num_children() > 0 {
                        parents.push_back((node, path));
                    }
                }
                child = node.next_sibling();
            }
        }
        let mut encoded_count = Vec::new();
        encode_count(count, &mut encoded_count);
        out.splice(start..start + encoded_count.len(), encoded_count);
        Ok(())
    }

    /// The tree is the last applied state. Inside a multi, the leader checks against the proposed one.
    fn keeper_check(&self, check: &KeeperCheck) -> Result<(), ErrorCode> {
        let path = check.path().as_deref().ok_or(ErrorCode::MarshallingError)?;
        path::validate(path)?;
        match check {
            KeeperCheck::NotExists(request) => {
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                if let Err(ErrorCode::NoAuth) = self.readable_node(parent) {
                    return Err(ErrorCode::NoAuth);
                }
                match self.replica.tree.node(path) {
                    Some(node) if request.version == -1 || request.version == node.persisted().version => {
                        Err(ErrorCode::NodeExists)
                    }
                    Some(_) | None => Ok(()),
                }
            }
            KeeperCheck::Stat(request) => match request.accepts(&self.readable_node(path)?.stat()) {
                true => Ok(()),
                false => Err(ErrorCode::BadVersion),
            },
        }
    }

    fn check_list_length(&self, length: usize) -> Result<(), ErrorCode> {
        match length <= LIST_BYTES_MAX.min(self.replica.listing_settings.reply_bytes_max) {
            true => Ok(()),
            false => Err(ErrorCode::MarshallingError),
        }
    }
}
