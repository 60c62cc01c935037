//! The order of packets and snapshots on one connection to another server. Packets are encoded when they are
//! pushed. Packets after a snapshot wait until it is sent, because only then its last transaction is known.
//!
//! The queue has no socket and sends nothing. The Zab peer bounds it: the caller reports sent bytes to the
//! peer.

use std::collections::VecDeque;

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_zab::packet_weight;

use crate::strip_digest::without_early_digest;

/// The next item to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedItem {
    /// Encoded packets.
    Bytes {
        /// The sum of the packet weights.
        weight: usize,
    },
    /// A snapshot of the current state. The caller reports its end to [`SendQueue::snapshot_sent`].
    Snapshot,
    /// The queue is empty.
    Nothing,
}

#[derive(Debug)]
enum WaitingItem {
    Packet(Packet),
    Snapshot,
}

/// Packets and snapshots in send order.
#[derive(Debug)]
pub struct SendQueue {
    /// Encoded packets that are not sent yet.
    bytes: Vec<u8>,
    /// The sum of the packet weights.
    weight: usize,
    /// Items from the first unsent snapshot on. `None` if packets are encoded at once.
    after_snapshot: Option<VecDeque<WaitingItem>>,
    /// The last transaction that a sent snapshot may contain.
    snapshot_end: Zxid,
}

impl Default for SendQueue {
    fn default() -> SendQueue {
        SendQueue { bytes: Vec::new(), weight: 0, after_snapshot: None, snapshot_end: Zxid(i64::MIN) }
    }
}

impl SendQueue {
    /// Bytes of packets after a snapshot that are encoded for one write.
    pub const WRITE_BYTES: usize = 256 << 10;

    /// Adds a packet.
    pub fn push(&mut self, packet: Packet) {
        match &mut self.after_snapshot {
            None => self.encode(packet),
            Some(waiting) => waiting.push_back(WaitingItem::Packet(packet)),
        }
    }

    /// Adds a snapshot.
    pub fn push_snapshot(&mut self) {
        self.after_snapshot.get_or_insert_default().push_back(WaitingItem::Snapshot);
    }

    /// The encoded packets that can be sent at once.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes sent bytes from [`SendQueue::bytes`]. Returns the weight of the packets when all are sent: a
    /// partially sent packet counts as unsent.
    pub fn advance(&mut self, sent: usize) -> Option<usize> {
        self.bytes.drain(..sent);
        self.bytes.is_empty().then(|| std::mem::take(&mut self.weight))
    }

    /// Whether neither packets nor a snapshot wait.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.after_snapshot.as_ref().is_none_or(VecDeque::is_empty)
    }

    /// Takes the next item. Encoded packets are swapped into the empty `buffer`.
    pub fn take_next(&mut self, buffer: &mut Vec<u8>) -> QueuedItem {
        self.encode_waiting();
        if !self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, buffer);
            return QueuedItem::Bytes { weight: std::mem::take(&mut self.weight) };
        }
        if let Some(waiting) = &mut self.after_snapshot
            && waiting.pop_front().is_some()
        {
            // Packets at the front were encoded above, so the front is a snapshot.
            return QueuedItem::Snapshot;
        }
        QueuedItem::Nothing
    }

    /// Reports that the snapshot was sent. It may contain transactions up to `end`.
    pub fn snapshot_sent(&mut self, end: Zxid) {
        self.snapshot_end = end;
    }

    fn encode(&mut self, packet: Packet) {
        self.weight += packet_weight(&packet);
        without_early_digest(packet, self.snapshot_end).encode(&mut self.bytes);
    }

    /// Encodes the packets after a sent snapshot, up to the next snapshot.
    fn encode_waiting(&mut self) {
        let Some(mut waiting) = self.after_snapshot.take() else { return };
        while self.bytes.len() < SendQueue::WRITE_BYTES {
            match waiting.pop_front() {
                Some(WaitingItem::Packet(packet)) => self.encode(packet),
                Some(WaitingItem::Snapshot) => {
                    waiting.push_front(WaitingItem::Snapshot);
                    break;
                }
                None => return,
            }
        }
        self.after_snapshot = Some(waiting);
    }
}
