//! The edge of the server: configuration, listeners, the disk thread and reports for operators.
//!
//! The pure crates below this one decide about requests, sessions and transactions.

mod audit;
mod clock;
pub mod config;
mod core;
mod disk;
mod dynamic_config;
mod feeds;
pub mod four_letter;
#[cfg(test)]
mod interleaving;
mod kerberos_check;
pub mod metrics;
mod net;
mod panic_guard;
mod peers;
mod ports;
mod rate_limited_log;
mod refusal_log;
pub mod rotated_file;
mod run;
mod serve_error;
mod settings;
mod supervisor;
mod sync;
mod threads;
pub mod tls;
mod traffic;
pub mod views;

pub use peers::quorum_dialer::{QuorumConnection, QuorumDialer};
pub use ports::open_files::raise_open_file_limit;
pub use ports::{host_address, peer_ports};
pub use run::{ServerReady, ShutdownMode, run, run_until};
pub use serve_error::ServeError;
pub use supervisor::Supervisor;
