//! A member of an ensemble: what it asks of whoever runs it, and what it does with what agreement tells it. What
//! it does for clients is the matter of its roles, [`crate::deciding`], [`crate::learning`] and [`crate::reading`].

mod order_queue;
mod orders;
mod reaction;
mod serving;

pub(crate) use order_queue::OrderQueue;
pub use orders::{DiskOrder, Order};
