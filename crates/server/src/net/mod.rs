//! The client port: listener and connections.

mod connection;
mod listener;
mod peer;

pub(crate) use listener::Listener;
