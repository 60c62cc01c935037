//! Acknowledgements are durable: a server that acknowledges a transaction, an epoch or a NEWLEADER has it on
//! disk. The ack of a server counts only once for an epoch.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_zab::ObserverLog;

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::members::{EnsembleConfig, VoteRight};
use crate::view::ServerView;

const NAME: &str = "zab_acknowledgements";

/// Records the packets of a leader: everything before NEWLEADER belongs to the history that is acknowledged
/// with it.
pub(super) fn note_received(view: &mut ServerView, packet: &Packet) {
    match packet {
        Packet::Diff { .. } | Packet::Trunc { .. } => view.offered = 0,
        Packet::Snap { zxid } | Packet::Proposal { zxid, .. } | Packet::Inform { zxid, .. } => {
            view.offered = zxid.0;
        }
        Packet::NewLeader { .. } => view.initial = view.offered,
        Packet::LeaderInfo { zxid, .. } => view.proposed_epoch = i64::from(zxid.epoch()),
        _ => {}
    }
}

/// A voter that becomes an observer without a log keeps its link for a moment, and writes nothing more.
pub(super) fn note_activation(checker: &mut Checker, server: usize, list: &EnsembleConfig) {
    let becomes_observer = list.servers.get(&server).is_some_and(|seat| seat.vote == VoteRight::Lacks);
    if becomes_observer && checker.observer_log == ObserverLog::InMemory {
        checker.servers[server].in_memory = true;
    }
}

pub(super) fn check_packet(checker: &mut Checker, server: usize, packet: &Packet) -> CheckResult {
    let counted_twice = record_ack(&mut checker.servers[server], packet);
    let observer_log = checker.observer_log;
    let view = &mut checker.servers[server];
    match packet {
        Packet::ObserverInfo { .. } => view.in_memory = observer_log == ObserverLog::InMemory,
        Packet::FollowerInfo { .. } => view.in_memory = false,
        // The ack of an observer without a log confirms that it serves, not that it has written anything.
        Packet::Ack { zxid } if view.in_memory && zxid.counter() == 0 => return Ok(()),
        _ => {}
    }
    let view = &checker.servers[server];
    let fault = match packet {
        Packet::Ack { zxid } if zxid.counter() != 0 => {
            (view.durable < zxid.0).then(|| format!("its disk has confirmed only {}", Zxid(view.durable)))
        }
        Packet::Ack { zxid } => {
            let epoch = i64::from(zxid.epoch());
            if view.current_epoch != epoch {
                Some(format!("its disk has confirmed only epoch {}", view.current_epoch))
            } else {
                (view.durable < view.initial).then(|| {
                    format!("of the history up to {:#x} only {:#x} is on disk", view.initial, view.durable)
                })
            }
        }
        Packet::LeaderInfo { zxid, .. } => (view.accepted_epoch < i64::from(zxid.epoch()))
            .then(|| format!("its disk has accepted only epoch {}", view.accepted_epoch)),
        _ => counted_twice,
    };
    match fault {
        None => Ok(()),
        Some(fault) => Err(Violation::new(NAME, format!("server {server} sends {packet:?}, but {fault}"))),
    }
}

/// An ack counts once for an epoch, including the leader's own. -1 in either field says that it does not
/// count.
fn record_ack(view: &mut ServerView, packet: &Packet) -> Option<String> {
    let Packet::AckEpoch { last, current_epoch } = packet else { return None };
    if last.0 == -1 || *current_epoch == -1 {
        return None;
    }
    if view.counted_epoch >= view.proposed_epoch && !view.rotten {
        return Some(format!("its ack was counted for epoch {} before", view.counted_epoch));
    }
    view.counted_epoch = view.proposed_epoch;
    None
}
