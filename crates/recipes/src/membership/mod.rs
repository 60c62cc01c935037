//! Membership: nodes that survive the loss of their session, and groups built on them.

mod group;
mod partitioner;
mod party;
mod persistent_node;
mod persistent_node_task;
mod session_file;
mod ttl;

pub use group::GroupMember;
pub use partitioner::{AcquiredPartition, Partitioner};
pub use party::{Party, PartyLayout, PartyMember};
pub use persistent_node::{IfOwnedByOther, PersistentNode, PersistentNodeMode};
pub use session_file::{SavedSession, SessionFile, SessionFileError, SessionFileState, SessionOrigin};
pub use ttl::TtlNode;
