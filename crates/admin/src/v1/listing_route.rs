//! `GET /v1/listing/…`: any part of the sorted children of a node, also of a million.
//!
//! The sorted names are kept for a while, because a reader scrolls. They cost memory within named limits; the
//! nodes behind the names are read for each part.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use zebu_server::views::{NameList, NameProgress, NameScan};

use super::arguments::{Arguments, znode_path};
use super::call::ApiCall;
use super::name_pattern::NamePattern;
use super::problem::Problem;
use super::read_routes::{object_of, with_zxid};
use super::sequence::LowestSequences;
use super::values;

/// Children of a part, and most of them.
const PART_DEFAULT: usize = 200;
const PART_MAX: usize = 1000;
/// A list with up to this many children is made anew whenever it has changed.
const ALWAYS_NEW: usize = 5000;
/// Lists that are kept, and bytes of all of them.
const LISTS_MAX: usize = 8;
const LISTS_BYTES_MAX: usize = 160 << 20;
/// A list that is not read is kept for this time.
const LIST_AGE_MAX: Duration = Duration::from_secs(60);
/// Names whose numbers are read before other requests get their turn.
const NAMES_PER_TURN: usize = 20_000;
/// Comparisons with a pattern before other requests get their turn.
const WORK_PER_TURN: usize = 4 << 20;

/// A kept list.
struct KeptList {
    path: String,
    pattern: String,
    list: Arc<NameList>,
    used: Instant,
}

/// The kept lists, the one used last at the end.
#[derive(Default)]
pub(crate) struct KeptLists(Mutex<VecDeque<KeptList>>);

impl KeptLists {
    fn find(&self, path: &str, pattern: &str, now: Instant) -> Option<Arc<NameList>> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = lists.iter().position(|kept| kept.path == path && kept.pattern == pattern)?;
        let mut kept = lists.remove(index)?;
        kept.used = now;
        let list = kept.list.clone();
        lists.push_back(kept);
        Some(list)
    }

    fn keep(&self, path: &str, pattern: &str, list: Arc<NameList>, now: Instant) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|kept| kept.path != path || kept.pattern != pattern);
        let (path, pattern) = (path.to_owned(), pattern.to_owned());
        lists.push_back(KeptList { path, pattern, list, used: now });
        let bytes = |lists: &VecDeque<KeptList>| lists.iter().map(|kept| kept.list.bytes).sum::<usize>();
        while lists.len() > 1 && (lists.len() > LISTS_MAX || bytes(&lists) > LISTS_BYTES_MAX) {
            lists.pop_front();
        }
    }

    /// Drops lists that were not used for long. Returns whether there are any others.
    fn drop_old(&self, now: Instant) -> bool {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|kept| now.duration_since(kept.used) < LIST_AGE_MAX);
        !lists.is_empty()
    }
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingOrder {
    /// By name, all children.
    Name,
    /// By the number at the end, sequential children only. Such a listing is one part: the lowest numbers.
    Sequence,
}

impl ListingOrder {
    /// The order that a request names.
    pub fn of_arguments(arguments: &Arguments) -> Result<ListingOrder, Problem> {
        match arguments.value("order") {
            None | Some("name") => Ok(ListingOrder::Name),
            Some("sequence") if arguments.value("offset").or(arguments.value("find")).is_none() => {
                Ok(ListingOrder::Sequence)
            }
            Some("sequence") => Err(Problem::bad_request(
                "order=sequence answers the lowest numbers; offset and find do not go with it",
            )),
            Some(_) => Err(Problem::bad_request("order takes the values name and sequence")),
        }
    }
}

/// A part of the children.
pub(crate) async fn read_listing(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["offset", "limit", "match", "reload", "find", "order"])?;
    let order = ListingOrder::of_arguments(&call.arguments)?;
    let limit = call.arguments.number("limit", PART_MAX)?.unwrap_or(PART_DEFAULT);
    let offset = match call.arguments.value("offset") {
        None | Some("0") => 0,
        Some(_) => call.arguments.number("offset", usize::MAX >> 1)?.unwrap_or(0),
    };
    let pattern = call.arguments.value("match").unwrap_or_default().to_owned();
    let kept_use = match (call.arguments.flag("reload")?, order) {
        (true, _) => KeptUse::Never,
        (false, ListingOrder::Sequence) => KeptUse::Unchanged,
        (false, ListingOrder::Name) => KeptUse::Large,
    };
    let list = names(&call, &path, &pattern, kept_use).await?;
    let lowest = match order {
        ListingOrder::Name => None,
        ListingOrder::Sequence => Some(lowest_sequences(&list, limit).await),
    };
    let sequential = lowest.as_ref().map(LowestSequences::sequential);
    let lowest = lowest.map(LowestSequences::into_names);
    // With a name, the part that holds it; parts begin at multiples of their length.
    let found =
        call.arguments.value("find").map(|name| list.names.binary_search_by(|known| (**known).cmp(name)));
    let index = found.and_then(Result::ok);
    let offset = index.map_or(offset, |index| index - index % limit);
    let parent =
        call.views.read_stat(&path, &call.ids.credentials).map_err(|code| call.problem(code, &path))?;
    let part = lowest.as_deref().unwrap_or_else(|| list.names.get(offset..).unwrap_or_default());
    let part = &part[..part.len().min(limit)];
    let children = call
        .views
        .read_children(&path, part, &call.ids.credentials)
        .map_err(|code| call.problem(code, &path))?;
    let mut children = children.into_iter().peekable();
    // A name whose node is gone keeps its place, so that the numbers of the others stay the same.
    let items = part.iter().map(|name| {
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(name));
        match children.next_if(|child| *child.name == **name) {
            Some(child) => match &child.node {
                Some(node) => values::add_node(&mut object, node),
                None => drop(object.insert("stat".to_owned(), Value::Null)),
            },
            None => drop(object.insert("gone".to_owned(), json!(true))),
        }
        Value::Object(object)
    });
    let mut object = object_of(&path, &parent);
    object.insert("total".to_owned(), json!(list.names.len()));
    if let Some(sequential) = sequential {
        object.insert("sequential".to_owned(), json!(sequential));
    }
    object.insert("offset".to_owned(), json!(offset));
    object.insert("found".to_owned(), json!(index));
    object.insert("items".to_owned(), items.collect());
    object.insert("listedAt".to_owned(), values::hex(list.parent.zxid.0));
    object.insert("changed".to_owned(), json!(list.parent.stat.pzxid != parent.stat.pzxid));
    object.insert("stat".to_owned(), values::stat(&parent.stat));
    with_zxid(call.json(StatusCode::OK, &object.into())?, &parent)
}

