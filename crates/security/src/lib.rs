//! TLS, x509 and SASL: the parts that server, client and tools share.
//!
//! The crate is pure: functions and state machines over bytes. It opens no files and no sockets. Time and
//! nonces are arguments. The feature `tls` has all that needs rustls.

// Stores need the parts that names of ACLs do not.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
mod der;
pub mod jaas;
#[cfg(feature = "tls")]
pub mod java_names;
pub mod sasl;
pub mod secret;
#[cfg(feature = "tls")]
pub mod store;
#[cfg(feature = "tls")]
pub mod verify;
pub mod x500_name;
#[cfg(feature = "tls")]
pub mod x509_id;
