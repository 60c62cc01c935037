//! Reads that say how fresh their answer must be. `receive.rs` decides whether the local state will do; if
//! not, the read keeps its slot behind a fence. `read_fences.rs` and `pass.rs` let the core check several
//! fences at once, and run the reads afterwards.
//!
//! A fence passes when this server has applied every transaction that was committed when the check began.
//! The check is a quorum check at the leader, and a sync at a learner. A read that comes after the beginning
//! of a check waits for the next one.

mod pass;
mod read_fences;
mod receive;
mod replica_freshness;
mod virtual_node;
mod zxid_waiters;

pub(crate) use read_fences::ReadFences;
pub use receive::FenceRequest;
pub use replica_freshness::FreshnessSettings;
pub(crate) use replica_freshness::{ReplicaFreshness, is_at_or_below};

/// The fenced reads of a connection that a fence lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FencedSlots {
    /// The reads in all slots before this one that share a fence.
    Before(u64),
    /// The read in this slot.
    One(u64),
}
