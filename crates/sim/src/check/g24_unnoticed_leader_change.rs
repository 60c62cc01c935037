//! G24: when the end of a leader is the only fault, no other server closes a connection for want of a leader:
//! not that of a session, not with a read that waits for a fresh state, and none that asks for a session.

use zebu_node::DisconnectReason;

use super::Checker;
use super::client_connections::ConnectionClose;
use crate::history::{CheckResult, Violation};

const NAME: &str = "g24_unnoticed_leader_change";

pub(super) fn check_close(checker: &Checker, closing: &ConnectionClose) -> CheckResult {
    // A server that has just started knows no leader that has ended.
    if !checker.only_leader_ends
        || closing.reason != DisconnectReason::NotServing
        || !closing.has_served
        || closing.is_draining
    {
        return Ok(());
    }
    let text =
        format!("server {} closes client {} while a leader is elected", closing.server, closing.client);
    Err(Violation::new(NAME, text))
}
