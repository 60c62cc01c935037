//! The session machine under faults, in virtual time: each fault ends in the right error or in recovery,
//! and every call ends exactly once.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod faults;
mod feeds;
mod garbage;
mod lease;
mod lifecycle;
mod moving;
mod rig;
mod sasl;
mod watching;
