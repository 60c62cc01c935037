//! Standing in line: one ephemeral sequential node per contender in a directory, each of which watches only
//! the one that it waits for. Mutexes, read-write locks, semaphores and elections are built on it.

mod claim;
mod naming;
mod ticket;
mod wait;

pub(crate) use claim::{Claim, claim};
pub(crate) use naming::{IdStyle, Kind, Naming};
pub(crate) use ticket::{Broom, Ticket};
pub(crate) use wait::{Line, Patience, for_a_moment, step_out, step_out_all, watch_node, watch_unreadable};
