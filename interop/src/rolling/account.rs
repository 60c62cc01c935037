//! What a client knows of its writes, and the check of the tree against it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

/// The writes of one client.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// The path before the number of a write.
    pub(super) prefix: String,
    /// Acknowledged writes.
    pub(super) written: BTreeSet<u64>,
    /// Writes whose outcome the client does not know.
    pub(super) unknown: BTreeSet<u64>,
    /// Connections that were lost.
    pub(super) lost: usize,
}

impl Account {
    /// Each acknowledged write has one node, and each unknown write has at most one.
    pub(super) fn check(&self, top: &str, names: &BTreeSet<String>) -> Result<()> {
        let own = self.prefix.strip_prefix(top).unwrap_or(&self.prefix).trim_start_matches('/');
        let mut nodes: BTreeMap<u64, usize> = BTreeMap::new();
        for name in names {
            let number = name.strip_prefix(own).and_then(|rest| rest.strip_prefix('-'));
            if let Some(number) = number.and_then(|rest| rest.split('-').next()?.parse().ok()) {
                *nodes.entry(number).or_default() += 1;
            }
        }
        for number in &self.written {
            let found = nodes.get(number).copied().unwrap_or(0);
            ensure!(found == 1, "write {number} of {} was acknowledged, and has {found} nodes", self.prefix);
        }
        for (number, found) in nodes {
            let is_known = self.written.contains(&number) || self.unknown.contains(&number);
            ensure!(is_known, "nobody knows write {number} of {}", self.prefix);
            ensure!(found == 1, "write {number} of {} has {found} nodes", self.prefix);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_doubled_and_strange_writes_are_found() {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let account = Account {
            prefix: "/rolling/rust0".into(),
            written: [1, 2].into(),
            unknown: [3, 4].into(),
            lost: 0,
        };
        let check = |list: &[&str]| account.check("/rolling", &names(list)).is_ok();
        assert!(check(&[
            "rust0-1-0000000000",
            "rust0-2-0000000001",
            "rust0-4-0000000009",
            "java0-7-0000000003"
        ]));
        assert!(!check(&["rust0-1-0000000000"]), "lost");
        assert!(!check(&["rust0-1-0000000000", "rust0-2-0000000001", "rust0-2-0000000002"]), "doubled");
        assert!(!check(&["rust0-1-0", "rust0-2-1", "rust0-3-2", "rust0-3-3"]), "an unknown one doubled");
        assert!(!check(&["rust0-1-0", "rust0-2-1", "rust0-9-2"]), "never sent");
    }
}
