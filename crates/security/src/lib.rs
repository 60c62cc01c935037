//! TLS, x509 and SASL: the parts that server, client and tools share.
//!
//! The crate is pure: functions and state machines over bytes. It opens no files and no sockets. Time and
//! nonces are arguments.

mod der;
pub mod jaas;
pub mod java_names;
pub mod sasl;
pub mod secret;
pub mod store;
pub mod verify;
pub mod x500_name;
pub mod x509_id;
