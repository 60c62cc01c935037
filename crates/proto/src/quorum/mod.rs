//! The ports between servers: the packets of leaders and learners, and the messages of the election.

pub mod election;
mod known_auth;
pub mod measure;
pub mod packet;

pub use election::{InitialMessage, Notification, PeerState};
pub use known_auth::KnownAuth;
pub use measure::{Measured, measure_packet};
pub use packet::{LearnerInfo, Packet, Touch};
