//! The strings that Java accepts as a distinguished name, and so as the id of an `x509` ACL entry.
//!
//! An entry matches by string equality, so that names are only checked, never normalized.

use crate::der::DerReader;

const KEYWORDS: [&str; 21] = [
    "CN",
    "C",
    "L",
    "S",
    "ST",
    "O",
    "OU",
    "T",
    "IP",
    "STREET",
    "DC",
    "DNQUALIFIER",
    "DNQ",
    "SURNAME",
    "GIVENNAME",
    "INITIALS",
    "GENERATION",
    "EMAIL",
    "EMAILADDRESS",
    "UID",
    "SERIALNUMBER",
];

/// Characters that may stand behind a backslash, beside two hexadecimal digits.
const MAY_BE_ESCAPED: &str = ",=\n+<>#;\\\" ";
/// Characters that must not stand in a value without backslash or quotes.
const MUST_BE_ESCAPED: &str = ",+<>;\"";

/// Whether Java accepts the text as a distinguished name. The empty text is one.
pub fn is_x500_name(text: &str) -> bool {
    text.is_empty() || split(text, &[',', ';']).into_iter().all(is_relative_name)
}

fn is_relative_name(text: &str) -> bool {
    split(text, &['+']).into_iter().all(is_attribute)
}

/// Splits at separators outside of quotes that no backslash precedes.
fn split<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (index, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if !is_quoted && separators.contains(&character) => {
                parts.push(&text[start..index]);
                start = index + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn is_attribute(text: &str) -> bool {
    let Some((keyword, value)) = text.split_once('=') else { return false };
    let value = value.trim_start_matches([' ', '\n']);
    is_keyword(keyword)
        && match value.chars().next() {
            None => true,
            Some('#') => is_hex_value(&value[1..]),
            Some('"') => is_quoted_value(&value[1..]),
            Some(_) => is_plain_value(value),
        }
}

fn is_keyword(text: &str) -> bool {
    let keyword = text.trim().to_uppercase();
    KEYWORDS.contains(&keyword.as_str())
        || is_object_identifier(keyword.strip_prefix("OID.").unwrap_or(&keyword))
}

/// At least two numbers; the first is 0, 1 or 2, and the second is below 40 unless the first is 2.
fn is_object_identifier(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() < 2 || !parts.iter().all(is_number) {
        return false;
    }
    let second = parts[1].trim_start_matches('0');
    match parts[0].trim_start_matches('0') {
        "" | "1" => second.len() < 2 || second.len() == 2 && second < "40",
        "2" => true,
        _ => false,
    }
}

/// One DER value in hexadecimal digits.
fn is_hex_value(text: &str) -> bool {
    let digits = text.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return false;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let bytes: Option<Vec<u8>> =
        digits.chunks(2).map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect();
    bytes.is_some_and(|bytes| {
        let mut reader = DerReader::new(&bytes);
        reader.element().is_ok() && reader.finish().is_ok()
    })
}

fn is_quoted_value(text: &str) -> bool {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return characters.all(|blank| matches!(blank, ' ' | '\n')),
            '\\' if !passes_escape(&mut characters) => return false,
            _ => {}
        }
    }
    false
}

fn is_plain_value(text: &str) -> bool {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let is_valid = match character {
            '\\' => passes_escape(&mut characters),
            other => !MUST_BE_ESCAPED.contains(other),
        };
        if !is_valid {
            return false;
        }
    }
    true
}

/// Takes the rest of an escape sequence.
fn passes_escape(characters: &mut std::str::Chars<'_>) -> bool {
    match characters.next() {
        Some(first) if first.is_ascii_hexdigit() => {
            characters.next().is_some_and(|second| second.is_ascii_hexdigit())
        }
        Some(other) => MAY_BE_ESCAPED.contains(other),
        None => false,
    }
}
