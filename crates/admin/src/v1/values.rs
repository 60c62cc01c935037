//! JSON of the API: stats, ACLs and data. Zxids and session ids are texts in hexadecimal, because JSON
//! numbers of many programs end at 2^53.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use zebu_proto::{Acl, Permissions, Stat};
use zebu_server::views::StatView;
use zebu_tree::Lifetime;

use super::problem::Problem;

/// A zxid or session id.
pub fn hex(number: i64) -> Value {
    json!(format!("{number:#x}"))
}

/// A stat with ZooKeeper's names.
pub fn stat(stat: &Stat) -> Value {
    json!({
        "czxid": hex(stat.czxid),
        "mzxid": hex(stat.mzxid),
        "pzxid": hex(stat.pzxid),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeralOwner": hex(stat.ephemeral_owner),
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
    })
}

/// Adds stat, lifetime and the zxid of the read.
pub(crate) fn add_node(object: &mut Map<String, Value>, node: &StatView) {
    object.insert("stat".to_owned(), stat(&node.stat));
    let (kind, ttl_ms) = match node.lifetime {
        Lifetime::Persistent => ("persistent", None),
        Lifetime::Session(_) => ("ephemeral", None),
        Lifetime::Container => ("container", None),
        Lifetime::Ttl(ttl_ms) => ("ttl", Some(ttl_ms)),
        Lifetime::Unknown => ("unknown", None),
    };
    object.insert("lifetime".to_owned(), json!(kind));
    if let Some(ttl_ms) = ttl_ms {
        object.insert("ttlMs".to_owned(), json!(ttl_ms));
    }
}

/// Data as base64, or null.
pub fn base64_data(data: Option<&[u8]>) -> Value {
    data.map_or(Value::Null, |data| json!(STANDARD.encode(data)))
}

/// Decodes base64; blanks and line ends are skipped.
pub fn decode_base64(text: &[u8]) -> Result<Vec<u8>, Problem> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(text).map_err(|error| Problem::bad_request(format!("this is no base64: {error}")))
}

/// The letters of ZooKeeper's shell.
const LETTERS: [(char, i32); 5] = [
    ('c', Permissions::CREATE),
    ('d', Permissions::DELETE),
    ('r', Permissions::READ),
    ('w', Permissions::WRITE),
    ('a', Permissions::ADMIN),
];

/// An ACL as a list of objects.
pub fn acl(entries: &[Acl]) -> Value {
    let entry = |entry: &Acl| {
        let letters = LETTERS.iter().filter(|(_, bit)| entry.perms & bit != 0).map(|(letter, _)| letter);
        json!({
            "scheme": entry.id.scheme.as_deref(),
            "id": entry.id.id.as_deref(),
            "perms": letters.collect::<String>(),
        })
    };
    Value::Array(entries.iter().map(entry).collect())
}

/// Reads the list of objects that [`acl`] writes.
pub fn parse_acl(value: &Value) -> Result<Vec<Acl>, Problem> {
    let refused =
        || Problem::bad_request("an ACL is a list of {\"scheme\": …, \"id\": …, \"perms\": \"cdrwa\"}");
    let entries = value.as_array().ok_or_else(refused)?;
    let parse = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let object = entry.as_object().filter(|object| object.len() == 3)?;
        debug_assert!(!object.is_empty());
        let (scheme, id, perms) = (text("scheme")?, text("id")?, parse_permissions(text("perms")?)?);
        Some(Acl::new(perms, scheme, id))
    };
    entries.iter().map(|entry| parse(entry).ok_or_else(refused)).collect()
}

/// One entry as the shell writes it: `scheme:id:perms`. An id may hold colons.
pub fn parse_acl_entry(text: &str) -> Result<Acl, Problem> {
    let parts = text.split_once(':').and_then(|(scheme, rest)| {
        let (id, perms) = rest.rsplit_once(':')?;
        Some(Acl::new(parse_permissions(perms)?, scheme, id))
    });
    parts.ok_or_else(|| Problem::bad_request("acl must be scheme:id:perms such as world:anyone:r"))
}

fn parse_permissions(text: &str) -> Option<i32> {
    text.chars().try_fold(0, |bits, letter| {
        let (_, bit) = LETTERS.iter().find(|(known, _)| *known == letter)?;
        Some(bits | bit)
    })
}

/// Milliseconds of a time to live: `500ms`, `30s`, `5m`, `2h`, `1d`; a number alone counts milliseconds.
pub fn parse_ttl(text: &str) -> Result<i64, Problem> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let ttl = number.parse::<i64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    ttl.ok_or_else(|| Problem::bad_request("ttl must be a time such as 500ms, 30s, 5m, 2h or 1d"))
}

/// The data of an operation: `data` as text, `base64` as bytes, null, or nothing for empty data.
pub fn parse_data(object: &Map<String, Value>) -> Result<Option<Arc<[u8]>>, Problem> {
    match (object.get("data"), object.get("base64")) {
        (None, None) => Ok(Some(Arc::from([]))),
        (Some(Value::String(text)), None) => Ok(Some(Arc::from(text.as_bytes()))),
        (Some(Value::Null), None) => Ok(None),
        (None, Some(Value::String(text))) => Ok(Some(Arc::from(decode_base64(text.as_bytes())?))),
        _ => Err(Problem::bad_request(
            "data is a text or null, base64 is a text, and only one of them is given",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acls_are_read_back_as_they_are_written() {
        let list =
            vec![Acl::new(31, "world", "anyone"), Acl::new(5, "digest", "a:b="), Acl::new(0, "ip", "::1")];
        assert_eq!(parse_acl(&acl(&list)).unwrap(), list);
        assert_eq!(parse_acl_entry("digest:a:b=:cr").unwrap(), list[1]);
        assert_eq!(parse_acl_entry("ip:::1:").unwrap(), list[2]);
        for bad in ["world", "world:anyone", "world:anyone:x", ""] {
            assert!(parse_acl_entry(bad).is_err(), "{bad}");
        }
        for bad in
            [json!({}), json!([{}]), json!([{"scheme": "world", "id": "anyone", "perms": "z"}]), json!([1])]
        {
            assert!(parse_acl(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_to_live() {
        for (text, ttl) in
            [("5", 5), ("5ms", 5), ("30s", 30_000), ("2h", 7_200_000), ("1d", 86_400_000), ("5m", 300_000)]
        {
            assert_eq!(parse_ttl(text).unwrap(), ttl);
        }
        for bad in ["", "s", "5x", "-5", "99999999999999999d", "1.5s"] {
            assert!(parse_ttl(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn data_is_text_base64_null_or_empty() {
        let data = |value: Value| parse_data(value.as_object().unwrap());
        assert_eq!(data(json!({})).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(data(json!({"data": "ä"})).unwrap().as_deref(), Some("ä".as_bytes()));
        assert_eq!(data(json!({"data": null})).unwrap(), None);
        assert_eq!(data(json!({"base64": "/w=="})).unwrap().as_deref(), Some(&[255][..]));
        assert!(data(json!({"base64": "/w==", "data": ""})).is_err() && data(json!({"data": 1})).is_err());
        assert!(data(json!({"base64": "?"})).is_err());
    }
}
