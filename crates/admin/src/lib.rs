//! ZooKeeper's admin server over HTTP: the commands, probes, the API `/v1`, the console, and the listener of
//! the metrics exporter.
//!
//! One thread serves all of it, with limits of its own. It reads the views of a server as the four-letter
//! words do, and never runs on the core's thread. Without an admin server and an exporter, no thread exists.

mod admin_server;
mod admin_state;
mod answers;
mod authorization;
mod command;
mod command_audit;
mod commands_route;
mod console_backend;
mod console_port;
mod exporter_route;
mod forwarded;
mod json;
mod listener;
mod metrics_text;
mod probes;
mod query;
mod rate_limiter;
mod request_origin;
mod restore_route;
mod role_timeline;
mod snapshot_route;
mod timed_stream;
mod v1;

pub use admin_server::{AdminServer, AdminStartError};
pub use console_port::{ConsolePort, console_visitor};
pub use v1::parts;
