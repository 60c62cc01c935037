//! The calls of the clients of a real ensemble: the simulator's operations, with fixed weights. Sequential
//! nodes are deleted again, so that a run of hours has a small tree.

use zebu_proto::Permissions;
use zebu_proto::client::CreateOp;

use crate::client::{OperationDrawer, OperationKind};
use crate::operation::{NodePath, Operation, WriteOperation};
use crate::random::SimRandom;
use crate::run_parameters::{RunParameters, Workload};

/// Sequential names that a client keeps.
const KNOWN_MAX: usize = 6;

/// A source of calls.
#[derive(Debug)]
pub(super) struct LiveWorkload {
    workload: Workload,
    random: SimRandom,
    known: Vec<NodePath>,
}

fn weight(kind: OperationKind) -> u64 {
    match kind {
        OperationKind::Create | OperationKind::Set => 14,
        OperationKind::CreateEphemeral | OperationKind::Multi | OperationKind::Get => 10,
        OperationKind::Delete | OperationKind::SetAtVersion => 7,
        OperationKind::Exists
        | OperationKind::Children
        | OperationKind::ChildrenAndStat
        | OperationKind::Sync => 5,
        OperationKind::CreateSequential | OperationKind::CreateEphemeralSequential => 4,
        OperationKind::Several => 3,
        OperationKind::Ephemerals
        | OperationKind::DescendantCount
        | OperationKind::Watch
        | OperationKind::WatchBelow => 1,
        // The rules for reads of ACLs differ between releases of ZooKeeper.
        OperationKind::Acl | OperationKind::SetAcl | OperationKind::CreateContainer => 0,
    }
}

impl LiveWorkload {
    pub(super) fn new(seed: u64, client: usize) -> LiveWorkload {
        // Drawn as for a simulated client; the parameters for names and kinds are fixed.
        let mut workload = RunParameters::draw(seed).workload;
        workload.weights = OperationKind::ALL.map(weight).to_vec();
        workload.names = 6;
        workload.watch_permille = 250;
        workload.data_max = 60;
        LiveWorkload { workload, random: SimRandom::of_client(seed, client as u64), known: Vec::new() }
    }

    /// The next call.
    pub(super) fn draw(&mut self) -> Operation {
        if self.known.len() > KNOWN_MAX {
            let path = self.known.remove(0);
            return Operation::Write(WriteOperation::Delete { path, version: -1 });
        }
        let kind = OperationKind::ALL[self.random.weighted(&self.workload.weights)];
        let mut drawer =
            OperationDrawer { random: &mut self.random, workload: &self.workload, known: &self.known };
        let mut operation = drawer.operation(kind);
        match &mut operation {
            Operation::Write(write) => open(write),
            Operation::Multi(writes) => {
                writes.iter_mut().for_each(open);
                writes.iter_mut().for_each(answer_briefly);
            }
            Operation::Read { .. }
            | Operation::DeleteTree(_)
            | Operation::AddWatch { .. }
            | Operation::Sync(_)
            | Operation::Hello(_)
            | Operation::Feed(_)
            | Operation::Reconfig { .. } => {}
        }
        operation
    }

    /// Remembers a name that a server has assigned.
    pub(super) fn learn(&mut self, path: &str) {
        self.known.push(path.into());
    }
}

/// Grants all permissions to every client.
fn open(write: &mut WriteOperation) {
    if let WriteOperation::Create { permissions, .. } = write {
        *permissions = Permissions::ALL;
    }
}

/// Older releases answer a create2 in a multi as a create, and a leader that is compatible with them logs it
/// as one.
fn answer_briefly(write: &mut WriteOperation) {
    if let WriteOperation::Create { op, .. } = write {
        *op = CreateOp::Create;
    }
}
