//! Elections: one leader at a time, with a term that ends when leadership is no longer certain.

mod latch;
mod leadership;
mod selector;
mod simple;

pub use latch::{LatchRole, LeaderLatch};
pub use leadership::{ElectionParticipant, Leadership};
pub use selector::LeaderSelector;
pub use simple::SimpleElection;
