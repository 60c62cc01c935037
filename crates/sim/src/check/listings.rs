//! Each page of children, scan, and list of ClickHouse Keeper shows the state of the zxid in its header: all
//! of the nodes between the place where it begins and the place of the next page, and nothing else.

use std::collections::BTreeMap;
use std::rc::Rc;

use zebu_client::core::ServerReply;
use zebu_proto::client::{
    FilteredListRequest, KeeperCheck, KeeperRead, ListRecursiveRequest, ListedContent, NextPage, PageReply,
    PageRequest, PaginatedReply, PaginatedRequest, ScanReply, ScanRequest,
};
use zebu_proto::{Buffer, DecodeError, ErrorCode, Jute, Permissions, Reader, Stat};

use super::g28_listing_walks::is_of_kind;
use crate::history::{CheckResult, Violation};
use crate::listing::ListingRead;
use crate::model::{Model, ModelNode, parent_of};

const NAME: &str = "listings";

/// Why a reply is wrong.
struct Wrong(String);

impl From<DecodeError> for Wrong {
    fn from(error: DecodeError) -> Wrong {
        Wrong(error.to_string())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Wrong> {
    if found == expected { Ok(()) } else { Err(Wrong(format!("{what}: {found:?}, not {expected:?}"))) }
}

pub(super) fn check_answer(model: &Model, listing: &ListingRead, answer: &ServerReply) -> CheckResult {
    let state = TreeState { model, zxid: answer.zxid };
    let expected = state.error(listing).map_or(0, ErrorCode::wire);
    let mut reader = Reader::new(&answer.body);
    let verdict = match listing {
        _ if answer.code != expected => Err(Wrong(format!("error {}, not {expected}", answer.code))),
        _ if expected != 0 => Ok(()),
        ListingRead::Page(request) => state.check_page(request, &mut reader),
        ListingRead::ByCreation(request) => state.check_by_creation(request, &mut reader),
        ListingRead::Scan(request) => state.check_scan(request, &mut reader),
        ListingRead::Keeper(KeeperRead::List(request)) => state.check_list(request, &mut reader),
        ListingRead::Keeper(KeeperRead::ListRecursive(request)) => {
            state.check_recursive(request, &mut reader)
        }
        ListingRead::Keeper(KeeperRead::Check(_)) => Ok(()),
    };
    verdict.map_err(|Wrong(text)| {
        Violation::new(NAME, format!("{listing:?} was answered at {:#x}: {text}", answer.zxid))
    })
}

/// The tree after a transaction.
struct TreeState<'a> {
    model: &'a Model,
    zxid: i64,
}

impl TreeState<'_> {
    fn node(&self, path: &str) -> Option<&Rc<ModelNode>> {
        self.model.at(path, self.zxid)
    }

    fn readable(&self, path: &str) -> Result<&Rc<ModelNode>, ErrorCode> {
        let node = self.node(path).ok_or(ErrorCode::NoNode)?;
        if node.permissions & Permissions::READ == 0 { Err(ErrorCode::NoAuth) } else { Ok(node) }
    }

    /// The children of a node, by name.
    fn children(&self, parent: &str) -> BTreeMap<Box<str>, &Rc<ModelNode>> {
        let top = if parent == "/" { "" } else { parent };
        let Some(node) = self.node(parent) else { return BTreeMap::new() };
        let child = |name: &str| Some((name.into(), self.node(&format!("{top}/{name}"))?));
        node.children.iter().filter_map(|name| child(name)).collect()
    }

    /// The error that the reply must have.
    fn error(&self, listing: &ListingRead) -> Option<ErrorCode> {
        match listing {
            ListingRead::Page(request) => self.readable(&request.path).err(),
            ListingRead::ByCreation(request) => self.readable(&request.path).err(),
            ListingRead::Scan(request) => self.readable(&request.root).err(),
            ListingRead::Keeper(KeeperRead::ListRecursive(request)) => self.readable(&request.root).err(),
            ListingRead::Keeper(KeeperRead::List(request)) => {
                self.readable(&request.path).err().or_else(|| {
                    let content = request.content.unwrap_or(ListedContent { stats: false, data: false });
                    let is_plain = request.kind == Default::default() && !content.stats && !content.data;
                    let is_hidden = |node: &&Rc<ModelNode>| node.permissions & Permissions::READ == 0;
                    let has_hidden = self.children(&request.path).values().any(is_hidden);
                    (has_hidden && !is_plain).then_some(ErrorCode::NoAuth)
                })
            }
            ListingRead::Keeper(KeeperRead::Check(check)) => self.check_error(check),
        }
    }

