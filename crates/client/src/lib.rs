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
//!
//! # Where to find a call
//!
//! | Purpose | Calls |
//! |---|---|
//! | read | [`get`], [`exists`], [`children`], [`multi_read`] |
//! | write | [`create`], [`set`], [`delete`], [`transaction`] |
//! | watch once | [`Get::watched`], [`Exists::watched`], [`Children::watched`] |
//! | persistent watches | [`watch`] |
//! | long lists | [`Children::pages`], [`scan`] |
//! | fresh reads | [`sync`], [`Get::linearizable`], [`Get::fresher_than`] |
//! | committed transactions in order | [`feed`] |
//! | access control | [`get_acl`], [`set_acl`], [`add_auth`] |
//! | members of the ensemble | [`config`], [`watch_config`], [`reconfigure`] |
//!
//! [`get`]: Client::get
//! [`exists`]: Client::exists
//! [`children`]: Client::children
//! [`multi_read`]: Client::multi_read
//! [`create`]: Client::create
//! [`set`]: Client::set
//! [`delete`]: Client::delete
//! [`transaction`]: Client::transaction
//! [`watch`]: Client::watch
//! [`scan`]: Client::scan
//! [`sync`]: Client::sync
//! [`feed`]: Client::feed
//! [`get_acl`]: Client::get_acl
//! [`set_acl`]: Client::set_acl
//! [`add_auth`]: Client::add_auth
//! [`config`]: Client::config
//! [`watch_config`]: Client::watch_config
//! [`reconfigure`]: Client::reconfigure
//!
//! # Runtime
//!
//! The client needs a tokio runtime with IO and time; a current-thread runtime is enough. It spawns one task
//! per session, and that task owns the connection. A runtime that ends takes the task along: the session then
//! expires after its timeout. Call [`Client::close`] before the runtime ends.
//!
//! # Errors
//!
//! [`Error::kind`] has the reason as an [`ErrorKind`]. Two questions decide what a program does next:
//!
//! - [`Error::code`]: the server's [`ErrorCode`], for example [`ErrorCode::NoNode`]. The call had no effect.
//! - [`Error::is_ambiguous`]: the request was sent without a reply. A write was carried out once or not at
//!   all.
//!
//! The [`Retry`] of the client or of the call repeats what is safe to repeat. The enums of errors are
//! `#[non_exhaustive]`, so that new reasons can be added.
//!
//! # Cancellation
//!
//! Every future can be dropped at any time, and the session goes on. Dropping a future does not cancel its
//! call: a request that was queued or sent is carried out as long as the server replies. A protected create
//! whose future is dropped is removed in the background.
//!
//! # Features
//!
//! | Feature | Default | Effect |
//! |---|---|---|
//! | `kerberos` | off | `SaslLogin::kerberos` (GSSAPI); links the system's library |
//!
//! TLS, by rustls with ring, and SASL DIGEST-MD5 are always there.
//!
//! # Versions
//!
//! The crate follows Semantic Versioning. Before 1.0.0 the interface may change between minor versions, and
//! the changelog lists each change; patch versions change nothing that compiles. The interface contains types
//! of `bytes`, `futures-core` (streams) and `tokio` (`watch` receivers); a new major version of one of them
//! needs a new minor version here. The minimum Rust version is 1.90. It rises only with a minor version.

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

/// Compiles the page of the package as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ClientReadme;

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
