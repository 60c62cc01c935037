//! Sorted children in parts. The names are asked for once and kept until the children change.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_admin::parts::{ListingOrder, LowestSequences, NamePattern, Problem, hex, stat, znode_path};
use zebu_client::{ErrorCode, Stat};

use super::backend::{RemoteCall, json_answer};
use super::nodes::add_node;

/// Children of a part, and most of them.
const PART_DEFAULT: usize = 200;
const PART_MAX: usize = 1000;
/// Lists that are kept, bytes of their names, and for how long without use.
const LISTS_MAX: usize = 8;
const LISTS_BYTES_MAX: usize = 160 << 20;
const LIST_AGE_MAX: Duration = Duration::from_secs(60);
/// Up to this many children a changed list is made anew at once.
const ALWAYS_NEW: i32 = 5000;

/// The sorted names of a node's children.
pub(super) struct Names {
    names: Vec<Box<str>>,
    parent: Stat,
    bytes: usize,
}

struct KeptNames {
    login: u64,
    path: String,
    pattern: String,
    names: Arc<Names>,
    used: Instant,
}

/// The kept lists, the one used last at the end.
#[derive(Default)]
pub(super) struct KeptListings(Mutex<VecDeque<KeptNames>>);

impl KeptListings {
    fn find(&self, login: u64, path: &str, pattern: &str) -> Option<Arc<Names>> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        lists.retain(|kept| now.duration_since(kept.used) < LIST_AGE_MAX);
        let is_it = |kept: &KeptNames| kept.login == login && kept.path == path && kept.pattern == pattern;
        let index = lists.iter().position(is_it)?;
        let mut kept = lists.remove(index)?;
        kept.used = now;
        let names = kept.names.clone();
        lists.push_back(kept);
        Some(names)
    }

    fn keep(&self, login: u64, path: &str, pattern: &str, names: Arc<Names>) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|kept| kept.login != login || kept.path != path || kept.pattern != pattern);
        let (path, pattern) = (path.to_owned(), pattern.to_owned());
        lists.push_back(KeptNames { login, path, pattern, names, used: Instant::now() });
        let bytes = |lists: &VecDeque<KeptNames>| lists.iter().map(|kept| kept.names.bytes).sum::<usize>();
        while lists.len() > 1 && (lists.len() > LISTS_MAX || bytes(&lists) > LISTS_BYTES_MAX) {
            lists.pop_front();
        }
    }
}

/// A part of the children.
pub(super) async fn read_listing(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["offset", "limit", "match", "reload", "find", "order"])?;
    let order = ListingOrder::of_arguments(&call.arguments)?;
    let limit = call.arguments.number("limit", PART_MAX)?.unwrap_or(PART_DEFAULT);
    let offset = match call.arguments.value("offset") {
        None | Some("0") => 0,
        Some(_) => call.arguments.number("offset", usize::MAX >> 1)?.unwrap_or(0),
    };
    let pattern = call.arguments.value("match").unwrap_or_default();
    let parent = call.client().exists(&path).await.map_err(|error| call.problem(&error))?;
    let parent = parent.ok_or_else(|| Problem::of_code(ErrorCode::NoNode, Some(&path), call.auth))?;
    let list = names(&call, &path, pattern, &parent, order).await?;
    let lowest = (order == ListingOrder::Sequence).then(|| {
        let mut lowest = LowestSequences::new(limit);
        list.names.iter().for_each(|name| lowest.offer(name));
        lowest
    });
    let sequential = lowest.as_ref().map(LowestSequences::sequential);
    let lowest = lowest.map(LowestSequences::into_names);
    let found = call.arguments.value("find");
    let index = found.and_then(|name| list.names.binary_search_by(|known| (**known).cmp(name)).ok());
    let offset = index.map_or(offset, |index| index - index % limit);
    let part = lowest.as_deref().unwrap_or_else(|| list.names.get(offset..).unwrap_or_default());
    let part = &part[..part.len().min(limit)];
    // All of them are on their way at once.
    let prefix = if path == "/" { "" } else { path.as_str() };
    let asked: Vec<_> =
        part.iter().map(|name| call.client().exists(&format!("{prefix}/{name}")).send()).collect();
    let mut items = Vec::with_capacity(part.len());
    for (name, asked) in part.iter().zip(asked) {
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(name));
        match asked.await {
            Ok(Some(node)) => add_node(&mut object, &node),
            Ok(None) => drop(object.insert("gone".to_owned(), json!(true))),
            Err(error) => return Err(call.problem(&error)),
        }
        items.push(Value::Object(object));
    }
    let mut object = json!({
        "path": path,
        "total": list.names.len(),
        "offset": offset,
        "found": index,
        "items": items,
        "listedAt": hex(list.parent.pzxid),
        "changed": list.parent.pzxid != parent.pzxid,
        "stat": stat(&parent),
    });
    if let Some(sequential) = sequential {
        object["sequential"] = json!(sequential);
    }
    Ok(json_answer(StatusCode::OK, &object))
}

async fn names(
    call: &RemoteCall,
    path: &str,
    pattern: &str,
    parent: &Stat,
    order: ListingOrder,
) -> Result<Arc<Names>, Problem> {
    let (lists, login) = (&call.remote.listings, call.login.number);
    let reload = call.arguments.flag("reload")?;
    let may_use = |names: &Arc<Names>| {
        // The first contenders leave first, so an old list may have none of them.
        let may_be_old = order == ListingOrder::Name && parent.num_children > ALWAYS_NEW;
        !reload && (names.parent.pzxid == parent.pzxid || may_be_old)
    };
    if let Some(kept) = lists.find(login, path, pattern).filter(&may_use) {
        return Ok(kept);
    }
    let whole = match lists.find(login, path, "").filter(&may_use) {
        Some(kept) => kept,
        None => {
            let children = call.client().children(path).await.map_err(|error| call.problem(&error))?;
            let mut names: Vec<Box<str>> = children.names.into_iter().map(String::into_boxed_str).collect();
            names.sort_unstable();
            let bytes = names.iter().map(|name| name.len() + size_of::<Box<str>>()).sum();
            let kept = Arc::new(Names { names, parent: children.stat, bytes });
            lists.keep(login, path, "", kept.clone());
            kept
        }
    };
    if pattern.is_empty() {
        return Ok(whole);
    }
    let compiled = NamePattern::parse(pattern)?;
    let names: Vec<Box<str>> = whole.names.iter().filter(|name| compiled.fits(name)).cloned().collect();
    let bytes = names.iter().map(|name| name.len() + size_of::<Box<str>>()).sum();
    let fitting = Arc::new(Names { names, parent: whole.parent, bytes });
    lists.keep(login, path, pattern, fitting.clone());
    Ok(fitting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_lists_are_bounded_and_belong_to_a_login() {
        let lists = KeptListings::default();
        let names = |bytes| Arc::new(Names { names: Vec::new(), parent: Stat::default(), bytes });
        for number in 0..20 {
            lists.keep(1, &format!("/{number}"), "", names(1));
        }
        assert!(lists.find(1, "/11", "").is_none() && lists.find(1, "/12", "").is_some());
        assert!(lists.find(2, "/12", "").is_none(), "another login sees other names");
        lists.keep(1, "/long", "", names(LISTS_BYTES_MAX));
        assert!(lists.find(1, "/12", "").is_none() && lists.find(1, "/long", "").is_some());
    }
}
