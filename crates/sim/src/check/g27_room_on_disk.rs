//! G27: while a quorum has room on its disks, writes go on. While none has, only requests that make the tree
//! larger are refused, and no more once there is room again. The reserve is made again.

use zebu_proto::ErrorCode;
use zebu_proto::client::{KeeperPart, KeeperWrite};

use crate::history::{CheckResult, ClientCall, Violation};
use crate::operation::{Operation, WriteOperation};
use crate::queue::{SECOND, VirtualTime};
use crate::run_parameters::LittleRoom;

const NAME: &str = "g27_room_on_disk";

/// Ticks after which every server knows that there is room again.
const NEWS_TICKS: u64 = 8;

/// The room on the disks of all servers.
#[derive(Debug)]
pub(crate) struct RoomOnDisks {
    little_room: LittleRoom,
    tick: VirtualTime,
    /// The end of the last time in which no quorum had room.
    until: VirtualTime,
}

impl RoomOnDisks {
    pub(super) fn new(little_room: LittleRoom, tick: VirtualTime) -> RoomOnDisks {
        RoomOnDisks { little_room, tick, until: 0 }
    }

    /// Disks have little room until this time.
    pub(crate) fn limit(&mut self, until: VirtualTime) {
        self.until = self.until.max(until);
    }

    /// All disks have room again.
    pub(crate) fn heal(&mut self, now: VirtualTime) {
        self.until = self.until.min(now);
    }

    /// Whether what makes the tree larger may be refused, if it was requested at this time.
    pub(super) fn may_refuse(&self, at: VirtualTime) -> bool {
        self.little_room == LittleRoom::All && at <= self.until + NEWS_TICKS * self.tick + 2 * SECOND
    }
}

/// Checks the answer to a call.
pub(super) fn check_answer(room: &RoomOnDisks, call: &ClientCall, code: i32) -> CheckResult {
    if code != ErrorCode::SystemError.wire() {
        return Ok(());
    }
    check_refusal(&call.operation)?;
    if room.may_refuse(call.at) {
        return Ok(());
    }
    let text = format!("{:?} of client {} was refused, but a quorum has room", call.operation, call.client);
    Err(Violation::new(NAME, text))
}

/// Checks the request of a refusal in the history.
pub(crate) fn check_refusal(operation: &Operation) -> CheckResult {
    if may_grow(operation) {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{operation:?} was refused, but does not make the tree larger")))
}

/// Servers without a complete reserve, a while after there is room again.
pub(crate) fn check_reserves(lacking: &[usize]) -> CheckResult {
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("servers {lacking:?} have room, and no complete reserve")))
}

/// Whether a request can make the tree larger.
fn may_grow(operation: &Operation) -> bool {
    let grows = |write: &WriteOperation| match write {
        WriteOperation::Create { .. } => true,
        WriteOperation::Set { data, .. } => !data.is_empty(),
        WriteOperation::Keeper(part) => {
            matches!(&**part, KeeperPart::Write(KeeperWrite::CreateIfNotExists(_)))
        }
        _ => false,
    };
    match operation {
        Operation::Write(write) => grows(write),
        Operation::Multi(writes) => writes.iter().any(grows),
        _ => false,
    }
}
