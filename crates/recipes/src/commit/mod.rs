//! Two-phase commit: participants vote, and all of them learn the same decision.

mod coordinator;
mod participant;
mod proposal;
mod tally;
mod vote_node;
mod votes;

pub use coordinator::CommitCoordinator;
pub use participant::CommitParticipant;
pub use votes::{CommitDecision, CommitProtocol, CommitVote};
