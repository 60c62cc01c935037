//! The path from a leaf that webpki refuses (X.509 v1, or a CA certificate) to a trusted certificate.

use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, Error};

use super::fields::{CertificateFields, SignedParts};
use super::policy::{CertificatePolicy, rustls_error};

/// Signature checks per peer. More are a sign of an attack.
const SIGNATURES_MAX: u32 = 50;
/// Certificates between leaf and trusted entry.
const DEPTH_MAX: u32 = 6;

fn invalid(error: CertificateError) -> Error {
    Error::InvalidCertificate(error)
}

pub(super) fn check_time(fields: &CertificateFields, now: UnixTime) -> Result<(), Error> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < fields.not_before {
        return Err(invalid(CertificateError::NotValidYet));
    }
    if now > fields.not_after {
        return Err(invalid(CertificateError::Expired));
    }
    Ok(())
}

/// A leaf that names key usages must allow signatures: the handshake is one.
pub(super) fn check_key_usage(fields: &CertificateFields) -> Result<(), Error> {
    match fields.key_usage {
        Some(usage) if !usage.digital_signature => Err(invalid(CertificateError::InvalidPurpose)),
        _ => Ok(()),
    }
}

/// What Java accepts in a leaf and others refuse; `None` for a usual certificate.
pub fn unusual_leaf(certificate: &[u8]) -> Option<&'static str> {
    let fields = CertificateFields::read(certificate).ok()?;
    match fields {
        CertificateFields { has_extensions_version: false, .. } => Some("an X.509 v1 certificate"),
        CertificateFields { is_ca: true, .. } => Some("a CA certificate"),
        _ => None,
    }
}

/// Checks the leaf's own fields and searches a path to a trusted entry.
pub(super) fn check_lenient_leaf(
    policy: &CertificatePolicy,
    leaf: &CertificateFields,
    leaf_der: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), Error> {
    check_time(leaf, now)?;
    check_key_usage(leaf)?;
    if leaf.extended_usage.is_some_and(|usage| !policy.usage.accepts(usage)) {
        return Err(invalid(CertificateError::InvalidPurpose));
    }
    if leaf.has_unknown_critical {
        return Err(invalid(CertificateError::UnhandledCriticalExtension));
    }
    let readable = intermediates.iter().filter_map(|der| Some((der, CertificateFields::read(der).ok()?)));
    let candidates: Vec<_> = readable.filter(|(_, fields)| is_intermediate(policy, fields, now)).collect();
    let mut search = PathSearch { policy, candidates, now, signatures_left: SIGNATURES_MAX };
    search.find_issuer(leaf, leaf_der, 0)
}

/// Version 3 with the right to issue for this purpose. Name constraints would need webpki's rules, so that
/// they are refused.
fn is_intermediate(policy: &CertificatePolicy, fields: &CertificateFields, now: UnixTime) -> bool {
    fields.has_extensions_version
        && fields.may_issue()
        && fields.extended_usage.is_none_or(|usage| policy.usage.accepts(usage))
        && !fields.has_unknown_critical
        && !fields.has_name_constraints
        && check_time(fields, now).is_ok()
}

struct PathSearch<'a> {
    policy: &'a CertificatePolicy,
    candidates: Vec<(&'a CertificateDer<'a>, CertificateFields)>,
    now: UnixTime,
    signatures_left: u32,
}

impl PathSearch<'_> {
    /// Searches the issuer of a certificate; `below` counts the intermediates between it and the leaf.
    fn find_issuer(&mut self, child: &CertificateFields, child_der: &[u8], below: u32) -> Result<(), Error> {
        let signed = SignedParts::read(child_der)?;
        let mut last_error = invalid(CertificateError::UnknownIssuer);
        for anchor in &self.policy.trusted {
            let fields = &anchor.fields;
            if fields.subject != child.issuer || !fields.may_issue() || fields.has_name_constraints {
                continue;
            }
            match self.verify(&signed, fields) {
                Ok(()) => return self.check_revocation(child, fields),
                Err(error) => last_error = error,
            }
        }
        if below >= DEPTH_MAX {
            return Err(last_error);
        }
        for index in 0..self.candidates.len() {
            let (der, fields) = (self.candidates[index].0, self.candidates[index].1.clone());
            let is_long_enough = fields.path_length.is_none_or(|length| below <= length);
            if fields.subject != child.issuer || fields.subject == child.subject || !is_long_enough {
                continue;
            }
            let step = self
                .verify(&signed, &fields)
                .and_then(|()| self.check_revocation(child, &fields))
                .and_then(|()| self.find_issuer(&fields, der, below + 1));
            match step {
                Ok(()) => return Ok(()),
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    fn verify(&mut self, signed: &SignedParts<'_>, issuer: &CertificateFields) -> Result<(), Error> {
        self.signatures_left = self
            .signatures_left
            .checked_sub(1)
            .ok_or_else(|| rustls_error(webpki::Error::MaximumSignatureChecksExceeded))?;
        let public_key = SubjectPublicKeyInfoDer::from(issuer.public_key.as_slice());
        let key = webpki::RawPublicKeyEntity::try_from(&public_key).map_err(rustls_error)?;
        let algorithms = self.policy.algorithms.all.iter();
        let fitting =
            algorithms.filter(|algorithm| algorithm.signature_alg_id().as_ref() == signed.algorithm);
        let mut last_error = invalid(CertificateError::BadSignature);
        for algorithm in fitting {
            match key.verify_signature(*algorithm, signed.message, signed.signature) {
                Ok(()) => return Ok(()),
                Err(error) => last_error = rustls_error(error),
            }
        }
        Err(last_error)
    }

    /// Looks the certificate up in the list of its issuer, if revocation is checked.
    fn check_revocation(
        &mut self,
        child: &CertificateFields,
        issuer: &CertificateFields,
    ) -> Result<(), Error> {
        let Some(crls) = &self.policy.crls else { return Ok(()) };
        // A list for a part of the certificates says nothing about the others.
        let is_full = |list: &webpki::CertRevocationList<'_>| list.issuing_distribution_point().is_none();
        for crl in crls {
            if crl.issuer != child.issuer || !is_full(&crl.list) {
                continue;
            }
            let may_sign = issuer.key_usage.is_none_or(|usage| usage.crl_sign);
            if !may_sign || self.verify(&SignedParts::read(&crl.bytes)?, issuer).is_err() {
                continue;
            }
            let now = i64::try_from(self.now.as_secs()).unwrap_or(i64::MAX);
            if crl.next_update.is_none_or(|next| next < now) {
                return Err(invalid(CertificateError::ExpiredRevocationList));
            }
            return match crl.list.find_serial(&child.serial).map_err(rustls_error)? {
                Some(_) => Err(invalid(CertificateError::Revoked)),
                None => Ok(()),
            };
        }
        Err(invalid(CertificateError::UnknownRevocationStatus))
    }
}
