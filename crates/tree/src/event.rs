//! The events of applied transactions, which fire watches.

use std::sync::Arc;

use zebu_proto::client::EventType;
use zebu_proto::{Acl, Zxid};

/// One event of an applied transaction, in the order in which watches fire. A deletion is one event; the
/// watch table applies it to data and child watches. It borrows, so it costs nothing without watches.
#[derive(Clone, Copy, Debug)]
pub struct TreeEvent<'a> {
    /// The transaction.
    pub zxid: Zxid,
    /// The type of the event.
    pub kind: EventType,
    /// The node; "/" for the root.
    pub path: &'a str,
    /// The ACL that decides which clients may get the event.
    pub acl: &'a Arc<[Acl]>,
}
