//! G24: when the end of a leader is the only fault, no other server closes a connection for want of a leader.
//! A read that waits for a fresh state ends its connection, because only a leader can prove the freshness.

use zebu_node::DisconnectReason;
use zebu_proto::SessionId;

use super::Checker;
use super::client_connections::ConnectionClose;
use crate::history::{CheckResult, Violation};
use crate::operation::Operation;

const NAME: &str = "g24_unnoticed_leader_change";

pub(super) fn check_close(checker: &Checker, closing: &ConnectionClose) -> CheckResult {
    // A client that connects during the election tries another server.
    let Some(session) = closing.session else { return Ok(()) };
    if !checker.only_leader_ends
        || closing.reason != DisconnectReason::NotServing
        || has_fenced_read(checker, session)
    {
        return Ok(());
    }
    let text =
        format!("server {} closes client {} while a leader is elected", closing.server, closing.client);
    Err(Violation::new(NAME, text))
}

/// Whether a read with a freshness of this session has no answer.
fn has_fenced_read(checker: &Checker, session: SessionId) -> bool {
    checker.calls.iter().any(|call| {
        let is_fenced = matches!(&*call.operation, Operation::Read { freshness, .. } if !freshness.is_any());
        is_fenced && call.end.is_none() && call.sent.is_some_and(|sent| sent.session == session)
    })
}
