//! Shared values and counters; every write takes effect exactly once.

mod atomic;
mod shared;
mod unique;
mod writer;

pub use atomic::{AtomicLong, AtomicValue, Updated};
pub use shared::{SharedCount, SharedValue, VersionedValue};
pub use unique::UniqueIds;
