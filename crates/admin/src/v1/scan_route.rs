//! `GET /v1/scan/…`: a walk over a subtree in pages, for searches, counts, exports and recipes.
//!
//! Each request visits a bounded number of nodes and says where the next one goes on, so that a caller sees
//! the progress and ends the walk whenever it wants.

use axum::http::StatusCode;
use axum::response::Response;
use memchr::memmem;
use serde_json::{Map, Value, json};
use zebu_proto::Zxid;
use zebu_server::views::{StatView, TreeWalk, WalkPlace, WalkProgress, WalkStep, WalkedNode};
use zebu_tree::Lifetime;

use super::arguments::{check_path, znode_path};
use super::call::ApiCall;
use super::name_pattern::NamePattern;
use super::problem::Problem;
use super::recipe_groups::RecipeGroups;
use super::values;

/// Nodes that one request visits.
const VISITS_DEFAULT: usize = 20_000;
const VISITS_MAX: usize = 100_000;
/// Nodes that one answer shows.
const ITEMS_DEFAULT: usize = 200;
const ITEMS_MAX: usize = 1000;
/// Bytes of data in one answer; the node that exceeds them is the last one.
const DATA_BYTES_MAX: usize = 2 << 20;
/// Bytes of the paths in one answer; the node that exceeds them is the last one.
const PATH_BYTES_MAX: usize = 4 << 20;
/// Comparisons with a name pattern while writes wait. A name that needs more is compared afterwards.
const WORK_PER_HOLD: usize = 1 << 18;

/// What a caller looks for.
#[derive(Debug, Default)]
struct ScanFilter {
    name: Option<NamePattern>,
    data: Option<Vec<u8>>,
    larger: Option<usize>,
    is_ephemeral: bool,
}

/// What a page shows of each node.
#[derive(Clone, Copy, Debug)]
struct ScanForm {
    with_data: bool,
    with_acl: bool,
    /// Parents with sequential or ephemeral children instead of nodes.
    groups: bool,
    items: usize,
    visits: usize,
}

/// The page as it grows.
#[derive(Debug, Default)]
struct ScanPage {
    items: Vec<(String, StatView, Option<Vec<u8>>)>,
    groups: RecipeGroups,
    visited: usize,
    hidden: usize,
    ephemerals: usize,
    bytes: usize,
    answer_data: usize,
    answer_paths: usize,
    /// Comparisons of the present hold.
    work: usize,
    /// A node whose name takes too long to compare while writes wait.
    late: Option<(String, StatView, Option<Vec<u8>>)>,
}

/// A page of a walk.
pub(crate) async fn scan_tree(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    let known = [
        "name",
        "data",
        "larger",
        "ephemeral",
        "after",
        "afterCzxid",
        "limit",
        "visit",
        "base64",
        "acl",
        "groups",
    ];
    call.arguments.allow_only(&known)?;
    let (filter, form) = (filter_of(&call)?, form_of(&call)?);
    let after = place_of(&call)?;
    let mut walk = TreeWalk::new(&path, &call.ids.credentials, after);
    let mut page = ScanPage::default();
    let is_done = loop {
        let progress = call
            .views
            .walk_tree(&mut walk, &mut |node| page.visit(node, &filter, form))
            .map_err(|code| call.problem(code, &path))?;
        page.end_hold(&filter, form);
        match progress {
            WalkProgress::Done => break true,
            WalkProgress::More if page.is_full(form) => break false,
            WalkProgress::More => tokio::task::yield_now().await,
        }
    };
    let items: Vec<Value> =
        page.items.iter().map(|(path, node, data)| item(&call, form, path, node, data.as_deref())).collect();
    let next = walk.last().filter(|_| !is_done);
    let object = json!({
        "path": path,
        "zxid": values::hex(call.views.last_zxid().0),
        "items": items,
        "groups": page.groups.to_json(),
        "visited": page.visited,
        "hidden": page.hidden,
        "ephemerals": page.ephemerals,
        "bytes": page.bytes,
        "jumped": walk.has_jumped(),
        "next": next.map(|place| &place.path),
        "nextCzxid": next.and_then(|place| place.czxid).map(|czxid| values::hex(czxid.0)),
    });
    call.json(StatusCode::OK, &object)
}

/// The place where the page before ended. Without `afterCzxid`, any node with the path is the place.
fn place_of(call: &ApiCall) -> Result<Option<WalkPlace>, Problem> {
    let Some(path) = call.arguments.value("after") else { return Ok(None) };
    check_path(path)?;
    let czxid = call.arguments.value("afterCzxid").map(|text| {
        let digits = text.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
        digits.map(Zxid).ok_or_else(|| Problem::bad_request("afterCzxid is the nextCzxid of a page"))
    });
    Ok(Some(WalkPlace { path: path.to_owned(), czxid: czxid.transpose()? }))
}

fn filter_of(call: &ApiCall) -> Result<ScanFilter, Problem> {
    let text = |name| call.arguments.value(name).filter(|text| !text.is_empty());
    Ok(ScanFilter {
        name: text("name").map(NamePattern::parse).transpose()?,
        data: text("data").map(|text| text.as_bytes().to_vec()),
        larger: call.arguments.number("larger", usize::MAX >> 1)?,
        is_ephemeral: call.arguments.flag("ephemeral")?,
    })
}

