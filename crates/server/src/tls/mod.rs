//! TLS contexts from files: the keys, trusted certificates and rules of one family, read again when a file
//! changes.
//!
//! `zebu_security` parses stores and checks certificates. Nothing here opens a port.

mod admin_tls;
pub(crate) mod context;
pub(crate) mod counters;
mod expiry;
pub(crate) mod reload;
pub(crate) mod store_file;

pub use admin_tls::AdminTls;
pub(crate) use context::{STORE_FILE_BYTES_MAX, TlsContext, TlsStore};
pub(crate) use reload::ReloadingTls;
