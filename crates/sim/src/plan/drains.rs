//! Planned stops of servers. Drawn from a random stream of their own.

use super::{Fault, FaultDrawer, LEADER, PlannedFault};
use crate::random::{DrawPurpose, SimRandom};
use crate::run_parameters::drains::{DRAIN_ROUND_TICKS, FIRST_DRAIN_TICKS};

/// How many of a thousand drains are those of the leader.
const LEADER_PERMILLE: u64 = 300;

impl FaultDrawer<'_> {
    /// Drains at any time, among other faults.
    pub(super) fn drains(&self) -> Vec<PlannedFault> {
        let mut random = SimRandom::new(self.shape.seed, DrawPurpose::DrainFaults);
        let drain = |_| {
            let server = self.drained(&mut random);
            PlannedFault { at: random.below(self.shape.safety), fault: Fault::Drain { server } }
        };
        (0..self.shape.kinds.drains).map(drain).collect()
    }

    /// One drain after the other, each after the last server has joined again.
    pub(super) fn only_drains(&self) -> Vec<PlannedFault> {
        let mut random = SimRandom::new(self.shape.seed, DrawPurpose::DrainFaults);
        let tick = self.shape.tick();
        let drain = |round| {
            let server = self.drained(&mut random);
            let begins = (FIRST_DRAIN_TICKS + round * DRAIN_ROUND_TICKS) * tick;
            PlannedFault { at: begins + random.below(tick), fault: Fault::Drain { server } }
        };
        (0..self.shape.kinds.drains).map(drain).collect()
    }

    fn drained(&self, random: &mut SimRandom) -> usize {
        let server = random.index(self.shape.servers());
        if random.permille(LEADER_PERMILLE) { LEADER } else { server }
    }
}
