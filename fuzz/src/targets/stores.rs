//! Key stores and trust stores in all formats.

use ring::{digest, hmac};
use zebu_security::secret::SecretText;
use zebu_security::store::{StoreInput, StoreLimits, read_key_store, read_trust_store};

use crate::corpus;

/// Few rounds, so that a run costs little. The recorded stores keep these limits.
const LIMITS: StoreLimits = StoreLimits { file_bytes: 1 << 16, entries: 20, rounds: 10_000, chain: 4 };

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
    let names = ["server.p12", "server-legacy.p12", "trust-openssl.p12", "openssl-plain.p12"];
    corpus::security_files("keystores", &names)
}

/// The bags of a PKCS12 store under a MAC that fits, so that changed bags are read at all.
pub(super) fn bags(data: &[u8]) {
    const SALT: [u8; 8] = [7; 8];
    let password: Vec<u8> = "secret\0".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let block = |bytes: &[u8]| bytes.iter().copied().cycle().take(64).collect::<Vec<u8>>();
    // One round of the key derivation for SHA-256 is one hash.
    let message = [vec![3; 64], block(&SALT), block(&password)].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, digest::digest(&digest::SHA256, &message).as_ref());
    let tag = hmac::sign(&key, data);
    let data_type = [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
    let sha256 = [6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
    let safe = element(0x30, &[&data_type[..], &element(0xa0, &element(4, data))].concat());
    let info = element(0x30, &[element(0x30, &sha256), element(4, tag.as_ref())].concat());
    let mac = element(0x30, &[info, element(4, &SALT), element(2, &[1])].concat());
    run(&element(0x30, &[vec![2, 1, 3], safe, mac].concat()));
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag, 0x84][..], &(content.len() as u32).to_be_bytes(), content].concat()
}

pub(super) fn bags_corpus() -> Vec<Vec<u8>> {
    /// Bytes before the bags in the files of openssl, which end with the length of the bags.
    const HEADER: usize = 30;
    let stores = corpus::security_files("keystores", &["openssl-plain.p12"]);
    let bags = |store: &Vec<u8>| {
        let length = usize::from(store[HEADER - 2]) << 8 | usize::from(store[HEADER - 1]);
        store[HEADER..HEADER + length].to_vec()
    };
    let found: Vec<Vec<u8>> = stores.iter().map(bags).collect();
    found.iter().for_each(|bags| assert_eq!(bags[0], 0x30, "the bags are a sequence"));
    found
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
