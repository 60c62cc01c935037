//! The audit trail: which lines the writes of clients and the ends of sessions give. Pure: the caller takes
//! the events and writes them.
//!
//! A server records the writes of its own clients when their transaction is applied, and the ephemeral nodes
//! of every session that ends. A server without audit log has no trail, which costs one branch per write.

mod event;
mod line;
mod request;
mod trail;

pub use event::{AuditEvent, AuditOperation, AuditResult, AuditUser};
pub use line::{AuditLevel, escape};
pub(crate) use trail::{AuditTrail, WriteAdmission};
