//! G28: a walk over pages of children, or over a scan, shows every node that exists and is readable during
//! the whole walk exactly once. It shows none twice, and none that did not exist at its page. The client may
//! move and the tree may change between two pages.

use std::collections::BTreeMap;

use zebu_client::core::ServerReply;
use zebu_proto::client::ChildKind;

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::listing::ListingRead;
use crate::model::{Model, ModelLifetime, parent_of};
use crate::operation::{Operation, ReadOperation};

const NAME: &str = "g28_listing_walks";

/// The walks that are not complete, by client, and the number of complete walks of several pages.
#[derive(Debug, Default)]
pub(crate) struct ListingWalks {
    open: BTreeMap<usize, ListingWalk>,
    pub(crate) complete: u64,
}

/// The pages that a client has received.
#[derive(Debug)]
struct ListingWalk {
    /// The request for the next page.
    next: ListingRead,
    pages: Vec<ListedPage>,
}

#[derive(Debug)]
struct ListedPage {
    zxid: i64,
    items: Vec<Box<str>>,
}

/// Adds the page of a reply to the walk of its client, and checks the walk after the last page.
pub(super) fn check_answer(checker: &mut Checker, index: usize, answer: &ServerReply) -> CheckResult {
    let operation = checker.calls[index].operation.clone();
    let Operation::Read { read: ReadOperation::Listing(listing), .. } = &*operation else { return Ok(()) };
    let client = checker.calls[index].client;
    let earlier = checker.walks.open.remove(&client);
    if answer.code != 0 {
        return Ok(());
    }
    let mut pages = match earlier {
        _ if listing.is_first() => Vec::new(),
        Some(walk) if walk.next == *listing => walk.pages,
        Some(_) | None => return Ok(()),
    };
    pages.push(ListedPage { zxid: answer.zxid, items: listing.items(&answer.body) });
    if let Some(next) = listing.next(&answer.body) {
        checker.walks.open.insert(client, ListingWalk { next, pages });
        return Ok(());
    }
    checker.walks.complete += u64::from(pages.len() > 1);
    check_walk(&checker.committed.model, listing, &pages)
        .map_err(|text| Violation::new(NAME, format!("{listing:?} of client {client}: {text}; {pages:?}")))
}

fn check_walk(model: &Model, listing: &ListingRead, pages: &[ListedPage]) -> Result<(), String> {
    let zxids = || pages.iter().map(|page| page.zxid);
    let (from, to) = (zxids().min().unwrap_or_default(), zxids().max().unwrap_or_default());
    let mut shown: BTreeMap<String, i64> = BTreeMap::new();
    for page in pages {
        for item in &page.items {
            let path = path_of(listing, item);
            let Some(node) = model.at(&path, page.zxid) else {
                return Err(format!("{path} did not exist at {:#x}", page.zxid));
            };
            let earlier = shown.insert(path, node.created.0);
            let is_new = matches!(listing, ListingRead::ByCreation(_)) && earlier != Some(node.created.0);
            if earlier.is_some() && !is_new {
                return Err(format!("{item} comes twice"));
            }
        }
    }
    let missed = expected(model, listing, from, to).into_iter().find(|path| !shown.contains_key(path));
    missed.map_or(Ok(()), |path| Err(format!("{path} existed from {from:#x} to {to:#x}, and is missing")))
}

/// The path of an item on a page.
fn path_of(listing: &ListingRead, item: &str) -> String {
    let below = |parent: &str| if parent == "/" { format!("/{item}") } else { format!("{parent}/{item}") };
    match listing {
        ListingRead::Page(request) => below(&request.path),
        ListingRead::ByCreation(request) => below(&request.path),
        ListingRead::Scan(_) | ListingRead::Keeper(_) => item.to_owned(),
    }
}

/// The nodes that every walk between two states has to show.
fn expected(model: &Model, listing: &ListingRead, from: i64, to: i64) -> Vec<String> {
    let paths = || model.paths().map(|path| path.to_string());
    match listing {
        ListingRead::Page(request) => {
            let is_meant = |path: &String| {
                is_of_kind(model, path, from, request.kind)
                    && is_child_of(model, path, &request.path, from, to)
            };
            paths().filter(is_meant).collect()
        }
        ListingRead::ByCreation(request) => {
            let is_meant = |path: &String| {
                is_child_of(model, path, &request.path, from, to)
                    && !has_lost_twin(model, path, &request.path, from, to)
            };
            paths().filter(is_meant).collect()
        }
        ListingRead::Scan(request) => {
            let depth_max = usize::try_from(request.depth).unwrap_or(usize::MAX);
            let is_meant = |path: &String| {
                let mut at = &**path;
                let mut depth = 0;
                while at != &*request.root {
                    let Some(above) = parent_of(at).filter(|_| model.is_steady(at, from, to)) else {
                        return false;
                    };
                    at = above;
                    depth += 1;
                }
                depth <= depth_max && model.is_steady(at, from, to)
            };
            paths().filter(is_meant).collect()
        }
        ListingRead::Keeper(_) => Vec::new(),
    }
}

/// Whether another child of the same transaction goes during the walk. The place of a page is a number among
/// the children of one transaction, as LinkedIn has laid it out: one that goes moves those behind it.
fn has_lost_twin(model: &Model, path: &str, parent: &str, from: i64, to: i64) -> bool {
    let created = |path: &str| model.at(path, from).map(|node| node.created);
    let mut others = model.paths().filter(|other| parent_of(other) == Some(parent) && &***other != path);
    others.any(|other| created(other) == created(path) && !model.is_steady(other, from, to))
}

fn is_child_of(model: &Model, path: &str, parent: &str, from: i64, to: i64) -> bool {
    parent_of(path) == Some(parent) && model.is_steady(path, from, to)
}

pub(super) fn is_of_kind(model: &Model, path: &str, zxid: i64, kind: ChildKind) -> bool {
    let is_ephemeral =
        model.at(path, zxid).is_some_and(|node| matches!(node.stays, ModelLifetime::WithSession(_)));
    match kind {
        ChildKind::All => true,
        ChildKind::Persistent => !is_ephemeral,
        ChildKind::Ephemeral => is_ephemeral,
    }
}
