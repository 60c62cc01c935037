//! Compares one received frame with the recorded one: masked fields by their meaning, all else literally.

use zebu_proto::Reader;

use super::bindings::{Bindings, hex};
use super::format::{Field, FieldKind};

/// Both frames with their length. `Err` says what differs.
pub(super) fn frame(
    expected: &[u8],
    got: &[u8],
    mask: &[Field],
    bindings: &mut Bindings,
) -> Result<(), String> {
    if expected.len() != got.len() {
        return Err(format!("expected {}, got {}", hex(expected), hex(got)));
    }
    let mut literal = vec![true; expected.len()];
    for field in mask {
        let range = field.at..field.at + field.len;
        let (Some(wanted), Some(found)) = (expected.get(range.clone()), got.get(range.clone())) else {
            return Err(format!("the mask at offset {} is outside of the frame", field.at));
        };
        literal[range].fill(false);
        if field.kind == FieldKind::Names {
            names(wanted, found)?;
        } else {
            bindings.check(field, found)?;
        }
    }
    let differs = (0..expected.len()).find(|&at| literal[at] && expected[at] != got[at]);
    match differs {
        None => Ok(()),
        Some(at) => {
            Err(format!("first difference at offset {at}: expected {}, got {}", hex(expected), hex(got)))
        }
    }
}

/// Two vectors with the same elements in any order.
fn names(expected: &[u8], got: &[u8]) -> Result<(), String> {
    let wanted = elements(expected).ok_or("the recorded names do not decode")?;
    let found = elements(got).ok_or_else(|| format!("names do not decode: {}", hex(got)))?;
    if wanted == found { Ok(()) } else { Err(format!("expected names {wanted:?}, got {found:?}")) }
}

/// The sorted elements of a vector of strings, or of pairs of strings if that is what fills it.
fn elements(bytes: &[u8]) -> Option<Vec<Vec<String>>> {
    (1..=2).find_map(|parts| {
        let mut reader = Reader::new(bytes);
        let count = reader.int().ok()?;
        let mut elements = Vec::new();
        for _ in 0..count {
            let element: Option<Vec<String>> =
                (0..parts).map(|_| reader.text().ok()?.map(|text| text.into_owned())).collect();
            elements.push(element?);
        }
        elements.sort();
        (reader.remaining() == 0).then_some(elements)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::Release;
    use zebu_proto::Zxid;

    #[test]
    fn names_come_in_any_order() {
        let one = [0, 0, 0, 2, 0, 0, 0, 1, b'a', 0, 0, 0, 1, b'b'];
        let two = [0, 0, 0, 2, 0, 0, 0, 1, b'b', 0, 0, 0, 1, b'a'];
        let three = [0, 0, 0, 2, 0, 0, 0, 1, b'b', 0, 0, 0, 1, b'b'];
        assert_eq!(names(&one, &two), Ok(()));
        assert!(names(&one, &three).is_err());
        let pair = [0, 0, 0, 1, 0, 0, 0, 1, b'a', 0, 0, 0, 1, b'b'];
        assert_eq!(elements(&pair), Some(vec![vec!["a".into(), "b".into()]]));
    }

    #[test]
    fn bytes_outside_of_masks_are_literal() {
        let mut bindings = Bindings::new(Zxid(5), Release::V3_9_5);
        let mask = [Field { at: 4, len: 8, kind: FieldKind::Zxid, rel: 1, of: String::new() }];
        let expected = [0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1];
        assert_eq!(frame(&expected, &[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 6, 1], &mask, &mut bindings), Ok(()));
        assert!(frame(&expected, &[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 6, 2], &mask, &mut bindings).is_err());
        assert!(frame(&expected, &[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7, 1], &mask, &mut bindings).is_err());
        assert!(frame(&expected, &expected[..12], &mask, &mut bindings).is_err());
    }
}
