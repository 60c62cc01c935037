//! Counts of subtrees: children, descendants, bytes of data. Keeps a row for every node with children down to
//! a depth below a start, and the branch that is being read; nothing else of the tree.

use super::branch::{Branch, Misplaced};

/// Where counting begins and how deep rows are kept.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// The path as in the file: empty for the root.
    pub(super) start: String,
    /// Levels of rows below the start.
    pub(super) depth: Option<u64>,
}

/// What a subtree holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// The node on top, as in the file.
    pub(super) path: String,
    /// Nodes directly below it.
    pub(super) children: u64,
    /// Nodes below it at any depth.
    pub(super) descendants: u64,
    /// Data of all of them and of itself.
    pub(super) bytes: u64,
}

/// A node on the branch that is being read.
struct Open {
    path: Option<String>,
    row: Option<usize>,
    children: u64,
    descendants: u64,
    bytes: u64,
}

/// Counts while nodes come in.
pub(super) struct Counting {
    scope: Scope,
    start_depth: usize,
    branch: Branch<Open>,
    rows: Vec<Row>,
}

impl Counting {
    pub(super) fn new(scope: Scope) -> Counting {
        let start_depth = scope.start.matches('/').count();
        Counting { scope, start_depth, branch: Branch::new(), rows: Vec::new() }
    }

    /// The next node.
    pub(super) fn node(&mut self, path: &str, data: Option<&[u8]>) -> Result<(), Misplaced> {
        let bytes = data.map_or(0, |data| data.len() as u64);
        let path_of_row = self.wants(path).then(|| path.to_owned());
        let mut node = Open { path: path_of_row, row: None, children: 0, descendants: 0, bytes };
        if path == self.scope.start {
            // The start has a row even without children. Nodes above it have none, so it is the first.
            node.open_row(&mut self.rows);
        }
        let rows = &mut self.rows;
        let parent = self.branch.enter(path, node, |node, parent| close(rows, node, parent))?;
        if let Some(parent) = parent {
            parent.children += 1;
            parent.open_row(rows);
        }
        Ok(())
    }

    fn wants(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(self.scope.start.as_str()) else { return false };
        if !rest.is_empty() && !rest.starts_with('/') {
            return false;
        }
        let below = path.matches('/').count().saturating_sub(self.start_depth);
        self.scope.depth.is_none_or(|depth| below as u64 <= depth)
    }

    /// The rows, parents before their children.
    pub(super) fn finish(mut self) -> Vec<Row> {
        let rows = &mut self.rows;
        self.branch.finish(|node, parent| close(rows, node, parent));
        self.rows
    }
}

impl Open {
    /// Takes a row when the first child comes, so that rows stand in the order of the nodes.
    fn open_row(&mut self, rows: &mut Vec<Row>) {
        if self.row.is_none()
            && let Some(path) = self.path.take()
        {
            rows.push(Row { path, ..Row::default() });
            self.row = Some(rows.len() - 1);
        }
    }
}

fn close(rows: &mut [Row], node: Open, parent: Option<&mut Open>) {
    if let Some(row) = node.row.and_then(|row| rows.get_mut(row)) {
        row.children = node.children;
        row.descendants = node.descendants;
        row.bytes = node.bytes;
    }
    if let Some(parent) = parent {
        parent.descendants += node.descendants + 1;
        parent.bytes += node.bytes;
    }
}
