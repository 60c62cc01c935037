//! Transactions in the words of the samples' `expected.json`.

use serde_json::{Value, json};
use zebu_proto::txn::{CreateTxn, Txn, TxnEntry};
use zebu_proto::{Acl, Zxid};

pub fn hex(value: i64) -> Value {
    json!(format!("{:#x}", value))
}

pub fn zxid(value: &Value) -> Zxid {
    Zxid(i64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap())
}

/// A string, or what Apache shows of one that was not UTF-8.
pub fn same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            found.len() == expected.len()
                && found.iter().all(|(key, value)| expected.get(key).is_some_and(|it| same(value, it)))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| same(a, b))
        }
        (Value::String(_), Value::Object(expected)) if expected.contains_key("text") => {
            found == &expected["text"]
        }
        (Value::Array(bytes), Value::Object(expected)) if expected.contains_key("sha256") => {
            json!(bytes.len()) == expected["length"]
        }
        _ => found == expected,
    }
}

/// Hexadecimal, or an array of as many numbers where the samples give only length and sum.
pub fn data(bytes: Option<&[u8]>) -> Value {
    match bytes {
        None => Value::Null,
        Some(bytes) if bytes.len() > 4096 => json!(bytes),
        Some(bytes) => json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

pub fn acl(list: &[Acl]) -> Value {
    list.iter()
        .map(|acl| json!([acl.perms, acl.id.scheme.as_deref(), acl.id.id.as_deref()]))
        .collect::<Vec<_>>()
        .into()
}

fn create(txn: &CreateTxn) -> Value {
    json!({
        "path": *txn.path,
        "data": data(txn.data.as_deref()),
        "acl": txn.acl.as_deref().map(acl),
        "ephemeral": txn.ephemeral,
        "parentCVersion": txn.parent_cversion,
    })
}

pub fn body(txn: &Txn) -> Value {
    match txn {
        Txn::Error(code) => json!({ "err": code }),
        Txn::CreateSession { timeout_ms } => json!({ "timeOut": timeout_ms }),
        Txn::CloseSession(None) => Value::Null,
        Txn::CloseSession(Some(paths)) => json!({ "paths2Delete": paths }),
        Txn::Create(txn) | Txn::Create2(txn) => create(txn),
        Txn::CreateContainer(txn) => json!({
            "path": *txn.path,
            "data": data(txn.data.as_deref()),
            "acl": txn.acl.as_deref().map(acl),
            "parentCVersion": txn.parent_cversion,
        }),
        Txn::CreateTtl(txn) => json!({
            "path": *txn.path,
            "data": data(txn.data.as_deref()),
            "acl": txn.acl.as_deref().map(acl),
            "parentCVersion": txn.parent_cversion,
            "ttl": txn.ttl_ms,
        }),
        Txn::Delete(path) | Txn::DeleteContainer(path) => json!({ "path": **path }),
        Txn::SetData(txn) | Txn::Reconfig(txn) => json!({
            "path": *txn.path, "data": data(txn.data.as_deref()), "version": txn.version,
        }),
        Txn::SetAcl(txn) => json!({
            "path": *txn.path, "acl": txn.acl.as_deref().map(acl), "version": txn.version,
        }),
        Txn::Check(txn) => json!({ "path": *txn.path, "version": txn.version }),
        Txn::Multi(parts) => {
            let parts: Vec<_> = parts
                .iter()
                .map(|part| json!({ "type": part.0.op_code().wire(), "body": body(&part.0) }))
                .collect();
            json!({ "txns": parts })
        }
    }
}

pub fn entry(entry: &TxnEntry) -> Value {
    json!({
        "clientId": hex(entry.header.session.0),
        "cxid": entry.header.cxid,
        "zxid": hex(entry.header.zxid.0),
        "time": entry.header.time_ms,
        "type": entry.txn.op_code().wire(),
        "body": body(&entry.txn),
        "digest": entry.digest.map(|it| json!({ "version": it.version, "treeDigest": hex(it.tree_digest) })),
    })
}
