//! What a connection takes up at the server: a lane, and its place among those of its address and among all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use zebu_node::{Event, Lane};
use zebu_tree::Credentials;

use super::wire::SendingHalf;
use crate::lanes::LaneCell;
use crate::shared::Shared;

/// A place at the server, given up when dropped.
pub(super) struct Berth {
    pub(super) shared: Arc<Shared>,
    pub(super) cell: Arc<LaneCell>,
}

impl Berth {
    /// A place for a connection that was admitted among those of its address, with these credentials.
    pub(super) fn new(
        shared: Arc<Shared>,
        peer: SocketAddr,
        credentials: Credentials,
        sending: Option<SendingHalf>,
    ) -> Berth {
        let now = shared.clock.now();
        let make = |id| Lane::new(id, credentials, now.wall_ms, now.monotonic_ms);
        let cell = shared.lanes.add(peer, sending, make);
        shared.connections.fetch_add(1, Ordering::AcqRel);
        Berth { shared, cell }
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        let shared = &self.shared;
        let (lane, session, touched_ms, sending) = {
            let replica = shared.read();
            let mut lane = self.cell.lock();
            let unreported = lane.take_outbox(&mut Vec::new());
            shared.stats.add(&unreported);
            let sending = lane.give_up();
            replica.forget_lane(&mut lane);
            (lane.id, lane.session.map(|session| session.id), lane.touched_ms, sending)
        };
        // The socket is closed before the lane is given up.
        drop(sending);
        shared.per_address.leave(self.cell.peer.ip());
        shared.metrics.connections_dropped.increment();
        shared.connections.fetch_sub(1, Ordering::AcqRel);
        // The core removes the lane when it knows the last touch, or a session whose tick ends just now
        // would look as if it had been silent.
        shared.inbox.push_event(Event::Disconnected { lane, session, touched_ms });
    }
}
