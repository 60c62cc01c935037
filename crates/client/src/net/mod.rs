//! The tokio side of the session machine: one task that owns the machine and its stream, and executes its
//! actions. It makes no protocol decision.

mod clock;
mod command;
mod command_channel;
mod connector;
mod driver;
mod inbox;
mod last_error;
mod lease;
mod mechanism;
mod probe;
mod tls;
mod transport;

pub(crate) use clock::{Suspension, awake_now};
pub(crate) use command::{CompletionSender, DriverCommand, FeedSender, HandoverResult};
pub(crate) use command_channel::{CommandSender, WeakCommandSender, command_channel};
pub use connector::{Connector, TcpConnector};
pub(crate) use driver::ClientDriver;
pub(crate) use inbox::WatcherInbox;
pub(crate) use last_error::LastErrors;
pub use last_error::{ConnectionFailure, ConnectionFailures};
pub(crate) use lease::LeaseDeadline;
pub use tls::{HostNames, Tls, TlsConnector, TlsError};
