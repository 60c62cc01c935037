//! The client port: listener and connections.

mod connection;
mod listener;
mod peer;
mod wire;

pub(crate) use listener::Listener;
pub(crate) use wire::SendingHalf;
#[cfg(test)]
pub(crate) use wire::Wire;
