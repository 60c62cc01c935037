//! The client port: listener, connections, their limits and their replies.

mod address_limits;
mod client_socket;
mod connection_guard;
mod connection_state;
mod connection_task;
pub(crate) mod connections;
pub(crate) mod large_requests;
mod listener;
mod remote_address;
pub(crate) mod reply_sender;
pub(crate) mod shed;
pub(crate) mod task_waker;
pub(crate) mod unread_answers;

pub(crate) use address_limits::AddressLimits;
pub(crate) use client_socket::SharedWriter;
#[cfg(test)]
pub(crate) use client_socket::{ClientSocket, WritableSocket};
pub(crate) use listener::ClientListener;
