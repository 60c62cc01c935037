//! Leader election and atomic broadcast (Zab). The crate is pure: events and the time come in, actions go
//! out. It has no sockets, files, clocks, threads or global randomness.

mod action;
mod disk_health;
mod disk_queue;
pub mod election;
mod encoded_txn;
mod event;
mod history;
mod latency;
mod leader;
mod learner;
mod learner_handler;
pub mod membership;
mod memory_only;
mod moved_session;
mod observer_master;
mod observer_settings;
mod packet_name;
mod peer;
mod peer_context;
pub mod quorum;
mod role;
mod settings;
mod status;
mod step_down;
mod sync_need;
mod warning;
mod zab_state;

pub use action::{
    Action, ConfigEffect, DiskCommand, LearnerPort, LinkCloseReason, LogPurpose, PeerEffect, ServingRole,
};
pub use disk_health::{DiskStatus, HandOverReason, HandOverRefusal};
pub use encoded_txn::EncodedTxn;
pub use event::{IoId, LinkId, LogRead, PeerEvent, PingNumber};
pub use membership::Configuration;
pub use moved_session::{is_refused_as_moved, refused_request};
pub use observer_settings::{ObserverLog, ObserverMasters, ObserverSettings};
pub use peer::Peer;
pub use quorum::{HierarchyError, QuorumRule};
pub use role::Role;
pub use settings::{DiskTrust, DynamicConfig, HistoryLimits, LAST_COUNTER, PeerSettings, RecoveredHistory};
pub use status::{LearnerStatus, PeerStatus};
pub use warning::PeerWarning;

use zebu_proto::quorum::Packet;

/// The weight of a packet in a send queue: about its bytes.
pub fn packet_weight(packet: &Packet) -> usize {
    const OVERHEAD: usize = 64;
    const TOUCH: usize = 12;
    match packet {
        Packet::Proposal { entry, .. }
        | Packet::Inform { entry, .. }
        | Packet::InformAndActivate { entry, .. } => OVERHEAD + entry.len(),
        Packet::Request { payload, auth, .. } => {
            let ids = auth.iter().flat_map(|ids| ids.iter());
            let texts = ids.flat_map(|id| [&id.scheme, &id.id]).flatten();
            OVERHEAD + payload.len() + texts.map(|text| text.len()).sum::<usize>()
        }
        Packet::PingReply { touched, .. } => OVERHEAD + TOUCH * touched.len(),
        Packet::Ack { .. }
        | Packet::Commit { .. }
        | Packet::Ping { .. }
        | Packet::Revalidate { .. }
        | Packet::Revalidated { .. }
        | Packet::Sync
        | Packet::CommitAndActivate { .. }
        | Packet::NewLeader { .. }
        | Packet::FollowerInfo { .. }
        | Packet::UpToDate
        | Packet::Diff { .. }
        | Packet::Trunc { .. }
        | Packet::Snap { .. }
        | Packet::ObserverInfo { .. }
        | Packet::LeaderInfo { .. }
        | Packet::AckEpoch { .. } => OVERHEAD,
    }
}
