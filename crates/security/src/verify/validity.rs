//! The time in which a certificate is valid.

use super::fields::CertificateFields;

/// The validity of a certificate, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateValidity {
    /// First second.
    pub not_before: i64,
    /// Last second.
    pub not_after: i64,
}

impl CertificateValidity {
    /// The validity of a certificate, if it can be read.
    pub fn of(certificate: &[u8]) -> Option<CertificateValidity> {
        let fields = CertificateFields::read(certificate).ok()?;
        Some(CertificateValidity { not_before: fields.not_before, not_after: fields.not_after })
    }
}
