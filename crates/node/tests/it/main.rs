//! The brain without threads, sockets or clocks: every test says itself when the disk has what, and what
//! time it is.

// Helpers of tests are tests, but clippy only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod client;
mod handshake;
mod order;
mod sessions;
mod world;
