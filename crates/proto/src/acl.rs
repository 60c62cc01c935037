//! ACLs on the wire: a list of (permissions, scheme, id).

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::jute::{DecodeError, Jute, Reader, Text, encode_count};
use crate::record;

/// The ACL of a request or a transaction. Most are [`Acl::open`], which is static.
pub type AclList = Cow<'static, [Acl]>;

static OPEN: LazyLock<Vec<Acl>> = LazyLock::new(Acl::open);

/// The encoded open ACL.
const OPEN_ENCODED: &[u8] = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";

/// Permission bits. ZooKeeper stores any bits, so these are masks, not an enumeration.
pub struct Permissions;

impl Permissions {
    /// Read data and list children.
    pub const READ: i32 = 1;
    /// Replace data.
    pub const WRITE: i32 = 2;
    /// Create children.
    pub const CREATE: i32 = 4;
    /// Delete children.
    pub const DELETE: i32 = 8;
    /// Replace the ACL.
    pub const ADMIN: i32 = 16;
    /// All five.
    pub const ALL: i32 = 31;
}

record! {
    /// A scheme and an identity in it. Either may be null on the wire.
    #[derive(Hash, PartialOrd, Ord)]
    pub struct Id {
        /// `world`, `digest`, `ip`, …
        pub scheme: Text,
        /// The identity inside the scheme.
        pub id: Text,
    }
}

impl Id {
    /// An id with both parts present.
    pub fn new(scheme: impl Into<Box<str>>, id: impl Into<Box<str>>) -> Id {
        Id { scheme: Some(scheme.into()), id: Some(id.into()) }
    }

    /// Whether both parts are present and equal to these.
    pub fn is(&self, scheme: &str, id: &str) -> bool {
        self.scheme.as_deref() == Some(scheme) && self.id.as_deref() == Some(id)
    }
}

record! {
    /// One entry of an access control list.
    #[derive(Hash, PartialOrd, Ord)]
    pub struct Acl {
        /// Permission bits; see [`Permissions`].
        pub perms: i32,
        /// The id that gets them.
        pub id: Id,
    }
}

impl Acl {
    /// An entry with a present id.
    pub fn new(perms: i32, scheme: impl Into<Box<str>>, id: impl Into<Box<str>>) -> Acl {
        Acl { perms, id: Id::new(scheme, id) }
    }

    /// `world:anyone` with all permissions.
    pub fn open() -> Vec<Acl> {
        vec![Acl::new(Permissions::ALL, "world", "anyone")]
    }

    /// `world:anyone`, read only.
    pub fn read_only() -> Vec<Acl> {
        vec![Acl::new(Permissions::READ, "world", "anyone")]
    }
}

/// Null is not the empty list.
impl Jute for Option<AclList> {
    const SIZE_MIN: usize = 4;

    fn encode(&self, out: &mut Vec<u8>) {
        let Some(list) = self else { return (-1i32).encode(out) };
        encode_count(list.len(), out);
        list.iter().for_each(|entry| entry.encode(out));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if reader.rest().starts_with(OPEN_ENCODED) {
            reader.take(OPEN_ENCODED.len())?;
            return Ok(Some(Cow::Borrowed(&OPEN)));
        }
        Ok(Option::<Vec<Acl>>::decode(reader)?.map(Cow::Owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_list_is_shared_and_all_others_are_read() {
        let mut open = Vec::new();
        Acl::open().encode(&mut open);
        assert_eq!(open, OPEN_ENCODED);
        for (list, shared) in [
            (None, false),
            (Some(Vec::new()), false),
            (Some(Acl::open()), true),
            (Some(Acl::read_only()), false),
            (Some([Acl::open(), Acl::open()].concat()), false),
        ] {
            let mut bytes = Vec::new();
            list.encode(&mut bytes);
            bytes.push(7);
            let mut reader = Reader::new(&bytes);
            let read = Option::<AclList>::decode(&mut reader).unwrap();
            assert_eq!((read.as_deref(), reader.rest()), (list.as_deref(), &[7][..]));
            assert_eq!(matches!(read, Some(Cow::Borrowed(_))), shared);
            let mut again = Vec::new();
            read.encode(&mut again);
            assert_eq!(again, bytes[..bytes.len() - 1]);
        }
    }
}
