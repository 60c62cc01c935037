//! Elections: one leader at a time, with a term that ends by itself when it cannot be sure any more.

mod latch;
mod leadership;
mod selector;
mod simple;

pub use latch::{LeaderLatch, Role};
pub use leadership::{Leadership, Participant};
pub use selector::LeaderSelector;
pub use simple::SimpleElection;
