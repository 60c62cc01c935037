//! Leaders that stand still for longer than their followers wait, while clients sync: a leader that its
//! followers have left must not answer. A seed draws here how often that happens, and in which order a
//! process that goes on finds what came meanwhile. It decides nothing about other faults.

use super::RunParameters;
use crate::client::OperationKind;
use crate::queue::{MS, VirtualTime};
use crate::random::{DrawPurpose, SimRandom};

/// Runs with such leaders, of a thousand.
const RUNS_PERMILLE: u64 = 80;

/// Runs, of a thousand, in which a process that goes on takes its connections and timers in any order.
const SPREAD_PERMILLE: u64 = 500;

impl RunParameters {
    /// Drawn apart, behind all the rest.
    pub(super) fn draw_stalled_leaders(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::StalledLeaders);
        if random.permille(SPREAD_PERMILLE) {
            self.resume_spread = random.skewed(50, 5 * MS);
        }
        if !random.permille(RUNS_PERMILLE) || self.endurance.is_some() || self.voters < 3 {
            return;
        }
        self.stalled_leaders = random.between(1, 6);
        self.sync_limit = random.between(2, 3);
        // A sync behind a write of the same client waits for the write: some clients do not write.
        self.clients += 4;
        self.syncing_clients = 4;
        // A client does not give its server up while that stands still, and goes on to ask.
        self.workload.session_timeout_ms = 20 * self.tick_ms;
        self.workload.pipeline = 20;
        self.workload.pause = random.between(1, 3) * self.tick();
        self.workload.calls_max = self.workload.calls_max.max(400);
        self.workload.weights[OperationKind::Set as usize] = 10;
    }

    /// How long a leader stands still: its followers have left it for another one, and clients that tried the
    /// one that stands still have come to the new one.
    pub(crate) fn stall(&self, random: &mut SimRandom) -> VirtualTime {
        self.sync_limit * self.tick() + random.between(self.tick(), 9 * self.tick())
    }
}
