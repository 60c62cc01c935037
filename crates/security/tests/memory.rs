//! Passwords and keys leave no copies on the heap: the whole heap of this process is searched for them.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use zebu_security::jaas::JaasFile;
use zebu_security::sasl::digest_md5::{DigestInput, digest_pair};
use zebu_security::secret::SecretText;
use zebu_security::store::{StoreInput, read_key_store};

/// Hides a text, so that the search does not find what it searches for.
const MASK: u8 = 0x5a;
const CHUNK_BYTES: u64 = 1 << 20;

/// 48 characters, hidden.
fn hidden_password() -> Vec<u8> {
    (0..48u8).map(|index| (b'A' + index % 47) ^ MASK).collect()
}

fn password() -> SecretText {
    let mut text = String::with_capacity(48);
    text.extend(hidden_password().iter().map(|byte| char::from(byte ^ MASK)));
    SecretText::new(text)
}

/// The end of the password in UTF-8 and in UTF-16, hidden. The allocator overwrites the start of what it
/// frees.
fn hidden_ends() -> [Vec<u8>; 2] {
    let end = hidden_password().split_off(24);
    let wide = end.iter().flat_map(|byte| [MASK, *byte]).collect();
    [end, wide]
}

fn overwrite_stack(depth: u32) {
    let block = black_box([0u8; 16 << 10]);
    if depth > 0 {
        overwrite_stack(depth - 1);
    }
    black_box(&block);
}

fn is_in_memory(hidden: &[u8]) -> bool {
    overwrite_stack(20);
    let memory = File::open("/proc/self/mem").unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut chunk = vec![0; CHUNK_BYTES as usize + hidden.len()];
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_heap = fields.get(5).is_none_or(|name| *name == "[heap]");
        if !fields[1].starts_with("rw") || !is_heap {
            continue;
        }
        let (from, to) = fields[0].split_once('-').unwrap();
        let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        for start in (from..to).step_by(CHUNK_BYTES as usize) {
            let size = (to - start).min(chunk.len() as u64) as usize;
            let Ok(count) = memory.read_at(&mut chunk[..size], start) else { continue };
            let first = hidden[0] ^ MASK;
            let is_there = |window: &[u8]| {
                window[0] == first && window.iter().zip(hidden).all(|(byte, hidden)| *byte == *hidden ^ MASK)
            };
            if chunk[..count].windows(hidden.len()).any(is_there) {
                return true;
            }
        }
    }
    false
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag, 0x82];
    out.extend((content.len() as u16).to_be_bytes());
    out.extend_from_slice(content);
    out
}

/// A JKS store with a protected key, whose integrity hash fits the password.
fn jks(password: &SecretText) -> Vec<u8> {
    let protector = [6, 10, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];
    let key = element(0x30, &[element(0x30, &protector), element(4, &[7; 100])].concat());
    let mut bytes = vec![0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, b'a'];
    bytes.extend([0; 8]);
    bytes.extend((key.len() as u32).to_be_bytes());
    bytes.extend([key, vec![0; 4]].concat());
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    password.reveal().bytes().for_each(|byte| hash.update(&[0, byte]));
    hash.update(b"Mighty Aphrodite");
    hash.update(&bytes);
    bytes.extend_from_slice(hash.finish().as_ref());
    bytes
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/keystores").join(name)).unwrap()
}

/// One test, because tests of one process share its memory.
#[test]
fn no_copy_stays_on_the_heap() {
    let [end, wide_end] = hidden_ends();
    {
        let password = password();
        assert!(is_in_memory(&end), "the search must find a password that is there");
        let error = read_key_store(&StoreInput::new(&jks(&password), &password)).unwrap_err();
        assert!(error.to_string().contains("does not open alias a"), "{error}");
    }
    assert!(!is_in_memory(&end) && !is_in_memory(&wide_end), "JKS");

    for name in ["enc1.key", "enc2.key"] {
        let store = [fixture(name), fixture("trust.pem")].concat();
        read_key_store(&StoreInput::new(&store, &password())).unwrap_err();
        assert!(!is_in_memory(&end) && !is_in_memory(&wide_end), "{name}");
    }

    let input = DigestInput {
        user: "bob",
        realm: "zk-sasl-md5",
        nonce: b"n",
        client_nonce: b"c",
        uri: b"zookeeper/zk-sasl-md5",
        authorization_id: None,
    };
    digest_pair(&input, password().reveal());
    assert!(!is_in_memory(&end), "DIGEST-MD5");

    {
        let head = "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"";
        let mut file = zeroize::Zeroizing::new(Vec::with_capacity(1000));
        file.extend_from_slice(head.as_bytes());
        file.extend_from_slice(password().reveal().as_bytes());
        file.extend_from_slice(b"\"; };");
        let parsed = JaasFile::parse(&file, &|_| None).unwrap();
        assert!(parsed.section("Server").unwrap().login().is_ok());
    }
    assert!(!is_in_memory(&end), "JAAS");

    let pem = fixture("server.pem");
    let lines: Vec<&[u8]> = pem.split(|byte| *byte == b'\n').collect();
    // The end of one line and the start of the next stand together only in a copy without line breaks.
    let joined = lines[20][44..].iter().chain(&lines[21][..20]).map(|byte| byte ^ MASK).collect::<Vec<_>>();
    drop(read_key_store(&StoreInput::new(&pem, &SecretText::default())).unwrap());
    assert!(!is_in_memory(&joined), "PEM");
}
