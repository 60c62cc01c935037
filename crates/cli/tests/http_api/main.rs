//! The HTTP API of the admin port, with the zebu program and real sockets.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "../admin_common/mod.rs"]
mod admin_common;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/ensemble.rs"]
mod processes;
#[path = "../tls_common/mod.rs"]
mod tls_common;

mod access;
mod api;
mod ensemble;
mod events;
mod feeds;
mod hostile;
mod manual;
mod model;
mod nodes;
mod sessions;
mod walks;
