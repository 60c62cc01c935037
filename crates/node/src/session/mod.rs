//! Sessions: their ids and their expiry.

mod ended;
mod id;
mod local;
mod tracker;

pub(crate) use ended::EndedSessions;
pub use id::SessionIdGenerator;
pub(crate) use local::{LocalSessionEffect, LocalSessions};
pub use tracker::{SessionOwner, SessionTracker, TrackedState, TrackerReport};
