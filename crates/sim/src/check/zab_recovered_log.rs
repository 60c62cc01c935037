//! A restart finds every transaction that the disk has confirmed: none is missing or different.

use std::sync::Arc;

use crate::history::{CheckResult, Violation};
use crate::view::ServerView;

const NAME: &str = "zab_recovered_log";

/// Compares the known log with the log that recovery found after `base`.
pub(crate) fn check(server: usize, view: &ServerView, base: i64, found: &[(i64, Arc<[u8]>)]) -> CheckResult {
    if view.rotten || view.replacing {
        return Ok(());
    }
    let last = found.last().map_or(base, |(zxid, _)| *zxid);
    if last < view.durable {
        let text = format!(
            "server {server} had {:#x} on disk, but finds only {last:#x} after its restart",
            view.durable
        );
        return Err(Violation::new(NAME, text));
    }
    for (zxid, bytes) in &view.log {
        if *zxid <= base || *zxid > view.durable {
            continue;
        }
        let index = found.binary_search_by_key(zxid, |(zxid, _)| *zxid);
        if !index.is_ok_and(|index| found[index].1 == *bytes) {
            let text =
                format!("server {server} had {zxid:#x} on disk, but does not find it after its restart");
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}
