//! What tests need around a server: a process on a free port with a directory of its own, a client that
//! can send any bytes, and the runner of the recorded exchanges with Apache ZooKeeper.
//!
//! Nothing here is a client for applications: it blocks, it never reconnects by itself, and it hides
//! nothing of the protocol.

pub mod four_letter;
pub mod port;
pub mod raw;
pub mod server_process;
pub mod vectors;

pub use raw::{Message, RawClient, Received, Session};
pub use server_process::{Launch, ServerProcess, ServerProcessBuilder};
