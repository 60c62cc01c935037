//! Removes digests from transactions that a streamed snapshot may already contain. The snapshot changes while
//! it is sent, so the learner's tree after such a transaction does not match the transaction's digest.
//! Learners that compare digests, as Apache ZooKeeper's do, would report a false mismatch. Every release
//! accepts transactions without a digest.

use std::sync::Arc;

use zebu_proto::quorum::Packet;
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Jute, Zxid};

/// Removes the digest of a transaction up to `end`, which the snapshot may contain.
pub(crate) fn without_early_digest(packet: Packet, end: Zxid) -> Packet {
    match packet {
        Packet::Proposal { zxid, entry } if zxid <= end => {
            Packet::Proposal { zxid, entry: without_digest(entry) }
        }
        Packet::Inform { zxid, entry } if zxid <= end => {
            Packet::Inform { zxid, entry: without_digest(entry) }
        }
        Packet::InformAndActivate { zxid, designated_leader, entry } if zxid <= end => {
            Packet::InformAndActivate { zxid, designated_leader, entry: without_digest(entry) }
        }
        // A later transaction, or a packet without one.
        packet @ (Packet::Request { .. }
        | Packet::Proposal { .. }
        | Packet::Ack { .. }
        | Packet::Commit { .. }
        | Packet::Ping { .. }
        | Packet::PingReply { .. }
        | Packet::Revalidate { .. }
        | Packet::Revalidated { .. }
        | Packet::Sync
        | Packet::Inform { .. }
        | Packet::CommitAndActivate { .. }
        | Packet::NewLeader { .. }
        | Packet::FollowerInfo { .. }
        | Packet::UpToDate
        | Packet::Diff { .. }
        | Packet::Trunc { .. }
        | Packet::Snap { .. }
        | Packet::ObserverInfo { .. }
        | Packet::LeaderInfo { .. }
        | Packet::AckEpoch { .. }
        | Packet::InformAndActivate { .. }) => packet,
    }
}

/// The digest is the last field of an entry.
fn without_digest(entry: Arc<[u8]>) -> Arc<[u8]> {
    let Ok(TxnEntry { digest: Some(digest), .. }) = TxnEntry::decode(&entry) else { return entry };
    let mut bytes = Vec::new();
    digest.encode(&mut bytes);
    match entry.strip_suffix(bytes.as_slice()) {
        Some(rest) => rest.into(),
        None => entry,
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::txn::{Txn, TxnDigest, TxnHeader};
    use zebu_proto::{ServerId, SessionId};

    use super::*;

    fn entry(zxid: Zxid, digest: Option<TxnDigest>) -> Arc<[u8]> {
        let header = TxnHeader { session: SessionId(1), cxid: 2, zxid, time_ms: 3 };
        let mut bytes = Vec::new();
        TxnEntry { header, txn: Txn::CreateSession { timeout_ms: 4000 }, digest }.encode(&mut bytes);
        bytes.into()
    }

    #[test]
    fn only_what_the_state_may_hold_loses_its_digest() {
        let digest = TxnDigest { version: 2, tree_digest: 77 };
        let end = Zxid::new(1, 5);
        for (zxid, kept) in [(Zxid::new(1, 4), None), (end, None), (Zxid::new(1, 6), Some(digest))] {
            let sent = Packet::Proposal { zxid, entry: entry(zxid, Some(digest)) };
            assert_eq!(without_early_digest(sent, end), Packet::Proposal { zxid, entry: entry(zxid, kept) });
            let sent = Packet::Inform { zxid, entry: entry(zxid, Some(digest)) };
            assert_eq!(without_early_digest(sent, end), Packet::Inform { zxid, entry: entry(zxid, kept) });
            let reconfig = |digest| Packet::InformAndActivate {
                zxid,
                designated_leader: ServerId(3),
                entry: entry(zxid, digest),
            };
            assert_eq!(without_early_digest(reconfig(Some(digest)), end), reconfig(kept));
        }
        let bare = Packet::Proposal { zxid: end, entry: entry(end, None) };
        assert_eq!(without_early_digest(bare.clone(), end), bare);
        let damaged = Packet::Proposal { zxid: end, entry: [1, 2, 3].into() };
        assert_eq!(without_early_digest(damaged.clone(), end), damaged);
    }
}
