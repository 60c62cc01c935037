//! Store readers over files of keytool, openssl and pyjks, and over damaged ones.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

use std::fs;
use std::path::Path;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use serde_json::Value;
use zebu_security::secret::SecretText;
use zebu_security::store::{
    KeyStore, StoreError, StoreInput, StoreLimits, StoreType, TrustStore, read_key_store, read_trust_store,
};

fn file(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/keystores").join(name)).unwrap()
}

fn text(name: &str) -> String {
    String::from_utf8(file(name)).unwrap()
}

fn key_store(bytes: &[u8], password: &str) -> Result<KeyStore, StoreError> {
    read_key_store(&StoreInput::new(bytes, &SecretText::new(password)))
}

fn trust_store(bytes: &[u8], password: &str) -> Result<TrustStore, StoreError> {
    read_trust_store(&StoreInput::new(bytes, &SecretText::new(password)))
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn manifest() -> Value {
    serde_json::from_slice(&file("manifest.json")).unwrap()
}

fn assert_is_server(store: &KeyStore) {
    let manifest = manifest();
    assert_eq!(sha256(store.private_key().secret_der()), manifest["server_key_pkcs8_sha256"]);
    assert_eq!(sha256(&store.chain[0]), manifest["server_certificate_sha256"]);
}

fn error_text(result: Result<KeyStore, StoreError>) -> String {
    result.unwrap_err().to_string()
}

/// The file of the manifest with the server's certificate, so that a bare key makes a store.
fn with_certificates(key: &str) -> Vec<u8> {
    let server = text("server.pem");
    let certificates = &server[server.find("-----BEGIN CERTIFICATE").unwrap()..];
    format!("{}\nsome text\n{certificates}", text(key)).into_bytes()
}

#[test]
fn every_file_of_the_manifest_is_read() {
    let manifest = manifest();
    let ca = manifest["ca_certificate_sha256"].as_str().unwrap();
    for entry in manifest["files"].as_array().unwrap() {
        let name = entry["file"].as_str().unwrap();
        let password = entry["password"].as_str().unwrap_or_default();
        let expected = match entry["content"].as_str().unwrap() {
            "PKCS12" => StoreType::Pkcs12,
            "JKS" => StoreType::Jks,
            _ => StoreType::Pem,
        };
        match name {
            "trust-openssl.p12" => {
                let store = trust_store(&file(name), password).unwrap();
                assert_eq!(store.entries.len(), 1);
                assert!(store.notes[0].contains("Java would see an empty store"), "{:?}", store.notes);
            }
            _ if name.starts_with("trust") => {
                let store = trust_store(&file(name), password).unwrap();
                assert_eq!((store.entries.len(), store.found), (1, expected), "{name}");
                assert_eq!(sha256(&store.entries[0].certificate), ca, "{name}");
            }
            "pyjks-trust.jks" => {
                assert_eq!(trust_store(&file(name), password).unwrap().entries.len(), 1);
            }
            "pyjks-key.jks" => {
                let store = key_store(&file(name), password).unwrap();
                assert!(!store.chain.is_empty());
            }
            "ecsec1.key" => {
                // No certificate belongs to this key, so that only the key itself is read.
                let result = key_store(&with_certificates(name), password);
                assert!(matches!(result, Err(StoreError::KeyDoesNotFit { .. })), "{result:?}");
            }
            _ if name.ends_with(".key") => {
                assert_is_server(&key_store(&with_certificates(name), password).unwrap());
            }
            _ => {
                let store = key_store(&file(name), password).unwrap();
                assert_eq!(store.found, expected, "{name}");
                assert_is_server(&store);
                assert_eq!(store.chain.len(), 2, "{name}");
                assert_eq!(sha256(&store.chain[1]), ca, "{name}");
            }
        }
    }
}

#[test]
fn a_wrong_or_missing_password_is_named() {
    for name in ["server.p12", "server-legacy.p12", "server.jks", "server-p12inside.jks"] {
        for password in ["", "Secret", "secret "] {
            let result = key_store(&file(name), password);
            assert!(matches!(result, Err(StoreError::WrongPassword { .. })), "{name}: {result:?}");
        }
    }
    for name in ["trust.jks", "trust.p12"] {
        let result = trust_store(&file(name), "");
        assert!(matches!(result, Err(StoreError::WrongPassword { .. })), "{name}: {result:?}");
    }
    for name in ["enc1.key", "enc2.key"] {
        let result = key_store(&with_certificates(name), "wrong");
        assert!(matches!(result, Err(StoreError::WrongPassword { .. })), "{name}: {result:?}");
        let result = key_store(&with_certificates(name), "");
        assert!(matches!(result, Err(StoreError::PasswordMissing { .. })), "{name}: {result:?}");
    }
}

#[test]
fn keys_of_java_get_their_public_half_from_the_certificate() {
    for name in ["keytool-ec.p12", "keytool-ec.jks"] {
        let store = key_store(&file(name), "secret").unwrap();
        assert_eq!((store.chain.len(), store.place.as_str()), (1, "alias e"), "{name}");
    }
}

#[test]
fn other_encryptions_and_key_types() {
    for name in ["pbes2-des3.key", "pbes1-rc2.key"] {
        assert_is_server(&key_store(&with_certificates(name), "secret").unwrap());
    }
    for name in ["ed25519.pem", "sec1-p384.pem"] {
        assert_eq!(key_store(&file(name), "").unwrap().chain.len(), 1, "{name}");
    }
    let error = error_text(key_store(&file("p521.pem"), ""));
    assert!(error.contains("P-256 or P-384"), "{error}");
    let error = error_text(key_store(&with_certificates("scrypt.key"), "secret"));
    assert!(error.contains("scrypt") && error.contains("openssl pkcs8"), "{error}");
    let error = error_text(key_store(&with_certificates("proc-type.key"), "secret"));
    assert!(error.contains("line 1") && error.contains("openssl pkcs8"), "{error}");
}

#[test]
fn the_order_of_pem_blocks_does_not_matter() {
    let server = text("server.pem");
    let start = server.find("-----BEGIN CERTIFICATE").unwrap();
    let second = start + 10 + server[start + 10..].find("-----BEGIN CERTIFICATE").unwrap();
    let (key, leaf, ca) = (&server[..start], &server[start..second], &server[second..]);
    assert_is_server(&key_store(format!("{leaf}{ca}{key}").as_bytes(), "").unwrap());
    assert_is_server(&key_store(server.replace('\n', "\r\n").as_bytes(), "").unwrap());
    let swapped = key_store(format!("{ca}{key}{leaf}").as_bytes(), "").unwrap();
    assert_is_server(&swapped);
    assert!(swapped.notes[0].contains("sent first"), "{:?}", swapped.notes);

    let other = text("ecsec1.key");
    let two = key_store(format!("{other}{key}{leaf}").as_bytes(), "").unwrap();
    assert_is_server(&two);
    assert!(two.notes.iter().any(|note| note.contains("2 private keys")), "{:?}", two.notes);

    assert_is_server(&key_store(format!("0 s:CN = localhost\n{server}").as_bytes(), "").unwrap());

    let with_password = key_store(server.as_bytes(), "unused").unwrap();
    assert!(with_password.notes[0].contains("not encrypted"), "{:?}", with_password.notes);
    let result = key_store(key.as_bytes(), "");
    assert!(matches!(result, Err(StoreError::NoCertificate { .. })));
    assert_eq!(key_store(leaf.as_bytes(), "").unwrap_err(), StoreError::NoPrivateKey);
}

#[test]
fn pem_trust_stores_keep_all_certificates_and_crls() {
    let store = trust_store(&file("trust-crl.pem"), "").unwrap();
    assert_eq!((store.entries.len(), store.crls.len()), (1, 1));
    let trusted = trust_store(&file("trusted-certificate.pem"), "").unwrap();
    assert_eq!(sha256(&trusted.entries[0].certificate), manifest()["server_certificate_sha256"]);
    let twice = [file("trust.pem"), file("trust.pem"), file("trust-crl.pem")].concat();
    assert_eq!(trust_store(&twice, "").unwrap().entries.len(), 2);
    let error = trust_store(b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n", "");
    assert_eq!(error.unwrap_err(), StoreError::NoTrustedCertificate);
    assert_eq!(trust_store(&file("server.p12"), "secret").unwrap_err(), StoreError::NoTrustedCertificate);
    assert_eq!(trust_store(&file("server.jks"), "secret").unwrap_err(), StoreError::NoTrustedCertificate);
}

#[test]
fn the_content_decides_and_a_contradiction_is_a_note() {
    let password = SecretText::new("secret");
    let bytes = file("server-p12inside.jks");
    let input = StoreInput { declared: Some(StoreType::Jks), ..StoreInput::new(&bytes, &password) };
    let store = read_key_store(&input).unwrap();
    assert!(store.notes[0].contains("declared as JKS and contains PKCS12"), "{:?}", store.notes);

    let declared = |bytes: &[u8], declared| {
        let input = StoreInput { declared: Some(declared), ..StoreInput::new(bytes, &password) };
        read_key_store(&input).unwrap_err().to_string()
    };
    assert!(declared(&[0x30, 2, 0x30, 0], StoreType::Bcfks).contains("keytool -importkeystore"));
    assert!(declared(b"anything", StoreType::Bcfks).contains("BCFKS"));
    assert!(error_text(key_store(&[0xce, 0xce, 0xce, 0xce, 0], "")).contains("JCEKS"));
    assert_eq!(key_store(b"", "").unwrap_err(), StoreError::EmptyFile);
    assert_eq!(key_store(b"hello", "").unwrap_err(), StoreError::UnknownContent);

    assert_eq!(StoreType::from_name("pkcs12"), Some(StoreType::Pkcs12));
    assert_eq!(StoreType::from_name("PFX"), None);
    assert_eq!(StoreType::from_file_name("a.bcfks"), Some(StoreType::Bcfks));
    assert_eq!(StoreType::from_file_name("a.PEM"), None);
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32;
    let mut out = vec![tag, 0x84];
    out.extend(length.to_be_bytes());
    out.extend_from_slice(content);
    out
}

/// A PKCS12 file with no content, whose MAC asks for this many rounds.
fn pkcs12_with_rounds(rounds: &[u8]) -> Vec<u8> {
    let data = [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
    let sha256 = [6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
    let safe = element(0x30, &[&data[..], &element(0xa0, &element(4, &element(0x30, &[])))].concat());
    let info = element(0x30, &[element(0x30, &sha256), element(4, &[0; 32])].concat());
    let mac = element(0x30, &[info, element(4, &[1; 8]), element(2, rounds)].concat());
    element(0x30, &[vec![2, 1, 3], safe, mac].concat())
}

#[test]
fn pkcs12_files_are_bounded() {
    let error = key_store(&pkcs12_with_rounds(&[0, 0x80, 0, 0, 0]), "secret").unwrap_err();
    assert!(matches!(error, StoreError::Limit { found: 0x8000_0000, .. }), "{error}");
    let error = error_text(key_store(&pkcs12_with_rounds(&[1, 0, 0, 0, 0]), "secret"));
    assert!(error.contains("out of range"), "{error}");
    assert!(error_text(key_store(&pkcs12_with_rounds(&[0]), "secret")).contains("0 rounds"));
    let result = key_store(&pkcs12_with_rounds(&[2]), "secret");
    assert!(matches!(result, Err(StoreError::WrongPassword { .. })), "{result:?}");

    let nested: Vec<u8> = (0..10_000).fold(Vec::new(), |inner, _| element(0x30, &inner));
    assert!(key_store(&nested, "secret").is_err());
    let indefinite = [0x30, 0x80].repeat(10_000);
    assert!(error_text(key_store(&indefinite, "secret")).contains("indefinite"));
    assert_eq!(key_store(&file("openssl-nomac.p12"), "secret").unwrap_err(), StoreError::MacMissing);
    assert_is_server(&key_store(&file("openssl-plain.p12"), "secret").unwrap());
    assert_is_server(&key_store(&file("openssl-empty-password.p12"), "").unwrap());
    let result = key_store(&file("openssl-empty-password.p12"), "secret");
    assert!(matches!(result, Err(StoreError::WrongPassword { .. })), "{result:?}");
}

fn jks(body: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0xfe, 0xed, 0xfe, 0xed][..], body].concat();
    let mut message: Vec<u8> = "secret".encode_utf16().flat_map(u16::to_be_bytes).collect();
    message.extend_from_slice(b"Mighty Aphrodite");
    message.extend_from_slice(&bytes);
    bytes.extend_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, &message).as_ref());
    bytes
}

