//! G14: a watch misses nothing while its connection lives, and a client that registers its watches again is
//! told what it has missed.

use zebu_proto::client::EventType;

use super::Judge;
use super::watches::Account;
use crate::history::{Verdict, Violation};
use crate::operation::Path;

const NAME: &str = "g14_watch_completeness";

/// An event that is still owed when later states are shown does not come any more. A single reply that
/// overtakes its event is another matter, see G12.
pub(super) fn check_overdue(account: &Account, shown: i64) -> Verdict {
    match &account.overdue {
        Some((_, first)) if shown > *first => missed(account),
        _ => Ok(()),
    }
}

/// Nothing comes behind the end of a connection.
pub(super) fn check_end(judge: &mut Judge, client: usize) -> Verdict {
    let Some(account) = judge.watches.accounts.get_mut(&client) else { return Ok(()) };
    let verdict = missed(account);
    account.overdue = None;
    verdict
}

fn missed(account: &Account) -> Verdict {
    let Some(((zxid, kind, path), shown)) = &account.overdue else { return Ok(()) };
    let text = format!("{kind:?} of {path} at {zxid:#x} never came, but {shown:#x} was shown");
    Err(Violation::new(NAME, text))
}

/// What is made up for when watches are registered again.
pub(super) fn check_made_up(owed: &[(EventType, Path)], came: &[(EventType, Path)], zxid: i64) -> Verdict {
    if owed == came {
        return Ok(());
    }
    let text = format!("watches were registered again at {zxid:#x}: {came:?} came, {owed:?} was missed");
    Err(Violation::new(NAME, text))
}

/// Whoever comes back registers what it held before anything else.
pub(super) fn check_registered(judge: &Judge, client: usize) -> Verdict {
    match judge.watches.forgotten(client) {
        None => Ok(()),
        Some(path) => {
            let text = format!("client {client} goes on without the watch that it had on {path}");
            Err(Violation::new(NAME, text))
        }
    }
}
