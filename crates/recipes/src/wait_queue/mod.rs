//! The wait queue: one ephemeral sequential node per contender in a directory. Each contender watches only
//! the node that it waits for. Mutexes, read-write locks, semaphores and elections are built on it.

mod exclusive_node;
mod naming;
mod node;
mod queue;

pub(crate) use exclusive_node::{ExclusiveCreate, create_exclusive};
pub(crate) use naming::{ContenderNaming, LockMode};
pub(crate) use node::QueueNode;
pub(crate) use queue::{
    WaitLimit, WaitQueue, leave_queue, leave_queue_all, watch_node, watch_unreadable, with_leave_timeout,
};
