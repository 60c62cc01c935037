//! The digest of a node (version 2): CRC-32 over path, data and stat. The checksum of path and data is
//! kept apart, because most changes touch the stat only.

use crc32fast::Hasher;
use zebu_proto::StatPersisted;

use crate::path;

/// Whether a node at `path` is part of the tree digest: nodes that the server rewrites by itself are not.
pub(crate) fn is_counted(path: &str) -> bool {
    !path.starts_with("/zookeeper/")
}

/// A node's part of the tree digest: for callers that check a tree without keeping it.
pub fn digest_of_node(path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> i64 {
    if is_counted(path) { node_digest(content_checksum(path, data), stat) } else { 0 }
}

/// Checksum of path and data: the checksum of the stat continues from it.
pub(crate) fn content_checksum(path: &str, data: Option<&[u8]>) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(path::canonical(path).as_bytes());
    if let Some(data) = data {
        hasher.update(data);
    }
    hasher.finalize()
}

/// The digest of a node whose path and data have the checksum `content`. The stat has 60 bytes. A CRC with an
/// empty register ignores leading zeros, and an initial value is equivalent to the first four bytes. Four
/// more zeros make 64 bytes, so that all of it uses the processor's CRC steps of 16 bytes.
pub(crate) fn node_digest(content: u32, stat: &StatPersisted) -> i64 {
    let (high, low) = (|long: i64| (long >> 32) as u32, |long: i64| long as u32);
    let join = |left: u32, right: u32| (u64::from(left) << 32 | u64::from(right)).to_be_bytes();
    let block = [
        join(0, high(stat.czxid) ^ (!content).swap_bytes()),
        join(low(stat.czxid), high(stat.mzxid)),
        join(low(stat.mzxid), high(stat.pzxid)),
        join(low(stat.pzxid), high(stat.ctime)),
        join(low(stat.ctime), high(stat.mtime)),
        join(low(stat.mtime), stat.version as u32),
        join(stat.cversion as u32, stat.aversion as u32),
        stat.ephemeral_owner.to_be_bytes(),
    ];
    let mut hasher = Hasher::new_with_initial(NOTHING);
    hasher.update(block.as_flattened());
    i64::from(hasher.finalize())
}

/// The initial checksum of a CRC with an empty register.
const NOTHING: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let zero = StatPersisted::default();
        assert_eq!(node_digest(content_checksum("", Some(&[])), &zero), 0x0412_8908);
        assert_eq!(node_digest(content_checksum("/", None), &zero), 0x0412_8908);
        assert_eq!(node_digest(content_checksum("/zookeeper", Some(&[])), &zero), 0x4db4_4d58);
        let time = 1_700_000_000_000;
        let stat = StatPersisted { czxid: 2, mzxid: 2, pzxid: 2, ctime: time, mtime: time, ..zero };
        assert_eq!(node_digest(content_checksum("/a", Some(b"hello")), &stat), 0xa511_9d4b);
        let root = StatPersisted { cversion: 1, pzxid: 2, ..zero };
        assert_eq!(node_digest(content_checksum("/", Some(&[])), &root), 0x0315_78f2);
        assert_eq!(digest_of_node("/", Some(&[]), &root), 0x0315_78f2);
        assert_eq!(digest_of_node("/zookeeper/config", None, &zero), 0);
        assert!(is_counted("/zookeeper") && is_counted("/zookeeperx/a") && !is_counted("/zookeeper/a"));
    }
}
