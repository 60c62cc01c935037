//! Barriers: a simple one that exists with its node, and a double one that a number of members pass together.

mod double;
mod single;

pub use double::{DoubleBarrier, EnteredBarrier};
pub use single::Barrier;
