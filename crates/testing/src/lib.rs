//! Servers for tests: one inside the test's own process with faults on demand ([`TestServer`]), several as an
//! ensemble ([`TestEnsemble`]), one as a process ([`ServerProcess`]). [`RawClient`] sends any bytes, and
//! [`vectors`] runs the recorded exchanges with Apache ZooKeeper.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use zebu_client::Client;
//! use zebu_testing::TestServer;
//!
//! let server = TestServer::start().await?;
//! let client = Client::connect(&server.connect_string()).await?;
//! client.create("/counter").data("0").await?;
//!
//! // A crash. Acknowledged writes and the session survive it.
//! let session = client.session().id;
//! server.kill().await?;
//! server.restart().await?;
//! assert_eq!(&client.get("/counter").await?.data[..], b"0");
//! assert_eq!(client.session().id, session);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! Nothing here is a client for applications: [`RawClient`] blocks, it never reconnects by itself, and it
//! hides nothing of the protocol.
//!
//! # Which server
//!
//! | Type | Use it for |
//! |---|---|
//! | [`TestServer`] | most tests: a start takes milliseconds, and faults need one call |
//! | [`TestEnsemble`] | leader changes, partitions, reads from followers |
//! | [`ServerProcess`] | tests of a binary: signals, exit statuses, output |
//! | [`with_server`] | examples, and tests without a runtime of their own |
//!
//! # Runtime and cancellation
//!
//! [`TestServer`] and [`TestEnsemble`] need a tokio runtime with IO and time. The server has threads of its
//! own. A dropped handle ends the server and deletes its directory. A dropped future of `restart` may leave
//! the server stopped; call `restart` again.
//!
//! # Errors
//!
//! [`TestServerError`] names the operation and the error of the system. It is a failure of the machine or of
//! the configuration; faults on demand appear as errors of the client under test.
//!
//! # Features and versions
//!
//! The crate has no features. It follows Semantic Versioning: before 1.0.0 the interface may change between
//! minor versions, and the changelog lists each change. The server inside has the version of the crate. The
//! minimum Rust version is 1.90; it rises only with a minor version.

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

/// Runs the page of the package as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct TestingReadme;

/// The page for users is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
pub struct TestingPage;
