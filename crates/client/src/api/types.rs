//! The values that calls take and give.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha1::{Digest, Sha1};
use zebu_proto::{Acl, Stat};

/// Which version of a node a write is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Version {
    /// Whatever it is.
    #[default]
    Any,
    /// Exactly this one; otherwise the write fails with `BadVersion`.
    Exactly(i32),
}

impl Version {
    pub(crate) const fn wire(self) -> i32 {
        match self {
            Version::Any => -1,
            Version::Exactly(version) => version,
        }
    }
}

/// A node's data and bookkeeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeData {
    /// The data; a node without any has none of length zero.
    pub data: Bytes,
    /// Whether the node has no data at all; servers tell that apart from data of length zero.
    pub is_null: bool,
    /// The bookkeeping.
    pub stat: Stat,
}

/// A node's children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildList {
    /// Their names, in no order.
    pub names: Vec<String>,
    /// The bookkeeping of their parent.
    pub stat: Stat,
}

/// A node's access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclList {
    /// The entries.
    pub entries: Vec<Acl>,
    /// The bookkeeping of the node; `aversion` is the version of the list.
    pub stat: Stat,
}

/// A new node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its path, with the counter of a sequential node and the prefix of a protected one.
    pub path: String,
    /// Its bookkeeping.
    pub stat: Stat,
    /// The counter of a sequential node; a signed number that may have wrapped.
    pub sequence: Option<i32>,
    /// How it is known that it exists.
    pub proof: Proof,
}

/// How it is known that a create was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The server said so.
    Answered,
    /// The answer was lost; the node was found afterwards.
    Found,
}

/// The counter that a sequential create has appended to `prefix`. It is a signed number that may have
/// wrapped, and the prefix may end with what looks like a sign: without the prefix it cannot be told.
///
/// ```
/// use zebu_client::sequence_of;
///
/// assert_eq!(sequence_of("/queue/item-0000000012", "/queue/item-"), Some(12));
/// assert_eq!(sequence_of("/queue/item--2147483648", "/queue/item-"), Some(i32::MIN));
/// assert_eq!(sequence_of("/queue/other", "/queue/item-"), None);
/// ```
pub fn sequence_of(path: &str, prefix: &str) -> Option<i32> {
    path.strip_prefix(prefix)?.parse().ok()
}

/// A credential of the connection, as [`Client::who_am_i`](super::Client::who_am_i) tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `ip`, `digest`, …
    pub scheme: String,
    /// The user in it, without secrets.
    pub user: String,
}

/// The id of a `digest` entry for `user:password`: what servers compare, without the password.
///
/// ```
/// use zebu_client::{Acl, Permissions, digest_id};
///
/// let acl = Acl::new(Permissions::ALL, "digest", digest_id("super", "test"));
/// assert_eq!(acl.id.id.as_deref(), Some("super:D/InIHSb7yEEbrWz8b9l71RjZJU="));
/// ```
pub fn digest_id(user: &str, password: &str) -> String {
    let hash = Sha1::digest(format!("{user}:{password}"));
    format!("{user}:{}", STANDARD.encode(hash))
}
