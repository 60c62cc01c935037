//! Faults that aim at the server kinds of a run: at observer masters, at quorums while clients accept
//! read-only servers, and at snapshot files. Drawn from a random stream of their own.

use zebu_zab::ObserverLog;

use super::{Fault, FaultDrawer, LEADER, OBSERVER_MASTER, PacketEnd, PlannedFault, ProtocolStep};
use crate::fault_kind::FaultKind;
use crate::network::Host;
use crate::queue::{MS, VirtualTime};
use crate::random::{DrawPurpose, SimRandom};
use crate::run_parameters::ROUND_TICKS;

/// Leaders that are cut off from the other servers before late requests arrive; the others are killed.
const CUT_OFF_PERMILLE: u64 = 400;

/// Why a snapshot file cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotFailure {
    Io,
    Full,
}

impl FaultDrawer<'_> {
    /// One leader ends in the middle of the run and does not come back.
    pub(super) fn end_of_leader(&mut self) -> Vec<PlannedFault> {
        let at = self.random.between(self.shape.safety / 2, self.shape.safety * 3 / 4);
        vec![PlannedFault { at, fault: Fault::Kill { server: LEADER, down: self.shape.safety } }]
    }

    /// The clients cannot reach a server, move, and use their sessions elsewhere. Then the leader ends. The
    /// requests that they had sent before arrive under the next leader.
    fn late_requests(&self, round: u64, random: &mut SimRandom) -> Vec<PlannedFault> {
        let tick = self.shape.tick();
        let servers = self.shape.servers();
        let clients = 0..self.shape.clients;
        let server = Host(random.index(servers));
        let begins = (round * ROUND_TICKS + 4) * tick;
        let moves = begins + random.between(tick / 8, tick / 2);
        let ends = moves + random.between(tick / 4, tick);
        let heals = ends + random.between(tick / 8, tick);
        let paths = clients.clone().map(|client| (Host(servers + client), server)).collect();
        let cut = Fault::Cut { name: FaultKind::CutPair, paths, lasts: heals - begins };
        // A leader that is only cut off keeps its own clients too.
        let end = if random.permille(CUT_OFF_PERMILLE) {
            self.isolated_leader((self.shape.sync_limit + 1) * tick)
        } else {
            Fault::Kill { server: LEADER, down: 2 * tick }
        };
        let mut plan = vec![PlannedFault { at: begins, fault: cut }, PlannedFault { at: ends, fault: end }];
        plan.extend(clients.map(|client| PlannedFault { at: moves, fault: Fault::ClientMoves { client } }));
        plan
    }

    pub(super) fn server_kinds(&mut self) -> Vec<PlannedFault> {
        let mut random = SimRandom::new(self.shape.seed, DrawPurpose::ServerKindFaults);
        let kinds = self.shape.kinds;
        let mut plan = Vec::new();
        let safety = self.shape.safety;
        let mut add = |fault: Fault, random: &mut SimRandom| {
            plan.push(PlannedFault { at: random.below(safety), fault });
        };
        for _ in 0..kinds.master_faults {
            let fault = self.master_fault(&mut random);
            add(fault, &mut random);
        }
        for _ in 0..kinds.leaderless_faults {
            let fault = self.leaderless_fault(&mut random);
            add(fault, &mut random);
        }
        for _ in 0..kinds.snapshot_faults {
            let fault = self.snapshot_fault(&mut random);
            add(fault, &mut random);
        }
        for _ in 0..kinds.interrupted_syncs {
            let fault = self.interrupted_sync(&mut random);
            add(fault, &mut random);
        }
        for _ in 0..kinds.rotten_truncations {
            let lasts = self.interruption(&mut random);
            add(self.isolated_leader(lasts), &mut random);
        }
        for round in 0..kinds.late_requests {
            plan.extend(self.late_requests(round, &mut random));
        }
        if kinds.rotten_truncations > 0 {
            let mut order: Vec<usize> = (0..self.shape.servers()).collect();
            random.shuffle(&mut order);
            // Observers without a log go back to their disk more often than voters get a TRUNC.
            if kinds.observer_log == ObserverLog::InMemory {
                order.sort_by_key(|server| *server < self.shape.voters);
            }
            for server in order {
                let place = random.draw();
                if self.may_rot(server) {
                    plan.push(PlannedFault { at: 0, fault: Fault::RotBeforeTruncate { server, place } });
                }
            }
        }
        plan
    }

    /// A leader loses its followers with a transaction that only it has, or a sync ends in its middle.
    fn interrupted_sync(&self, random: &mut SimRandom) -> Fault {
        let lasts = self.interruption(random);
        match random.below(6) {
            0 => Fault::Kill { server: LEADER, down: lasts },
            1 => self.isolated_leader(lasts),
            2 => Fault::Kill { server: random.index(self.shape.servers()), down: 2 * lasts },
            _ => {
                let (on, when) = random.pick(&[
                    (ProtocolStep::Installed, PacketEnd::Gets),
                    (ProtocolStep::NewLeader, PacketEnd::Sends),
                ]);
                Fault::EndAtStep { on, when, skip: random.below(3), down: lasts, survives: None }
            }
        }
    }

    fn interruption(&self, random: &mut SimRandom) -> VirtualTime {
        let tick = self.shape.tick();
        random.skewed(tick / 2, tick * (self.shape.sync_limit + 4))
    }

    /// A leader is cut off from all servers, with transactions that only it has.
    fn isolated_leader(&self, lasts: VirtualTime) -> Fault {
        let leader = Host(LEADER);
        let others = (0..self.shape.servers()).map(Host);
        let paths = others.flat_map(|other| [(leader, other), (other, leader)]).collect();
        Fault::Cut { name: FaultKind::Isolate, paths, lasts }
    }

    /// A server that observers are connected to stops, pauses, or loses its leader or its observers.
    fn master_fault(&self, random: &mut SimRandom) -> Fault {
        let tick = self.shape.tick();
        let lasts = random.skewed(tick / 4, tick * (self.shape.sync_limit + 6));
        let master = Host(OBSERVER_MASTER);
        let first_observer = self.shape.voters;
        let servers = 0..self.shape.servers();
        match random.below(6) {
            0 => Fault::Kill { server: OBSERVER_MASTER, down: lasts },
            1 => Fault::Pause { server: OBSERVER_MASTER, lasts },
            2 => Fault::PowerLoss { servers: vec![OBSERVER_MASTER], down: lasts, survives: random.draw() },
            3 => {
                let extra = random.skewed(MS, tick);
                let other = Host(random.index(self.shape.voters));
                Fault::Slow { one: master, other, extra, lasts }
            }
            // From the other voters, or from the observers.
            at => {
                let is_meant = |server: &usize| (*server < first_observer) == (at == 4);
                let others = servers.filter(is_meant).map(Host);
                let paths = others.flat_map(|other| [(master, other), (other, master)]).collect();
                Fault::Cut { name: FaultKind::Isolate, paths, lasts }
            }
        }
    }

    /// Long enough that servers without a leader serve reads.
    fn leaderless(&self, random: &mut SimRandom) -> VirtualTime {
        let after = self.shape.kinds.read_only_after_ms.unwrap_or(0) as VirtualTime * MS;
        let tick = self.shape.tick();
        after + (self.shape.sync_limit + random.between(2, 20)) * tick
    }

    /// A quorum is gone: voters are down, or the network is partitioned.
    fn leaderless_fault(&self, random: &mut SimRandom) -> Fault {
        let lasts = self.leaderless(random);
        let mut voters: Vec<usize> = (0..self.shape.voters).collect();
        random.shuffle(&mut voters);
        let most = voters.split_off(voters.len() / 2);
        match random.below(4) {
            0 => Fault::PowerLoss { servers: most, down: lasts, survives: random.draw() },
            1 => {
                let one = Host(random.index(self.shape.servers()));
                let others = (0..self.shape.servers()).map(Host).filter(|other| *other != one);
                let paths = others.flat_map(|other| [(one, other), (other, one)]).collect();
                Fault::Cut { name: FaultKind::Isolate, paths, lasts }
            }
            _ => {
                let others = (0..self.shape.servers()).filter(|server| !most.contains(server));
                let paths = others.flat_map(|one| {
                    most.iter().flat_map(move |&other| [(Host(one), Host(other)), (Host(other), Host(one))])
                });
                // Without this, the larger part has a leader at once.
                let among = most.iter().flat_map(|&one| most.iter().map(move |&other| (one, other)));
                let among = among.filter(|(one, other)| one != other);
                let among = among.map(|(one, other)| (Host(one), Host(other)));
                let splits_most = random.permille(500);
                let paths = paths.chain(among.filter(|_| splits_most)).collect();
                Fault::Cut { name: FaultKind::Halves, paths, lasts }
            }
        }
    }

    fn snapshot_fault(&self, random: &mut SimRandom) -> Fault {
        let tick = self.shape.tick();
        let server = random.index(self.shape.servers());
        let lasts = random.between(5, 30) * tick;
        match random.below(3) {
            0 => Fault::SlowSnapshots { server, extra: random.skewed(MS, 2 * tick), lasts },
            kind => {
                let cause = if kind == 1 { SnapshotFailure::Io } else { SnapshotFailure::Full };
                Fault::FailingSnapshots { server, operations: random.below(25), cause, lasts }
            }
        }
    }
}
