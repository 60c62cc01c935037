//! A whole running backup, with a leader and a target in memory: what it stores, and what ends it.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod failures;
mod gate;
mod histories;
mod leader;
mod running;
mod verification;
