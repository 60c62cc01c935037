//! The client port: listener and connections.

mod address_limits;
mod client_socket;
mod connection_guard;
mod connection_state;
mod connection_task;
mod listener;
mod remote_address;

pub(crate) use address_limits::AddressLimits;
pub(crate) use client_socket::SharedWriter;
#[cfg(test)]
pub(crate) use client_socket::{ClientSocket, WritableSocket};
pub(crate) use listener::ClientListener;