/// The sequential names with the lowest numbers.
async fn lowest_sequences(list: &NameList, count: usize) -> LowestSequences {
    let mut lowest = LowestSequences::new(count);
    for part in list.names.chunks(NAMES_PER_TURN) {
        part.iter().for_each(|name| lowest.offer(name));
        tokio::task::yield_now().await;
    }
    lowest
}

/// Which kept lists answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptUse {
    /// None: the caller wants a new one.
    Never,
    /// A list that is as the children are now.
    Unchanged,
    /// Also an old list of a large node.
    Large,
}

/// The sorted names, kept ones if they may be used.
async fn names(
    call: &ApiCall,
    path: &str,
    pattern: &str,
    kept_use: KeptUse,
) -> Result<Arc<NameList>, Problem> {
    let lists = &call.state.lists;
    let node = call.views.read_stat(path, &call.ids.credentials);
    let node = node.map_err(|code| call.problem(code, path))?;
    let may_use = |list: &NameList| {
        let is_same = list.parent.stat.pzxid == node.stat.pzxid;
        let is_large = node.stat.num_children > i32::try_from(ALWAYS_NEW).unwrap_or(i32::MAX);
        match kept_use {
            KeptUse::Never => false,
            KeptUse::Unchanged => is_same,
            KeptUse::Large => is_same || is_large,
        }
    };
    if let Some(list) = lists.find(path, pattern, Instant::now()).filter(|list| may_use(list)) {
        return Ok(list);
    }
    // One list is made at a time: it is the most expensive read of all.
    let _permit = call.state.admin.long_answers.acquire().await.ok();
    let whole = match lists.find(path, "", Instant::now()).filter(|list| may_use(list)) {
        Some(list) => list,
        None => {
            let list = Arc::new(collect(call, path).await?);
            keep(call, path, "", list.clone());
            list
        }
    };
    if pattern.is_empty() {
        return Ok(whole);
    }
    let compiled = NamePattern::parse(pattern)?;
    let mut fitting: Vec<Box<str>> = Vec::new();
    let mut work = 0;
    for name in &whole.names {
        work += compiled.work(name);
        if compiled.fits(name) {
            fitting.push(name.clone());
        }
        if work > WORK_PER_TURN {
            work = 0;
            tokio::task::yield_now().await;
        }
    }
    let bytes = fitting.iter().map(|name| name.len()).sum();
    let list = Arc::new(NameList { names: fitting, parent: whole.parent, bytes });
    keep(call, path, pattern, list.clone());
    Ok(list)
}

fn keep(call: &ApiCall, path: &str, pattern: &str, list: Arc<NameList>) {
    let was_empty = !call.state.lists.drop_old(Instant::now());
    call.state.lists.keep(path, pattern, list, Instant::now());
    if was_empty {
        let state = call.state.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LIST_AGE_MAX / 4).await;
                if !state.lists.drop_old(Instant::now()) {
                    break;
                }
            }
        });
    }
}

async fn collect(call: &ApiCall, path: &str) -> Result<NameList, Problem> {
    let mut scan = NameScan::new(path, &call.ids.credentials);
    loop {
        match call.views.scan_names(&mut scan).map_err(|code| call.problem(code, path))? {
            NameProgress::Done(list) => return Ok(list),
            NameProgress::More => tokio::task::yield_now().await,
            NameProgress::TooLong => {
                let detail = "the names of the children need too much memory; use /v1/tree/…?children";
                return Err(Problem::too_large(detail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::{Stat, Zxid};
    use zebu_server::views::StatView;
    use zebu_tree::Lifetime;

    use super::*;

    fn list(bytes: usize) -> Arc<NameList> {
        let (stat, lifetime) = (Stat::default(), Lifetime::Persistent);
        let parent = StatView { stat, lifetime, zxid: Zxid(1) };
        Arc::new(NameList { names: Vec::new(), parent, bytes })
    }

    #[tokio::test]
    async fn kept_lists_are_bounded_in_number_bytes_and_time() {
        let lists = KeptLists::default();
        let now = Instant::now();
        for number in 0..20 {
            lists.keep(&format!("/{number}"), "", list(1), now);
        }
        assert!(lists.find("/11", "", now).is_none() && lists.find("/12", "", now).is_some());
        lists.keep("/long", "", list(LISTS_BYTES_MAX), now);
        assert!(lists.find("/12", "", now).is_none() && lists.find("/long", "", now).is_some());
        assert!(lists.find("/long", "x", now).is_none(), "a pattern has a list of its own");
        assert!(lists.drop_old(now));
        assert!(!lists.drop_old(now + LIST_AGE_MAX));
    }
}
