//! G10: behind a sync, a session sees everything that any client had seen before the sync was called: the
//! effect of a write that was answered, and every state that an answer or an event has shown. A leader
//! answers a sync only when a quorum has answered a ping that left after the sync came, so no later leader
//! can have shown more by then.

use zebu_client::core::ServerReply;

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::operation::Operation;

const NAME: &str = "g10_sync";

/// The scope of the sync guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncScope {
    /// The guarantee holds across leader changes.
    Leaders,
    /// The guarantee holds unless the leader changes meanwhile, as in ZooKeeper.
    OneEpoch,
}

pub(super) fn check_answer(checker: &Checker, index: usize, answer: &ServerReply) -> CheckResult {
    let call = &checker.calls[index];
    if !matches!(*call.operation, Operation::Sync(_)) || answer.code != 0 {
        return Ok(());
    }
    let epochs = |zxid: i64| zxid >> 32;
    let expected = match checker.syncs {
        SyncScope::Leaders => call.acked_before.max(call.seen_before),
        SyncScope::OneEpoch if epochs(answer.zxid) < epochs(call.acked_before) => 0,
        SyncScope::OneEpoch => call.acked_before,
    };
    if answer.zxid >= expected {
        return Ok(());
    }
    let text = format!(
        "{expected:#x} was seen before the sync was called, which came back with the state of {:#x}",
        answer.zxid
    );
    Err(Violation::new(NAME, text))
}
