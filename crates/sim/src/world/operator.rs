//! The operator's reconfigs, and the config reads of clients.

use super::World;
use crate::members::{CONFIG, ExpectedVersion, ReconfigChange};
use crate::operation::{NodePath, Operation, ReadOperation, SYNCED, WriteOperation};

impl World {
    /// A client requests a reconfig.
    pub(super) fn request_reconfig(&mut self, client: usize, change: ReconfigChange, asked: ExpectedVersion) {
        let it = &self.clients[client];
        let version = match asked {
            ExpectedVersion::Any => -1,
            ExpectedVersion::Known => it.known_list,
            ExpectedVersion::Wrong => it.known_list + 1,
        };
        self.call(client, Operation::Reconfig { change, version });
        self.drive(client);
    }

    /// The operator sets the ACL of the config node. Before the first reconfig the reply would be undefined:
    /// the first config is in no history.
    pub(super) fn set_config_acl(&mut self, permissions: i32) {
        let Some(operator) = self.core.parameters.operator() else { return };
        if zebu_proto::Zxid(self.clients[operator].known_list).counter() != 0 {
            let path = NodePath::from(CONFIG);
            self.call(operator, Operation::Write(WriteOperation::SetAcl { path, permissions, version: -1 }));
            self.drive(operator);
        }
    }

    /// The next call of a client in a run with reconfig; `None` for a call of the normal workload.
    pub(super) fn draw_about_members(&mut self, client: usize) -> Option<Operation> {
        let permille = self.core.parameters.members.as_ref()?.curious_permille;
        let is_operator = self.core.parameters.operator() == Some(client);
        let watch_permille = self.core.parameters.workload.watch_permille;
        let random = &mut self.clients[client].random;
        if !is_operator && !random.permille(permille) {
            return None;
        }
        if random.permille(300) {
            return Some(Operation::Sync(NodePath::from(SYNCED)));
        }
        let watch = random.permille(watch_permille);
        Some(Operation::plain_read(ReadOperation::Get(NodePath::from(CONFIG)), watch))
    }
}
