//! A member of an ensemble: what it asks of whoever runs it, and how it serves clients as leader or learner.

mod orders;

pub use orders::{DiskOrder, Order};
