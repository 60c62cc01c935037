//! The differences between two trees, node by node.

use zebu_tree::{NodeRef, Tree};

/// How a node differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Only the second tree has the node.
    Added,
    /// Only the first tree has the node.
    Removed,
    /// Both trees have the node.
    Changed {
        /// Whether the data differs.
        data: bool,
        /// Whether the ACL differs.
        acl: bool,
        /// Whether the node was deleted and created again, or has another lifetime.
        recreated: bool,
    },
}

/// Compares the subtrees of `top`. `found` gets the path of each different node; parents come first, and
/// children in the order of their names.
pub fn compare(first: &Tree, second: &Tree, top: &str, found: &mut dyn FnMut(&str, Difference)) {
    let mut due = vec![top.to_owned()];
    while let Some(path) = due.pop() {
        let (before, after) = (first.node(&path), second.node(&path));
        match (&before, &after) {
            (None, None) => continue,
            (None, Some(_)) => found(&path, Difference::Added),
            (Some(_), None) => found(&path, Difference::Removed),
            (Some(before), Some(after)) => {
                if let Some(difference) = changed(before, after) {
                    found(&path, difference);
                }
            }
        }
        let mut names: Vec<&str> = [&before, &after].into_iter().flatten().flat_map(child_names).collect();
        // The last name is taken first.
        names.sort_unstable_by(|one, other| other.cmp(one));
        names.dedup();
        let parent = if path == "/" { "" } else { path.as_str() };
        due.extend(names.iter().map(|name| format!("{parent}/{name}")));
    }
}

fn child_names<'a>(node: &NodeRef<'a>) -> Vec<&'a str> {
    node.children().collect()
}

fn changed(before: &NodeRef<'_>, after: &NodeRef<'_>) -> Option<Difference> {
    let (old, new) = (before.persisted(), after.persisted());
    let data = before.data() != after.data() || old.version != new.version;
    let acl = before.acl() != after.acl();
    let recreated = old.czxid != new.czxid || old.ephemeral_owner != new.ephemeral_owner;
    (data || acl || recreated).then_some(Difference::Changed { data, acl, recreated })
}
