//! Prefix consistency, agreement and total order: the applied transactions of a server are a prefix of the
//! one history, byte by byte. A transaction that it applies first extends that history.

use super::Checker;
use crate::history::{CheckResult, Violation};

const NAME: &str = "zab_prefix_consistency";

/// The state of a server, from its log up to `last`.
pub(super) fn check_state(checker: &mut Checker, server: usize, last: i64) -> CheckResult {
    loop {
        let view = &checker.servers[server];
        let next = view.log.get(view.compared).filter(|(zxid, _)| *zxid <= last).cloned();
        let Some((zxid, bytes)) = next else { break };
        if zxid > checker.committed.last() {
            checker.commit(server, zxid, &bytes)?;
        } else {
            let known = checker.committed.get(zxid);
            if known.is_none_or(|known| known.bytes != bytes) {
                let text = format!("server {server} has applied another {zxid:#x} than the others");
                return Err(Violation::new(NAME, text));
            }
            let before = checker.servers[server].compared.checked_sub(1);
            let before = before.map_or(checker.servers[server].base, |at| checker.servers[server].log[at].0);
            if checker.committed.after(before).is_some_and(|next| next.zxid != zxid) {
                let text = format!("server {server} has applied {zxid:#x} directly behind {before:#x}");
                return Err(Violation::new(NAME, text));
            }
        }
        checker.servers[server].compared += 1;
    }
    // An observer without a log may be the first server that applies a transaction. Others have it on disk.
    if checker.servers[server].in_memory {
        for (zxid, bytes) in checker.uncommitted(last) {
            checker.commit(server, zxid, &bytes)?;
        }
    }
    if last > checker.committed.last() {
        let text = format!("server {server} shows {last:#x}, which is in no log that it was told to write");
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}
