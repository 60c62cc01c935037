//! What operators ask for in a run, and when. Drawn from streams of their own.

use zebu_proto::Permissions;

use super::{Drawer, Fault, LEADER, Planned};
use crate::members::{Asked, CLIENT_PORTS, QUORUM_PORT, Seat, Vote, Wish};
use crate::random::Random;
use crate::shape::Shape;

impl Drawer<'_> {
    pub(super) fn wishes(&mut self) -> Vec<Planned> {
        const PURPOSE: u64 = 9;
        let Some(members) = &self.shape.members else { return Vec::new() };
        let mut random = Random::new(self.shape.seed, PURPOSE);
        let mut plan = Vec::new();
        for _ in 0..members.wishes {
            let at = random.below(self.shape.safety);
            let stranger = random.permille(100);
            let client = if stranger { random.index(self.shape.clients) } else { self.shape.clients - 1 };
            let fault = if random.permille(60) {
                let permissions = if random.permille(500) { Permissions::WRITE } else { 0 };
                Fault::ConfigAcl { permissions: Permissions::READ | permissions }
            } else {
                let asked = [Asked::Any, Asked::Known, Asked::Wrong][random.weighted(&[80, 15, 5])];
                Fault::Reconfig { client, wish: wish(self.shape, &mut random), asked }
            };
            plan.push(Planned { at, fault });
        }
        plan.extend(self.unstartable());
        plan.sort_by_key(|planned| planned.at);
        plan
    }

    /// Members that no server could start with. They have a stream of their own.
    fn unstartable(&self) -> Option<Planned> {
        const PURPOSE: u64 = 12;
        let mut random = Random::new(self.shape.seed, PURPOSE);
        if !random.permille(300) {
            return None;
        }
        let server = random.index(self.shape.servers());
        let wish = if random.permille(700) { Wish::TwoAddresses(server) } else { Wish::OnlyTls(server) };
        let (client, asked) = (self.shape.clients - 1, Asked::Any);
        let at = random.below(self.shape.safety);
        Some(Planned { at, fault: Fault::Reconfig { client, wish, asked } })
    }
}

fn wish(shape: &Shape, random: &mut Random) -> Wish {
    let servers = shape.servers();
    let one = |random: &mut Random| if random.permille(150) { LEADER } else { random.index(servers) };
    let some = |join: Vec<(usize, Seat)>, leave: Vec<usize>| Wish::Some { join, leave };
    match random.weighted(&[30, 25, 8, 15, 12, 2, 2]) {
        0 => some(vec![(one(random), seat(random))], Vec::new()),
        1 => some(Vec::new(), vec![one(random)]),
        2 => some(vec![(random.index(servers), seat(random)), (one(random), seat(random))], Vec::new()),
        3 => some(vec![(random.index(servers), seat(random))], vec![one(random)]),
        4 => {
            let chance = random.pick(&[300, 500, 700, 900]);
            let chosen: Vec<usize> = (0..servers).filter(|_| random.permille(chance)).collect();
            let seats: std::collections::BTreeMap<usize, Seat> =
                chosen.into_iter().map(|server| (server, seat(random))).collect();
            let mut groups = std::collections::BTreeMap::new();
            if random.permille(200) {
                for (server, _) in seats.iter().filter(|(_, seat)| seat.vote == Vote::Has) {
                    groups.insert(*server, (1 + random.below(2) as i64, random.pick(&[0, 1, 1, 2])));
                }
            }
            Wish::All { seats, groups }
        }
        5 => Wish::NoClientPort(random.index(servers)),
        _ => Wish::NoNumber,
    }
}

fn seat(random: &mut Random) -> Seat {
    Seat {
        vote: if random.permille(700) { Vote::Has } else { Vote::Lacks },
        quorum_port: QUORUM_PORT + u16::from(random.permille(80)),
        client_port: if random.permille(150) { CLIENT_PORTS[1] } else { CLIENT_PORTS[0] },
    }
}
