//! A reader of DER elements. It borrows from the input, never recurses and never allocates.

use std::fmt;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const BMP_STRING: u8 = 0x1e;

/// The constructed, context-specific tag with this number.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// The reason why bytes are not the expected DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DerError {
    Truncated,
    IndefiniteLength,
    LengthTooLong,
    HighTag,
    UnexpectedTag { expected: u8, found: u8 },
    TrailingBytes,
    NumberTooLarge,
}

impl fmt::Display for DerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DerError::Truncated => formatter.write_str("an element ends beyond the data"),
            DerError::IndefiniteLength => formatter.write_str("BER with indefinite length is not supported"),
            DerError::LengthTooLong => formatter.write_str("an element length has more than four bytes"),
            DerError::HighTag => formatter.write_str("a tag has more than one byte"),
            DerError::UnexpectedTag { expected, found } => {
                write!(formatter, "tag {found:#04x} instead of {expected:#04x}")
            }
            DerError::TrailingBytes => formatter.write_str("bytes follow the last element"),
            DerError::NumberTooLarge => formatter.write_str("a number is out of range"),
        }
    }
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DerElement<'a> {
    pub(crate) tag: u8,
    /// Tag, length and content.
    pub(crate) whole: &'a [u8],
    pub(crate) content: &'a [u8],
}

/// Reads elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DerReader<'a> {
    rest: &'a [u8],
}

impl<'a> DerReader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> DerReader<'a> {
        DerReader { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn next_is(&self, tag: u8) -> bool {
        self.rest.first() == Some(&tag)
    }

    pub(crate) fn element(&mut self) -> Result<DerElement<'a>, DerError> {
        let (&tag, after_tag) = self.rest.split_first().ok_or(DerError::Truncated)?;
        if tag & 0x1f == 0x1f {
            return Err(DerError::HighTag);
        }
        let (&first, mut after_length) = after_tag.split_first().ok_or(DerError::Truncated)?;
        let length = match first {
            0..0x80 => usize::from(first),
            0x80 => return Err(DerError::IndefiniteLength),
            0x81..=0x84 => {
                let count = usize::from(first & 0x7f);
                let digits = after_length.get(..count).ok_or(DerError::Truncated)?;
                after_length = &after_length[count..];
                digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit))
            }
            _ => return Err(DerError::LengthTooLong),
        };
        let content = after_length.get(..length).ok_or(DerError::Truncated)?;
        let size = self.rest.len() - after_length.len() + length;
        let (whole, rest) = self.rest.split_at(size);
        self.rest = rest;
        Ok(DerElement { tag, whole, content })
    }

    /// The content of the next element, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'a [u8], DerError> {
        let element = self.element()?;
        if element.tag != tag {
            return Err(DerError::UnexpectedTag { expected: tag, found: element.tag });
        }
        Ok(element.content)
    }

    /// A reader of the next element's content.
    pub(crate) fn enter(&mut self, tag: u8) -> Result<DerReader<'a>, DerError> {
        self.expect(tag).map(DerReader::new)
    }

    /// The next element's content, if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, DerError> {
        if self.next_is(tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    /// A number that is not negative.
    pub(crate) fn number(&mut self) -> Result<u32, DerError> {
        let digits = self.expect(INTEGER)?;
        let significant = match digits {
            [] => return Err(DerError::NumberTooLarge),
            [0, rest @ ..] => rest,
            [first, ..] if *first >= 0x80 => return Err(DerError::NumberTooLarge),
            _ => digits,
        };
        if significant.len() > 4 {
            return Err(DerError::NumberTooLarge);
        }
        Ok(significant.iter().fold(0, |number, digit| number << 8 | u32::from(*digit)))
    }

    pub(crate) fn finish(&self) -> Result<(), DerError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DerError::TrailingBytes) }
    }
}

/// Appends one element.
pub(crate) fn write(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let digits = length.to_be_bytes();
        let used = &digits[digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len() - 1)..];
        out.push(0x80 | used.len() as u8);
        out.extend_from_slice(used);
    }
    out.extend_from_slice(content);
}

/// An object identifier in dotted form. Identifiers that are not minimal, not complete or beyond 128 bits get
/// a text that equals no identifier, so that they cannot pass for another one.
pub(crate) fn dotted(oid: &[u8]) -> String {
    match read_components(oid) {
        Some(components) => {
            let numbers: Vec<String> = components.iter().map(u128::to_string).collect();
            numbers.join(".")
        }
        None => {
            let hex: String = oid.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("malformed.{hex}")
        }
    }
}

fn read_components(oid: &[u8]) -> Option<Vec<u128>> {
    let mut components = Vec::new();
    let mut rest = oid;
    while !rest.is_empty() {
        let length = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let (digits, after) = rest.split_at(length);
        // Eighteen groups of seven bits fit into the number.
        if digits[0] == 0x80 || length > 18 {
            return None;
        }
        let number = digits.iter().fold(0, |number, digit| number << 7 | u128::from(digit & 0x7f));
        if components.is_empty() {
            let first = (number / 40).min(2);
            components.push(first);
            components.push(number - first * 40);
        } else {
            components.push(number);
        }
        rest = after;
    }
    (!components.is_empty()).then_some(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_bounded_by_the_data() {
        assert_eq!(DerReader::new(&[]).element(), Err(DerError::Truncated));
        assert_eq!(DerReader::new(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]).element(), Err(DerError::Truncated));
        assert_eq!(DerReader::new(&[0x30, 0x80, 0, 0]).element(), Err(DerError::IndefiniteLength));
        assert_eq!(DerReader::new(&[0x30, 0x85, 0, 0, 0, 0, 1, 0]).element(), Err(DerError::LengthTooLong));
        assert_eq!(DerReader::new(&[0x1f, 0x81, 0]).element(), Err(DerError::HighTag));
        let mut reader = DerReader::new(&[0x04, 2, 7, 8, 9]);
        assert_eq!(reader.expect(OCTET_STRING), Ok(&[7, 8][..]));
        assert_eq!(reader.finish(), Err(DerError::TrailingBytes));
    }

    #[test]
    fn numbers_and_identifiers() {
        assert_eq!(DerReader::new(&[2, 1, 3]).number(), Ok(3));
        assert_eq!(DerReader::new(&[2, 5, 0, 0xff, 0xff, 0xff, 0xff]).number(), Ok(u32::MAX));
        assert_eq!(DerReader::new(&[2, 5, 1, 0, 0, 0, 0]).number(), Err(DerError::NumberTooLarge));
        assert_eq!(DerReader::new(&[2, 1, 0xff]).number(), Err(DerError::NumberTooLarge));
        assert_eq!(dotted(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1]), "1.2.840.113549.1.9.1");
        assert_eq!(dotted(&[0x55, 4, 3]), "2.5.4.3");
        assert_eq!(dotted(&[0x88, 0x37, 3]), "2.999.3");
    }

    #[test]
    fn no_identifier_passes_for_another_one() {
        let huge = [&[0x55, 4, 3][..], &[0xff; 30], &[0x7f]].concat();
        for oid in [&huge[..], &[0x55, 4, 3, 0xff], &[0x55, 4, 0x80, 3], &[]] {
            assert!(dotted(oid).starts_with("malformed."), "{oid:02x?}");
        }
    }

    #[test]
    fn written_elements_are_read_again() {
        for length in [0usize, 127, 128, 255, 256, 70_000] {
            let mut out = Vec::new();
            write(&mut out, OCTET_STRING, &vec![1; length]);
            assert_eq!(DerReader::new(&out).expect(OCTET_STRING).map(<[u8]>::len), Ok(length));
        }
    }
}
