//! The requests of operators in a run, and their times. Drawn from random streams of their own.

use zebu_proto::Permissions;

use super::{Fault, FaultDrawer, LEADER, PlannedFault};
use crate::members::{CLIENT_PORTS, ExpectedVersion, QUORUM_PORT, ReconfigChange, ServerSeat, VoteRight};
use crate::random::{DrawPurpose, SimRandom};
use crate::run_parameters::RunParameters;

impl FaultDrawer<'_> {
    pub(super) fn reconfigs(&mut self) -> Vec<PlannedFault> {
        let Some(members) = &self.shape.members else { return Vec::new() };
        let mut random = SimRandom::new(self.shape.seed, DrawPurpose::Reconfigs);
        let mut plan = Vec::new();
        for _ in 0..members.changes {
            let at = random.below(self.shape.safety);
            let stranger = random.permille(100);
            let client = if stranger { random.index(self.shape.clients) } else { self.shape.clients - 1 };
            let fault = if random.permille(60) {
                let permissions = if random.permille(500) { Permissions::WRITE } else { 0 };
                Fault::ConfigAcl { permissions: Permissions::READ | permissions }
            } else {
                let asked = [ExpectedVersion::Any, ExpectedVersion::Known, ExpectedVersion::Wrong]
                    [random.weighted(&[80, 15, 5])];
                Fault::Reconfig { client, change: reconfig_change(self.shape, &mut random), version: asked }
            };
            plan.push(PlannedFault { at, fault });
        }
        plan.extend(self.unstartable());
        plan.sort_by_key(|planned| planned.at);
        plan
    }

    /// Configs that no server could start with. They have a random stream of their own.
    fn unstartable(&self) -> Option<PlannedFault> {
        let mut random = SimRandom::new(self.shape.seed, DrawPurpose::UnstartableConfigs);
        if !random.permille(300) {
            return None;
        }
        let server = random.index(self.shape.servers());
        let change = if random.permille(700) {
            ReconfigChange::TwoAddresses(server)
        } else {
            ReconfigChange::SecurePortOnly(server)
        };
        let (client, asked) = (self.shape.clients - 1, ExpectedVersion::Any);
        let at = random.below(self.shape.safety);
        Some(PlannedFault { at, fault: Fault::Reconfig { client, change, version: asked } })
    }
}

fn reconfig_change(shape: &RunParameters, random: &mut SimRandom) -> ReconfigChange {
    let servers = shape.servers();
    let one = |random: &mut SimRandom| if random.permille(150) { LEADER } else { random.index(servers) };
    let some =
        |join: Vec<(usize, ServerSeat)>, leave: Vec<usize>| ReconfigChange::Incremental { join, leave };
    match random.weighted(&[30, 25, 8, 15, 12, 2, 2]) {
        0 => some(vec![(one(random), server_seat(random))], Vec::new()),
        1 => some(Vec::new(), vec![one(random)]),
        2 => some(
            vec![(random.index(servers), server_seat(random)), (one(random), server_seat(random))],
            Vec::new(),
        ),
        3 => some(vec![(random.index(servers), server_seat(random))], vec![one(random)]),
        4 => {
            let chance = random.pick(&[300, 500, 700, 900]);
            let chosen: Vec<usize> = (0..servers).filter(|_| random.permille(chance)).collect();
            let seats: std::collections::BTreeMap<usize, ServerSeat> =
                chosen.into_iter().map(|server| (server, server_seat(random))).collect();
            let mut groups = std::collections::BTreeMap::new();
            if random.permille(200) {
                for (server, _) in seats.iter().filter(|(_, seat)| seat.vote == VoteRight::Has) {
                    groups.insert(*server, (1 + random.below(2) as i64, random.pick(&[0, 1, 1, 2])));
                }
            }
            ReconfigChange::Full { servers: seats, groups }
        }
        5 => ReconfigChange::NoClientPort(random.index(servers)),
        _ => ReconfigChange::MalformedId,
    }
}

fn server_seat(random: &mut SimRandom) -> ServerSeat {
    ServerSeat {
        vote: if random.permille(700) { VoteRight::Has } else { VoteRight::Lacks },
        quorum_port: QUORUM_PORT + u16::from(random.permille(80)),
        client_port: if random.permille(150) { CLIENT_PORTS[1] } else { CLIENT_PORTS[0] },
    }
}
