//! A process that sends its clients away, hands over if it leads, and ends, as the real server does.

use zebu_node::ConnectionId;

use super::inbox::ProcessEdge;
use super::{Death, Process};
use crate::context::SimContext;
use crate::queue::{MS, SimEvent, VirtualTime};

/// How long a stopping server tries to hand over.
const RESIGN_TIME: VirtualTime = 1000 * MS;

/// The steps of a planned stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlannedStop {
    None,
    /// Clients are sent away.
    Draining,
    /// Nothing new is accepted until the end.
    Resigning {
        until: VirtualTime,
    },
}

impl Process {
    /// Begins to send the clients away. Nothing listens for new ones.
    pub(crate) fn begin_drain(&mut self, time: VirtualTime, core: &mut SimContext) -> Result<(), Death> {
        if self.planned_stop != PlannedStop::None {
            return Ok(());
        }
        core.trace_line(format_args!("s{} drains", self.server));
        self.planned_stop = PlannedStop::Draining;
        let open: Vec<ConnectionId> = self.lanes.0.keys().copied().collect();
        let Some(mut round) = self.round.take() else { return Ok(()) };
        let mut edge = ProcessEdge { process: self, core, executed: false };
        round.begin_drain(&open, (time / MS) as i64, &mut edge);
        self.round = Some(round);
        self.take_turn(core)
    }

    /// Takes the next step of a planned stop, if it is due.
    pub(super) fn go_on_stopping(&mut self, core: &mut SimContext) -> Result<(), Death> {
        let now_ms = self.moment(core).monotonic_ms;
        if self.planned_stop == PlannedStop::Draining && self.node().has_drained(now_ms) {
            let until = core.now + RESIGN_TIME;
            core.trace_line(format_args!(
                "s{} has drained, {} clients are left",
                self.server,
                self.clients.len()
            ));
            self.planned_stop = PlannedStop::Resigning { until };
            let (server, incarnation) = (self.server, self.incarnation);
            core.push(until, SimEvent::ServerTurn { server, incarnation });
            let Some(mut round) = self.round.take() else { return Ok(()) };
            let mut edge = ProcessEdge { process: self, core, executed: false };
            round.resign(&mut edge);
            self.round = Some(round);
            return self.take_turn(core);
        }
        if let PlannedStop::Resigning { until } = self.planned_stop {
            let node = self.node();
            if (node.in_flight() == 0 && node.has_resigned()) || core.now >= until {
                return Err(Death::Stopped);
            }
        }
        Ok(())
    }
}
