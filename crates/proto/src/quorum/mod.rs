//! The ports between servers: the packets of leaders and learners, and the messages of the election.

mod announcement;
mod auth_cache;
mod disk_room;
pub mod election;
pub mod packet;
pub mod packet_length;

pub use announcement::{Capabilities, PeerAnnouncement};
pub use auth_cache::AuthCache;
pub use disk_room::DiskRoom;
pub use election::{InitialMessage, Notification, ServerState};
pub use packet::{LearnerInfo, Packet, Touch};
pub use packet_length::{PacketLength, packet_length};
