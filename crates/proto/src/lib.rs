//! The types and encodings of ZooKeeper's protocols: identifiers, jute encoding, client requests and replies,
//! transaction records, error codes, framing.
//!
//! This crate defines layout, not semantics: it never decides whether a request is allowed. It does no IO,
//! reads no clock and starts no thread.

pub mod acl;
pub mod client;
pub mod error_code;
pub mod frame;
pub mod ids;
pub mod jute;
pub mod op;
pub mod password;
pub mod quorum;
pub mod stat;
pub mod txn;

pub use acl::{Acl, AclList, Id, Permissions};
pub use error_code::ErrorCode;
pub use ids::{ServerId, SessionId, Xid, Zxid};
pub use jute::{Buffer, DecodeError, Jute, Reader, Text};
pub use op::OpCode;
pub use stat::{Stat, StatPersisted};
