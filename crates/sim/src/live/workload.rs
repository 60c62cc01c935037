//! What the clients of a real ensemble ask for: the simulator's operations, with fixed weights. Names that
//! servers have made are deleted again, so that a run of hours has a small tree.

use zebu_proto::Permissions;
use zebu_proto::client::CreateOp;

use crate::client::{Drawer, Kind};
use crate::operation::{Operation, Path, Write};
use crate::random::Random;
use crate::shape::{Shape, Workload};

/// Names with a counter that a client keeps.
const KNOWN_MAX: usize = 6;

/// A source of calls.
#[derive(Debug)]
pub(super) struct Wishes {
    workload: Workload,
    random: Random,
    known: Vec<Path>,
}

fn weight(kind: Kind) -> u64 {
    match kind {
        Kind::Create | Kind::Set => 14,
        Kind::CreateEphemeral | Kind::Multi | Kind::Get => 10,
        Kind::Delete | Kind::SetAtVersion => 7,
        Kind::Exists | Kind::Children | Kind::ChildrenAndStat | Kind::Sync => 5,
        Kind::CreateSequential | Kind::CreateEphemeralSequential => 4,
        Kind::Several => 3,
        Kind::Ephemerals | Kind::DescendantCount | Kind::Watch | Kind::WatchBelow => 1,
        // Who may read what is not the same in every release of Apache ZooKeeper.
        Kind::Acl | Kind::SetAcl | Kind::CreateContainer => 0,
    }
}

impl Wishes {
    pub(super) fn new(seed: u64, client: usize) -> Wishes {
        // Drawn as for a simulated client; what decides about names and kinds is fixed.
        let mut workload = Shape::draw(seed).workload;
        workload.weights = Kind::ALL.map(weight).to_vec();
        workload.names = 6;
        workload.watch_permille = 250;
        workload.data_max = 60;
        Wishes { workload, random: Random::new(seed, client as u64), known: Vec::new() }
    }

    /// The next call.
    pub(super) fn draw(&mut self) -> Operation {
        if self.known.len() > KNOWN_MAX {
            let path = self.known.remove(0);
            return Operation::Write(Write::Delete { path, version: -1 });
        }
        let kind = Kind::ALL[self.random.weighted(&self.workload.weights)];
        let mut drawer = Drawer { random: &mut self.random, workload: &self.workload, known: &self.known };
        let mut operation = drawer.operation(kind);
        match &mut operation {
            Operation::Write(write) => open(write),
            Operation::Multi(writes) => {
                writes.iter_mut().for_each(open);
                writes.iter_mut().for_each(answer_briefly);
            }
            Operation::Read { .. }
            | Operation::AddWatch { .. }
            | Operation::Sync(_)
            | Operation::Reconfig { .. } => {}
        }
        operation
    }

    /// Remembers a name that a server has made.
    pub(super) fn learn(&mut self, path: &str) {
        self.known.push(path.into());
    }
}

/// Everybody may do everything.
fn open(write: &mut Write) {
    if let Write::Create { permissions, .. } = write {
        *permissions = Permissions::ALL;
    }
}

/// Older releases answer a create2 in a multi as a create, and a leader that has regard for them writes it as one.
fn answer_briefly(write: &mut Write) {
    if let Write::Create { op, .. } = write {
        *op = CreateOp::Create;
    }
}
