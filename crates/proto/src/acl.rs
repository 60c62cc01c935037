//! Access control lists as they travel: a list of (permissions, scheme, id).

use crate::jute::Text;
use crate::record;

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
    /// Who: a scheme and what it means by an identity. Either may be null on the wire.
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
        /// To whom they are granted.
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
