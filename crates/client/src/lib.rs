//! An async client for Zebu and Apache ZooKeeper 3.4 to 3.10.

pub mod core;
pub mod path;

pub use crate::core::{ConnectStringError, ServerAddress, ServerList};
