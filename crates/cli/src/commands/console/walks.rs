//! Walks over subtrees in pages. A walk that is not over is kept for the next page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_admin::parts::{NamePattern, Problem, RecipeGroups, acl, base64_data, check_path, znode_path};
use zebu_client::{Scan, ScanEntry, Stat};

use super::backend::{RemoteCall, json_answer};
use super::nodes::{add_node, is_ephemeral};

/// Nodes that one request visits, and shows.
const VISITS_MAX: usize = 20_000;
const ITEMS_DEFAULT: usize = 200;
const ITEMS_MAX: usize = 1000;
/// Bytes of data in one answer; the node that exceeds them is the last one.
const DATA_BYTES_MAX: usize = 2 << 20;
/// A page ends after this time, so that the user sees progress.
const PAGE_TIME: Duration = Duration::from_secs(2);
/// Walks that wait for their next page, and for how long.
const WALKS_MAX: usize = 8;
const WALK_AGE_MAX: Duration = Duration::from_secs(120);

struct KeptWalk {
    login: u64,
    root: String,
    last: String,
    has_data: bool,
    scan: Scan,
    since: Instant,
}

/// The walks that are not over, oldest first.
#[derive(Default)]
pub(super) struct KeptWalks(Mutex<VecDeque<KeptWalk>>);

impl KeptWalks {
    fn take(&self, login: u64, root: &str, last: &str, has_data: bool) -> Option<Scan> {
        let mut walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walks.retain(|kept| kept.since.elapsed() < WALK_AGE_MAX);
        let is_it = |kept: &KeptWalk| {
            kept.login == login && kept.root == root && kept.last == last && kept.has_data == has_data
        };
        let index = walks.iter().position(is_it)?;
        walks.remove(index).map(|kept| kept.scan)
    }

    fn keep(&self, walk: KeptWalk) {
        let mut walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walks.push_back(walk);
        while walks.len() > WALKS_MAX {
            walks.pop_front();
        }
    }
}

/// What a caller looks for.
struct WalkFilter {
    name: Option<NamePattern>,
    data: Option<Vec<u8>>,
    larger: Option<i32>,
    is_ephemeral: bool,
}

impl WalkFilter {
    fn fits(&self, path: &str, node: &Stat, data: &[u8]) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.name.as_ref().is_none_or(|pattern| pattern.fits(name))
            && self.larger.is_none_or(|bytes| node.data_length > bytes)
            && (!self.is_ephemeral || is_ephemeral(node))
            && self
                .data
                .as_ref()
                .is_none_or(|part| data.windows(part.len().max(1)).any(|found| found == part))
    }
}

/// The page as it grows.
#[derive(Default)]
struct WalkPage {
    items: Vec<(ScanEntry, Stat)>,
    groups: RecipeGroups,
    visited: usize,
    ephemerals: usize,
    bytes: u64,
    answer_data: usize,
}

/// A page of a walk. Nodes that the caller may not read are left out by the client.
pub(super) async fn scan_tree(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    let known = ["name", "data", "larger", "ephemeral", "after", "limit", "visit", "base64", "acl", "groups"];
    call.arguments.allow_only(&known)?;
    let arguments = &call.arguments;
    let text = |name: &str| arguments.value(name).filter(|value| !value.is_empty());
    let larger = arguments.number("larger", i32::MAX as usize)?.and_then(|bytes| i32::try_from(bytes).ok());
    let filter = WalkFilter {
        name: text("name").map(NamePattern::parse).transpose()?,
        data: text("data").map(|part| part.as_bytes().to_vec()),
        larger,
        is_ephemeral: arguments.flag("ephemeral")?,
    };
    let (with_base64, with_acl) = (arguments.flag("base64")?, arguments.flag("acl")?);
    let (groups, with_data) = (arguments.flag("groups")?, with_base64 || filter.data.is_some());
    let items_max = arguments.number("limit", ITEMS_MAX)?.unwrap_or(ITEMS_DEFAULT);
    let visits = arguments.number("visit", usize::MAX >> 1)?.unwrap_or(VISITS_MAX).min(VISITS_MAX);
    let after = arguments.value("after");
    after.map(check_path).transpose()?;
    let mut scan = match after {
        Some(last) => call.remote.walks.take(call.login.number, &path, last, with_data).ok_or_else(|| {
            let detail = "the walk waited too long for its next page; begin anew";
            Problem::new(StatusCode::GONE, "BADARGUMENTS", detail)
        })?,
        None => {
            let scan = call.client().scan(&path).with_stats();
            if with_data { scan.with_data() } else { scan }
        }
    };
    let (mut page, began) = (WalkPage::default(), Instant::now());
    while let Some(entry) = scan.next().await {
        let entry = entry.map_err(|error| call.problem(&error))?;
        let node = entry.stat.unwrap_or_default();
        page.visited += 1;
        page.bytes += u64::try_from(node.data_length).unwrap_or(0);
        page.ephemerals += usize::from(is_ephemeral(&node));
        let last = entry.path.clone();
        let data = entry.data.clone().unwrap_or_default();
        match groups {
            true => {
                page.groups.count(&entry.path, is_ephemeral(&node));
            }
            false if filter.fits(&entry.path, &node, &data) => {
                page.answer_data += if with_base64 { data.len() } else { 0 };
                page.items.push((entry, node));
            }
            false => {}
        }
        let is_full = page.visited >= visits
            || page.items.len().max(page.groups.count_parents()) >= items_max
            || page.answer_data > DATA_BYTES_MAX
            || began.elapsed() > PAGE_TIME;
        if is_full {
            let (login, root, next) = (call.login.number, path.clone(), last.clone());
            call.remote.walks.keep(KeptWalk {
                login,
                root,
                last,
                has_data: with_data,
                scan,
                since: Instant::now(),
            });
            return answer(&call, &path, page, with_base64, with_acl, Some(next)).await;
        }
    }
    answer(&call, &path, page, with_base64, with_acl, None).await
}

async fn answer(
    call: &RemoteCall,
    path: &str,
    page: WalkPage,
    with_base64: bool,
    with_acl: bool,
    next: Option<String>,
) -> Result<Response, Problem> {
    let asked: Vec<_> = match with_acl {
        true => page.items.iter().map(|(entry, _)| Some(call.client().get_acl(&entry.path).send())).collect(),
        false => page.items.iter().map(|_| None).collect(),
    };
    let mut items = Vec::with_capacity(page.items.len());
    for ((entry, node), asked) in page.items.iter().zip(asked) {
        let mut object = Map::new();
        object.insert("path".to_owned(), json!(entry.path));
        add_node(&mut object, node);
        if with_base64 {
            object.insert("base64".to_owned(), base64_data(entry.data.as_deref()));
        }
        if let Some(asked) = asked
            && let Ok(read) = asked.await
        {
            object.insert("acl".to_owned(), acl(&read.entries));
        }
        items.push(Value::Object(object));
    }
    let object = json!({
        "path": path,
        "items": items,
        "groups": page.groups.to_json(),
        "visited": page.visited,
        "hidden": 0,
        "ephemerals": page.ephemerals,
        "bytes": page.bytes,
        "next": next,
        "jumped": false,
    });
    Ok(json_answer(StatusCode::OK, &object))
}
