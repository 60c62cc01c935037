//! An async client for Zebu and Apache ZooKeeper 3.4 to 3.10.

pub mod core;
mod net;
pub mod path;

pub use crate::core::{ConnectStringError, ServerAddress, ServerList};
pub use crate::net::{Connector, TcpConnector};
