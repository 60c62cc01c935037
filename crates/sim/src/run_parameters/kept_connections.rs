//! Draws whether servers keep their client connections over a leader change, and runs in which no client
//! of a survivor may notice that the leader ends.

use zebu_zab::LAST_COUNTER;

use super::{RunParameters, ServerKinds};
use crate::network::Latency;
use crate::queue::MS;
use crate::random::{DrawPurpose, SimRandom};

/// Runs in which servers keep their connections, of a thousand.
const GRACE_PERMILLE: u64 = 850;

/// Runs of these with servers that keep none, as ZooKeeper's servers do.
const MIXED_PERMILLE: u64 = 250;

/// Runs of these in which the only fault is the end of a leader.
const ONLY_LEADER_ENDS_PERMILLE: u64 = 80;

/// Runs of these in which requests arrive late, after their clients have moved.
const LATE_REQUESTS_PERMILLE: u64 = 80;

/// Leader changes of such a run, and the ticks from one to the next.
const ROUNDS: u64 = 10;
pub(crate) const ROUND_TICKS: u64 = 8;

impl RunParameters {
    /// Drawn apart, after all others.
    pub(super) fn draw_kept_connections(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::KeptConnections);
        if !random.permille(GRACE_PERMILLE) {
            return;
        }
        self.kinds.election_grace_ms = random.between(1, 3) as i64 * self.tick_ms as i64;
        if random.permille(700) {
            // A connection is kept for a part of its timeout: many of them outlive an election.
            let least_ms = random.between(6, 16) * self.tick_ms;
            self.workload.session_timeout_ms = self.workload.session_timeout_ms.max(least_ms);
        }
        if random.permille(ONLY_LEADER_ENDS_PERMILLE) && self.endurance.is_none() {
            self.calm_down(&mut random);
            return;
        }
        if random.permille(LATE_REQUESTS_PERMILLE) && self.endurance.is_none() {
            self.calm_down(&mut random);
            self.kinds.only_leader_ends = false;
            self.kinds.late_requests = ROUNDS;
            self.safety = ROUNDS * ROUND_TICKS * self.tick();
            self.workload.session_timeout_ms = random.between(12, 20) * self.tick_ms;
            self.workload.pipeline = random.pick(&[1, 4]);
        }
        if random.permille(MIXED_PERMILLE) {
            self.kinds.graceless = random.draw() as u32;
        }
    }

    /// An ensemble in which every leader change is short, and no other reason closes a connection.
    pub(super) fn calm_down(&mut self, random: &mut SimRandom) {
        self.voters = random.pick(&[3, 3, 5]);
        self.observers = random.pick(&[0, 0, 1]);
        (self.spares, self.members) = (0, None);
        self.groups.clear();
        self.clients = random.between(2, 6) as usize;
        self.tick_ms = random.pick(&[500, 1000, 2000]);
        self.kinds = ServerKinds {
            election_grace_ms: 2 * self.tick_ms as i64,
            only_leader_ends: true,
            ..ServerKinds::DEFAULT
        };
        self.latency = Latency { low: MS / 5, high: random.between(1, 5) * MS, straggler_permille: 0 };
        self.distant = None;
        self.turn = self.turn.min(MS);
        // Learners that come late often miss more than this.
        self.history_entries = random.pick(&[20, 500, 5000]);
        self.fault_rate = 0;
        self.last_counter = LAST_COUNTER;
        self.stalled_leaders = 0;
        self.workload.restless_permille = 0;
        self.workload.session_timeout_ms = random.between(8, 20) * self.tick_ms;
        self.workload.pause = random.between(1, self.tick_ms / 5) * MS;
        self.workload.calls_max = 600;
        self.safety = 60 * self.tick();
        self.disk.sync_low = self.disk.sync_low.min(2 * MS);
        self.disk.sync_high = self.disk.sync_high.min(8 * MS).max(self.disk.sync_low + 50);
    }

    /// The grace of a server.
    pub(crate) fn election_grace_ms(&self, server: usize) -> i64 {
        let is_graceless = self.kinds.graceless >> server & 1 == 1;
        if is_graceless { 0 } else { self.kinds.election_grace_ms }
    }
}
