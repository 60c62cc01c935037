//! The snapshot's bytes, uncompressed: header, sessions, ACLs, nodes parents first, a seal, and two optional
//! sections with a seal each. Reading and writing are streams; no part keeps the complete tree.

mod content;
mod decode;
mod encode;
mod stream;

use zebu_proto::Zxid;

pub use content::ContentLimits;
pub use decode::{SnapshotFlaw, SnapshotVisitor, decode, decode_within};
pub use encode::{Encoder, append_node};
pub use stream::{StreamDecoder, StreamFlaw, StreamProgress, begin_stream, end_stream};

/// `ZKSN`, version 2, database id -1. Readers check the magic alone.
pub const HEADER: [u8; 16] = *b"ZKSN\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff";

/// Bytes of the magic.
const MAGIC_SIZE: usize = 4;

/// The end of the nodes and of every seal: the string `/`.
const END: [u8; 5] = *b"\0\0\0\x01/";

/// Checksum and end string.
const SEAL_SIZE: usize = 13;

/// Bytes of the last-zxid section with its seal.
const LAST_ZXID_SECTION_SIZE: usize = 8 + SEAL_SIZE;

/// The tree's digest in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDigest {
    /// The last transaction that was applied when the tree had been written.
    pub zxid: Zxid,
    /// The digest version; only [`DIGEST_VERSION`](zebu_proto::txn::DIGEST_VERSION) is compared.
    pub version: i32,
    /// The sum over all nodes; zero with a version that is not a number.
    pub digest: i64,
}

/// The sections after the nodes. The last zxid is never written without the digest: ZooKeeper could not read
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sections {
    /// None: digests are off.
    None,
    /// The digest, as 3.6 to 3.8 write it.
    Digest {
        /// The last transaction that was applied when the tree had been written.
        zxid: Zxid,
        /// The digest at that transaction.
        digest: i64,
    },
    /// Both, as 3.9 writes it; 3.6 to 3.8 read it too.
    DigestAndLastZxid {
        /// The last transaction that was applied when the tree had been written.
        zxid: Zxid,
        /// The digest at that transaction.
        digest: i64,
        /// The last processed zxid at the end of writing.
        last_zxid: Zxid,
    },
}

/// The counts, checksums and sections of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of ACLs.
    pub acls: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// The checksums, in order.
    pub seals: Vec<u32>,
    /// The digest section.
    pub digest: Option<SnapshotDigest>,
    /// The last-zxid section.
    pub last_zxid: Option<Zxid>,
    /// Uncompressed bytes.
    pub size: u64,
}

impl SnapshotSummary {
    /// The last transaction that the snapshot may contain in part, if known: it was written until then.
    pub fn mixed_until(&self) -> Option<Zxid> {
        let digest = self.digest.as_ref().map(|digest| digest.zxid);
        self.last_zxid.max(digest)
    }
}
