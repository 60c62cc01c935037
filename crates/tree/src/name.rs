//! The last component of a path, as a node stores it. Short ones, which are the most frequent, take no
//! allocation: that saves memory, and a cache miss per lookup.

/// The longest name without an allocation.
const INLINE: usize = 22;

/// A name. 24 bytes.
pub(crate) enum Name {
    Inline { length: u8, bytes: [u8; INLINE] },
    Heap(Box<str>),
}

impl Name {
    pub(crate) fn new(name: &str) -> Name {
        match u8::try_from(name.len()) {
            Ok(length) if name.len() <= INLINE => {
                let mut bytes = [0; INLINE];
                bytes[..name.len()].copy_from_slice(name.as_bytes());
                Name::Inline { length, bytes }
            }
            Ok(_) | Err(_) => Name::Heap(name.into()),
        }
    }

    /// For comparing and hashing as bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Name::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Name::Heap(name) => name.as_bytes(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Name::Inline { .. } => {
                std::str::from_utf8(self.as_bytes()).expect("copied from a str as a whole")
            }
            Name::Heap(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long() {
        assert_eq!(size_of::<Name>(), 24);
        for name in ["", "a", "äöü", &"x".repeat(22), &"x".repeat(23), &"é".repeat(200)] {
            let stored = Name::new(name);
            assert_eq!((stored.as_str(), stored.as_bytes()), (name, name.as_bytes()));
            assert_eq!(matches!(stored, Name::Inline { .. }), name.len() <= 22);
        }
    }
}
