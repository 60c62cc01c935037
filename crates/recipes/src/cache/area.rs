//! The part of the tree that a cache copies. Pure.

use super::handle::CacheScope;

/// A root and how far the copy reaches below it.
#[derive(Clone, Debug)]
pub(super) struct CacheArea {
    pub(super) root: String,
    pub(super) scope: CacheScope,
}

impl CacheArea {
    /// The number of levels below the root; `None` for other paths.
    fn depth(&self, path: &str) -> Option<usize> {
        let rest = match &*self.root {
            "/" => path,
            root => path.strip_prefix(root)?,
        };
        match rest {
            "" | "/" => Some(0),
            rest if rest.starts_with('/') => Some(rest.matches('/').count()),
            _ => None,
        }
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        match (self.depth(path), self.scope) {
            (Some(0), _) | (Some(1), CacheScope::Children) | (Some(_), CacheScope::Tree) => true,
            (Some(_) | None, _) => false,
        }
    }

    /// Whether the children of this node of the area belong to it too.
    pub(super) fn has_children_of(&self, path: &str) -> bool {
        match self.scope {
            CacheScope::Node => false,
            CacheScope::Children => self.depth(path) == Some(0),
            CacheScope::Tree => true,
        }
    }

    /// The levels of the area below one of its nodes; `None` for all.
    pub(super) fn levels_below(&self, path: &str) -> Option<u32> {
        match self.scope {
            CacheScope::Tree => None,
            CacheScope::Node | CacheScope::Children => Some(u32::from(self.has_children_of(path))),
        }
    }
}

/// The child of a node on the path to a descendant; `None` if it is no descendant.
pub(super) fn child_towards<'a>(node: &str, below: &'a str) -> Option<&'a str> {
    let from = if node == "/" { 0 } else { below.strip_prefix(node).map(|_| node.len())? };
    let rest = below[from..].strip_prefix('/').filter(|rest| !rest.is_empty())?;
    Some(&below[..from + 1 + rest.find('/').unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_node_begins_with_a_child() {
        assert_eq!(child_towards("/", "/a/b"), Some("/a"));
        assert_eq!(child_towards("/", "/a"), Some("/a"));
        assert_eq!(child_towards("/a", "/a/b/c"), Some("/a/b"));
        assert_eq!(child_towards("/a", "/a/b"), Some("/a/b"));
        for other in ["/a", "/ab", "/ab/c", "/"] {
            assert_eq!(child_towards("/a", other), None, "{other}");
        }
    }

    #[test]
    fn an_area_ends_where_its_scope_ends() {
        let area = |scope| CacheArea { root: "/r".to_owned(), scope };
        let contained =
            |scope| ["/r", "/r/a", "/r/a/b", "/ra", "/"].map(|path| area(scope).contains(path)).to_vec();
        assert_eq!(contained(CacheScope::Node), [true, false, false, false, false]);
        assert_eq!(contained(CacheScope::Children), [true, true, false, false, false]);
        assert_eq!(contained(CacheScope::Tree), [true, true, true, false, false]);
        let levels = |scope| (area(scope).levels_below("/r"), area(scope).levels_below("/r/a"));
        assert_eq!(levels(CacheScope::Node), (Some(0), Some(0)));
        assert_eq!(levels(CacheScope::Children), (Some(1), Some(0)));
        assert_eq!(levels(CacheScope::Tree), (None, None));
        assert!(CacheArea { root: "/".to_owned(), scope: CacheScope::Tree }.contains("/a/b"));
    }
}
