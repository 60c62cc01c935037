//! Paths as text: validation, the split into parent and name. Knows no node.

use zebu_proto::ErrorCode;

/// The parent of all nodes of the server.
pub const ZOOKEEPER: &str = "/zookeeper";
/// The parent of quotas.
pub const QUOTA: &str = "/zookeeper/quota";
/// The configuration of the ensemble.
pub const CONFIG: &str = "/zookeeper/config";

/// The virtual node by which clients discover the features of a server. No tree contains it.
pub const VIRTUAL: &str = "/zookeeper/zebu";

/// The parent of the virtual nodes by which ClickHouse discovers what a server can do. No tree has it, unless
/// a client has created it.
pub const KEEPER: &str = "/keeper";

/// The virtual nodes of ClickHouse, below [`KEEPER`].
pub const KEEPER_NODES: [&str; 5] =
    ["feature_flags", "api_version", "availability_zone", "max_request_size", "config"];

/// The root is "" as a parent and in snapshots, and "/" as a target. Internally it is "".
pub(crate) fn canonical(path: &str) -> &str {
    if path == "/" { "" } else { path }
}

/// The root as clients write it.
pub(crate) fn shown(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// Parent and name, split at the last slash. `None` without a slash.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    // As bytes: the search of a string costs several times as many instructions for a short name.
    let slash = path.as_bytes().iter().rposition(|&byte| byte == b'/')?;
    Some((&path[..slash], &path[slash + 1..]))
}

/// Parent and name of a path in a transaction. `None` for the root and for a path that no node can have:
/// "x/y", "/x/", and "//x". The parent of the last one would be the root under its other name.
pub(crate) fn split_stored(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = split(path)?;
    let parent_is_well_formed = parent.is_empty() || (parent.starts_with('/') && parent.len() > 1);
    if name.is_empty() || !parent_is_well_formed { None } else { Some((parent, name)) }
}

/// Nodes that no request can delete.
pub(crate) fn is_special(path: &str) -> bool {
    matches!(path, "/" | ZOOKEEPER | QUOTA | CONFIG)
}

/// Whether a path is that of a virtual node of ClickHouse.
pub fn is_keeper_node(path: &str) -> bool {
    let name = path.strip_prefix(KEEPER).and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| KEEPER_NODES.contains(&name))
}

/// The root, and all nodes at and below the parents of nodes of servers. No removeRecursive may name them.
pub(crate) fn is_of_the_system(path: &str) -> bool {
    let is_below =
        |top| path.strip_prefix(top).is_some_and(|rest: &str| rest.is_empty() || rest.starts_with('/'));
    canonical(path).is_empty() || is_below(ZOOKEEPER) || is_below(KEEPER)
}

/// Full validation: absolute, canonical, and only characters that ZooKeeper allows.
pub fn validate(path: &str) -> Result<(), ErrorCode> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(ErrorCode::BadArguments);
    };
    if rest.is_empty() {
        return Ok(());
    }
    let component_is_bad = |name: &str| matches!(name, "" | "." | "..");
    if rest.split('/').any(component_is_bad) || rest.chars().any(is_forbidden) {
        return Err(ErrorCode::BadArguments);
    }
    Ok(())
}

/// Supplementary characters are two surrogates in Java, and surrogates are forbidden.
fn is_forbidden(character: char) -> bool {
    matches!(u32::from(character),
        0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff | 0x1_0000..)
}

/// The first check of creates and deletes: parent and name, if there is a slash and no U+0000.
pub(crate) fn split_target(path: &str) -> Result<(&str, &str), ErrorCode> {
    if path.contains('\0') {
        return Err(ErrorCode::BadArguments);
    }
    split(path).ok_or(ErrorCode::BadArguments)
}

/// The path itself and its ancestors below the root, deepest first. "/a/b" gives "/a/b", "/a".
pub(crate) fn self_and_ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| split(path).map(|(parent, _)| parent))
        .take_while(|path| !canonical(path).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_zookeeper_accepts() {
        for path in
            ["/", "/a", "/a/b", "/...", "/.a", "/a..", "/a b", "/\u{20}", "/ä", "/\u{f900}", "/\u{ffef}"]
        {
            assert_eq!(validate(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn what_zookeeper_refuses() {
        let bad = [
            "",
            "a",
            "a/b",
            "/a/",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/a\0",
            "/\u{1}",
            "/\u{1f}",
            "/\u{7f}",
            "/\u{9f}",
            "/\u{e000}",
            "/\u{f8ff}",
            "/\u{fff0}",
            "/\u{fffd}",
            "/\u{ffff}",
            "/\u{1f600}",
        ];
        for path in bad {
            assert_eq!(validate(path), Err(ErrorCode::BadArguments), "{path:?}");
        }
    }

    #[test]
    fn nodes_of_servers() {
        for path in ["/", "/zookeeper", "/zookeeper/quota/a", "/keeper", "/keeper/config"] {
            assert!(is_of_the_system(path), "{path}");
        }
        for path in ["/zookeepers", "/keeper2", "/a/keeper", "/a"] {
            assert!(!is_of_the_system(path), "{path}");
        }
        assert!(is_keeper_node("/keeper/feature_flags") && is_keeper_node("/keeper/config"));
        for path in ["/keeper", "/keeper/", "/keeper/other", "/keeper/config/a", "/keeperconfig", "/config"] {
            assert!(!is_keeper_node(path), "{path}");
        }
    }

    #[test]
    fn parents() {
        assert_eq!(split("/a"), Some(("", "a")));
        assert_eq!(split("/a/b"), Some(("/a", "b")));
        assert_eq!(split("/a/"), Some(("/a", "")));
        assert_eq!(split("x"), None);
        assert_eq!(split_target("/a\0b"), Err(ErrorCode::BadArguments));
        assert_eq!(self_and_ancestors("/a/b/c").collect::<Vec<_>>(), ["/a/b/c", "/a/b", "/a"]);
        assert_eq!(self_and_ancestors("/").count(), 0);
        assert_eq!(self_and_ancestors("").count(), 0);
    }
}