#[test]
fn jks_files_are_bounded() {
    let version = [0, 0, 0, 2];
    let error = key_store(&jks(&[&version[..], &[0xff; 4]].concat()), "secret").unwrap_err();
    assert!(matches!(error, StoreError::Limit { what: "entries", .. }), "{error}");
    let entry = |tail: &[u8]| jks(&[&version[..], &[0, 0, 0, 1], tail].concat());
    let beyond = entry(&[&[0, 0, 0, 1, 0, 1, b'a'][..], &[0; 8], &[0x7f, 0xff, 0xff, 0xff]].concat());
    let error = error_text(key_store(&beyond, "secret"));
    assert!(error.contains("alias a") && error.contains("beyond the end"), "{error}");
    let overlong = entry(&[&[0, 0, 0, 2, 0, 2, 0xc1, 0x81][..], &[0; 8]].concat());
    assert!(error_text(key_store(&overlong, "secret")).contains("modified UTF-8"));
    let chain = entry(&[&[0, 0, 0, 1, 0, 1, b'a'][..], &[0; 8], &[0; 4], &[0xff, 0xff, 0xff, 0xff]].concat());
    assert!(matches!(key_store(&chain, "secret"), Err(StoreError::Limit { .. })));
    assert!(error_text(key_store(&jks(&[0, 0, 0, 3, 0, 0, 0, 0]), "secret")).contains("version 3"));
    assert!(
        error_text(key_store(&entry(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "secret"))
            .contains("tag 9")
    );
    assert_eq!(key_store(&jks(&[0, 0, 0, 2, 0, 0, 0, 0]), "secret").unwrap_err(), StoreError::NoPrivateKey);
    assert!(key_store(&[0xfe, 0xed, 0xfe, 0xed], "secret").is_err());
}

#[test]
fn limits_of_the_caller_hold() {
    let password = SecretText::new("secret");
    let with = |name: &str, change: fn(&mut StoreLimits)| {
        let bytes = file(name);
        let mut input = StoreInput::new(&bytes, &password);
        change(&mut input.limits);
        read_key_store(&input).map(|_| ()).unwrap_err()
    };
    assert!(matches!(with("server.p12", |limits| limits.file_bytes = 100), StoreError::TooLarge { .. }));
    for name in ["server.p12", "server.pem"] {
        assert!(matches!(with(name, |limits| limits.entries = 1), StoreError::Limit { .. }), "{name}");
    }
    for name in ["server.jks", "server.pem"] {
        assert!(matches!(with(name, |limits| limits.chain = 1), StoreError::Limit { .. }), "{name}");
    }
    // Each of these keys takes 2048 rounds, and none fits the certificate.
    let certificate = text("ed25519.pem");
    let end = "-----END CERTIFICATE-----";
    let certificate = &certificate[..certificate.find(end).unwrap() + end.len()];
    let keys = format!("{}{certificate}", text("enc2.key").repeat(3));
    let mut input = StoreInput::new(keys.as_bytes(), &password);
    assert!(matches!(read_key_store(&input), Err(StoreError::KeyDoesNotFit { .. })));
    input.limits.rounds = 5_000;
    assert!(matches!(read_key_store(&input), Err(StoreError::Limit { .. })));
    // MAC and key take 2048 rounds each, and the certificates 2048 more.
    assert!(matches!(with("server.p12", |limits| limits.rounds = 6_000), StoreError::Limit { .. }));
}

#[test]
fn damaged_files_are_errors() {
    for name in ["server.p12", "server-legacy.p12", "server.jks"] {
        let bytes = file(name);
        for cut in (0..bytes.len()).step_by(7) {
            assert!(key_store(&bytes[..cut], "secret").is_err(), "{name} cut at {cut}");
        }
    }
    let pem = text("server.pem");
    let error = error_text(key_store(pem.replace("-----END CERTIFICATE-----", "").as_bytes(), ""));
    assert!(error.contains("no END line"), "{error}");
    let error = error_text(key_store(pem.replacen("MII", "M!I", 1).as_bytes(), ""));
    assert!(error.contains("line 1") && error.contains("base64"), "{error}");
}
