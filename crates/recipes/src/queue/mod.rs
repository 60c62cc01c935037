//! Queues: items in persistent sequential nodes, delivered at most once or at least once.

mod distributed_queue;
mod item;
mod leased_item;
mod order;

pub use distributed_queue::DistributedQueue;
pub use item::QueueItem;
pub use leased_item::LeasedItem;
pub use order::QueueOrder;
