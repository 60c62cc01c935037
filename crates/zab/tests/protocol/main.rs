//! One peer, and every packet that others may send to it, valid or not. A protocol error closes the
//! connection, never the process. Actions that depend on the disk wait for it.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

mod bad_disks;
mod blocked_packets;
mod broken;
mod confirming;
mod desk;
mod later_epochs;
mod leading;
mod learning;
mod membership;
mod moved_sessions;
mod observers_that_become_voters;
mod observing;
mod relay_limits;
mod serving_observers;
mod unreachable_leader;
