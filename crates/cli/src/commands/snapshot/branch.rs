//! The branch from the root to the node that was read last. Snapshots list every subtree in one piece, so the
//! branch is all that must be kept to know where a node belongs. It refuses nodes that belong nowhere.

/// Why a node cannot stand where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misplaced {
    /// The first node has a path.
    #[error("the first node is not the root")]
    NoRoot,
    /// The root again.
    #[error("the root is there twice")]
    SecondRoot,
    /// No path of a node.
    #[error("this is not the path of a node")]
    BadPath,
    /// The parent is not on the branch.
    #[error("its parent is missing, or is not directly before its subtree")]
    NoParent,
}

/// The nodes from the root to the last one, each with something that the owner of the branch keeps for it.
#[derive(Debug)]
pub(super) struct Branch<T> {
    /// The path of the last node; those of its ancestors are prefixes of it.
    path: String,
    open: Vec<(usize, T)>,
}

impl<T> Branch<T> {
    pub(super) fn new() -> Branch<T> {
        Branch { path: String::new(), open: Vec::new() }
    }

    /// Goes to the next node. Nodes that this leaves are handed to `close`, deepest first, each with its
    /// parent. Returns the parent, which the root has not.
    pub(super) fn enter(
        &mut self,
        path: &str,
        node: T,
        mut close: impl FnMut(T, Option<&mut T>),
    ) -> Result<Option<&mut T>, Misplaced> {
        if path.is_empty() || self.open.is_empty() {
            return match (path.is_empty(), self.open.is_empty()) {
                (true, true) => {
                    self.open.push((0, node));
                    Ok(None)
                }
                (true, false) => Err(Misplaced::SecondRoot),
                (false, _) => Err(Misplaced::NoRoot),
            };
        }
        let Some((parent, name)) = path.rsplit_once('/') else { return Err(Misplaced::BadPath) };
        if name.is_empty() || !path.starts_with('/') {
            return Err(Misplaced::BadPath);
        }
        while let Some((_, left)) = self.open.pop_if(|(length, _)| *length > parent.len()) {
            close(left, self.open.last_mut().map(|(_, parent)| parent));
        }
        let length = self.open.last().map_or(0, |(length, _)| *length);
        if length != parent.len() || self.path.get(..length) != Some(parent) {
            return Err(Misplaced::NoParent);
        }
        self.path.truncate(length);
        self.path.push_str(&path[length..]);
        self.open.push((path.len(), node));
        let parent = self.open.len() - 2;
        Ok(self.open.get_mut(parent).map(|(_, parent)| parent))
    }

    /// Leaves all nodes.
    pub(super) fn finish(mut self, mut close: impl FnMut(T, Option<&mut T>)) {
        while let Some((_, left)) = self.open.pop() {
            close(left, self.open.last_mut().map(|(_, parent)| parent));
        }
    }

    /// How many nodes are on the branch.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(paths: &[&str]) -> Result<Vec<String>, (String, Misplaced)> {
        let mut closed = Vec::new();
        let mut branch = Branch::new();
        for path in paths {
            let entered = branch.enter(path, (*path).to_owned(), |node, _| closed.push(node));
            entered.map_err(|why| ((*path).to_owned(), why))?;
        }
        branch.finish(|node, _| closed.push(node));
        Ok(closed)
    }

    #[test]
    fn subtrees_are_closed_deepest_first() {
        let closed = walk(&["", "/a", "/a/b", "/a/b/c", "/a/d", "/ab", "/z"]).unwrap();
        assert_eq!(closed, ["/a/b/c", "/a/b", "/a/d", "/a", "/ab", "/z", ""]);
    }

    #[test]
    fn nodes_that_belong_nowhere() {
        for (paths, expected) in [
            (&["/a"][..], Misplaced::NoRoot),
            (&["", ""], Misplaced::SecondRoot),
            (&["", "a"], Misplaced::BadPath),
            (&["", "/a", "/a/"], Misplaced::BadPath),
            (&["", "x/y"], Misplaced::BadPath),
            (&["", "//x"], Misplaced::NoParent),
            (&["", "/a/b"], Misplaced::NoParent),
            (&["", "/a", "/b", "/a/c"], Misplaced::NoParent),
            (&["", "/ab", "/a/c"], Misplaced::NoParent),
            (&["", "/aä", "/a\u{e5}/c"], Misplaced::NoParent),
        ] {
            let (path, why) = walk(paths).unwrap_err();
            assert_eq!((path.as_str(), &why), (*paths.last().unwrap(), &expected));
        }
    }
}
