//! What happened to a node: what watches wait for.

use std::sync::Arc;

use zebu_proto::client::EventType;
use zebu_proto::{Acl, Zxid};

/// One event of an applied transaction, in the order in which watches fire. A deletion is one event; the
/// watch table knows that it concerns data and child watches. It borrows, so it costs nothing unwatched.
#[derive(Clone, Copy, Debug)]
pub struct TreeEvent<'a> {
    /// The transaction.
    pub zxid: Zxid,
    /// What happened.
    pub kind: EventType,
    /// The node; "/" for the root.
    pub path: &'a str,
    /// Who may read the node, and so learn of the event.
    pub acl: &'a Arc<[Acl]>,
}
