//! Watches that clients hold, as the wire shows them.

use std::collections::BTreeMap;

use zebu_proto::SessionId;
use zebu_proto::client::SetWatches;

use super::{Frame, Judge};
use crate::history::Verdict;

/// Watches of all clients.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    pending: BTreeMap<(usize, i32), SetWatches>,
}

impl Watches {
    pub(super) fn connected(&mut self, client: usize, _session: SessionId) {
        self.pending.retain(|(it, _), _| *it != client);
    }

    pub(super) fn rewatching(&mut self, client: usize, xid: i32, set: SetWatches) {
        self.pending.insert((client, xid), set);
    }
}

pub(super) fn check_frame(_judge: &mut Judge, _client: usize, _session: SessionId, _frame: &Frame) -> Verdict {
    Ok(())
}
