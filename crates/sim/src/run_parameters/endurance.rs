//! Long runs: what a seed draws for one. It decides nothing about other runs.

use zebu_zab::LAST_COUNTER;

use super::{PurgeParameters, RunParameters, Workload};
use crate::client::OperationKind;
use crate::network::Latency;
use crate::queue::MS;
use crate::random::{DrawPurpose, SimRandom};

/// A long run: thousands of transactions on a small tree, over several epochs. The log is far larger than the
/// tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endurance {
    /// A server is away for most of the run, and comes back.
    Absence,
    /// A disk cannot keep up for most of the run.
    SlowDisk,
}

/// Long runs, of a thousand. `learner_memory` finds a DIFF without a bound in bytes in them.
const LONG_RUNS_PERMILLE: u64 = 20;

/// Long runs with a disk that cannot keep up, of a thousand long ones. `served_age` and `learner_memory` find
/// a leader in them that keeps a learner whose oldest proposal has waited for longer than syncLimit.
const SLOW_DISK_PERMILLE: u64 = 500;

impl RunParameters {
    /// Whether the run is a long one. Drawn apart, behind all the rest.
    pub(super) fn draw_endurance(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::Endurance);
        if !random.permille(LONG_RUNS_PERMILLE) || self.members.is_some() {
            return;
        }
        let is_slow = random.permille(SLOW_DISK_PERMILLE);
        let endurance = if is_slow { Endurance::SlowDisk } else { Endurance::Absence };
        self.endurance = Some(endurance);
        self.voters = random.pick(&[3, 3, 5]);
        self.observers = random.pick(&[0, 0, 1]);
        self.groups.clear();
        self.clients = 4;
        self.tick_ms = 500;
        self.sync_limit = random.between(3, 6);
        self.init_limit = random.between(5, 12);
        self.latency = Latency { low: 100, high: 3 * MS, straggler_permille: 0 };
        self.distant = None;
        self.safety = 80 * self.tick();
        self.history_entries = random.between(5, 100) as usize;
        self.history_bytes = 16 << 10;
        self.last_counter = match endurance {
            Endurance::Absence => random.between(150, 900) as u32,
            Endurance::SlowDisk => LAST_COUNTER,
        };
        self.disk.snap_count = random.between(50, 400);
        self.disk.purge = random.pick(&[PurgeParameters::Off, PurgeParameters::AfterSnapshots]);
        self.disk.sync_low = MS;
        self.disk.sync_high = 3 * MS;
        self.turn = if random.permille(500) { 0 } else { random.skewed(50, 5 * MS) };
        self.fault_rate = 0;
        self.workload = Workload {
            weights: OperationKind::ALL.iter().map(|kind| endurance_weight(*kind)).collect(),
            pipeline: 6,
            pause: self.tick() / random.between(3, 8),
            calls_max: 2000,
            names: 3,
            watch_permille: 50,
            fresh_permille: 100,
            data_max: 200,
            session_timeout_ms: 10 * self.tick_ms,
            restless_permille: 0,
            private_permille: 0,
        };
    }
}

/// Mostly writes to a few nodes, and reads that show how old a state is.
fn endurance_weight(kind: OperationKind) -> u64 {
    match kind {
        OperationKind::Create
        | OperationKind::CreateEphemeral
        | OperationKind::Delete
        | OperationKind::Multi
        | OperationKind::Sync => 2,
        OperationKind::Set => 20,
        OperationKind::Get => 5,
        _ => 0,
    }
}
