//! One member, and everything that others may say to it, right or wrong. What breaks the protocol costs the
//! other side its connection, never this process; what must wait for the disk waits.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

mod broken;
mod confirming;
mod desk;
mod later_epochs;
mod leading;
mod learning;
mod membership;
mod observing;
mod serving_observers;
