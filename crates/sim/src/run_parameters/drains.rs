//! Draws whether servers send their clients away and restart, and runs in which nothing else happens: no
//! client that can move may notice it.

use super::{LittleRoom, RunParameters};
use crate::queue::{MS, VirtualTime};
use crate::random::{DrawPurpose, SimRandom};

/// Runs in which a drain is the only fault, of a thousand.
const ONLY_DRAINS_PERMILLE: u64 = 60;

/// Runs with drains among other faults, of a thousand.
const SOME_DRAINS_PERMILLE: u64 = 100;

/// Drains of a run with no other fault, and the ticks from one to the next.
const ROUNDS: u64 = 6;
pub(crate) const DRAIN_ROUND_TICKS: u64 = 14;

/// Ticks before the first one: clients have told their servers that they can move.
pub(crate) const FIRST_DRAIN_TICKS: u64 = 14;

/// Ticks that a drain may take.
pub(crate) const DRAIN_TICKS: u64 = 3;

impl RunParameters {
    /// Drawn apart, after all others.
    pub(super) fn draw_drains(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::Drains);
        let has_a_fault_of_its_own = self.kinds.only_leader_ends || self.kinds.little_room != LittleRoom::Off;
        if self.endurance.is_some() || !self.is_ensemble() || has_a_fault_of_its_own {
            return;
        }
        let (only, some) = (random.permille(ONLY_DRAINS_PERMILLE), random.permille(SOME_DRAINS_PERMILLE));
        let movers = random.draw() as u32 | random.draw() as u32;
        if only {
            self.calm_down(&mut random);
            self.kinds.only_drains = true;
            self.kinds.drains = ROUNDS;
            self.workload.session_timeout_ms = random.between(12, 24) * self.tick_ms;
            // A read that waits for a fresh state ends its connection when the leader ends.
            self.workload.fresh_permille = 0;
            self.workload.pipeline = random.pick(&[1, 4, 16]);
            // The clients have calls to make until the end.
            self.workload.pause = random.between(self.tick_ms / 20, self.tick_ms / 5) * MS;
            self.workload.calls_max = 3000;
            self.safety = (FIRST_DRAIN_TICKS + ROUNDS * DRAIN_ROUND_TICKS) * self.tick();
        } else if some && self.servers() > 1 {
            self.kinds.drains = random.between(1, 6);
        } else {
            return;
        }
        self.kinds.movers = movers;
    }

    /// Whether a client moves when its server asks for it.
    pub(crate) fn moves(&self, client: usize) -> bool {
        self.kinds.movers >> (client % 32) & 1 == 1
    }

    /// The time of a drain.
    pub(crate) fn drain_time(&self) -> VirtualTime {
        DRAIN_TICKS * self.tick()
    }
}
