//! The session machine: everything that a client of the protocol decides, and nothing that it does.
//!
//! It has no socket, clock, task or source of randomness. The moment, the bytes and a seed come in as
//! arguments; what is to be done goes out as [`Action`]s and as bytes to write. The same machine runs
//! under tokio, in tests with virtual time and in a simulator.

mod action;
mod connect_string;
mod connecting;
mod failure;
mod frames;
mod hosts;
mod lease;
mod phase;
mod queue;
mod random;
mod receive;
mod request;
mod session;
mod settings;
mod status;
mod timers;
mod watch_table;

pub use action::{Action, Note};
pub use connect_string::{ConnectStringError, DEFAULT_PORT, ServerAddress, ServerList};
pub use failure::{Cause, Delivery, Failure};
pub use hosts::{Hosts, Rebalance};
pub use phase::LinkId;
pub(crate) use queue::units;
pub use random::Random;
pub use request::{Answer, Outcome, Request, WatchIntent, WatchRegistration};
pub use session::Session;
pub use settings::{ReadOnlyServers, SessionCredentials, SessionPolicy, Settings};
pub use status::{SessionInfo, SessionState, Status};
pub use watch_table::{EventKind, WatchEvent, WatcherId};
