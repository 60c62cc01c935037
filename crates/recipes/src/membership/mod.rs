//! Who is there: nodes that survive the loss of their session, and groups made of them.

mod group;
mod keeper;
mod kept;
mod partitioner;
mod party;
mod ttl;

pub use group::GroupMember;
pub use kept::{IfTaken, KeptAs, KeptNode};
pub use partitioner::{Partitioner, Share};
pub use party::{Party, PartyLayout, PartyMember};
pub use ttl::TtlNode;
