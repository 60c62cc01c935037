//! Sessions: their ids and when they expire.

mod ended;
mod id;
mod local;
mod tracker;

pub(crate) use ended::EndedSessions;
pub use id::SessionIds;
pub(crate) use local::{LocalSessions, Turn};
pub use tracker::{Owner, SessionState, SessionTracker, TrackerReport};
