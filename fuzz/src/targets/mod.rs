//! All targets.

mod client_library;
mod configuration;
mod conversation;
mod credentials;
mod election;
mod files;
mod peer;
mod peer_extremes;
mod requests;
mod sasl;
mod stores;
mod tls_ports;

use crate::corpus::{self, Side};

/// Something that takes bytes from strangers.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// The function under test.
    pub run: fn(&[u8]),
    /// The corpus of real inputs.
    pub corpus: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: [Target; 21] = [
    Target { name: "requests", run: requests::run, corpus: || corpus::client_frames(Side::Client) },
    Target { name: "conversation", run: conversation::run, corpus: conversation::corpus },
    Target { name: "client_library", run: client_library::run, corpus: client_library::corpus },
    Target { name: "election", run: election::run, corpus: || corpus::quorum_messages("election") },
    Target { name: "packets", run: peer::packets, corpus: || corpus::quorum_messages("learner") },
    Target { name: "peer", run: peer::run, corpus: peer::corpus },
    Target { name: "peer_extremes", run: peer_extremes::run, corpus: peer_extremes::corpus },
    Target { name: "log", run: files::log, corpus: || corpus::files("log.") },
    Target { name: "snapshot", run: files::snapshot, corpus: || corpus::files("snapshot.") },
    Target { name: "stream", run: files::stream, corpus: files::streams },
    Target { name: "configuration", run: configuration::run, corpus: configuration::corpus },
    Target { name: "credentials", run: credentials::run, corpus: credentials::corpus },
    Target { name: "jks", run: stores::run, corpus: stores::jks },
    Target { name: "pkcs12", run: stores::run, corpus: stores::pkcs12 },
    Target { name: "pkcs12_bags", run: stores::bags, corpus: stores::bags_corpus },
    Target { name: "pem", run: stores::run, corpus: stores::pem },
    Target { name: "digest_md5", run: sasl::digest, corpus: sasl::digest_corpus },
    Target { name: "jaas", run: sasl::jaas, corpus: sasl::jaas_corpus },
    Target { name: "quorum_auth", run: sasl::quorum, corpus: sasl::quorum_corpus },
    Target { name: "tls_ports", run: tls_ports::run, corpus: tls_ports::corpus },
    Target { name: "principal", run: sasl::principal, corpus: sasl::principal_corpus },
];
