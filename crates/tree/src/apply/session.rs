//! Applies the end of a session.

use zebu_proto::txn::TxnHeader;

use crate::apply::Events;
use crate::outcome::Outcome;
use crate::tree::Tree;

impl Tree {
    /// First what the transaction names, in its order, then whatever else is here of the session. Named
    /// nodes that are missing still raise the parent's pzxid. Without a list a replay raises only the parents whose
    /// nodes are still there, so a walk that saw both sides of it is void.
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
        let rest = self.ephemerals_of(header.session);
        if paths.is_none() && !rest.is_empty() {
            self.unlisted_ends += 1;
        }
        for path in rest {
            self.apply_delete(header.zxid, &path, events);
        }
        Outcome::SessionClosed { session: header.session }
    }
}