    fn check_error(&self, check: &KeeperCheck) -> Option<ErrorCode> {
        let path = check.path().as_deref().unwrap_or_default();
        match check {
            KeeperCheck::NotExists(request) => {
                let above = parent_of(path).map(|above| self.readable(above));
                if matches!(above, Some(Err(ErrorCode::NoAuth))) {
                    return Some(ErrorCode::NoAuth);
                }
                let node = self.node(path)?;
                let is_meant = request.version == -1 || request.version == node.version;
                is_meant.then_some(ErrorCode::NodeExists)
            }
            KeeperCheck::Stat(request) => match self.readable(path) {
                Err(code) => Some(code),
                Ok(node) if request.accepts(&node.stat()) => None,
                Ok(_) => Some(ErrorCode::BadVersion),
            },
        }
    }

    fn stat(&self, path: &str) -> Stat {
        self.node(path).map(|node| node.stat()).unwrap_or_default()
    }

    fn check_page(&self, request: &PageRequest, reader: &mut Reader<'_>) -> Result<(), Wrong> {
        let reply = PageReply::decode(reader)?;
        same("stat", reply.stat, self.stat(&request.path))?;
        same("more and a place", reply.more, reply.next.is_some())?;
        let children = self.children(&request.path);
        let is_behind = |name: &str| *name > *request.after;
        let is_here = |name: &str| reply.next.as_deref().is_none_or(|next| *name <= *next);
        let top = if &*request.path == "/" { "" } else { &*request.path };
        let meant: Vec<(&Box<str>, &&Rc<ModelNode>)> = children
            .iter()
            .filter(|(name, _)| is_behind(name) && is_here(name))
            .filter(|(name, _)| is_of_kind(self.model, &format!("{top}/{name}"), self.zxid, request.kind))
            .collect();
        same(
            "children",
            reply.children.iter().collect::<Vec<_>>(),
            meant.iter().map(|(name, _)| *name).collect(),
        )?;
        let max = usize::try_from(request.max).unwrap_or(usize::MAX);
        same("at most the requested number", reply.children.len() <= max, true)?;
        if let Some(next) = &reply.next {
            same("the place moves", is_behind(next), true)?;
            same("children follow", children.keys().any(|name| **name > **next), true)?;
        }
        let hidden = Stat { czxid: -1, ..Stat::default() };
        let is_open = |node: &ModelNode| node.permissions & Permissions::READ != 0;
        let stat = |node: &ModelNode| if is_open(node) { node.stat() } else { hidden };
        let data = |node: &ModelNode| if is_open(node) { node.data.clone() } else { None };
        let stats: Vec<Stat> = meant.iter().filter(|_| request.stats).map(|(_, node)| stat(node)).collect();
        let datas: Vec<Buffer> = meant.iter().filter(|_| request.data).map(|(_, node)| data(node)).collect();
        same("stats", reply.stats, stats)?;
        same("data", reply.data, datas)
    }

    fn check_by_creation(&self, request: &PaginatedRequest, reader: &mut Reader<'_>) -> Result<(), Wrong> {
        let reply = PaginatedReply::decode(reader)?;
        same("stat", reply.stat, self.stat(&request.path))?;
        let children = self.children(&request.path);
        let mut ordered: Vec<(i64, &str)> =
            children.iter().map(|(name, node)| (node.created.0, &**name)).collect();
        ordered.sort_unstable();
        let NextPage { min_czxid, offset } = request.from;
        let skipped = ordered.iter().take_while(|(czxid, _)| *czxid < min_czxid).count();
        let of_first = ordered.iter().filter(|(czxid, _)| *czxid == min_czxid).count();
        let begin = skipped + of_first.min(usize::try_from(offset).unwrap_or_default());
        let end = begin + reply.children.len();
        let mut found: Vec<&str> = reply.children.iter().map(|name| &**name).collect();
        let mut meant: Vec<&str> =
            ordered.iter().skip(begin).take(found.len()).map(|(_, name)| *name).collect();
        if request.max == i32::MAX {
            found.sort_unstable();
            meant.sort_unstable();
        }
        same("children", found, meant)?;
        let max = usize::try_from(request.max).unwrap_or(usize::MAX);
        same("at most the requested number", reply.children.len() <= max, true)?;
        let next = ordered.get(end).map_or(NextPage::NONE, |(czxid, _)| {
            let before = ordered[..end].iter().filter(|(earlier, _)| earlier == czxid).count();
            NextPage { min_czxid: *czxid, offset: before as i32 }
        });
        same("the next page", reply.next, next)?;
        same("the place moves", reply.next == NextPage::NONE || !reply.children.is_empty(), true)
    }

