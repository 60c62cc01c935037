//! An async client for Zebu and Apache ZooKeeper 3.4 to 3.10.
//!
//! ```no_run
//! use zebu_client::{Client, ErrorCode, Parents};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181/apps/shop").await?;
//! client.create("/members/a").ephemeral().parents(Parents::Persistent).await?;
//!
//! let (members, changed) = client.children("/members").watched().await?;
//! println!("{:?}", members.names);
//! println!("{:?}", changed.await);
//!
//! match client.get("/config").await {
//!     Ok(node) => println!("{:?} at version {}", node.data, node.stat.version),
//!     Err(error) if error.code() == Some(ErrorCode::NoNode) => println!("no configuration yet"),
//!     Err(error) => return Err(error.into()),
//! }
//! client.close().await?;
//! # Ok(()) }
//! ```
//!
//! - [`Client`] is a cheap handle; clones share one session and thousands of calls can be in flight.
//! - A call is a builder: await it, or [`send`](Get::send) it first and await it later.
//! - An [`Error`] says whether the call was certainly not carried out or may have been. A write with an
//!   unknown outcome is never repeated silently. See [`Retry`] and [`Create::protected`].
//! - Watches are futures ([`OneshotWatcher`]) and streams ([`WatchStream`]); dropping them removes them.
//! - [`Client::states`] reports the session state, [`Client::lease_deadline`] until when the session is safe.
//! - [`Client::connection_failures`] reports each failed connection attempt at once.
//!   [`Client::ready_or_unreachable`] returns an error when every server has failed.
//!
//! The protocol itself is in [`core`], without sockets, clock or tasks.

pub mod api;
pub mod core;
mod net;
pub mod path;

pub use zebu_proto::client::{ChangeKind, CreateMode, CreatedOwner, Freshness};
pub use zebu_proto::{Acl, ErrorCode, Id, Permissions, SessionId, Stat, Zxid};

pub use crate::api::*;
pub use crate::core::{
    Cause, ConnectStringError, EventKind, KerberosFault, KerberosHostNames, KerberosLogin, ReadOnlyServers,
    SaslLogin, SaslRefusal, ServerAddress, ServerList, ServerMoves, SessionCredentials, SessionInfo,
    SessionPolicy, SessionState, SessionStatus, WatchEvent,
};
pub use crate::net::{
    ConnectionFailure, ConnectionFailures, Connector, HostNames, TcpConnector, Tls, TlsConnector, TlsError,
};

#[cfg(test)]
mod tests {
    fn crosses_threads<T: Send + Sync>() {}

    #[test]
    fn handles_cross_threads() {
        crosses_threads::<crate::Client>();
        crosses_threads::<crate::Error>();
        crosses_threads::<crate::WatchStream>();
        crosses_threads::<crate::OneshotWatcher>();
    }
}
