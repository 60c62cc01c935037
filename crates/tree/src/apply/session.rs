//! Applies the end of a session.

use zebu_proto::txn::TxnHeader;

use crate::apply::EventSink;
use crate::outcome::TxnOutcome;
use crate::tree::Tree;

impl Tree {
    /// First the paths that the transaction names, in its order, then all other ephemeral nodes of the
    /// session. Named nodes that are missing still raise the parent's pzxid. Without a list a replay raises
    /// only the parents of existing nodes, so a walk across this transaction is void.
    pub(super) fn apply_close_session(
        &mut self,
        header: &TxnHeader,
        paths: Option<&[Box<str>]>,
        events: EventSink<'_>,
    ) -> TxnOutcome {
        self.sessions.remove(&header.session);
        for path in paths.unwrap_or_default() {
            self.apply_delete(header.zxid, path, events);
        }
        let rest = self.ephemerals_of(header.session);
        if paths.is_none() && !rest.is_empty() {
            self.unlisted_ends += 1;
        }
        for path in rest {
            self.apply_delete(header.zxid, &path, events);
        }
        TxnOutcome::SessionClosed { session: header.session }
    }
}
