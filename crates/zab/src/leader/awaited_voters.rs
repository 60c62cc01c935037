//! Voters that a new leader waits for. After an election some of them join a moment later than the quorum.
//! Until initLimit has passed, or until they have come and gone, they count as having room on their disks.

use std::collections::BTreeSet;

use zebu_proto::ServerId;

/// The voters that have not joined since this leader was established.
#[derive(Debug, Default)]
pub(super) struct AwaitedVoters {
    servers: BTreeSet<ServerId>,
    until_ms: i64,
}

impl AwaitedVoters {
    /// The leader is established: it waits for these servers, those that are connected included.
    pub(super) fn begin(&mut self, servers: BTreeSet<ServerId>, until_ms: i64) {
        *self = AwaitedVoters { servers, until_ms };
    }

    /// The connection of a server has ended.
    pub(super) fn remove(&mut self, server: ServerId) {
        self.servers.remove(&server);
    }

    pub(super) fn expire(&mut self, now_ms: i64) {
        if now_ms >= self.until_ms {
            self.servers.clear();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ServerId> {
        self.servers.iter().copied()
    }
}
