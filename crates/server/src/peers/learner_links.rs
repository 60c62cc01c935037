//! Addresses and counters of the connections of learners, for reports. No decision depends on them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_zab::LinkId;

use crate::sync::Mutex;

/// Counters of one link.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    received: AtomicU64,
    requests: AtomicU64,
    /// Packets that were queued, sent ones included.
    queued_ever: AtomicU64,
    queued_now: AtomicU64,
    queued_bytes: AtomicU64,
    last_zxid: AtomicI64,
}

impl LinkCounters {
    pub(super) fn count_received(&self, packet: &Packet) {
        self.received.fetch_add(1, Relaxed);
        if matches!(packet, Packet::Request { .. }) {
            self.requests.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn count_queued(&self, packet: &Packet) {
        self.queued_ever.fetch_add(1, Relaxed);
        self.queued_now.fetch_add(1, Relaxed);
        let zxid = match packet {
            Packet::Proposal { zxid, .. }
            | Packet::Commit { zxid }
            | Packet::Ping { zxid }
            | Packet::Inform { zxid, .. }
            | Packet::CommitAndActivate { zxid, .. }
            | Packet::NewLeader { zxid, .. }
            | Packet::Diff { zxid }
            | Packet::Trunc { zxid }
            | Packet::Snap { zxid }
            | Packet::InformAndActivate { zxid, .. } => *zxid,
            Packet::Request { .. }
            | Packet::Ack { .. }
            | Packet::PingReply { .. }
            | Packet::Revalidate { .. }
            | Packet::Revalidated { .. }
            | Packet::Sync
            | Packet::UpToDate
            | Packet::FollowerInfo { .. }
            | Packet::ObserverInfo { .. }
            | Packet::LeaderInfo { .. }
            | Packet::AckEpoch { .. } => return,
        };
        if zxid.0 > 0 {
            self.last_zxid.store(zxid.0, Relaxed);
        }
    }

    /// The queue has this length after a write. The number of packets is known again when it is empty.
    pub(super) fn set_queued_bytes(&self, bytes: usize) {
        self.queued_bytes.store(bytes as u64, Relaxed);
        if bytes == 0 {
            self.queued_now.store(0, Relaxed);
        }
    }

    fn reset(&self) {
        self.received.store(0, Relaxed);
        self.requests.store(0, Relaxed);
        self.queued_ever.store(self.queued_now.load(Relaxed), Relaxed);
    }
}

/// The connection of a learner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnerConnectionView {
    /// Its address.
    pub remote: SocketAddr,
    /// Wall clock milliseconds when it was accepted.
    pub established_ms: i64,
    /// Packets that wait for its socket, about.
    pub queued_packets: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Requests received.
    pub requests: u64,
    /// The last zxid that was sent.
    pub last_zxid: Zxid,
}

#[derive(Debug)]
struct LearnerLink {
    remote: SocketAddr,
    established_ms: i64,
    counters: Arc<LinkCounters>,
}

/// The open connections of learners. The limits of the quorum port bound their number.
#[derive(Debug, Default)]
pub(crate) struct LearnerLinks(Mutex<BTreeMap<LinkId, LearnerLink>>);

impl LearnerLinks {
    pub(super) fn add(
        &self,
        link: LinkId,
        remote: SocketAddr,
        established_ms: i64,
        counters: &Arc<LinkCounters>,
    ) {
        let entry = LearnerLink { remote, established_ms, counters: counters.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(link, entry);
    }

    pub(super) fn remove(&self, link: LinkId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&link);
    }

    /// The connection of a learner, if it is open.
    pub(crate) fn view(&self, link: LinkId) -> Option<LearnerConnectionView> {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let LearnerLink { remote, established_ms, counters } = links.get(&link)?;
        let queued_packets = counters.queued_now.load(Relaxed);
        Some(LearnerConnectionView {
            remote: *remote,
            established_ms: *established_ms,
            queued_packets,
            queued_bytes: counters.queued_bytes.load(Relaxed),
            received: counters.received.load(Relaxed),
            sent: counters.queued_ever.load(Relaxed).saturating_sub(queued_packets),
            requests: counters.requests.load(Relaxed),
            last_zxid: Zxid(counters.last_zxid.load(Relaxed)),
        })
    }

    /// Resets the counters of all connections.
    pub(crate) fn reset(&self) {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.values().for_each(|link| link.counters.reset());
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn packets_are_counted_until_a_reset() {
        let (links, counters) = (LearnerLinks::default(), Arc::<LinkCounters>::default());
        let (link, remote) = (LinkId(7), SocketAddr::from((Ipv4Addr::LOCALHOST, 9)));
        links.add(link, remote, 5, &counters);
        counters.count_received(&Packet::Ack { zxid: Zxid(1) });
        counters.count_queued(&Packet::Commit { zxid: Zxid(3) });
        counters.count_queued(&Packet::Sync);
        counters.set_queued_bytes(60);
        let waiting = links.view(link).unwrap();
        assert_eq!((waiting.queued_packets, waiting.queued_bytes, waiting.sent), (2, 60, 0));
        counters.set_queued_bytes(0);
        let sent = links.view(link).unwrap();
        assert_eq!((sent.queued_packets, sent.sent, sent.received, sent.requests), (0, 2, 1, 0));
        assert_eq!((sent.remote, sent.established_ms, sent.last_zxid), (remote, 5, Zxid(3)));
        links.reset();
        let reset = links.view(link).unwrap();
        assert_eq!((reset.sent, reset.received, reset.last_zxid), (0, 0, Zxid(3)));
        links.remove(link);
        assert_eq!(links.view(link), None);
    }
}
