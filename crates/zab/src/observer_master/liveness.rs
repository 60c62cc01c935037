//! Timeouts of an observer master: pings, and silent or lagging observers.

use zebu_proto::quorum::Packet;

use super::ObserverMaster;
use crate::event::LinkId;
use crate::learner_handler::LearnerTimeouts;
use crate::peer_context::PeerContext;

impl ObserverMaster {
    pub(crate) fn deadline(&self) -> i64 {
        self.next_ping_ms
    }

    pub(crate) fn timeout(&mut self, context: &mut PeerContext<'_>) {
        if self.next_ping_ms > context.now_ms {
            return;
        }
        let settings = &context.state.settings;
        self.next_ping_ms = context.now_ms + (settings.tick_ms / 2).max(1);
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            let Some(observer) = self.observers.get_mut(&link) else { continue };
            let ends = (context.state.committed(), context.state.committed());
            if let Some(reason) =
                observer.check_timeouts(LearnerTimeouts::from_settings(settings), ends, context.now_ms)
            {
                self.close_on_error(link, Err(reason), context.out);
            } else if observer.accepts_pings() && observer.in_flight_weight < settings.send_window {
                // A full send queue needs no ping: its packets already keep the observer connected.
                observer.send(Packet::Ping { zxid: context.state.committed() }, context.out);
            }
        }
    }
}
