//! G24: when the end of a leader is the only fault, no other server closes a connection for want of a leader.

use zebu_node::DisconnectReason;

use super::Checker;
use super::client_connections::ConnectionClose;
use crate::history::{CheckResult, Violation};

const NAME: &str = "g24_unnoticed_leader_change";

pub(super) fn check_close(checker: &Checker, closing: &ConnectionClose) -> CheckResult {
    // A client that connects during the election tries another server.
    if !checker.only_leader_ends
        || closing.session.is_none()
        || closing.reason != DisconnectReason::NotServing
    {
        return Ok(());
    }
    let text =
        format!("server {} closes client {} while a leader is elected", closing.server, closing.client);
    Err(Violation::new(NAME, text))
}
