//! Walks a subtree in calls of bounded work: a node before the nodes below it, siblings by name. A place
//! between two calls is a text, so nothing is kept for a reader, and any server can continue.

use std::collections::VecDeque;

use crate::node_ref::NodeRef;
use crate::path;
use crate::sibling_orders::{ChildBound, SortLimits};
use crate::tree::Tree;

/// Children that are taken from a parent at a time.
const CHILDREN_PER_STEP: usize = 256;

/// Children that are sorted for the work of one visited node.
const SORTED_PER_WORK: usize = 8;

/// Limits of one call.
#[derive(Clone, Copy, Debug)]
pub struct ScanBounds {
    /// Levels below the root; `None` is all of them.
    pub depth: Option<usize>,
    /// Nodes that are visited, sorting included.
    pub work_max: usize,
    /// Limits of sorting.
    pub sort: SortLimits,
}

/// The decision about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanVisit {
    /// The nodes below it follow.
    Descend,
    /// The nodes below it are left out.
    Skip,
    /// The call ends before this node. A caller must not say so to the first one.
    Stop,
}

/// Where a call has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanPlace {
    /// Behind the last node.
    End,
    /// The next call continues here. The text is the path of a node, or a path with a slash behind it for the
    /// place behind the whole subtree of the node.
    At(String),
    /// The call has only prepared the order of some children. The next call continues at the same place.
    Preparing,
}

/// The children of a node that are not visited.
struct Level<'a> {
    node: NodeRef<'a>,
    /// The name of the last child that was taken.
    after: String,
    children: VecDeque<NodeRef<'a>>,
    has_more: bool,
    /// Length of the path of the node.
    path_length: usize,
}

impl<'a> Level<'a> {
    fn new(node: NodeRef<'a>, after: &str, path_length: usize) -> Level<'a> {
        Level { node, after: after.to_owned(), children: VecDeque::new(), has_more: true, path_length }
    }
}

struct SubtreeWalk<'a> {
    tree: &'a Tree,
    bounds: ScanBounds,
    levels: Vec<Level<'a>>,
    /// The path of the last level, without a slash for the root of the tree.
    path: String,
    work: usize,
}

impl Tree {
    /// Continues a walk below `root` behind a place; the empty place is before the root. `visit` gets each
    /// node with its path. `None`: the place is not below the root.
    pub fn scan_subtree(
        &self,
        root: &NodeRef<'_>,
        place: &str,
        bounds: ScanBounds,
        mut visit: impl FnMut(&str, &NodeRef<'_>) -> ScanVisit,
        mut may_enter: impl FnMut(&NodeRef<'_>) -> bool,
    ) -> Option<ScanPlace> {
        let root = NodeRef::new(self, root.id());
        let root_path = root.path();
        let mut walk = SubtreeWalk {
            tree: self,
            bounds,
            levels: Vec::new(),
            path: path::canonical(&root_path).to_owned(),
            work: 0,
        };
        if place.is_empty() {
            match visit(&root_path, &root) {
                ScanVisit::Descend => walk.enter(root, ""),
                ScanVisit::Skip => return Some(ScanPlace::End),
                ScanVisit::Stop => return Some(ScanPlace::Preparing),
            }
            return Some(walk.run(Some(root_path), &mut visit));
        }
        walk.resume(root, place, &mut may_enter)?;
        Some(walk.run(None, &mut visit))
    }
}

impl<'a> SubtreeWalk<'a> {
    fn enter(&mut self, node: NodeRef<'a>, after: &str) {
        if self.bounds.depth.is_none_or(|depth| self.levels.len() < depth) && node.num_children() > 0 {
            self.levels.push(Level::new(node, after, self.path.len()));
        }
    }

    /// Enters the levels above a place. Nodes of the place that are gone need none: their siblings follow.
    fn resume(
        &mut self,
        root: NodeRef<'a>,
        place: &str,
        may_enter: &mut impl FnMut(&NodeRef<'_>) -> bool,
    ) -> Option<()> {
        let below = path::canonical(place).strip_prefix(self.path.as_str())?;
        if !below.is_empty() && !below.starts_with('/') {
            return None;
        }
        let (names, is_behind_subtree) = match below.strip_suffix('/') {
            Some(names) => (names, true),
            None => (below, false),
        };
        let mut node = root;
        for name in names.split('/').skip(1) {
            if !may_enter(&node) {
                return Some(());
            }
            let entered = self.levels.len();
            self.enter(node, name);
            if self.levels.len() == entered {
                return Some(());
            }
            let Some(child) = node.child(name) else { return Some(()) };
            node = child;
            self.path.push('/');
            self.path.push_str(name);
        }
        if !is_behind_subtree && may_enter(&node) {
            self.enter(node, "");
        }
        Some(())
    }

    /// `place` is where the call may end already; `None` before the first visit.
    fn run(
        &mut self,
        mut place: Option<String>,
        visit: &mut impl FnMut(&str, &NodeRef<'_>) -> ScanVisit,
    ) -> ScanPlace {
        while let Some(level) = self.levels.last_mut() {
            self.path.truncate(level.path_length);
            if self.work >= self.bounds.work_max
                && let Some(place) = place
            {
                return ScanPlace::At(place);
            }
            let Some(child) = level.children.pop_front() else {
                if !level.has_more {
                    place = Some(format!("{}/", self.path));
                    self.levels.pop();
                    continue;
                }
                let (after, sort) = (ChildBound::AfterName(&level.after), self.bounds.sort);
                self.work += 1 + level.node.num_children().min(sort.at_once) / SORTED_PER_WORK;
                match self.tree.children_after(&level.node, after, CHILDREN_PER_STEP, sort) {
                    Some(children) => {
                        level.has_more = children.len() == CHILDREN_PER_STEP;
                        level.children = children.into();
                    }
                    None => return place.map_or(ScanPlace::Preparing, ScanPlace::At),
                }
                continue;
            };
            child.name().clone_into(&mut level.after);
            self.path.push('/');
            self.path.push_str(child.name());
            self.work += 1;
            match visit(&self.path, &child) {
                ScanVisit::Descend => {
                    place = Some(self.path.clone());
                    self.enter(child, "");
                }
                ScanVisit::Skip => place = Some(format!("{}/", self.path)),
                ScanVisit::Stop => return place.map_or(ScanPlace::Preparing, ScanPlace::At),
            }
        }
        ScanPlace::End
    }
}
