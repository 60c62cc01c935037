//! Addresses and ports: names to addresses, the ports of an ensemble, ports in use, and the limit of open
//! files.

pub mod host_address;
pub(crate) mod open_files;
pub mod peer_ports;
pub(crate) mod port_probe;
