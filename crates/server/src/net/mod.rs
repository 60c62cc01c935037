//! The client port: listener, connections, their limits and their replies.

mod address_limits;
pub(crate) mod client_listeners;
pub(crate) mod client_sasl;
mod client_socket;
mod connection_guard;
mod connection_state;
mod connection_task;
pub(crate) mod connections;
pub(crate) mod large_requests;
mod listener;
pub(crate) mod local_connection;
pub(crate) mod login_reload;
pub(crate) mod port_protection;
mod remote_address;
pub(crate) mod reply_sender;
pub(crate) mod shed;
pub(crate) mod task_waker;
mod tls_handshake;
mod tls_socket;
pub(crate) mod unread_answers;

pub(crate) use address_limits::AddressLimits;
pub(crate) use client_socket::SharedWriter;
#[cfg(test)]
pub(crate) use client_socket::{ClientSocket, WritableSocket};
pub(crate) use port_protection::ClientPortKind;
pub(crate) use tls_handshake::TlsUse;
