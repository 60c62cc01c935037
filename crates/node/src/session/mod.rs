//! Sessions: their ids and when they expire.

mod id;
mod tracker;

pub use id::SessionIds;
pub use tracker::{Owner, SessionState, SessionTracker, TrackerReport};
