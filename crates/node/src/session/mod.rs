//! Sessions: their ids and their expiry.

mod ended;
mod id;
mod local;
mod moves;
mod tracker;

pub(crate) use ended::EndedSessions;
pub use id::SessionIdGenerator;
pub(crate) use local::{LocalSessionEffect, LocalSessions};
pub(crate) use moves::{MOVE_CXID, MoveRecords, is_move, is_question, question_of};
pub use tracker::{SessionOwner, SessionTracker, TrackedState, TrackerReport};
