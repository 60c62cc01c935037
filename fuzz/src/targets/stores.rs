//! Key stores and trust stores in all formats.

use zebu_security::secret::SecretText;
use zebu_security::store::{StoreInput, StoreLimits, read_key_store, read_trust_store};

use crate::corpus;

/// Few rounds, so that a run costs little. The recorded stores keep these limits.
const LIMITS: StoreLimits = StoreLimits { file_bytes: 1 << 16, entries: 20, rounds: 30_000, chain: 4 };

pub(super) fn run(data: &[u8]) {
    let password = SecretText::new("secret");
    let input = StoreInput { limits: LIMITS, ..StoreInput::new(data, &password) };
    if let Ok(store) = read_key_store(&input) {
        assert!(!store.chain.is_empty() && store.chain.len() <= LIMITS.chain);
        assert!(zebu_security::verify::OwnCertificate::new(&store).is_ok(), "the leaf fits the key");
    }
    if let Ok(store) = read_trust_store(&input) {
        assert!(!store.entries.is_empty());
        for entry in &store.entries {
            _ = zebu_security::x509_id::x509_id(&entry.certificate);
            _ = zebu_security::verify::check_hosts(&entry.certificate, &["localhost".to_owned()]);
        }
    }
}

pub(super) fn jks() -> Vec<Vec<u8>> {
    corpus::security_files("keystores", &["server.jks", "trust.jks", "keytool-ec.jks"])
}

pub(super) fn pkcs12() -> Vec<Vec<u8>> {
    corpus::security_files("keystores", &["server.p12", "server-legacy.p12", "trust.p12", "keytool-ec.p12"])
}

pub(super) fn pem() -> Vec<Vec<u8>> {
    let names = [
        "server.pem",
        "trust.pem",
        "enc1.key",
        "enc2.key",
        "k1.key",
        "ecsec1.key",
        "ed25519.pem",
        "sec1-p384.pem",
        "trust-crl.pem",
        "trusted-certificate.pem",
    ];
    corpus::security_files("keystores", &names)
}
