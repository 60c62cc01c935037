//! Who changes the members, and who asks for them.

use super::World;
use crate::members::{Asked, CONFIG, Wish};
use crate::operation::{Operation, Path, Read, SYNCED, Write};

impl World {
    /// A client asks for other members.
    pub(super) fn ask_for_members(&mut self, client: usize, wish: Wish, asked: Asked) {
        let it = &self.clients[client];
        let version = match asked {
            Asked::Any => -1,
            Asked::Known => it.known_list,
            Asked::Wrong => it.known_list + 1,
        };
        self.call(client, Operation::Reconfig { wish, version });
        self.drive(client);
    }

    /// The operator says who may change the members. Before the first change nobody could say what the answer has to be:
    /// the first list is in no history.
    pub(super) fn share_config(&mut self, permissions: i32) {
        let Some(operator) = self.core.shape.operator() else { return };
        if zebu_proto::Zxid(self.clients[operator].known_list).counter() != 0 {
            let path = Path::from(CONFIG);
            self.call(operator, Operation::Write(Write::SetAcl { path, permissions, version: -1 }));
            self.drive(operator);
        }
    }

    /// What a client asks for next where members change; `None` if it is what it would ask for anyway.
    pub(super) fn draw_about_members(&mut self, client: usize) -> Option<Operation> {
        let permille = self.core.shape.members.as_ref()?.curious_permille;
        let is_operator = self.core.shape.operator() == Some(client);
        let watch_permille = self.core.shape.workload.watch_permille;
        let random = &mut self.clients[client].random;
        if !is_operator && !random.permille(permille) {
            return None;
        }
        if random.permille(300) {
            return Some(Operation::Sync(Path::from(SYNCED)));
        }
        let watch = random.permille(watch_permille);
        Some(Operation::Read { read: Read::Get(Path::from(CONFIG)), watch })
    }
}
