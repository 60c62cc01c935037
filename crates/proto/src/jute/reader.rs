//! The cursor that decoders read from. It owns no bytes and allocates nothing by itself.

use std::borrow::Cow;

use super::text::decode_text;

/// Why bytes are not the requested record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The record needs more bytes than are available.
    #[error("{needed} bytes needed at offset {at}, {left} left")]
    Short {
        /// Offset of the field in the record's buffer.
        at: usize,
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length below -1.
    #[error("length {length} at offset {at}")]
    BadLength {
        /// Offset of the length field.
        at: usize,
        /// Its value.
        length: i32,
    },
    /// Null where the record does not allow it.
    #[error("null before offset {at} where a value is required")]
    Null {
        /// Offset after the field.
        at: usize,
    },
    /// A number outside of its enumeration.
    #[error("{what} {value} is not known")]
    Unknown {
        /// The enumeration.
        what: &'static str,
        /// The number read.
        value: i64,
    },
}

/// Reads jute values from a byte slice, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Consumes exactly `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.rest();
        match rest.split_at_checked(count) {
            Some((taken, _)) => {
                self.at += count;
                Ok(taken)
            }
            None => Err(DecodeError::Short { at: self.at, needed: count, left: rest.len() }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take returns the count asked for"))
    }

    /// Reads an `int`.
    pub fn int(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Reads a `long`.
    pub fn long(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads a `boolean`: any byte but zero is true.
    pub fn boolean(&mut self) -> Result<bool, DecodeError> {
        let [byte] = self.array()?;
        Ok(byte != 0)
    }

    /// Reads a `buffer` without copying it; `None` is null.
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let at = self.at;
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Some),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(DecodeError::BadLength { at, length }),
        }
    }

    /// Reads a `ustring`, borrowed unless its bytes had to be repaired; `None` is null.
    pub fn text(&mut self) -> Result<Option<Cow<'a, str>>, DecodeError> {
        Ok(self.buffer()?.map(decode_text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked_before_use() {
        for (bytes, expected) in [
            (&[0, 0, 0][..], DecodeError::Short { at: 0, needed: 4, left: 3 }),
            (&[0, 0, 0, 2, 1], DecodeError::Short { at: 4, needed: 2, left: 1 }),
            (&[0x7f, 0xff, 0xff, 0xff], DecodeError::Short { at: 4, needed: 0x7fff_ffff, left: 0 }),
            (&[255, 255, 255, 254], DecodeError::BadLength { at: 0, length: -2 }),
        ] {
            assert_eq!(Reader::new(bytes).buffer().unwrap_err(), expected);
        }
    }
}
