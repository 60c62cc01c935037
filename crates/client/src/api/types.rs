//! Parameters and results of calls.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha1::{Digest, Sha1};
use zebu_proto::{Acl, Stat};

/// The version condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Version {
    /// Any version.
    #[default]
    Any,
    /// Exactly this version; otherwise the write fails with `BadVersion`.
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

/// A node's data and stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeData {
    /// The data; empty for null data.
    pub data: Bytes,
    /// Whether the data is null; servers distinguish that from empty data.
    pub is_null: bool,
    /// The stat.
    pub stat: Stat,
}

/// A node's children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildList {
    /// The names, in no order.
    pub names: Vec<String>,
    /// The stat of the parent.
    pub stat: Stat,
}

/// A node's access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclList {
    /// The entries.
    pub entries: Vec<Acl>,
    /// The stat of the node; `aversion` is the version of the list.
    pub stat: Stat,
}

/// A new node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its path, with the counter of a sequential node and the prefix of a protected one.
    pub path: String,
    /// Its stat.
    pub stat: Stat,
    /// The counter of a sequential node; a signed number that may have wrapped.
    pub sequence: Option<i32>,
    /// The evidence for its creation.
    pub confirmed_by: ConfirmedBy,
}

/// The evidence that a create was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmedBy {
    /// The reply of the server.
    Reply,
    /// A search after a lost reply.
    Search,
}

/// The counter that a sequential create appended to `prefix`. The counter is signed and may have wrapped, and
/// the prefix may end with a minus sign; hence the prefix is needed.
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

/// A credential of the connection, as returned by [`Client::who_am_i`](super::Client::who_am_i).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `ip`, `digest`, …
    pub scheme: String,
    /// The user, without secrets.
    pub user: String,
}

/// The id of a `digest` ACL entry for `user:password`: the hash that servers compare.
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
