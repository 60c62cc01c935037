//! Answers as JSON: one object per answer, one line per object. Data that is not UTF-8 is in `data_base64`,
//! zxids and session ids are hexadecimal text because they do not fit into every reader's numbers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use zebu_client::{Acl, Stat};

use super::reply::{Branch, Event, Reply, Tally};
use crate::offline::{permissions, time};

/// An answer as an object; `None` where there is nothing to say.
pub(crate) fn render(reply: &Reply) -> Option<Value> {
    Some(match reply {
        Reply::Nothing | Reply::Quit | Reply::Again(_) => return None,
        Reply::Done => json!({ "done": true }),
        Reply::Deleted(path) => json!({ "deleted": path }),
        Reply::Line(line) => json!({ "message": line }),
        Reply::Children { path, names, stat } => {
            with_stat(json!({ "path": path, "children": names }), stat.as_ref())
        }
        Reply::Paths(paths) => json!({ "paths": paths }),
        Reply::Ephemerals(paths) => json!({ "ephemerals": paths }),
        Reply::Data { path, data, stat, .. } => {
            let mut object = json!({ "path": path });
            put_data(&mut object, data.as_deref());
            with_stat(object, Some(stat))
        }
        Reply::Stat { path, stat } => with_stat(json!({ "path": path }), Some(stat)),
        Reply::Written { path, stat, .. } => with_stat(json!({ "path": path }), Some(stat)),
        Reply::Created { path, stat } => with_stat(json!({ "created": path }), Some(stat)),
        Reply::Acl { path, entries, stat } => {
            with_stat(json!({ "path": path, "acl": acl(entries) }), stat.as_ref())
        }
        Reply::Count { path, number } => json!({ "path": path, "count": number }),
        Reply::Identities(identities) => {
            let list: Vec<Value> =
                identities.iter().map(|id| json!({ "scheme": id.scheme, "user": id.user })).collect();
            json!({ "identities": list })
        }
        Reply::Quota { path, limits, usage } => json!({
            "path": path,
            "limits": {
                "count": limit(limits.count), "bytes": limit(limits.bytes),
                "count_hard": limit(limits.count_hard), "bytes_hard": limit(limits.bytes_hard),
            },
            "usage": { "count": usage.count, "bytes": usage.bytes },
        }),
        Reply::Config { text, stat, .. } => with_stat(json!({ "config": text }), stat.as_ref()),
        Reply::ClientConfig { version, addresses } => json!({ "version": version, "clients": addresses }),
        Reply::History(entries) => {
            let list: Vec<Value> =
                entries.iter().map(|(n, line)| json!({ "number": n, "line": line })).collect();
            json!({ "history": list })
        }
        Reply::Tree(root) => branch(root),
        Reply::Tally(tally) => tally_object(tally),
    })
}

/// No limit is null.
fn limit(value: i64) -> Option<i64> {
    (value >= 0).then_some(value)
}

fn with_stat(mut object: Value, stat: Option<&Stat>) -> Value {
    if let (Some(map), Some(stat)) = (object.as_object_mut(), stat) {
        map.insert("stat".to_owned(), stat_object(stat));
    }
    object
}

/// Puts `data` or `data_base64` into an object.
pub(crate) fn put_data(object: &mut Value, data: Option<&[u8]>) {
    let Some(map) = object.as_object_mut() else { return };
    match data.map(std::str::from_utf8) {
        None => map.insert("data".to_owned(), Value::Null),
        Some(Ok(text)) => map.insert("data".to_owned(), text.into()),
        Some(Err(_)) => {
            map.insert("data_base64".to_owned(), STANDARD.encode(data.unwrap_or_default()).into())
        }
    };
}

fn stat_object(stat: &Stat) -> Value {
    let hex = |number: i64| format!("{:#x}", number.cast_unsigned());
    json!({
        "cZxid": hex(stat.czxid),
        "ctime": time(stat.ctime),
        "mZxid": hex(stat.mzxid),
        "mtime": time(stat.mtime),
        "pZxid": hex(stat.pzxid),
        "cversion": stat.cversion,
        "dataVersion": stat.version,
        "aclVersion": stat.aversion,
        "ephemeralOwner": hex(stat.ephemeral_owner),
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
    })
}

/// ACL entries as objects.
pub(crate) fn acl(entries: &[Acl]) -> Vec<Value> {
    let entry = |entry: &Acl| {
        json!({
            "scheme": entry.id.scheme.as_deref(),
            "id": entry.id.id.as_deref(),
            "permissions": permissions(entry.perms),
        })
    };
    entries.iter().map(entry).collect()
}

fn branch(node: &Branch) -> Value {
    let mut object = Map::new();
    object.insert("name".to_owned(), node.name.clone().into());
    if let Some(note) = &node.note {
        object.insert("note".to_owned(), note.clone().into());
    }
    if node.cut {
        object.insert("more".to_owned(), true.into());
    }
    object.insert("children".to_owned(), node.children.iter().map(branch).collect());
    object.into()
}

fn tally_object(tally: &Tally) -> Value {
    json!({
        "result": tally.verb,
        "created": tally.created,
        "overwritten": tally.overwritten,
        "skipped_ephemerals": tally.skipped_ephemerals,
        "bytes": tally.bytes,
    })
}

/// Why a command failed: `code` is a server's name for it, or one of ours.
pub(crate) fn failure(code: &str, message: &str, path: Option<&str>) -> Value {
    let mut error = json!({ "code": code, "message": message });
    if let Some(path) = path {
        error["path"] = path.into();
    }
    json!({ "error": error })
}

/// A watch event.
pub(crate) fn event(event: &Event) -> Value {
    let zxid = (event.zxid >= 0).then(|| format!("{:#x}", event.zxid));
    json!({ "event": event.kind, "state": event.state, "path": event.path, "zxid": zxid })
}

#[cfg(test)]
mod tests {
    use super::super::reply::Spelling;
    use super::*;

    #[test]
    fn data_is_text_or_base64_or_null() {
        let shown = |data: Option<&[u8]>| {
            let data = data.map(<[u8]>::to_vec);
            let (stat, spelling) = (Stat::default(), Spelling::Plain);
            let reply = Reply::Data { path: "/a".to_owned(), data, stat, with_stat: false, spelling };
            let value = render(&reply).unwrap();
            (value["data"].clone(), value["data_base64"].clone(), value["stat"]["cZxid"].clone())
        };
        assert_eq!(shown(Some("ä\u{1b}".as_bytes())), (json!("ä\u{1b}"), Value::Null, json!("0x0")));
        assert_eq!(shown(Some(&[0xff, 0])), (Value::Null, json!("/wA="), json!("0x0")));
        assert_eq!(shown(None).0, Value::Null);
    }

    #[test]
    fn lists_and_nothing() {
        assert_eq!(render(&Reply::Nothing), None);
        assert_eq!(render(&Reply::Deleted("/a".into())).unwrap().to_string(), r#"{"deleted":"/a"}"#);
        assert_eq!(
            failure("NoNode", "Node does not exist: /a", Some("/a")).to_string(),
            r#"{"error":{"code":"NoNode","message":"Node does not exist: /a","path":"/a"}}"#
        );
        let names = Reply::Children { path: "/".into(), names: vec!["a".into()], stat: None };
        assert_eq!(render(&names).unwrap().to_string(), r#"{"children":["a"],"path":"/"}"#);
    }
}
