//! A difference between two nodes in words.

use serde_json::{Map, Value, json};

use super::fingerprint::{NodeFacts, stat_fields};
use crate::offline::{count, time, word as one_word};

/// The sign of a difference, by where the thing is.
pub(super) fn sign(in_a: bool, in_b: bool) -> char {
    match (in_a, in_b) {
        (false, _) => '+',
        (true, false) => '-',
        (true, true) => '~',
    }
}

/// A sign as a word.
pub(super) fn word(sign: char) -> &'static str {
    match sign {
        '+' => "added",
        '-' => "removed",
        _ => "changed",
    }
}

/// A difference as a line.
pub(super) fn text(path: &str, before: Option<&NodeFacts>, after: Option<&NodeFacts>) -> String {
    let sign = sign(before.is_some(), after.is_some());
    let path = one_word(path);
    match (before, after) {
        (Some(before), Some(after)) => {
            let mut changes = Vec::new();
            if before.data != after.data {
                let same_length = before.length == after.length;
                changes.push(match same_length {
                    true => format!("data ({}, other content)", length(after)),
                    false => format!("data {} -> {}", length(before), length(after)),
                });
            }
            if before.acl != after.acl {
                changes.push("acl".to_owned());
            }
            for (name, old, new) in stat_changes(before, after) {
                changes.push(format!("{name} {} -> {}", field_text(name, old), field_text(name, new)));
            }
            format!("{sign} {path} {}", changes.join(", "))
        }
        (one, other) => {
            let data = one.or(other).map(length).unwrap_or_default();
            format!("{sign} {path} data {data}")
        }
    }
}

/// A difference as a JSON object; where a value changed, the old and the new one.
pub(super) fn json(path: &str, before: Option<&NodeFacts>, after: Option<&NodeFacts>) -> Value {
    let mut object = Map::new();
    object.insert("kind".into(), "node".into());
    object.insert("change".into(), word(sign(before.is_some(), after.is_some())).into());
    object.insert("path".into(), path.into());
    let lengths: Vec<_> = [before, after].iter().map(|facts| facts.and_then(|facts| facts.length)).collect();
    object.insert("data_length".into(), json!(lengths));
    if let (Some(before), Some(after)) = (before, after) {
        object.insert("data_changed".into(), (before.data != after.data).into());
        object.insert("acl_changed".into(), (before.acl != after.acl).into());
        let stat = stat_changes(before, after);
        let stat = stat
            .map(|(name, old, new)| (name.to_owned(), json!([field_json(name, old), field_json(name, new)])));
        object.insert("stat".into(), Value::Object(stat.collect()));
    }
    object.into()
}

fn stat_changes(
    before: &NodeFacts,
    after: &NodeFacts,
) -> impl Iterator<Item = (&'static str, i64, i64)> + use<> {
    let fields = stat_fields(&before.stat).into_iter().zip(stat_fields(&after.stat));
    fields.filter(|((_, old), (_, new))| old != new).map(|((name, old), (_, new))| (name, old, new))
}

fn length(facts: &NodeFacts) -> String {
    facts.length.map_or("null".to_owned(), |length| count(length as u64, "byte", "bytes"))
}

fn field_text(name: &str, value: i64) -> String {
    match name {
        "ctime" | "mtime" => time(value),
        "version" | "cversion" | "aversion" => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

fn field_json(name: &str, value: i64) -> Value {
    match name {
        "ctime" | "mtime" | "version" | "cversion" | "aversion" => value.into(),
        _ => format!("{value:#x}").into(),
    }
}
