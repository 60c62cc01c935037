//! Java's modified UTF-8: NUL has two bytes, and characters beyond U+FFFF are encoded surrogates.

/// Decodes a text. Overlong forms other than that of NUL are refused.
pub(super) fn decode(bytes: &[u8]) -> Option<String> {
    let mut units = Vec::new();
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        let (unit, used) = match first {
            0x01..=0x7f => (u16::from(first), 0),
            0xc0..=0xdf => {
                let unit = u16::from(first & 0x1f) << 6 | continuation(after, 0)?;
                if unit < 0x80 && unit != 0 {
                    return None;
                }
                (unit, 1)
            }
            0xe0..=0xef => {
                let unit =
                    u16::from(first & 0x0f) << 12 | continuation(after, 0)? << 6 | continuation(after, 1)?;
                if unit < 0x800 {
                    return None;
                }
                (unit, 2)
            }
            _ => return None,
        };
        units.push(unit);
        rest = &after[used..];
    }
    String::from_utf16(&units).ok()
}

fn continuation(bytes: &[u8], index: usize) -> Option<u16> {
    let byte = *bytes.get(index)?;
    (byte & 0xc0 == 0x80).then_some(u16::from(byte & 0x3f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_java_are_decoded() {
        assert_eq!(decode(b"mykey").as_deref(), Some("mykey"));
        assert_eq!(decode(&[0xc0, 0x80, b'a']).as_deref(), Some("\0a"));
        assert_eq!(decode("ü€".as_bytes()).as_deref(), Some("ü€"));
        assert_eq!(decode(&[0xed, 0xa0, 0xbe, 0xed, 0xb6, 0xac]).as_deref(), Some("🦬"));
    }

    #[test]
    fn other_encodings_are_refused() {
        for bytes in [&[0xc1, 0x81][..], &[0xe0, 0x80, 0xaf], &[0], &[0xc3], &[0xff], &[0xed, 0xa0, 0xbe]] {
            assert_eq!(decode(bytes), None, "{bytes:02x?}");
        }
    }
}
