//! A server that begins to lead was accepted by a quorum of the config in effect. If its history proposes
//! another config that was not in effect before, it needs a quorum of that one too.

use std::collections::BTreeSet;

use super::{Checker, zab_two_quorums};
use crate::history::{CheckResult, Violation};
use crate::members::{EnsembleConfig, proposed_config};

const NAME: &str = "zab_leader_quorums";

pub(super) fn check_leader(checker: &Checker, server: usize, epoch: u32) -> CheckResult {
    let is_accepted = |view: &crate::view::ServerView| view.joined_epoch >= i64::from(epoch);
    let accepted: BTreeSet<usize> =
        (0..checker.servers.len()).filter(|&it| is_accepted(&checker.servers[it])).collect();
    for needed in needed(checker, server) {
        if !needed.is_quorum(&accepted) {
            let text = format!(
                "server {server} leads epoch {epoch}, which {accepted:?} have accepted: no quorum of list {:#x}, {:?}",
                needed.version, needed.servers
            );
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}

/// The configs whose quorums a leader needs: it knows only for a part of its log that it is committed.
fn needed(checker: &Checker, server: usize) -> Vec<EnsembleConfig> {
    let proposed = checker.servers[server].log.iter().rev().find_map(|(_, bytes)| proposed_config(bytes));
    let last = checker.committed.configs.last();
    match proposed.filter(|list| list.version > last.version) {
        None => vec![last.clone()],
        Some(list) if checker.activated.contains(&list.version) => vec![list],
        Some(list) => {
            let before = zab_two_quorums::proposal(checker, list.version).map(|(_, before)| before);
            before.into_iter().chain([list]).collect()
        }
    }
}