fn form_of(call: &ApiCall) -> Result<ScanForm, Problem> {
    Ok(ScanForm {
        with_data: call.arguments.flag("base64")?,
        with_acl: call.arguments.flag("acl")?,
        groups: call.arguments.flag("groups")?,
        items: call.arguments.number("limit", ITEMS_MAX)?.unwrap_or(ITEMS_DEFAULT),
        visits: call.arguments.number("visit", VISITS_MAX)?.unwrap_or(VISITS_DEFAULT),
    })
}

fn item(call: &ApiCall, form: ScanForm, path: &str, node: &StatView, data: Option<&[u8]>) -> Value {
    let mut object = Map::new();
    object.insert("path".to_owned(), json!(path));
    values::add_node(&mut object, node);
    if form.with_data {
        object.insert("base64".to_owned(), values::base64_data(data));
    }
    if form.with_acl
        && let Ok(read) = call.views.read_acl(path, &call.ids.credentials)
    {
        object.insert("acl".to_owned(), values::acl(&read.acl));
    }
    Value::Object(object)
}

impl ScanPage {
    fn visit(&mut self, node: &WalkedNode<'_>, filter: &ScanFilter, form: ScanForm) -> WalkStep {
        self.visited += 1;
        match node.shown {
            None => self.hidden += 1,
            Some((stat, data)) => {
                self.bytes += data.map_or(0, <[u8]>::len);
                self.ephemerals += usize::from(is_ephemeral(&stat));
                match form.groups {
                    true => {
                        if self.groups.count(node.path, is_ephemeral(&stat)) {
                            self.answer_paths += node.path.len();
                        }
                    }
                    false => self.compare(node.path, stat, data, filter, form),
                }
            }
        }
        let is_late = self.late.is_some() || self.work > WORK_PER_HOLD;
        if is_late || self.is_full(form) { WalkStep::Pause } else { WalkStep::Continue }
    }

    fn compare(
        &mut self,
        path: &str,
        stat: StatView,
        data: Option<&[u8]>,
        filter: &ScanFilter,
        form: ScanForm,
    ) {
        let work = filter.work(path);
        if work > WORK_PER_HOLD {
            self.late = Some((path.to_owned(), stat, data.map(<[u8]>::to_vec)));
            return;
        }
        self.work += work;
        if filter.fits(path, &stat, data) {
            self.add(path.to_owned(), stat, data.filter(|_| form.with_data).map(<[u8]>::to_vec));
        }
    }

    fn add(&mut self, path: String, stat: StatView, data: Option<Vec<u8>>) {
        self.answer_paths += path.len();
        self.answer_data += data.as_ref().map_or(0, Vec::len);
        self.items.push((path, stat, data));
    }

    /// Compares what was left for the time without the lock.
    fn end_hold(&mut self, filter: &ScanFilter, form: ScanForm) {
        self.work = 0;
        if let Some((path, stat, data)) = self.late.take()
            && filter.fits(&path, &stat, data.as_deref())
        {
            self.add(path, stat, data.filter(|_| form.with_data));
        }
    }

    fn is_full(&self, form: ScanForm) -> bool {
        self.visited >= form.visits
            || self.items.len().max(self.groups.count_parents()) >= form.items
            || self.answer_data > DATA_BYTES_MAX
            || self.answer_paths > PATH_BYTES_MAX
    }
}

impl ScanFilter {
    /// The comparisons that the name of a node may take.
    fn work(&self, path: &str) -> usize {
        self.name.as_ref().map_or(0, |pattern| pattern.work(last_name(path)))
    }

    fn fits(&self, path: &str, node: &StatView, data: Option<&[u8]>) -> bool {
        let data = data.unwrap_or_default();
        self.name.as_ref().is_none_or(|pattern| pattern.fits(last_name(path)))
            && self.larger.is_none_or(|bytes| data.len() > bytes)
            && (!self.is_ephemeral || is_ephemeral(node))
            && self.data.as_ref().is_none_or(|part| memmem::find(data, part).is_some())
    }
}

fn is_ephemeral(node: &StatView) -> bool {
    matches!(node.lifetime, Lifetime::Session(_))
}

/// The name of a node.
fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use zebu_proto::{Stat, Zxid};

    use super::*;

    fn visit(page: &mut ScanPage, path: &str, filter: &ScanFilter) -> WalkStep {
        let form = ScanForm { with_data: false, with_acl: false, groups: false, items: 10, visits: 100 };
        let stat = StatView { stat: Stat::default(), lifetime: Lifetime::Persistent, zxid: Zxid(1) };
        page.visit(&WalkedNode { path, shown: Some((stat, None)) }, filter, form)
    }

    /// The lock that stops writes is held while nodes are visited.
    #[test]
    fn long_names_are_compared_without_the_lock() {
        let pattern = NamePattern::parse(&format!("{}b", "a".repeat(100))).unwrap();
        let filter = ScanFilter { name: Some(pattern), ..ScanFilter::default() };
        let form = ScanForm { with_data: false, with_acl: false, groups: false, items: 10, visits: 100 };
        let mut page = ScanPage::default();
        let long = format!("/{}b", "a".repeat(900_000));
        assert_eq!(visit(&mut page, &long, &filter), WalkStep::Pause);
        assert!(page.items.is_empty(), "compared while writes wait");
        page.end_hold(&filter, form);
        assert_eq!(page.items.len(), 1);

        let some = format!("/{}", "a".repeat(1000));
        let steps = (0..100).take_while(|_| visit(&mut page, &some, &filter) == WalkStep::Continue).count();
        assert!((1..10).contains(&steps), "{steps} long names in one hold");
        page.end_hold(&filter, form);
        assert_eq!(visit(&mut page, "/short", &filter), WalkStep::Continue);
    }
}
