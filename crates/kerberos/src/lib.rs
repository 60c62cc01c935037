//! Kerberos by the system's GSSAPI library: credentials and security contexts for the SASL mechanism GSSAPI.
//!
//! The mechanism itself is in `security`. Calls here block: they read keytabs, write the replay cache and ask
//! the KDC. A caller runs them off its network threads. Without the feature `gssapi` the same calls exist and
//! fail, so that no other crate depends on the library.

mod environment;
mod name;

#[cfg(feature = "gssapi")]
mod acceptor;
#[cfg(feature = "gssapi")]
mod initiator;
#[cfg(feature = "gssapi")]
mod library;

#[cfg(not(feature = "gssapi"))]
mod absent;

#[cfg(not(feature = "gssapi"))]
pub use absent::{AcceptorContext, AcceptorCredential, InitiatorContext, initiate};
#[cfg(feature = "gssapi")]
pub use acceptor::{AcceptorContext, AcceptorCredential};
pub use environment::{LibraryFiles, PRIVATE_CACHE};
#[cfg(feature = "gssapi")]
pub use initiator::{InitiatorContext, initiate};
pub use name::ServiceName;

/// Whether this build has the library.
pub const IS_BUILT_IN: bool = cfg!(feature = "gssapi");
