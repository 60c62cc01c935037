//! Strings as ZooKeeper decodes them: bytes that are not UTF-8 become U+FFFD, as many as in Java, because
//! every replica must get the same text.

use std::borrow::Cow;

/// Decodes a `ustring`. Valid UTF-8 is borrowed.
///
/// Java's decoder turns an encoded surrogate (three bytes, as Java's own writer emits supplementary
/// characters) into one replacement character, where Rust's lossy decoder makes three.
pub fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(decode_damaged(bytes)),
    }
}

fn decode_damaged(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    loop {
        let (valid, rest) = match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                return text;
            }
            Err(error) => bytes.split_at(error.valid_up_to()),
        };
        text.push_str(std::str::from_utf8(valid).expect("checked by valid_up_to"));
        text.push(char::REPLACEMENT_CHARACTER);
        bytes = &rest[damaged_length(rest)..];
    }
}

/// How many bytes one replacement character stands for.
fn damaged_length(bytes: &[u8]) -> usize {
    if let [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] = bytes {
        return 3;
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(error) => error.error_len().unwrap_or(bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogates_become_one_replacement_each() {
        // U+1F600 as Java writes it: two encoded surrogates.
        assert_eq!(decode_text(&[b'a', 0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80, b'b']), "a\u{fffd}\u{fffd}b");
        assert_eq!(decode_text("a😀b".as_bytes()), "a😀b");
    }

    #[test]
    fn damaged_bytes_never_fail() {
        assert_eq!(decode_text(&[0xff, b'/', 0xc3]), "\u{fffd}/\u{fffd}");
        assert_eq!(decode_text(&[0xe2, 0x82]), "\u{fffd}");
        assert_eq!(decode_text(&[]), "");
    }
}
