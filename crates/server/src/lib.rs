//! The edge of the server: configuration, listeners, the disk thread and what operators see.
//!
//! Decisions about requests, sessions and transactions are made in the pure crates below this one.

mod bell;
mod brain;
mod clock;
pub mod config;
mod core;
mod core_seat;
mod disk;
mod disk_backlog;
mod dynamic_config;
mod findings;
pub mod four_letter;
pub mod host_address;
mod inbox;
mod lanes;
mod large_requests;
mod member_disk;
mod member_words;
mod metrics;
mod net;
mod open_files;
pub mod peer_ports;
mod peers;
mod port_probe;
mod post;
mod purger;
mod recovery;
mod run;
mod serve_error;
mod settings;
mod shared;
mod shedding;
mod snapshotter;
mod threads;
mod vital;
mod words;

pub use open_files::raise_limit;
pub use run::{Ready, Stop, run, run_until};
pub use serve_error::ServeError;
