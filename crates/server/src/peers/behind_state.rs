//! Transactions that follow a whole state and may be in it already. While a state is sent it changes, so the tree that
//! a learner has after one of these is not the one that its digest speaks of: learners that compare, as Apache's do,
//! would count a difference where there is none. They are sent without a digest, which every release accepts.

use std::sync::Arc;

use zebu_proto::quorum::Packet;
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Jute, Zxid};

/// Takes the digest away from a transaction that the state may hold: one up to `end`.
pub(super) fn without_early_digest(packet: Packet, end: Zxid) -> Packet {
    match packet {
        Packet::Proposal { zxid, entry } if zxid <= end => {
            Packet::Proposal { zxid, entry: without_digest(entry) }
        }
        Packet::Inform { zxid, entry } if zxid <= end => {
            Packet::Inform { zxid, entry: without_digest(entry) }
        }
        other => other,
    }
}

/// The digest is the last thing of an entry.
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
    use zebu_proto::SessionId;
    use zebu_proto::txn::{Txn, TxnDigest, TxnHeader};

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
        }
        let bare = Packet::Proposal { zxid: end, entry: entry(end, None) };
        assert_eq!(without_early_digest(bare.clone(), end), bare);
        let damaged = Packet::Proposal { zxid: end, entry: [1, 2, 3].into() };
        assert_eq!(without_early_digest(damaged.clone(), end), damaged);
    }
}
