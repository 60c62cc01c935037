//! The tokio side of the session machine: one task that owns the machine and its stream, and carries out
//! what the machine asks for. It decides nothing about the protocol.

mod clock;
mod command;
mod connector;
mod driver;
mod inbox;
mod lease;
mod probe;
mod stage;
mod tls;
mod trouble;

pub(crate) use clock::{Suspension, awake_now};
pub(crate) use command::{Command, HandedOver, Ticket};
pub use connector::{Connector, TcpConnector};
pub(crate) use driver::Driver;
pub(crate) use inbox::Inbox;
pub(crate) use lease::Lease;
pub use tls::{HostNames, Tls, TlsConnector, TlsError};
pub(crate) use trouble::Trouble;
pub use trouble::{ConnectionFailure, ConnectionFailures};
