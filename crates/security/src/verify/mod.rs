//! Certificate checks for rustls that accept the certificates that Java accepts, on both sides.

mod client;
mod fields;
mod host;
mod own;
mod path;
mod policy;
mod server;
mod validity;

pub use client::{ClientCertDemand, JavaClientVerifier};
pub use host::{HostCheckError, check_hosts};
pub use own::{OwnCertificate, OwnCertificateError};
pub use path::unusual_leaf;
pub use policy::{CertificatePolicy, CertificateUsage, PolicyError, RevocationMode};
pub use server::{JavaServerVerifier, NameCheck};
pub use validity::CertificateValidity;
