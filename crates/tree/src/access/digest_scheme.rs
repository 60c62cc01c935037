//! The `digest` scheme: `user:` and the hash of `user:password`. Knowing the password is the proof, so
//! authentication always succeeds; it only computes the id.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest;
use zebu_proto::Id;
use zebu_proto::jute::decode_text;
use zebu_security::secret::is_same_secret;

use crate::access::credentials::Credentials;
use crate::access::java_split;
use crate::access::policy::{DigestScheme, Policy, X509Scheme};

/// The hash of the `digest` scheme, under the names of the Java runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DigestAlgorithm {
    /// MD5.
    Md5,
    /// SHA-1, ZooKeeper's default.
    #[default]
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA3-224.
    Sha3_224,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-384.
    Sha3_384,
    /// SHA3-512.
    Sha3_512,
}

impl DigestAlgorithm {
    /// The algorithm of a setting; case and the dash after SHA are ignored.
    pub fn from_name(name: &str) -> Option<DigestAlgorithm> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MD5" => DigestAlgorithm::Md5,
            "SHA" | "SHA1" | "SHA-1" => DigestAlgorithm::Sha1,
            "SHA224" | "SHA-224" => DigestAlgorithm::Sha224,
            "SHA256" | "SHA-256" => DigestAlgorithm::Sha256,
            "SHA384" | "SHA-384" => DigestAlgorithm::Sha384,
            "SHA512" | "SHA-512" => DigestAlgorithm::Sha512,
            "SHA3-224" => DigestAlgorithm::Sha3_224,
            "SHA3-256" => DigestAlgorithm::Sha3_256,
            "SHA3-384" => DigestAlgorithm::Sha3_384,
            "SHA3-512" => DigestAlgorithm::Sha3_512,
            _ => return None,
        })
    }

    fn base64_of(self, bytes: &[u8]) -> String {
        match self {
            DigestAlgorithm::Md5 => STANDARD.encode(md5::Md5::digest(bytes)),
            DigestAlgorithm::Sha1 => STANDARD.encode(sha1::Sha1::digest(bytes)),
            DigestAlgorithm::Sha224 => STANDARD.encode(sha2::Sha224::digest(bytes)),
            DigestAlgorithm::Sha256 => STANDARD.encode(sha2::Sha256::digest(bytes)),
            DigestAlgorithm::Sha384 => STANDARD.encode(sha2::Sha384::digest(bytes)),
            DigestAlgorithm::Sha512 => STANDARD.encode(sha2::Sha512::digest(bytes)),
            DigestAlgorithm::Sha3_224 => STANDARD.encode(sha3::Sha3_224::digest(bytes)),
            DigestAlgorithm::Sha3_256 => STANDARD.encode(sha3::Sha3_256::digest(bytes)),
            DigestAlgorithm::Sha3_384 => STANDARD.encode(sha3::Sha3_384::digest(bytes)),
            DigestAlgorithm::Sha3_512 => STANDARD.encode(sha3::Sha3_512::digest(bytes)),
        }
    }
}

/// Why an auth packet was refused. The client gets AUTHFAILED and the connection closes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No provider is registered for this scheme.
    #[error(
        "authentication scheme {0:?} is not registered, or not open to auth packets; the client must use digest or ip"
    )]
    UnknownScheme(Box<str>),
    /// The packet has no scheme or no data.
    #[error("the authentication packet has a null scheme or null data; the client is broken")]
    Null,
    /// Scheme `x509` on a connection without a certificate.
    #[error("the connection has no TLS certificate; the client must connect with TLS and its certificate")]
    NoCertificate,
}

/// The ids that an auth packet proves. A connection has its address and the name of its certificate from the
/// start, so `ip` and `x509` add none.
pub fn authenticate(
    scheme: Option<&str>,
    data: Option<&[u8]>,
    held: &Credentials,
    policy: &Policy,
) -> Result<Vec<Id>, AuthError> {
    match scheme {
        None => Err(AuthError::Null),
        Some("ip") => Ok(Vec::new()),
        Some("digest") if policy.auth.digest == DigestScheme::Enabled => {
            let id = digest_id(&decode_text(data.ok_or(AuthError::Null)?), policy.auth.algorithm);
            let mut ids = Vec::with_capacity(2);
            if policy.auth.super_digest.as_deref().is_some_and(|digest| is_same_secret(digest, &id)) {
                ids.push(Id::new("super", ""));
            }
            ids.push(Id::new("digest", id));
            Ok(ids)
        }
        Some("x509") if policy.auth.x509 == X509Scheme::Enabled => {
            match held.iter().any(|id| id.scheme.as_deref() == Some("x509")) {
                true => Ok(Vec::new()),
                false => Err(AuthError::NoCertificate),
            }
        }
        Some(scheme) => Err(AuthError::UnknownScheme(scheme.into())),
    }
}

