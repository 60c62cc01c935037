//! The file of an exported subtree: one JSON document, one node per line. Paths are relative to the exported
//! node, so that it can be put elsewhere; data that is not UTF-8 is base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use zebu_client::Acl;

use super::{acl, json as json_form, paths};

const FORMAT: &str = "zebu-subtree";
const VERSION: u64 = 1;

/// A node without what belongs to its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedNode {
    /// Below the exported node, with a leading slash; empty for that node itself.
    pub(crate) path: String,
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: Vec<Acl>,
    /// The number that the next sequential child would have got; not in files of earlier versions.
    pub(crate) next_sequence: Option<i32>,
}

/// An exported subtree, parents before their children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedTree {
    /// Where it was.
    pub(crate) root: String,
    pub(crate) nodes: Vec<SavedNode>,
}

/// Why a text is not an exported subtree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("the file is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("the file is not an exported subtree of version {VERSION}")]
    NotOurs,
    #[error("node {number} of the file: {what}")]
    BadNode { number: usize, what: &'static str },
}

/// The text of a file.
pub(crate) fn write(tree: &SavedTree) -> String {
    let root = Value::from(tree.root.as_str());
    let mut text = format!("{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"root\":{root},\"nodes\":[");
    for (index, node) in tree.nodes.iter().enumerate() {
        let mut object = json!({ "path": node.path, "acl": json_form::acl(&node.acl) });
        json_form::put_data(&mut object, node.data.as_deref());
        if let Some(number) = node.next_sequence.filter(|&number| number > 0) {
            object["next_sequence"] = number.into();
        }
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&object.to_string());
    }
    text.push_str("\n]}\n");
    text
}

/// Reads a file. Every node is checked; parents must stand before their children.
pub(crate) fn read(text: &str) -> Result<SavedTree, FileError> {
    let value: Value = serde_json::from_str(text)?;
    if value["format"] != FORMAT || value["version"] != VERSION {
        return Err(FileError::NotOurs);
    }
    let (Some(root), Some(list)) = (value["root"].as_str(), value["nodes"].as_array()) else {
        return Err(FileError::NotOurs);
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut nodes = Vec::with_capacity(list.len());
    for (number, object) in list.iter().enumerate() {
        let bad = |what| FileError::BadNode { number, what };
        let node = read_node(object).map_err(bad)?;
        let parent = node.path.rfind('/').map(|at| &node.path[..at]);
        match parent {
            None if !seen.is_empty() => return Err(bad("a second node without a path")),
            Some(parent) if !seen.contains(parent) => return Err(bad("it stands before its parent")),
            None | Some(_) => {}
        }
        if !seen.insert(node.path.clone()) {
            return Err(bad("it is there twice"));
        }
        nodes.push(node);
    }
    Ok(SavedTree { root: root.to_owned(), nodes })
}

fn read_node(object: &Value) -> Result<SavedNode, &'static str> {
    let path = object["path"].as_str().ok_or("it has no path")?.to_owned();
    if !path.is_empty() && (path == "/" || paths::mistake(&path).is_some()) {
        return Err("its path is not one");
    }
    let data = match (&object["data"], &object["data_base64"]) {
        (Value::String(text), Value::Null) => Some(text.clone().into_bytes()),
        (Value::Null, Value::String(text)) => {
            Some(STANDARD.decode(text).map_err(|_| "its data is not base64")?)
        }
        (Value::Null, Value::Null) => None,
        _ => return Err("its data is neither text nor base64"),
    };
    let mut acl = Vec::new();
    for entry in object["acl"].as_array().ok_or("it has no ACL")? {
        let part = |name: &str| entry[name].as_str();
        let (Some(scheme), Some(id), Some(letters)) = (part("scheme"), part("id"), part("permissions"))
        else {
            return Err("its ACL is not readable");
        };
        let bits = letters.chars().map(acl::bit).sum::<Option<i32>>().ok_or("unknown permissions")?;
        acl.push(Acl::new(bits, scheme, id));
    }
    let next_sequence = match &object["next_sequence"] {
        Value::Null => None,
        number => Some(
            number
                .as_i64()
                .and_then(|number| i32::try_from(number).ok())
                .ok_or("its counter is no number")?,
        ),
    };
    Ok(SavedNode { path, data, acl, next_sequence })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SavedTree {
        let node = |path: &str, data: Option<&[u8]>| SavedNode {
            path: path.to_owned(),
            data: data.map(<[u8]>::to_vec),
            acl: Acl::open(),
            next_sequence: None,
        };
        let nodes = vec![
            SavedNode { next_sequence: Some(7), ..node("", None) },
            node("/a", Some(b"text \"quoted\"\n")),
            node("/a/b", Some(&[0xff, 0, 1])),
            node("/empty", Some(b"")),
        ];
        SavedTree { root: "/apps".to_owned(), nodes }
    }

    #[test]
    fn it_goes_both_ways() {
        let text = write(&sample());
        assert_eq!(text.lines().count(), 6);
        assert_eq!(read(&text).unwrap(), sample());
    }

    #[test]
    fn damaged_files_are_refused() {
        let text = write(&sample());
        assert!(matches!(read("{"), Err(FileError::NotJson(_))));
        assert!(matches!(read("{}"), Err(FileError::NotOurs)));
        assert!(matches!(read(&text.replace(":1,", ":2,")), Err(FileError::NotOurs)));
        for (from, to) in [
            ("\"/a\"", "\"/x\""),
            ("\"/empty\"", "\"/a\""),
            ("\"/empty\"", "\"/a/../b\""),
            ("\"/empty\"", "7"),
            ("/wAB", "=="),
            ("cdrwa", "q"),
            (":7", ":\"x\""),
        ] {
            assert!(matches!(read(&text.replace(from, to)), Err(FileError::BadNode { .. })), "{from} {to}");
        }
    }
}
