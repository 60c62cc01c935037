//! Values that are shared and values that are counted, written exactly once each time.

mod atomic;
mod shared;
mod unique;
mod writer;

pub use atomic::{AtomicLong, AtomicValue, Updated};
pub use shared::{SharedCount, SharedValue, Versioned};
pub use unique::UniqueIds;
