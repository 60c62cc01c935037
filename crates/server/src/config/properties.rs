//! The grammar of Java property files, which is the grammar of zoo.cfg. It parses lines, escapes
//! and comments, and knows no key.

use std::iter::Peekable;
use std::str::Chars;

/// One trimmed `key = value` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyEntry {
    /// Without surrounding blanks.
    pub key: String,
    /// Without surrounding blanks; may be empty.
    pub value: String,
    /// First line of the entry, from 1.
    pub line: u32,
}

/// An invalid `\u` escape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\\u must be followed by four hexadecimal digits")]
pub struct MalformedEscape {
    /// First line of the entry.
    pub line: u32,
}

/// Decodes the bytes of a file. Property files are ISO-8859-1 on every system.
pub fn decode_latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// Splits a text into entries, in the order of the file. A key may occur more than once; the last
/// one wins.
///
/// # Errors
/// A `\u` escape without four hexadecimal digits.
pub fn parse_properties(text: &str) -> Result<Vec<PropertyEntry>, MalformedEscape> {
    let mut entries = Vec::new();
    let mut lines = natural_lines(text).into_iter().zip(1u32..).peekable();
    'entries: while let Some((first, line)) = lines.next() {
        let first = first.trim_start_matches(is_blank);
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while ends_with_continuation(&logical) {
            logical.pop();
            // An empty entry has not begun: the next line may be a comment.
            if logical.is_empty() && lines.peek().is_some() {
                continue 'entries;
            }
            match lines.next() {
                Some((more, _)) => logical.push_str(more.trim_start_matches(is_blank)),
                None => break,
            }
        }
        let (key, value) = split_entry(&logical);
        let unescape = |raw: &str| unescape(raw).ok_or(MalformedEscape { line });
        entries.push(PropertyEntry { key: trim(&unescape(key)?), value: trim(&unescape(value)?), line });
    }
    Ok(entries)
}

/// Splits a text at LF, CR or CR LF.
fn natural_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(['\n', '\r']) {
        lines.push(&rest[..end]);
        let terminator = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + terminator..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// An odd number of backslashes at the end: the last one escapes the line end.
fn ends_with_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// Splits an entry at the first unescaped `=`, `:` or blank. One separator and the blanks around it
/// belong to neither side.
fn split_entry(logical: &str) -> (&str, &str) {
    let mut escaped = false;
    let key_end = logical
        .find(|c: char| {
            let ends = !escaped && (matches!(c, '=' | ':') || is_blank(c));
            escaped = c == '\\' && !escaped;
            ends
        })
        .unwrap_or(logical.len());
    let (key, rest) = logical.split_at(key_end);
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(is_blank))
}

/// Decodes escapes. They are UTF-16 code units, so a pair of `\u` escapes may form one character.
fn unescape(raw: &str) -> Option<String> {
    let mut units = Vec::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    let mut buffer = [0u16; 2];
    while let Some(c) = chars.next() {
        if c != '\\' {
            units.extend_from_slice(c.encode_utf16(&mut buffer));
            continue;
        }
        match chars.next() {
            Some('u') => units.push(hex_unit(&mut chars)?),
            Some('t') => units.push(0x09),
            Some('n') => units.push(0x0a),
            Some('f') => units.push(0x0c),
            Some('r') => units.push(0x0d),
            Some(other) => units.extend_from_slice(other.encode_utf16(&mut buffer)),
            None => {}
        }
    }
    Some(String::from_utf16_lossy(&units))
}

fn hex_unit(chars: &mut Peekable<Chars<'_>>) -> Option<u16> {
    let mut unit = 0u16;
    for _ in 0..4 {
        let digit = chars.next()?.to_digit(16)?;
        unit = unit << 4 | u16::try_from(digit).ok()?;
    }
    Some(unit)
}

