//! SASL mechanisms, JAAS files and Kerberos names over recorded exchanges and cases.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

mod digest_md5;
mod digest_response;
mod gssapi;
mod jaas;
mod principal;
mod quorum;
mod recorded;
