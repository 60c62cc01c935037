//! A transaction as fields with names, and the two ways to write them: a line, a JSON object. What a field
//! is called is decided here alone.

use serde_json::{Map, Value, json};
use zebu_proto::txn::{CreateTxn, SubTxn, Txn, TxnEntry};
use zebu_proto::{Acl, ErrorCode};

use crate::offline::{acl_text, base64, data_text, permissions, time, word};

/// How much of a node's data is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Its length.
    Length,
    /// All of it.
    Whole,
}

#[derive(Clone, Copy)]
enum Field<'t> {
    Number(i64),
    Name(&'static str),
    Path(&'t str),
    Paths(&'t [Box<str>]),
    Data(Option<&'t [u8]>),
    Acl(Option<&'t [Acl]>),
    Truth(bool),
}

type Fields<'t> = Vec<(&'static str, Field<'t>)>;

/// The name of a transaction's type, as ZooKeeper names it.
pub(super) fn type_name(txn: &Txn) -> &'static str {
    match txn {
        Txn::Error(_) => "error",
        Txn::CreateSession { .. } => "createSession",
        Txn::CloseSession(_) => "closeSession",
        Txn::Create(_) => "create",
        Txn::Create2(_) => "create2",
        Txn::CreateContainer(_) => "createContainer",
        Txn::CreateTtl(_) => "createTTL",
        Txn::Delete(_) => "delete",
        Txn::DeleteContainer(_) => "deleteContainer",
        Txn::SetData(_) => "setData",
        Txn::SetAcl(_) => "setACL",
        Txn::Check(_) => "check",
        Txn::Multi(_) => "multi",
        Txn::Reconfig(_) => "reconfig",
    }
}

fn fields(txn: &Txn) -> Fields<'_> {
    match txn {
        Txn::Error(code) => {
            let name = ErrorCode::from_wire(*code).map_or("unknown", ErrorCode::name);
            vec![("code", Field::Number((*code).into())), ("name", Field::Name(name))]
        }
        Txn::CreateSession { timeout_ms } => vec![("timeout_ms", Field::Number((*timeout_ms).into()))],
        // Without a list the entry is of a release before 3.6: the ephemerals are whatever a server has.
        Txn::CloseSession(None) => vec![],
        Txn::CloseSession(Some(paths)) => vec![("paths", Field::Paths(paths))],
        Txn::Create(create) | Txn::Create2(create) => create_fields(create),
        Txn::CreateContainer(create) => vec![
            ("path", Field::Path(&create.path)),
            ("data", Field::Data(create.data.as_deref())),
            ("acl", Field::Acl(create.acl.as_deref())),
            ("parent_cversion", Field::Number(create.parent_cversion.into())),
        ],
        Txn::CreateTtl(create) => vec![
            ("path", Field::Path(&create.path)),
            ("data", Field::Data(create.data.as_deref())),
            ("acl", Field::Acl(create.acl.as_deref())),
            ("parent_cversion", Field::Number(create.parent_cversion.into())),
            ("ttl_ms", Field::Number(create.ttl_ms)),
        ],
        Txn::Delete(path) | Txn::DeleteContainer(path) => vec![("path", Field::Path(path))],
        Txn::SetData(set) | Txn::Reconfig(set) => vec![
            ("path", Field::Path(&set.path)),
            ("data", Field::Data(set.data.as_deref())),
            ("version", Field::Number(set.version.into())),
        ],
        Txn::SetAcl(set) => vec![
            ("path", Field::Path(&set.path)),
            ("acl", Field::Acl(set.acl.as_deref())),
            ("version", Field::Number(set.version.into())),
        ],
        Txn::Check(check) => {
            vec![("path", Field::Path(&check.path)), ("version", Field::Number(check.version.into()))]
        }
        Txn::Multi(parts) => vec![("parts", Field::Number(parts.len() as i64))],
    }
}

fn create_fields(create: &CreateTxn) -> Fields<'_> {
    vec![
        ("path", Field::Path(&create.path)),
        ("data", Field::Data(create.data.as_deref())),
        ("acl", Field::Acl(create.acl.as_deref())),
        ("ephemeral", Field::Truth(create.ephemeral)),
        ("parent_cversion", Field::Number(create.parent_cversion.into())),
    ]
}

/// A transaction's lines: one, and one more for each part of a multi.
pub(super) fn lines(at: u64, entry: &TxnEntry, data: Data) -> Vec<String> {
    let header = &entry.header;
    let mut line = format!(
        "{at} {} session={} cxid={:#x} zxid={} {}",
        time(header.time_ms),
        header.session,
        header.cxid,
        header.zxid,
        txn_text(&entry.txn, data),
    );
    if let Some(digest) = &entry.digest {
        line.push_str(&format!(" digest={}:{:#x}", digest.version, digest.tree_digest));
    }
    let mut lines = vec![line];
    if let Txn::Multi(parts) = &entry.txn {
        lines.extend(parts.iter().map(|SubTxn(part)| format!("    {}", txn_text(part, data))));
    }
    lines
}

fn txn_text(txn: &Txn, data: Data) -> String {
    let mut text = type_name(txn).to_owned();
    for (name, field) in fields(txn) {
        let value = match field {
            Field::Number(number) => number.to_string(),
            Field::Name(name) => name.to_owned(),
            Field::Path(path) => word(path).into_owned(),
            Field::Paths(paths) => {
                let words = paths.iter().map(|path| word(path));
                format!("[{}]", words.collect::<Vec<_>>().join(","))
            }
            Field::Data(bytes) => match (data, bytes) {
                (Data::Whole, bytes) => data_text(bytes),
                (Data::Length, Some(bytes)) => bytes.len().to_string(),
                (Data::Length, None) => "null".to_owned(),
            },
            Field::Acl(acl) => acl_text(acl),
            Field::Truth(truth) => truth.to_string(),
        };
        let name = match (field, data) {
            (Field::Data(_), Data::Length) => "bytes",
            _ => name,
        };
        text.push_str(&format!(" {name}={value}"));
    }
    text
}

/// A transaction as a JSON object.
pub(super) fn json(at: u64, entry: &TxnEntry, data: Data) -> Map<String, Value> {
    let header = &entry.header;
    let mut object = txn_json(&entry.txn, data);
    object.insert("kind".into(), "entry".into());
    object.insert("offset".into(), at.into());
    object.insert("time".into(), time(header.time_ms).into());
    object.insert("time_ms".into(), header.time_ms.into());
    object.insert("session".into(), header.session.to_string().into());
    object.insert("cxid".into(), header.cxid.into());
    object.insert("zxid".into(), header.zxid.to_string().into());
    let digest = entry
        .digest
        .as_ref()
        .map(|digest| json!({ "version": digest.version, "value": format!("{:#x}", digest.tree_digest) }));
    object.insert("digest".into(), digest.into());
    object
}

fn txn_json(txn: &Txn, data: Data) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("type".into(), type_name(txn).into());
    for (name, field) in fields(txn) {
        let value = match field {
            Field::Number(number) => number.into(),
            Field::Name(name) => name.into(),
            Field::Path(path) => path.into(),
            Field::Paths(paths) => paths.iter().map(|path| Value::from(&**path)).collect(),
            Field::Data(bytes) => {
                object.insert("data_length".into(), bytes.map(<[u8]>::len).into());
                match data {
                    Data::Length => continue,
                    Data::Whole => bytes.map(base64).into(),
                }
            }
            Field::Acl(acl) => acl_json(acl),
            Field::Truth(truth) => truth.into(),
        };
        object.insert(name.into(), value);
    }
    if let Txn::Multi(parts) = txn {
        let parts = parts.iter().map(|SubTxn(part)| Value::Object(txn_json(part, data))).collect();
        object.insert("parts".into(), parts);
    }
    object
}

fn acl_json(acl: Option<&[Acl]>) -> Value {
    let entry = |entry: &Acl| {
        json!({
            "scheme": entry.id.scheme.as_deref(),
            "id": entry.id.id.as_deref(),
            "permissions": permissions(entry.perms),
        })
    };
    acl.map_or(Value::Null, |acl| acl.iter().map(entry).collect())
}
