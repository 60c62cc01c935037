//! The edge of the server: configuration, listeners, the disk thread and what operators see.
//!
//! Decisions about requests, sessions and transactions are made in the pure crates below this one.

pub mod config;
pub mod four_letter;
pub mod serve_error;

pub use serve_error::ServeError;

/// Serves with this configuration until the process receives SIGTERM or SIGINT.
///
/// # Errors
/// Says what stopped the server from starting or made it give up; the caller turns it into an exit code.
pub fn run(config: config::ServerConfig) -> Result<(), ServeError> {
    let _ = config;
    Err(ServeError::Internal("the listeners are not part of this build".to_owned()))
}
