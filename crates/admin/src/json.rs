//! JSON with keys in a given order. Its layout is Jackson's default, because scripts read single lines.

use std::fmt::Write;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that Java holds as a double.
    Decimal(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A text.
    pub(crate) fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// A number that fits ZooKeeper's type; larger ones show its largest value.
    pub(crate) fn count(number: impl TryInto<i64>) -> Json {
        Json::Integer(number.try_into().unwrap_or(i64::MAX))
    }

    /// An object with these keys in this order.
    pub(crate) fn object<K: Into<String>>(entries: impl IntoIterator<Item = (K, Json)>) -> Json {
        Json::Object(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// Two blanks per level, ` : ` after a key, arrays on one line.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Layout::Pretty, 0);
        out
    }

    /// One line without blanks.
    pub(crate) fn compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Layout::Compact, 0);
        out
    }

    fn write(&self, out: &mut String, layout: Layout, level: usize) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Integer(value) => {
                let _ = write!(out, "{value}");
            }
            Json::Decimal(value) => write_decimal(out, *value),
            Json::Text(text) => write_text(out, text),
            Json::Array(items) => write_array(out, items, layout, level),
            Json::Object(entries) => write_object(out, entries, layout, level),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Pretty,
    Compact,
}

fn write_array(out: &mut String, items: &[Json], layout: Layout, level: usize) {
    let (blank, comma) = if layout == Layout::Pretty { (" ", ", ") } else { ("", ",") };
    if items.is_empty() {
        let _ = write!(out, "[{blank}]");
        return;
    }
    out.push('[');
    out.push_str(blank);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(comma);
        }
        item.write(out, layout, level);
    }
    out.push_str(blank);
    out.push(']');
}

fn write_object(out: &mut String, entries: &[(String, Json)], layout: Layout, level: usize) {
    if entries.is_empty() {
        out.push_str(if layout == Layout::Pretty { "{ }" } else { "{}" });
        return;
    }
    let new_line = |out: &mut String, level: usize| {
        if layout == Layout::Pretty {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", level));
        }
    };
    out.push('{');
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        new_line(out, level + 1);
        write_text(out, key);
        out.push_str(if layout == Layout::Pretty { " : " } else { ":" });
        value.write(out, layout, level + 1);
    }
    new_line(out, level);
    out.push('}');
}

/// `Double.toString` in the range of our values. Jackson quotes numbers that JSON does not have.
fn write_decimal(out: &mut String, value: f64) {
    let _ = match value {
        value if value.is_nan() => write!(out, "\"NaN\""),
        value if value.is_infinite() => {
            write!(out, "\"{}Infinity\"", if value < 0.0 { "-" } else { "" })
        }
        value if value != 0.0 && !(1e-3..1e7).contains(&value.abs()) => {
            let text = format!("{value:E}");
            let text = match text.split_once('E') {
                Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
                Some(_) | None => text,
            };
            write!(out, "{text}")
        }
        value => write!(out, "{value:?}"),
    };
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_jacksons() {
        let value = Json::object([
            ("none", Json::Array(Vec::new())),
            ("empty", Json::Object(Vec::new())),
            ("ids", Json::Array(vec![Json::Integer(1), Json::Integer(2)])),
            (
                "objects",
                Json::Array(vec![Json::object([("a", Json::Null)]), Json::object([("b", Json::Bool(true))])]),
            ),
            ("in", Json::object([("average", Json::Decimal(3.4146)), ("zero", Json::Decimal(0.0))])),
        ]);
        let text = "{\n  \"none\" : [ ],\n  \"empty\" : { },\n  \"ids\" : [ 1, 2 ],\n  \"objects\" : [ {\n    \"a\" : null\n  \
                    }, {\n    \"b\" : true\n  } ],\n  \"in\" : {\n    \"average\" : 3.4146,\n    \"zero\" : 0.0\n  }\n}";
        assert_eq!(value.pretty(), text);
        assert_eq!(
            value.compact(),
            "{\"none\":[],\"empty\":{},\"ids\":[1,2],\"objects\":[{\"a\":null},{\"b\":true}],\"in\":{\"average\":3.4146,\
             \"zero\":0.0}}"
        );
    }

    #[test]
    fn texts_are_escaped_as_little_as_possible() {
        let text = Json::text("/a \"b\" \\ \u{1}\t\n\u{7f} Grün 图");
        assert_eq!(text.pretty(), "\"/a \\\"b\\\" \\\\ \\u0001\\t\\n\u{7f} Grün 图\"");
        let parsed: String = serde_json::from_str(&text.pretty()).unwrap();
        assert_eq!(parsed, "/a \"b\" \\ \u{1}\t\n\u{7f} Grün 图");
    }

    #[test]
    fn numbers_keep_their_java_form() {
        for (value, text) in
            [(2.0, "2.0"), (0.0005, "5.0E-4"), (1.6308337E7, "1.6308337E7"), (f64::NAN, "\"NaN\"")]
        {
            assert_eq!(Json::Decimal(value).pretty(), text);
        }
        assert_eq!(Json::count(u64::MAX), Json::Integer(i64::MAX));
        assert_eq!(Json::Integer(72057672645214208).pretty(), "72057672645214208");
    }
}