    /// The readable nodes of a subtree, each before the nodes below it, siblings by name.
    fn visible(&self, root: &str, depth: usize, found: &mut Vec<String>) {
        if self.readable(root).is_err() {
            return;
        }
        found.push(root.to_owned());
        if depth == 0 {
            return;
        }
        let top = if root == "/" { "" } else { root };
        for name in self.children(root).keys() {
            self.visible(&format!("{top}/{name}"), depth - 1, found);
        }
    }

    fn check_scan(&self, request: &ScanRequest, reader: &mut Reader<'_>) -> Result<(), Wrong> {
        let reply = ScanReply::decode(reader, request.stats, request.data)?;
        same("more and a place", reply.more, reply.next.is_some())?;
        let mut visible = Vec::new();
        self.visible(&request.root, usize::try_from(request.depth).unwrap_or(usize::MAX), &mut visible);
        let is_meant = |path: &&String| {
            (request.after.is_empty() || is_behind(path, &request.after))
                && reply.next.as_deref().is_none_or(|next| !is_behind(path, next))
        };
        let meant: Vec<&str> = visible.iter().filter(is_meant).map(|path| &**path).collect();
        same("nodes", reply.nodes.iter().map(|node| &*node.path).collect::<Vec<_>>(), meant)?;
        if let Some(next) = reply.next.as_deref().filter(|_| !request.after.is_empty()) {
            let has_moved =
                is_behind(next, &request.after) || (next.ends_with('/') && next != &*request.after);
            same("the place moves", has_moved, true)?;
        }
        for shown in &reply.nodes {
            let node = self.node(&shown.path);
            let stat = node.filter(|_| request.stats).map(|node| node.stat());
            let data = node.filter(|_| request.data).map(|node| node.data.clone());
            same("stat of a node", shown.stat, stat)?;
            same("data of a node", shown.data.clone(), data)?;
        }
        Ok(())
    }

    fn check_list(&self, request: &FilteredListRequest, reader: &mut Reader<'_>) -> Result<(), Wrong> {
        let names: Vec<Box<str>> = Jute::decode(reader)?;
        same("stat", Stat::decode(reader)?, self.stat(&request.path))?;
        let top = if &*request.path == "/" { "" } else { &*request.path };
        let mut children = self.children(&request.path);
        children.retain(|name, _| is_of_kind(self.model, &format!("{top}/{name}"), self.zxid, request.kind));
        let mut sorted: Vec<&Box<str>> = names.iter().collect();
        sorted.sort_unstable();
        same("children", sorted, children.keys().collect())?;
        let Some(content) = request.content else { return Ok(()) };
        let stats: Vec<Stat> = Jute::decode(reader)?;
        let datas: Vec<Buffer> = Jute::decode(reader)?;
        let nodes = || names.iter().filter_map(|name| children.get(name));
        let expected: Vec<Stat> = nodes().filter(|_| content.stats).map(|node| node.stat()).collect();
        same("stats", stats, expected)?;
        let expected: Vec<Buffer> = nodes().filter(|_| content.data).map(|node| node.data.clone()).collect();
        same("data", datas, expected)
    }

    /// The limit may cut a level; no deeper level begins before it is complete.
    fn check_recursive(&self, request: &ListRecursiveRequest, reader: &mut Reader<'_>) -> Result<(), Wrong> {
        let found: Vec<Box<str>> = Jute::decode(reader)?;
        let mut visible = Vec::new();
        self.visible(&request.root, usize::MAX, &mut visible);
        let depth = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
        let below: Vec<&String> = visible.iter().filter(|path| ***path != *request.root).collect();
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        same("number of paths", found.len(), below.len().min(limit))?;
        let mut levels: Vec<usize> = below.iter().map(|path| depth(path)).collect();
        levels.sort_unstable();
        levels.truncate(found.len());
        same("levels", found.iter().map(|path| depth(path)).collect::<Vec<_>>(), levels)?;
        let mut distinct = found.clone();
        distinct.sort_unstable();
        distinct.dedup();
        same("different paths", distinct.len(), found.len())?;
        let is_visible = |path: &str| below.iter().any(|it| ***it == *path);
        same("readable paths", found.iter().all(|path| is_visible(path)), true)
    }
}

/// Whether a path comes behind a place of a scan. A place with a slash at its end is behind the subtree.
fn is_behind(path: &str, place: &str) -> bool {
    let (top, behind_subtree) = match place.strip_suffix('/') {
        Some(top) if !top.is_empty() => (top, true),
        _ => (place, false),
    };
    let (names, of_top) = (names(path), names(top));
    names > of_top && !(behind_subtree && names.starts_with(&of_top))
}

fn names(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !name.is_empty()).collect()
}
