//! The config that a server knows at startup, and the config that clients read without a transaction.

use zebu_proto::Buffer;
use zebu_tree::Tree;
use zebu_zab::Configuration;

/// The node that shows the config to clients.
pub const CONFIG_NODE: &str = "/zookeeper/config";

/// Returns the newest config that may have been committed, if it is newer than the one in effect. `next` is
/// the proposed config of the file. The log takes precedence over the file: the file may still contain a
/// config that was truncated from the log. Only the first version is never in a log.
pub fn last_seen_config(
    next: Option<Configuration>,
    tree: &Tree,
    committed: &Configuration,
) -> Option<Configuration> {
    let first = next.filter(|next| next.zxid().counter() == 0);
    let logged = tree
        .node(CONFIG_NODE)
        .and_then(|node| Configuration::parse(std::str::from_utf8(node.data()?).ok()?).ok());
    let last_seen = first.into_iter().chain(logged).max_by_key(|seen| seen.version);
    last_seen.filter(|seen| seen.version > committed.version && seen.has_voters())
}

/// The text for [`CONFIG_NODE`], unless the tree already holds a newer config there.
pub fn config_to_show(tree: &Tree, configuration: &Configuration) -> Option<Buffer> {
    let newer = tree.node(CONFIG_NODE).is_some_and(|node| {
        node.stat().mzxid >= configuration.version && node.data().is_some_and(|data| !data.is_empty())
    });
    (!newer).then(|| Some(configuration.to_string().into_bytes().into()))
}

#[cfg(test)]
mod tests {
    use zebu_proto::Zxid;
    use zebu_tree::{DigestMode, TreeOptions, TtlNodes};

    use super::*;

    fn list(version: i64) -> Configuration {
        Configuration::parse(&format!("server.1=a:1:2;5\nversion={version:x}")).unwrap()
    }

    fn tree_with(logged: Option<&Configuration>) -> Tree {
        let options = TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed: 1 };
        let mut tree = Tree::new(options);
        if let Some(logged) = logged {
            tree.write_config(Some(logged.to_string().into_bytes().into()), logged.zxid(), 0);
        }
        tree
    }

    /// The log was truncated before a proposed config and continued in a later epoch. The file still contains
    /// the config.
    #[test]
    fn a_config_that_is_not_in_the_log_is_not_proposed() {
        let committed = list(Zxid::new(1, 3).0);
        let cut = list(Zxid::new(1, 14).0);
        assert_eq!(last_seen_config(Some(cut.clone()), &tree_with(Some(&committed)), &committed), None);
        assert_eq!(last_seen_config(Some(cut.clone()), &tree_with(Some(&cut)), &committed), Some(cut));
    }

    #[test]
    fn the_first_version_is_in_the_file_alone() {
        let (committed, first) = (list(0), list(Zxid::new(2, 0).0));
        assert_eq!(last_seen_config(Some(first.clone()), &tree_with(None), &committed), Some(first.clone()));
        assert_eq!(last_seen_config(Some(first.clone()), &tree_with(None), &first), None);
    }
}
