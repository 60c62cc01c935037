//! The client port: listener and connections.

mod berth;
mod connection;
mod course;
mod listener;
mod peer;
mod per_address;
mod wire;

pub(crate) use listener::Listener;
pub(crate) use per_address::PerAddress;
pub(crate) use wire::SendingHalf;
#[cfg(test)]
pub(crate) use wire::Wire;