/// `user:password` as it is written in ACLs: `user:` and the hash of the complete text.
pub fn digest_id(user_and_password: &str, algorithm: DigestAlgorithm) -> String {
    let user = user_and_password.split(':').next().unwrap_or_default();
    format!("{user}:{}", algorithm.base64_of(user_and_password.as_bytes()))
}

/// Exactly two parts, empty ones at the end not counted.
pub(super) fn is_valid(id: &str) -> bool {
    java_split(id, ':').len() == 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::policy::AuthSettings;

    fn authenticate(
        scheme: Option<&str>,
        data: Option<&[u8]>,
        policy: &Policy,
    ) -> Result<Vec<Id>, AuthError> {
        super::authenticate(scheme, data, &Credentials::none(), policy)
    }

    #[test]
    fn vectors() {
        assert_eq!(digest_id("super:admin", DigestAlgorithm::Sha1), "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
        assert_eq!(digest_id("user:pass", DigestAlgorithm::Sha1), "user:smGaoVKd/cQkjm7b88GyorAUz20=");
        // The password is everything after the first colon; without one the user is the whole text.
        assert!(digest_id("a:b:c", DigestAlgorithm::Sha1).starts_with("a:"));
        assert_eq!(digest_id("", DigestAlgorithm::Sha1), ":2jmj7l5rSw0yVb/vlWAYkK/YBwk=");
        assert!(digest_id("whole", DigestAlgorithm::Sha1).starts_with("whole:"));
        assert_eq!(digest_id("u:p", DigestAlgorithm::Sha256).len(), 2 + 44);
        assert_eq!(digest_id("u:p", DigestAlgorithm::Sha3_512).len(), 2 + 88);
    }

    #[test]
    fn which_ids_are_valid() {
        for (id, valid) in [
            ("a:b", true),
            (":b", true),
            ("a:b:", true),
            ("a:b::", true),
            ("a:", false),
            (":", false),
            ("::", false),
            ("a", false),
            ("", false),
            ("a:b:c", false),
            ("::c", false),
        ] {
            assert_eq!(is_valid(id), valid, "{id:?}");
        }
    }

    #[test]
    fn the_super_user_gets_two_ids() {
        let auth = AuthSettings {
            super_digest: Some("super:xQJmxLMiHGwaqBvst5y6rkB6HQs=".into()),
            ..AuthSettings::default()
        };
        let policy = Policy { auth, ..Policy::default() };
        assert_eq!(
            authenticate(Some("digest"), Some(b"super:admin"), &policy),
            Ok(vec![Id::new("super", ""), Id::new("digest", "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=")])
        );
        assert_eq!(authenticate(Some("digest"), Some(b"super:wrong"), &policy).map(|ids| ids.len()), Ok(1));
    }

    #[test]
    fn what_is_refused() {
        let mut policy = Policy::default();
        assert_eq!(authenticate(Some("ip"), None, &policy), Ok(vec![]));
        assert_eq!(authenticate(Some("digest"), None, &policy), Err(AuthError::Null));
        assert_eq!(authenticate(None, Some(b"x"), &policy), Err(AuthError::Null));
        for scheme in ["world", "sasl", "super", "", "DIGEST"] {
            let refused = Err(AuthError::UnknownScheme(scheme.into()));
            assert_eq!(authenticate(Some(scheme), Some(b"x"), &policy), refused);
        }
        policy.auth.digest = DigestScheme::Disabled;
        assert!(authenticate(Some("digest"), Some(b"x"), &policy).is_err());
    }

    #[test]
    fn x509_needs_a_certificate() {
        let mut policy = Policy::default();
        let mut held = Credentials::none();
        let unknown = Err(AuthError::UnknownScheme("x509".into()));
        assert_eq!(super::authenticate(Some("x509"), Some(b""), &held, &policy), unknown);
        policy.auth.x509 = X509Scheme::Enabled;
        assert_eq!(
            super::authenticate(Some("x509"), Some(b""), &held, &policy),
            Err(AuthError::NoCertificate)
        );
        held.add(Id::new("x509", "CN=a"));
        assert_eq!(super::authenticate(Some("x509"), None, &held, &policy), Ok(vec![]));
    }

    #[test]
    fn names_of_algorithms() {
        assert_eq!(DigestAlgorithm::from_name("sha1"), Some(DigestAlgorithm::Sha1));
        assert_eq!(DigestAlgorithm::from_name("SHA-256"), Some(DigestAlgorithm::Sha256));
        assert_eq!(DigestAlgorithm::from_name("SHA3-512"), Some(DigestAlgorithm::Sha3_512));
        assert_eq!(DigestAlgorithm::from_name("MD4"), None);
    }
}
