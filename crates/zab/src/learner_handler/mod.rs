//! The learner handler: synchronization and replication of one learner, for a leader or an observer master.
//! It reads a history with a commit position, and does not decide commits.

mod admission;
mod handler;
mod lag;
mod pings;
mod replication;
mod sync;
mod sync_strategy;

pub(crate) use admission::{admit, is_listed};
pub(crate) use handler::{
    HandlerStep, LearnerHandler, LearnerIdentity, LearnerPosition, LearnerReply, LearnerTimeouts, SyncPhase,
};
pub(crate) use pings::PingStamp;
pub(crate) use replication::{ReplicationView, next_zxid};
