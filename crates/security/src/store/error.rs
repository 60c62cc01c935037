//! Errors of the store readers: the problem, its place, and the remedy.

use crate::der::DerError;

/// The reason why a key store or a trust store cannot be used. Callers add the file name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file exceeds the limit.
    #[error("the store has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Bytes of the file.
        size: usize,
        /// Allowed bytes.
        limit: usize,
    },
    /// The file is empty.
    #[error("the store is empty; write it again with keytool or openssl")]
    EmptyFile,
    /// The first bytes belong to no known format.
    #[error("the content is neither PEM nor PKCS12 nor JKS; is this the right file?")]
    UnknownContent,
    /// The format is known and not supported.
    #[error("the store is of type {kind}, which is not supported; convert it with `{command}`")]
    UnsupportedType {
        /// Java's name of the type.
        kind: &'static str,
        /// A command that converts the store.
        command: &'static str,
    },
    /// The password is not the one the store was written with.
    #[error("the password does not open {place}, or the file is damaged; check password and passwordPath")]
    WrongPassword {
        /// Alias, line or file part.
        place: String,
    },
    /// The key is encrypted and the password is empty.
    #[error("{place} is encrypted and no password is set; set keyStore.password or keyStore.passwordPath")]
    PasswordMissing {
        /// Alias, line or file part.
        place: String,
    },
    /// The bytes violate the format.
    #[error("{place} is malformed: {problem}")]
    Malformed {
        /// Alias, line or file part.
        place: String,
        /// The violated rule.
        problem: String,
    },
    /// The content is valid and uses a feature that Zebu does not have.
    #[error("{place} uses {feature}, which is not supported; {remedy}")]
    Unsupported {
        /// Alias, line or file part.
        place: String,
        /// The feature.
        feature: String,
        /// A command or a change that helps.
        remedy: String,
    },
    /// A count exceeds its limit.
    #[error("{place} has {found} {what}, the limit is {limit}")]
    Limit {
        /// Alias, line or file part.
        place: String,
        /// The counted things.
        what: &'static str,
        /// Their number.
        found: u64,
        /// The allowed number.
        limit: u64,
    },
    /// A PKCS12 store without integrity check.
    #[error("the PKCS12 store has no MAC; write it again with `openssl pkcs12 -export` without -nomac")]
    MacMissing,
    /// No private key.
    #[error("the store has no private key; a key store needs one key and its certificate chain")]
    NoPrivateKey,
    /// A key without certificates.
    #[error("{place} has no certificate; add its certificate chain to the store")]
    NoCertificate {
        /// Alias or line of the key.
        place: String,
    },
    /// The certificates belong to other keys.
    #[error("no certificate of the store fits {place}; put the certificate of this key into the store")]
    KeyDoesNotFit {
        /// Alias or line of the key.
        place: String,
    },
    /// No trust anchors.
    #[error("the store has no trusted certificate; add one with `keytool -importcert` or use a PEM file")]
    NoTrustedCertificate,
}

impl StoreError {
    pub(super) fn malformed(place: impl Into<String>, problem: impl Into<String>) -> StoreError {
        StoreError::Malformed { place: place.into(), problem: problem.into() }
    }

    /// A DER error, with the remedy for BER.
    pub(super) fn der(place: &str, error: DerError) -> StoreError {
        match error {
            DerError::IndefiniteLength => StoreError::Unsupported {
                place: place.to_owned(),
                feature: "BER with indefinite lengths".to_owned(),
                remedy: "convert it with `openssl pkcs12 -in OLD -nodes -out all.pem` and \
                         `openssl pkcs12 -export -in all.pem -out NEW`"
                    .to_owned(),
            },
            other => StoreError::malformed(place, other.to_string()),
        }
    }
}
