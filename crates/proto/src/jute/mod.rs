//! Jute, ZooKeeper's record encoding: big-endian integers, length-prefixed strings and buffers, counted
//! vectors, and records that are the sum of their fields.
//!
//! Decoders never trust a length: they allocate no more than the available bytes. Trailing bytes are ignored,
//! as ZooKeeper's clients rely on it.

mod reader;
mod record;
mod text;

use std::sync::Arc;

pub use reader::{DecodeError, Reader};
pub use text::decode_text;

/// A `ustring`: null is not the empty string.
pub type Text = Option<Box<str>>;

/// A `buffer`: null is not the empty buffer. Shared, because a node's data goes from the request through the
/// log to the tree without a copy.
pub type Buffer = Option<Arc<[u8]>>;

/// A value with a jute encoding.
pub trait Jute: Sized {
    /// The least number of bytes of one value; bounds the capacity that a vector may reserve.
    const SIZE_MIN: usize;

    /// Appends the encoding of `self`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes one value.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

impl Jute for i32 {
    const SIZE_MIN: usize = 4;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.int()
    }
}

impl Jute for i64 {
    const SIZE_MIN: usize = 8;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.long()
    }
}

impl Jute for bool {
    const SIZE_MIN: usize = 1;
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.boolean()
    }
}

impl Jute for Text {
    const SIZE_MIN: usize = 4;
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Some(text) => encode_bytes(text.as_bytes(), out),
            None => (-1i32).encode(out),
        }
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(reader.text()?.map(|text| text.into_owned().into_boxed_str()))
    }
}

/// A string that cannot be null: transaction records, ids that were checked.
impl Jute for Box<str> {
    const SIZE_MIN: usize = 4;
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self.as_bytes(), out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let text = reader.text()?.ok_or(DecodeError::Null { at: reader.position() })?;
        Ok(text.into_owned().into_boxed_str())
    }
}

impl Jute for Buffer {
    const SIZE_MIN: usize = 4;
    fn encode(&self, out: &mut Vec<u8>) {
        encode_buffer(self.as_deref(), out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(reader.buffer()?.map(Arc::from))
    }
}

impl<T: Jute> Jute for Option<Vec<T>> {
    const SIZE_MIN: usize = 4;
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Some(items) => items.encode(out),
            None => (-1i32).encode(out),
        }
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.int()?;
        if count == -1 {
            return Ok(None);
        }
        // ZooKeeper reads any other negative count as an empty vector.
        let count = usize::try_from(count).unwrap_or(0);
        let mut items = Vec::with_capacity(count.min(reader.remaining() / T::SIZE_MIN.max(1)));
        for _ in 0..count {
            items.push(T::decode(reader)?);
        }
        Ok(Some(items))
    }
}

/// A vector that cannot be null.
impl<T: Jute> Jute for Vec<T> {
    const SIZE_MIN: usize = 4;
    fn encode(&self, out: &mut Vec<u8>) {
        encode_count(self.len(), out);
        for item in self {
            item.encode(out);
        }
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Option::<Vec<T>>::decode(reader)?.ok_or(DecodeError::Null { at: reader.position() })
    }
}

/// Appends a length or count. Frames are far below 2 GiB, so a larger one is a broken invariant.
pub fn encode_count(count: usize, out: &mut Vec<u8>) {
    i32::try_from(count).expect("a jute length fits 31 bits").encode(out);
}

/// Appends bytes with their length in front: a non-null `ustring` or `buffer`.
pub fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    encode_count(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends a buffer that may be null, without owning it.
pub fn encode_buffer(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => encode_bytes(bytes, out),
        None => (-1i32).encode(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_not_empty() {
        let mut out = Vec::new();
        Text::None.encode(&mut out);
        Text::Some("".into()).encode(&mut out);
        Buffer::None.encode(&mut out);
        Buffer::Some(Arc::from(&b"x"[..])).encode(&mut out);
        assert_eq!(out, [255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 1, b'x']);
        let mut reader = Reader::new(&out);
        assert_eq!(Text::decode(&mut reader).unwrap(), None);
        assert_eq!(Text::decode(&mut reader).unwrap(), Some("".into()));
        assert_eq!(Buffer::decode(&mut reader).unwrap(), None);
        assert_eq!(Buffer::decode(&mut reader).unwrap().as_deref(), Some(&b"x"[..]));
    }

    #[test]
    fn a_huge_vector_count_reserves_nothing() {
        let mut reader = Reader::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0]);
        let error = Option::<Vec<i64>>::decode(&mut reader).unwrap_err();
        assert!(matches!(error, DecodeError::Short { .. }), "{error}");
    }

    #[test]
    fn odd_negative_counts_are_empty() {
        let bytes = (-7i32).to_be_bytes();
        let decoded = Option::<Vec<i64>>::decode(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(decoded, Some(vec![]));
    }
}
