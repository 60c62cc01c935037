//! Packets that a learner received while the disk installs a snapshot, truncates the log or moves the data
//! aside. The learner handles them afterwards, in their order.
//!
//! Above a limit the learner stops reading its link, and the leader's send window fills. The link is not
//! closed: the leader waits up to initLimit for the ACK of NEWLEADER, and a SNAP that is almost installed is
//! not lost. If the disk needs even longer, the leader closes the link. The installed snapshot stays, so the
//! next synchronization is a DIFF from there and not the same SNAP again.

use std::collections::VecDeque;

use zebu_proto::quorum::Packet;

use crate::action::{Action, PeerEffect};
use crate::event::LinkId;
use crate::packet_weight;

/// The number of packets above which the learner stops reading. Their weight is limited by the bytes of the
/// history in memory.
const BLOCKED_PACKETS_MAX: usize = 10_000;

/// The packets that wait for the disk. The edge may deliver a few more that it had read already.
#[derive(Debug, Default)]
pub(super) struct BlockedPackets {
    packets: VecDeque<Packet>,
    /// The weight of `packets`.
    weight: usize,
    is_reading_paused: bool,
}

impl BlockedPackets {
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Adds a packet of `link`. Pauses reading above `weight_max`.
    pub(super) fn push(&mut self, packet: Packet, link: LinkId, weight_max: usize, out: &mut Vec<Action>) {
        self.weight += packet_weight(&packet);
        self.packets.push_back(packet);
        let is_full = self.weight > weight_max || self.packets.len() > BLOCKED_PACKETS_MAX;
        if is_full && !self.is_reading_paused {
            self.is_reading_paused = true;
            out.push(Action::Peer(PeerEffect::PauseReading { link }));
        }
    }

    /// Takes the oldest packet. With the last one, reading goes on.
    pub(super) fn pop(&mut self, link: LinkId, out: &mut Vec<Action>) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.weight -= packet_weight(&packet);
        if self.packets.is_empty() && self.is_reading_paused {
            self.is_reading_paused = false;
            out.push(Action::Peer(PeerEffect::ResumeReading { link }));
        }
        Some(packet)
    }

    /// Drops all packets, because their link is closed.
    pub(super) fn clear(&mut self) {
        *self = BlockedPackets::default();
    }
}
