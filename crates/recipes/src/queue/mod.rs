//! Queues: items in persistent sequential nodes, taken once or processed at least once.

mod delivery;
mod entry;
mod items;
mod order;

pub use delivery::Delivery;
pub use entry::Entry;
pub use items::Queue;
pub use order::QueueOrder;
