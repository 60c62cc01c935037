//! Packets of observers in the send queue to the leader, mixed with packets of this server. The connection
//! reports only the weight that left, so positions are sums of weights.

use std::collections::VecDeque;

use zebu_proto::ServerId;

use crate::action::LinkCloseReason;

/// The number of packets of all observers in the send queue to the leader.
const RELAYED_MAX: usize = 100_000;

/// The weight of these packets, about their bytes.
const RELAYED_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct ToLeader {
    /// The weight of all packets that were ever queued.
    put: u64,
    /// The weight of the packets that left.
    left: u64,
    /// The packets of observers that have not left, in order.
    relayed: VecDeque<Relayed>,
    /// The sum of the weights in `relayed`.
    bytes: usize,
}

#[derive(Debug)]
struct Relayed {
    /// The position of the packet's end in the sum of all weights.
    end: u64,
    weight: usize,
}

impl ToLeader {
    /// Records a packet of this server.
    pub(super) fn put_own(&mut self, weight: usize) {
        self.put += weight as u64;
    }

    /// Records a packet of an observer. Refuses it above the limits.
    pub(super) fn put_relayed(&mut self, server: ServerId, weight: usize) -> Result<(), LinkCloseReason> {
        let full = |limit, what| Err(LinkCloseReason::RelayFull { server, limit, what });
        if self.relayed.len() >= RELAYED_MAX {
            return full(RELAYED_MAX, "requests of observers wait to be sent to the leader");
        }
        // A single packet may exceed the limit.
        if self.bytes > 0 && self.bytes + weight > RELAYED_BYTES_MAX {
            return full(RELAYED_BYTES_MAX, "bytes of requests of observers wait to be sent to the leader");
        }
        self.put += weight as u64;
        self.bytes += weight;
        self.relayed.push_back(Relayed { end: self.put, weight });
        Ok(())
    }

    /// Packets of this weight left. Some may have been queued before this server was an observer master.
    pub(super) fn left(&mut self, weight: usize) {
        self.left = (self.left + weight as u64).min(self.put);
        while self.relayed.front().is_some_and(|relayed| relayed.end <= self.left) {
            let Some(relayed) = self.relayed.pop_front() else { return };
            self.bytes -= relayed.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NINE: ServerId = ServerId(9);

    fn limit_of(result: Result<(), LinkCloseReason>) -> Option<usize> {
        match result {
            Ok(()) => None,
            Err(LinkCloseReason::RelayFull { server: NINE, limit, .. }) => Some(limit),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn packets_are_counted() {
        let mut queue = ToLeader::default();
        for _ in 0..RELAYED_MAX {
            queue.put_own(1);
            assert_eq!(queue.put_relayed(NINE, 2), Ok(()));
        }
        assert_eq!(limit_of(queue.put_relayed(NINE, 2)), Some(RELAYED_MAX));
        queue.left(2);
        assert_eq!(limit_of(queue.put_relayed(NINE, 2)), Some(RELAYED_MAX), "half of the first one has left");
        queue.left(1);
        assert_eq!(queue.put_relayed(NINE, 2), Ok(()));
        assert_eq!(limit_of(queue.put_relayed(NINE, 2)), Some(RELAYED_MAX));
    }

    #[test]
    fn bytes_are_counted_and_a_single_packet_always_fits() {
        let mut queue = ToLeader::default();
        assert_eq!(queue.put_relayed(NINE, RELAYED_BYTES_MAX + 1), Ok(()));
        assert_eq!(limit_of(queue.put_relayed(NINE, 1)), Some(RELAYED_BYTES_MAX));
        queue.left(RELAYED_BYTES_MAX + 1);
        assert_eq!(queue.put_relayed(NINE, RELAYED_BYTES_MAX), Ok(()));
        assert_eq!(limit_of(queue.put_relayed(NINE, 1)), Some(RELAYED_BYTES_MAX));
    }

    #[test]
    fn packets_from_before_do_not_make_room_for_later_ones() {
        let mut queue = ToLeader::default();
        queue.left(RELAYED_BYTES_MAX);
        assert_eq!(queue.put_relayed(NINE, RELAYED_BYTES_MAX), Ok(()));
        assert_eq!(limit_of(queue.put_relayed(NINE, 1)), Some(RELAYED_BYTES_MAX));
    }
}
