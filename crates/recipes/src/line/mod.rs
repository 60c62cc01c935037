//! Standing in line: one ephemeral sequential node per contender in a directory, each of which watches only
//! the one that it waits for. Mutexes, read-write locks, semaphores and elections are built on it.

mod naming;
mod ticket;
mod wait;

pub(crate) use naming::{IdStyle, Kind, Naming};
pub(crate) use ticket::{Broom, Ticket};
pub(crate) use wait::{Line, Patience, step_out, watch_node};
