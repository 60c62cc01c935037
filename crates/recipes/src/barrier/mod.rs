//! Barriers: one that somebody raises and lowers, and one that a number of members pass together.

mod double;
mod single;

pub use double::{DoubleBarrier, Entered};
pub use single::Barrier;
