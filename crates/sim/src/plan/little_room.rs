//! Faults of runs with little room on disks: one server after the other, or all at once.

use super::{Fault, FaultDrawer, LEADER, PlannedFault};
use crate::run_parameters::{LittleRoom, ROOM_ROUND_TICKS, ROOM_ROUNDS};

/// Free bytes below `disk.stop` in these runs, and above the bytes that the log needs to go on.
const FREE_MIN: u64 = 6 << 10;
const FREE_MAX: u64 = 60 << 10;

impl FaultDrawer<'_> {
    /// The plan of a run in which only one thing goes wrong.
    pub(super) fn only_one_kind(&mut self) -> Option<Vec<PlannedFault>> {
        if let Some(endurance) = self.shape.endurance {
            Some(self.endurance(endurance))
        } else if self.shape.kinds.only_drains {
            Some(self.only_drains())
        } else if self.shape.kinds.only_leader_ends {
            Some(self.end_of_leader())
        } else if self.shape.kinds.little_room != LittleRoom::Off {
            Some(self.little_room())
        } else {
            None
        }
    }

    /// In each round, the disk of one server or of all has little room for more than half of the round.
    fn little_room(&mut self) -> Vec<PlannedFault> {
        let tick = self.shape.tick();
        let round = ROOM_ROUND_TICKS * tick;
        let planned = |number: u64| {
            let at = number * round + self.random.between(tick, 3 * tick);
            let lasts = self.random.between(round / 2, round - 4 * tick);
            let servers = match self.shape.kinds.little_room {
                LittleRoom::All => (0..self.shape.servers()).collect(),
                LittleRoom::Off | LittleRoom::One if self.random.permille(600) => vec![LEADER],
                LittleRoom::Off | LittleRoom::One => vec![self.random.index(self.shape.servers())],
            };
            let free = self.random.between(FREE_MIN, FREE_MAX);
            PlannedFault { at, fault: Fault::LittleRoom { servers, free, lasts } }
        };
        (0..ROOM_ROUNDS).map(planned).collect()
    }
}
