//! Acknowledgements are honest: who acknowledges a transaction, an epoch or a new leader has it on disk, and nobody's
//! voice is counted twice for an epoch.

use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::view::ServerView;

const NAME: &str = "zab_acknowledgements";

/// Notes what a leader sends: everything before NEWLEADER belongs to the history that is acknowledged with it.
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

pub(super) fn check_packet(judge: &mut Judge, server: usize, packet: &Packet) -> Verdict {
    let voice = count_voice(&mut judge.servers[server], packet);
    let view = &judge.servers[server];
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
            .then(|| format!("its disk has promised only epoch {}", view.accepted_epoch)),
        _ => voice,
    };
    match fault {
        None => Ok(()),
        Some(fault) => Err(Violation::new(NAME, format!("server {server} sends {packet:?}, but {fault}"))),
    }
}

/// A voice counts once for an epoch, the own one of a leader included. -1 in either field says that it does not.
fn count_voice(view: &mut ServerView, packet: &Packet) -> Option<String> {
    let Packet::AckEpoch { last, current_epoch } = packet else { return None };
    if last.0 == -1 || *current_epoch == -1 {
        return None;
    }
    if view.counted_epoch >= view.proposed_epoch && !view.rotten {
        return Some(format!("its voice was counted for epoch {} before", view.counted_epoch));
    }
    view.counted_epoch = view.proposed_epoch;
    None
}
