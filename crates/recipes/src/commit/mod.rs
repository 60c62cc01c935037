//! Two-phase commit: sites vote, everybody learns the same decision, and nobody is waited for in vain.

mod coordinator;
mod round;
mod site;
mod tally;
mod vote_node;
mod words;

pub use coordinator::CommitCoordinator;
pub use site::CommitSite;
pub use words::{CommitForm, Decision, Vote};
