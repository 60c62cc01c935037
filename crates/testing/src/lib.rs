//! What tests need around a server: one inside the test's own process with faults on demand ([`TestServer`]),
//! several of them as an ensemble ([`TestEnsemble`]), one as a process ([`ServerProcess`]), a client that can
//! send any bytes, and the runner of the recorded exchanges with Apache ZooKeeper.
//!
//! Nothing here is a client for applications: [`RawClient`] blocks, it never reconnects by itself, and it
//! hides nothing of the protocol.

pub mod four_letter;
mod in_process;
pub mod network;
pub mod port;
pub mod raw;
pub mod server_process;
mod tls;
pub mod vectors;
mod with_server;

pub use in_process::{TestEnsemble, TestEnsembleBuilder, TestServer, TestServerBuilder, TestServerError};
pub use raw::{Message, RawClient, Received, Session};
pub use server_process::{Launch, ServerProcess, ServerProcessBuilder};
pub use tls::{old_client_hello, terminate_tls};
pub use with_server::with_server;

/// The page for users is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
pub struct TestingPage;
