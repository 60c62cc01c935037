//! What a client calls itself, and what it calls its nodes.

use zebu_tree::{Credentials, Policy, access};

pub(super) fn run(data: &[u8]) {
    let (scheme, secret) = match data.iter().position(|&byte| byte == b' ') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &data[..0]),
    };
    let policy = Policy::default();
    let scheme = String::from_utf8_lossy(scheme);
    let mut credentials = Credentials::none();
    if let Ok(ids) = access::authenticate(Some(&scheme), Some(secret), &credentials, &policy) {
        ids.into_iter().for_each(|id| credentials.add(id));
    }
    assert!(!credentials.is_super(), "nobody becomes super without a super digest");
}

pub(super) fn corpus() -> Vec<Vec<u8>> {
    [
        "digest user:secret",
        "digest super:",
        "ip 10.0.0.1",
        "world anyone",
        "auth ",
        "sasl x",
        "x509 CN=a",
        "super x",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
