//! G14: a watch misses no event while its connection is open. A client that registers its watches again gets
//! the events that it has missed.

use zebu_proto::client::EventType;

use super::Checker;
use super::watches::ConnectionWatches;
use crate::history::{CheckResult, Violation};
use crate::operation::NodePath;

const NAME: &str = "g14_watch_completeness";

/// Reports an event that is still missing when later states are shown. G12 covers a single reply that
/// overtakes its event.
pub(super) fn check_overdue(account: &ConnectionWatches, shown: i64) -> CheckResult {
    match &account.overdue {
        Some((_, first)) if shown > *first => missed(account),
        _ => Ok(()),
    }
}

/// Reports events that are missing when a connection ends.
pub(super) fn check_end(checker: &mut Checker, client: usize) -> CheckResult {
    let Some(account) = checker.watches.accounts.get_mut(&client) else { return Ok(()) };
    let verdict = missed(account);
    account.overdue = None;
    verdict
}

fn missed(account: &ConnectionWatches) -> CheckResult {
    let Some(((zxid, kind, path), shown)) = &account.overdue else { return Ok(()) };
    let text = format!("{kind:?} of {path} at {zxid:#x} never came, but {shown:#x} was shown");
    Err(Violation::new(NAME, text))
}

/// Checks the events that a server sends for missed changes when watches are registered again.
pub(super) fn check_made_up(
    owed: &[(EventType, NodePath)],
    came: &[(EventType, NodePath)],
    zxid: i64,
) -> CheckResult {
    if owed == came {
        return Ok(());
    }
    let text = format!("watches were registered again at {zxid:#x}: {came:?} came, {owed:?} was missed");
    Err(Violation::new(NAME, text))
}

/// Checks that a client that reconnects registers its watches before it sends anything else.
pub(super) fn check_registered(checker: &Checker, client: usize) -> CheckResult {
    match checker.watches.forgotten(client) {
        None => Ok(()),
        Some(path) => {
            let text = format!("client {client} goes on without the watch that it had on {path}");
            Err(Violation::new(NAME, text))
        }
    }
}
