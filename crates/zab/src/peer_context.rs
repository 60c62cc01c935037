//! What every role needs to handle an event: the state that outlives roles, the time, and the actions.

use crate::action::Action;
use crate::zab_state::ZabState;

/// The context of one event. A role borrows it from the peer.
#[derive(Debug)]
pub(crate) struct PeerContext<'a> {
    pub(crate) state: &'a mut ZabState,
    pub(crate) now_ms: i64,
    pub(crate) out: &'a mut Vec<Action>,
}
