//! Ownership of a lock, permit or leadership: how long it is safe, how its loss is reported, and the fencing
//! token that rejects late writes of a former owner.

mod lease;
mod owned_node;
mod policy;
mod state;
mod traits;

pub use policy::{FencingToken, LeasePolicy, LossReason, WhenSuspended};
pub use state::OwnershipState;
pub use traits::{Fenced, Ownership, is_fenced_out, run_while_held};

pub(crate) use lease::{has_lease, wait_for_lease};
pub(crate) use owned_node::OwnedNode;
pub(crate) use state::{OwnershipMonitor, REVOKE, UNLOCK};
