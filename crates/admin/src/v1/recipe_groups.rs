//! Parents whose children look like a recipe: locks, elections and queues have sequential children, groups
//! and services have ephemeral ones.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::sequence::sequence_of;

#[derive(Debug, Default)]
struct RecipeGroup {
    sequential: usize,
    ephemeral: usize,
    /// The name of the first child.
    sample: String,
}

/// The parents that a walk has found so far.
#[derive(Debug, Default)]
pub struct RecipeGroups {
    by_parent: BTreeMap<String, RecipeGroup>,
}

impl RecipeGroups {
    /// Counts a node for its parent, if recipes have such nodes. Returns whether the parent is a new one.
    pub fn count(&mut self, path: &str, is_ephemeral: bool) -> bool {
        let Some((parent, name)) = path.rsplit_once('/') else { return false };
        let is_sequential = sequence_of(name).is_some();
        if !is_sequential && !is_ephemeral {
            return false;
        }
        let parent = if parent.is_empty() { "/" } else { parent };
        let is_new = !self.by_parent.contains_key(parent);
        if is_new {
            let group = RecipeGroup { sample: name.to_owned(), ..RecipeGroup::default() };
            self.by_parent.insert(parent.to_owned(), group);
        }
        if let Some(group) = self.by_parent.get_mut(parent) {
            group.sequential += usize::from(is_sequential);
            group.ephemeral += usize::from(is_ephemeral);
        }
        is_new
    }

    /// The number of parents.
    pub fn count_parents(&self) -> usize {
        self.by_parent.len()
    }

    /// The parents as an answer shows them.
    pub fn to_json(&self) -> Vec<Value> {
        let groups = self.by_parent.iter().map(|(path, group)| {
            json!({
                "path": path,
                "sequential": group.sequential,
                "ephemeral": group.ephemeral,
                "sample": group.sample,
            })
        });
        groups.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_count_for_their_parents() {
        let mut groups = RecipeGroups::default();
        assert!(groups.count("/l/lock-0000000012", true));
        assert!(!groups.count("/l/lock-0000000013", false));
        assert!(!groups.count("/l/config", false));
        assert!(groups.count("/member", true));
        assert_eq!(groups.count_parents(), 2);
        assert_eq!(
            Value::from(groups.to_json()),
            json!([
                { "path": "/", "sequential": 0, "ephemeral": 1, "sample": "member" },
                { "path": "/l", "sequential": 2, "ephemeral": 1, "sample": "lock-0000000012" },
            ])
        );
    }
}
