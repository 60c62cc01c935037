//! The node without threads, sockets or clocks: each test controls the disk and the time.

// Helpers of tests are tests, but clippy only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod audit;
mod auth;
mod between_leaders;
mod client;
mod drain;
mod ensemble;
mod ensemble_random;
mod feeds;
mod freshness;
mod handshake;
mod keeper;
mod leader;
mod leadership_check;
mod learner;
mod learner_sessions;
mod limits;
mod listings;
mod local_ensemble;
mod local_leader;
mod local_learner;
mod log;
mod member;
mod node_fixture;
mod order;
mod order_model;
mod order_random;
mod random_connections;
mod read_only;
mod read_work;
mod reaper;
mod reconfig;
mod replies;
mod restore;
mod room;
mod sasl;
mod scripted_peer;
mod sessions;
mod suspended;
mod three_nodes;
mod traffic;
mod watches;
