//! Applies the end of a session.

use zebu_proto::txn::TxnHeader;

use crate::apply::Events;
use crate::outcome::Outcome;
use crate::tree::Tree;

impl Tree {
    /// First what the transaction names, in its order, then whatever else is here of the session. Named
    /// nodes that are missing still raise the parent's pzxid.
    pub(super) fn apply_close_session(
        &mut self,
        header: &TxnHeader,
        paths: Option<&[Box<str>]>,
        events: Events<'_>,
    ) -> Outcome {
        self.sessions.remove(&header.session);
        for path in paths.unwrap_or_default() {
            self.apply_delete(header.zxid, path, events);
        }
        for path in self.ephemerals_of(header.session) {
            self.apply_delete(header.zxid, &path, events);
        }
        Outcome::SessionClosed { session: header.session }
    }
}
