//! The edge of the server: configuration, listeners, the disk thread and reports for operators.
//!
//! The pure crates below this one decide about requests, sessions and transactions.

mod clock;
mod collect;
mod collect_member;
pub mod config;
mod connections;
mod context;
mod core;
mod core_executor;
mod disk;
mod disk_backlog;
mod dynamic_config;
pub mod four_letter;
pub mod host_address;
mod inbox;
#[cfg(test)]
mod interleaving;
mod large_requests;
mod long_answers;
mod metrics;
mod net;
mod node_builder;
mod open_files;
mod panic_guard;
pub mod peer_ports;
mod peers;
mod port_probe;
mod purger;
mod rate_limited_log;
mod recovery;
mod reply_sender;
mod run;
mod serve_error;
mod settings;
mod shed;
mod snapshotter;
mod sync;
mod task_waker;
mod threads;
mod unread_answers;

pub use open_files::raise_open_file_limit;
pub use run::{ServerReady, ShutdownMode, run, run_until};
pub use serve_error::ServeError;
