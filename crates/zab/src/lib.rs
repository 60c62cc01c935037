//! The agreement protocol: who leads, what is decided. Pure: events and the time come in, actions go out;
//! no sockets, files, clocks, threads or global randomness.

mod action;
mod disk_queue;
pub mod election;
mod entry;
mod event;
mod finding;
mod history;
mod leader;
mod learner;
mod member;
pub mod membership;
mod observer_master;
mod observing;
mod packet_name;
mod peer;
pub mod quorum;
mod role_end;
mod settings;
mod status;
mod teaching;
mod volatile;
mod wanted;

pub use action::{Action, CloseReason, Door, LogPurpose, Serving};
pub use election::Role;
pub use entry::Entry;
pub use event::{Event, IoId, LinkId, LogRead, PingNumber};
pub use finding::Finding;
pub use membership::Configuration;
pub use observing::{ObserverLog, ObserverMasters, Observing};
pub use peer::Peer;
pub use quorum::{HierarchyError, QuorumRule};
pub use settings::{Dynamic, HistoryLimits, LAST_COUNTER, PeerSettings, Recovered, Trust};
pub use status::{LearnerStatus, Status};

use zebu_proto::quorum::Packet;

/// How much a packet counts towards what may wait on a connection: about its bytes.
pub fn weight(packet: &Packet) -> usize {
    const OVERHEAD: usize = 64;
    match packet {
        Packet::Proposal { entry, .. }
        | Packet::Inform { entry, .. }
        | Packet::InformAndActivate { entry, .. } => OVERHEAD + entry.len(),
        Packet::Request { payload, .. } => OVERHEAD + payload.len(),
        _ => OVERHEAD,
    }
}
