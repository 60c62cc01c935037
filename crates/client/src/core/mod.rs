//! The session machine: all decisions of a client of the protocol, without I/O.
//!
//! It has no socket, clock, task or source of randomness. Time, bytes and a seed come in as arguments.
//! [`SessionAction`]s and bytes to write go out. The same machine runs under tokio, in tests with virtual
//! time and in a simulator.

mod action;
mod authentication;
mod closing;
mod connect_string;
mod connecting;
mod failure;
mod feeds;
mod frames;
mod host_provider;
mod kerberos_login;
mod lease;
mod moving;
mod phase;
mod queue;
mod random;
mod receive;
mod request;
mod session;
mod settings;
mod status;
mod submit;
mod timers;
mod watch_table;

pub use action::{LogEvent, SessionAction};
pub(crate) use authentication::SaslLoginKind;
pub use authentication::{KerberosFault, MechanismInput, SaslLogin, SaslRefusal, SaslSettings};
pub use connect_string::{ConnectStringError, DEFAULT_PORT, ServerAddress, ServerList};
pub use failure::{CallFailure, Cause, Delivery};
pub use feeds::{FeedId, FeedSignal};
pub use host_provider::{HostProvider, Rebalance};
pub use kerberos_login::{KerberosHostNames, KerberosLogin};
pub(crate) use moving::{FEATURES_NODE, feature_names};
pub use phase::LinkId;
pub(crate) use queue::units;
pub use random::Random;
pub use request::{CallOutcome, ServerReply, SessionRequest, WatchIntent, WatchRegistration};
pub use session::SessionMachine;
pub use settings::{ReadOnlyServers, ServerMoves, SessionCredentials, SessionPolicy, SessionSettings};
pub use status::{SessionInfo, SessionState, SessionStatus};
pub use watch_table::{EventKind, WatchEvent, WatcherId};
