//! Who begins to lead was accepted by a quorum of the list in effect, and by one of the list that its history
//! proposes, if that was not in effect before.

use std::collections::BTreeSet;

use super::{Judge, zab_two_quorums};
use crate::history::{Verdict, Violation};
use crate::members::{List, proposed_list};

const NAME: &str = "zab_leader_quorums";

pub(super) fn check_leader(judge: &Judge, server: usize, epoch: u32) -> Verdict {
    let is_accepted = |view: &crate::view::ServerView| view.joined_epoch >= i64::from(epoch);
    let accepted: BTreeSet<usize> =
        (0..judge.servers.len()).filter(|&it| is_accepted(&judge.servers[it])).collect();
    for needed in needed(judge, server) {
        if !needed.is_quorum(&accepted) {
            let text = format!(
                "server {server} leads epoch {epoch}, which {accepted:?} have accepted: no quorum of list {:#x}, {:?}",
                needed.version, needed.seats
            );
            return Err(Violation::new(NAME, text));
        }
    }
    Ok(())
}

/// The lists whose quorums a leader needs: of what its log holds it knows only in part that it is decided.
fn needed(judge: &Judge, server: usize) -> Vec<List> {
    let proposed = judge.servers[server].log.iter().rev().find_map(|(_, bytes)| proposed_list(bytes));
    let last = judge.ledger.chronicle.last();
    match proposed.filter(|list| list.version > last.version) {
        None => vec![last.clone()],
        Some(list) if judge.activated.contains(&list.version) => vec![list],
        Some(list) => {
            let before = zab_two_quorums::proposal(judge, list.version).map(|(_, before)| before);
            before.into_iter().chain([list]).collect()
        }
    }
}
