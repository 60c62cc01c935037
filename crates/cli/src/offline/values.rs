//! How values are spelled in listings. Whatever the files hold, a line stays one line and nothing in it
//! reaches a terminal as a control sequence.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use zebu_proto::{Acl, Permissions};

/// A point in time, UTC; the bare number if no calendar has it.
pub(crate) fn time(milliseconds: i64) -> String {
    match Timestamp::from_millisecond(milliseconds) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
        Err(_) => format!("{milliseconds}ms"),
    }
}

/// Text as one word: as it is, or quoted if it has blanks, quotes or control characters.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let awkward = |character: char| {
        character.is_whitespace() || character.is_control() || matches!(character, '"' | '\\')
    };
    if text.is_empty() || text.contains(awkward) {
        Cow::Owned(format!("{text:?}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A number of things.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Data as one word: quoted text if it is text, else base64.
pub(crate) fn data_text(data: Option<&[u8]>) -> String {
    let Some(data) = data else { return "null".to_owned() };
    let printable =
        |text: &&str| !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    match std::str::from_utf8(data).ok().filter(printable) {
        Some(text) => format!("{text:?}"),
        None => format!("base64:{}", base64(data)),
    }
}

/// Bytes in base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Permission bits as ZooKeeper's shell writes them; unknown bits as a number.
pub(crate) fn permissions(bits: i32) -> String {
    let letters = [
        (Permissions::CREATE, 'c'),
        (Permissions::DELETE, 'd'),
        (Permissions::READ, 'r'),
        (Permissions::WRITE, 'w'),
        (Permissions::ADMIN, 'a'),
    ];
    let mut text: String =
        letters.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter).collect();
    if bits & !Permissions::ALL != 0 {
        text.push_str(&format!("+{:#x}", bits & !Permissions::ALL));
    }
    text
}

/// An ACL as one word: `scheme:id:permissions`, joined by commas.
pub(crate) fn acl_text(acl: Option<&[Acl]>) -> String {
    let Some(acl) = acl else { return "null".to_owned() };
    let part = |text: &Option<Box<str>>| text.as_deref().map_or("null".to_owned(), ToString::to_string);
    let entries = acl.iter().map(|entry| {
        format!("{}:{}:{}", part(&entry.id.scheme), part(&entry.id.id), permissions(entry.perms))
    });
    word(&entries.collect::<Vec<_>>().join(",")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(time(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(time(i64::MAX), "9223372036854775807ms");
    }

    #[test]
    fn words_never_break_a_line() {
        assert_eq!(word("/a/ä"), "/a/ä");
        assert_eq!(word("/a b"), "\"/a b\"");
        assert_eq!(word("/a\n\x1b[31m"), "\"/a\\n\\u{1b}[31m\"");
        assert_eq!(word(""), "\"\"");
        assert_eq!(data_text(Some(b"one\ntwo")), "\"one\\ntwo\"");
        assert_eq!(data_text(Some(b"\x1b[31m")), "base64:G1szMW0=");
        assert_eq!(data_text(Some(&[0xff, 0])), "base64:/wA=");
        assert_eq!((data_text(None).as_str(), data_text(Some(b"")).as_str()), ("null", "\"\""));
    }

    #[test]
    fn acls() {
        assert_eq!(acl_text(Some(&Acl::open())), "world:anyone:cdrwa");
        let two = [Acl::new(1, "ip", "10.0.0.0/8"), Acl::new(64 | 2, "digest", "u:x=")];
        assert_eq!(acl_text(Some(&two)), "ip:10.0.0.0/8:r,digest:u:x=:w+0x40");
        assert_eq!((acl_text(None).as_str(), acl_text(Some(&[])).as_str()), ("null", "\"\""));
    }
}
