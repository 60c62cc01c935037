//! The brain without threads, sockets or clocks: every test says itself when the disk has what, and what
//! time it is.

// Helpers of tests are tests, but clippy only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod auth;
mod chaos;
mod client;
mod confirming;
mod ensemble;
mod ensemble_random;
mod handshake;
mod leader;
mod learner;
mod learner_sessions;
mod limits;
mod local_ensemble;
mod local_leader;
mod local_learner;
mod log;
mod member;
mod order;
mod order_model;
mod order_random;
mod reading;
mod reaper;
mod reconfig;
mod replies;
mod restore;
mod scripted;
mod sessions;
mod trio;
mod watches;
mod world;
