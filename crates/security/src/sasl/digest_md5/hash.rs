//! The hashes of DIGEST-MD5 for `md5-sess` and qop `auth`.

use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// Everything that enters the hashes. Texts are as received; user and password get their encoding here.
#[derive(Clone, Copy, Debug)]
pub struct DigestInput<'a> {
    /// User name.
    pub user: &'a str,
    /// Realm.
    pub realm: &'a str,
    /// The server's nonce.
    pub nonce: &'a [u8],
    /// The client's nonce.
    pub client_nonce: &'a [u8],
    /// The digest-uri in the client's spelling.
    pub uri: &'a [u8],
    /// The authorization id, if the client sent one.
    pub authorization_id: Option<&'a [u8]>,
}

/// The two proofs of an exchange, in lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestPair {
    /// The client's proof.
    pub response: String,
    /// The server's proof.
    pub response_auth: String,
}

/// Computes both proofs.
pub fn digest_pair(input: &DigestInput<'_>, password: &str) -> DigestPair {
    let secret = Md5::new()
        .chain_update(encode(input.user).as_slice())
        .chain_update(b":")
        .chain_update(encode(input.realm).as_slice())
        .chain_update(b":")
        .chain_update(encode(password).as_slice())
        .finalize();
    // This value is as good as the password.
    let secret = Zeroizing::new(<[u8; 16]>::from(secret));
    let mut session = Md5::new()
        .chain_update(secret.as_slice())
        .chain_update(b":")
        .chain_update(input.nonce)
        .chain_update(b":")
        .chain_update(input.client_nonce);
    if let Some(id) = input.authorization_id {
        session.update(b":");
        session.update(id);
    }
    let session = Zeroizing::new(hex(&session.finalize()));
    let proof = |method: &[u8]| {
        let request = Md5::new().chain_update(method).chain_update(b":").chain_update(input.uri).finalize();
        let proof = Md5::new()
            .chain_update(session.as_bytes())
            .chain_update(b":")
            .chain_update(input.nonce)
            .chain_update(b":00000001:")
            .chain_update(input.client_nonce)
            .chain_update(b":auth:")
            .chain_update(hex(&request))
            .finalize();
        hex(&proof)
    };
    DigestPair { response: proof(b"AUTHENTICATE"), response_auth: proof(b"") }
}

/// ISO-8859-1 if every character has a place in it, else UTF-8.
fn encode(text: &str) -> Zeroizing<Vec<u8>> {
    let latin = |character: char| u8::try_from(u32::from(character)).ok();
    // The whole capacity at once: a buffer that grows would leave copies of a password behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    match text.chars().all(|character| latin(character).is_some()) {
        true => bytes.extend(text.chars().filter_map(latin)),
        false => bytes.extend_from_slice(text.as_bytes()),
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
        text.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    text
}