/// Java's `trim`: every character up to U+0020 counts as blank.
pub fn trim(text: &str) -> String {
    text.trim_matches(|c: char| c <= ' ').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String, u32)> {
        parse_properties(text)
            .unwrap()
            .into_iter()
            .map(|entry| (entry.key, entry.value, entry.line))
            .collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str, u32)]) {
        let expected: Vec<_> =
            expected.iter().map(|&(key, value, line)| (key.to_owned(), value.to_owned(), line)).collect();
        assert_eq!(pairs(text), expected, "for {text:?}");
    }

    #[test]
    fn separators() {
        check("a=1", &[("a", "1", 1)]);
        check("a:1", &[("a", "1", 1)]);
        check("a 1", &[("a", "1", 1)]);
        check("a\t=\t1", &[("a", "1", 1)]);
        check("a : = 1", &[("a", "= 1", 1)]);
        check("a==1", &[("a", "=1", 1)]);
        check("a", &[("a", "", 1)]);
        check("=1", &[("", "1", 1)]);
        check("server.1=h:1:2;3", &[("server.1", "h:1:2;3", 1)]);
        check("server.1 h:1:2", &[("server.1", "h:1:2", 1)]);
    }

    #[test]
    fn comments_and_blank_lines() {
        check("# a=1\n! b=2\n\n  \t\n  # c\nd=4\n", &[("d", "4", 6)]);
        check("tickTime=2000 # two seconds", &[("tickTime", "2000 # two seconds", 1)]);
        check("# not continued \\\na=1", &[("a", "1", 2)]);
    }

    #[test]
    fn line_ends() {
        check("a=1\r\nb=2\rc=3\nd=4", &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3), ("d", "4", 4)]);
    }

    #[test]
    fn continuation() {
        check("a=1,\\\n   2,\\\n\t3\nb=4", &[("a", "1,2,3", 1), ("b", "4", 4)]);
        check("a=1\\\\\nb=2", &[("a", "1\\", 1), ("b", "2", 2)]);
        check("a=1\\\n# still the value\nb=2", &[("a", "1# still the value", 1), ("b", "2", 3)]);
        check("a=1\\", &[("a", "1", 1)]);
        check("a=1\\\n\nb=2", &[("a", "1", 1), ("b", "2", 3)]);
        check("a\\\n b=1", &[("ab", "1", 1)]);
    }

    #[test]
    fn a_continuation_of_nothing_begins_nothing() {
        check("\\\n# comment\na=1", &[("a", "1", 3)]);
        check(" \\\n! comment\na=1", &[("a", "1", 3)]);
        check("\\\n\\\r\n  # comment\na=1", &[("a", "1", 4)]);
        check("\\\n\na=1", &[("a", "1", 3)]);
        check("\\\na=1", &[("a", "1", 2)]);
        check("\\", &[("", "", 1)]);
        check("\\\n", &[("", "", 1)]);
    }

    #[test]
    fn escapes() {
        check(r"a\ b\=c\:d=1", &[("a b=c:d", "1", 1)]);
        check(r"a=x\ty\\z\q", &[("a", "x\ty\\zq", 1)]);
        check(r"a=\u0041\u00e9\uD83D\uDE00", &[("a", "Aé😀", 1)]);
        check(r"a=C:\\data", &[("a", "C:\\data", 1)]);
        check(r"a=C:\data", &[("a", "C:data", 1)]);
        check(r"a=x\n", &[("a", "x", 1)]);
    }

    #[test]
    fn malformed_escapes_name_their_line() {
        assert_eq!(parse_properties("a=1\nb=\\u00g1"), Err(MalformedEscape { line: 2 }));
        assert_eq!(parse_properties("b=\\u00"), Err(MalformedEscape { line: 1 }));
        assert_eq!(
            MalformedEscape { line: 1 }.to_string(),
            "\\u must be followed by four hexadecimal digits"
        );
    }

    #[test]
    fn trailing_blanks_go_and_duplicates_stay_in_order() {
        check("a = 1 \t \na=2  ", &[("a", "1", 1), ("a", "2", 2)]);
    }

    #[test]
    fn bytes_are_latin1() {
        assert_eq!(decode_latin1(b"a=\xe9"), "a=é");
    }

    #[test]
    fn no_input_panics() {
        for text in ["\\", "\\\\", "\\u", "=\\", "\r", "\r\n\\\r\n", "\u{c}", "a\\\r\n"] {
            let _ = parse_properties(text);
        }
    }
}
