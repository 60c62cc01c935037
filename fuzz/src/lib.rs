//! What strangers can send, and what must come of it: an answer, an error, or a closed connection; never a
//! panic, never a wrong state. Each target is a function over bytes; where there is something to compare,
//! it compares.
//!
//! The targets run for a while as ordinary tests over mutations of real traffic, and for ever under
//! libFuzzer (`fuzz/libfuzzer`).

mod bits;
pub mod corpus;
mod mutation;
mod targets;

pub use mutation::Mutator;
pub use targets::{TARGETS, Target};
