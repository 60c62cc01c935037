//! The decision whether a peer's certificate is trusted, for either side of a connection.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use webpki::{CertRevocationList, ExtendedKeyUsageValidator, KeyPurposeIdIter, OwnedCertRevocationList};

use super::fields::{CertificateFields, ExtendedUsageBits};
use super::path;
use crate::store::TrustStore;

/// More certificates in one chain are refused unread.
const CHAIN_MAX: usize = 16;

/// Bytes of the subjects that a listener sends. Their length field and that around it have two bytes.
const HINT_BYTES_MAX: usize = 60_000;
/// The length field of one subject.
const HINT_PREFIX_BYTES: usize = 2;

/// The purposes of which a peer's certificate must allow one, if it names any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUsage {
    /// Certificates of clients.
    Client,
    /// Certificates of servers that this process dials.
    Server,
    /// Certificates of other servers of the ensemble.
    Peer,
}

impl CertificateUsage {
    pub(super) fn accepts(self, usage: ExtendedUsageBits) -> bool {
        usage.any
            || match self {
                CertificateUsage::Client => usage.client,
                CertificateUsage::Server => usage.server,
                CertificateUsage::Peer => usage.client || usage.server,
            }
    }
}

/// Java accepts `anyExtendedKeyUsage`, which webpki's own rule does not.
impl ExtendedKeyUsageValidator for CertificateUsage {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut present = Vec::new();
        for purpose in purposes {
            present.push(purpose?.to_decoded_oid());
        }
        let has = |oid: &[usize]| present.iter().any(|purpose| purpose == oid);
        let usage = ExtendedUsageBits {
            any: has(&[2, 5, 29, 37, 0]),
            server: has(webpki::KeyUsage::SERVER_AUTH_REPR),
            client: has(webpki::KeyUsage::CLIENT_AUTH_REPR),
        };
        if present.is_empty() || self.accepts(usage) {
            return Ok(());
        }
        let required = match self {
            CertificateUsage::Server => webpki::KeyUsage::server_auth(),
            CertificateUsage::Client | CertificateUsage::Peer => webpki::KeyUsage::client_auth(),
        };
        Err(webpki::Error::RequiredEkuNotFoundContext(webpki::RequiredEkuNotFoundContext {
            required,
            present,
        }))
    }
}

/// Whether revocation lists are consulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationMode {
    /// No check.
    Off,
    /// Each certificate of a path needs a list of its issuer; without one it is refused.
    Crls,
}

/// The trust store cannot be used for the checks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A trusted certificate is malformed.
    #[error("the trusted certificate at {place} cannot be used: {problem}")]
    TrustedCertificate {
        /// Alias or line.
        place: String,
        /// The reason.
        problem: String,
    },
    /// Revocation is required, and no list is at hand.
    #[error("revocation checks need CRLs; add X509 CRL blocks to the PEM trust store, or set ssl.crl=false")]
    NoCrls,
    /// A list is malformed.
    #[error("a CRL of the trust store cannot be used: {problem}")]
    Crl {
        /// The reason.
        problem: String,
    },
}

/// A trusted entry with its fields.
#[derive(Debug)]
pub(super) struct TrustedCertificate {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) fields: CertificateFields,
}

/// A revocation list, as bytes and parsed.
#[derive(Debug)]
pub(super) struct ParsedCrl {
    pub(super) bytes: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    /// Seconds since 1970.
    this_update: i64,
    pub(super) next_update: Option<i64>,
    pub(super) list: CertRevocationList<'static>,
}

/// Trusted certificates and the rules for the certificates below them.
#[derive(Debug)]
pub struct CertificatePolicy {
    pub(super) trusted: Vec<TrustedCertificate>,
    anchors: Vec<TrustAnchor<'static>>,
    pub(super) crls: Option<Vec<ParsedCrl>>,
    pub(super) usage: CertificateUsage,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl CertificatePolicy {
    /// Builds the policy from a trust store.
    pub fn new(
        store: &TrustStore,
        usage: CertificateUsage,
        revocation: RevocationMode,
    ) -> Result<Arc<CertificatePolicy>, PolicyError> {
        let mut trusted = Vec::new();
        let mut anchors = Vec::new();
        for entry in &store.entries {
            let unusable =
                |problem: String| PolicyError::TrustedCertificate { place: entry.place.clone(), problem };
            let fields =
                CertificateFields::read(&entry.certificate).map_err(|error| unusable(error.to_string()))?;
            if fields.may_issue() {
                let anchor = webpki::anchor_from_trusted_cert(&entry.certificate);
                anchors.push(anchor.map_err(|error| unusable(error.to_string()))?.to_owned());
            }
            trusted.push(TrustedCertificate { certificate: entry.certificate.clone(), fields });
        }
        let crls = match revocation {
            RevocationMode::Off => None,
            RevocationMode::Crls if store.crls.is_empty() => return Err(PolicyError::NoCrls),
            RevocationMode::Crls => Some(parse_crls(store)?),
        };
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        Ok(Arc::new(CertificatePolicy { trusted, anchors, crls, usage, algorithms }))
    }

    /// The subjects of all trusted entries, as Java sends them. Java clients pick a key by this list. They
    /// take any key if the list is empty, as it is if the subjects do not fit into one message.
    pub(super) fn subjects(&self) -> Vec<DistinguishedName> {
        let sizes = self.trusted.iter().map(|entry| entry.fields.subject.len() + HINT_PREFIX_BYTES);
        if sizes.sum::<usize>() > HINT_BYTES_MAX {
            return Vec::new();
        }
        self.trusted.iter().map(|entry| DistinguishedName::from(entry.fields.subject.clone())).collect()
    }

    /// Checks a peer's certificate with the others that the peer sent.
    pub(super) fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<CertificateFields, Error> {
        if intermediates.len() >= CHAIN_MAX {
            return Err(Error::InvalidCertificate(CertificateError::BadEncoding));
        }
        let mut fields = CertificateFields::read(leaf)?;
        if let Some(problem) = &fields.key_problem {
            let problem = OtherError(Arc::new(problem.clone()));
            return Err(Error::InvalidCertificate(CertificateError::Other(problem)));
        }
        if self.trusted.iter().any(|entry| entry.certificate == *leaf) {
            path::check_time(&fields, now)?;
            return Ok(fields);
        }
        match self.check_with_webpki(leaf, intermediates, now) {
            Ok(names) => {
                path::check_key_usage(&fields)?;
                // Name constraints cover DNS names only, so that no common name may stand in for one.
                if names == PathNames::Constrained {
                    fields.common_name = None;
                }
            }
            // These two are the certificates that Java accepts and webpki does not.
            Err(webpki::Error::UnsupportedCertVersion | webpki::Error::CaUsedAsEndEntity) => {
                path::check_lenient_leaf(self, &fields, leaf, intermediates, now)?;
            }
            Err(error) => return Err(rustls_error(error)),
        }
        Ok(fields)
    }

    fn check_with_webpki(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<PathNames, webpki::Error> {
        let certificate = webpki::EndEntityCert::try_from(leaf)?;
        let lists: Vec<&CertRevocationList<'_>> = self.crls.iter().flatten().map(|crl| &crl.list).collect();
        let revocation = match &self.crls {
            None => None,
            Some(_) => {
                let builder = webpki::RevocationOptionsBuilder::new(&lists)
                    .map_err(|_| webpki::Error::UnknownRevocationStatus)?;
                let builder = builder.with_depth(webpki::RevocationCheckDepth::Chain);
                let builder = builder.with_status_policy(webpki::UnknownStatusPolicy::Deny);
                Some(builder.with_expiration_policy(webpki::ExpirationPolicy::Enforce).build())
            }
        };
        let all = self.algorithms.all;
        let may_issue: &dyn Fn(&webpki::VerifiedPath<'_>) -> Result<(), webpki::Error> = &check_issuers;
        let path = certificate.verify_for_usage(
            all,
            &self.anchors,
            intermediates,
            now,
            self.usage,
            revocation,
            Some(may_issue),
        )?;
        Ok(names_of_path(&path))
    }

    /// Verifies a handshake signature of TLS 1.2. webpki's own function refuses v1 certificates.
    pub(super) fn verify_tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let public_key = public_key(certificate)?;
        let key = webpki::RawPublicKeyEntity::try_from(&public_key).map_err(rustls_error)?;
        let mapping = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let (_, algorithms) = mapping
            .ok_or(Error::PeerMisbehaved(rustls::PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme))?;
        for algorithm in *algorithms {
            match key.verify_signature(*algorithm, message, signed.signature()) {
                Ok(()) => return Ok(HandshakeSignatureValid::assertion()),
                Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)) => {}
                Err(error) => return Err(rustls_error(error)),
            }
        }
        Err(Error::InvalidCertificate(CertificateError::BadSignature))
    }

    /// Verifies a handshake signature of TLS 1.3.
    pub(super) fn verify_tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(message, &public_key(certificate)?, signed, &self.algorithms)
    }

    pub(super) fn schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a path limits the names of the certificates below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathNames {
    Free,
    Constrained,
}

fn names_of_path(path: &webpki::VerifiedPath<'_>) -> PathNames {
    let is_constrained = |certificate: &webpki::Cert<'_>| {
        CertificateFields::read(&certificate.der()).is_ok_and(|fields| fields.has_name_constraints)
    };
    if path.anchor().name_constraints.is_some() || path.intermediate_certificates().any(is_constrained) {
        return PathNames::Constrained;
    }
    PathNames::Free
}

/// webpki does not look at the key usage of issuers.
fn check_issuers(path: &webpki::VerifiedPath<'_>) -> Result<(), webpki::Error> {
    for certificate in path.intermediate_certificates() {
        let fields = CertificateFields::read(&certificate.der()).map_err(|_| webpki::Error::BadDer)?;
        if !fields.may_issue() {
            return Err(webpki::Error::EndEntityUsedAsCa);
        }
    }
    Ok(())
}

/// The newest list first: the first list of an issuer decides, here and in webpki.
fn parse_crls(store: &TrustStore) -> Result<Vec<ParsedCrl>, PolicyError> {
    let parse = |bytes: &[u8]| {
        let list = OwnedCertRevocationList::from_der(bytes)
            .map_err(|error| PolicyError::Crl { problem: error.to_string() })?;
        let (_, fields) = x509_parser::parse_x509_crl(bytes)
            .map_err(|error| PolicyError::Crl { problem: error.to_string() })?;
        Ok(ParsedCrl {
            bytes: bytes.to_vec(),
            issuer: fields.tbs_cert_list.issuer.as_raw().to_vec(),
            this_update: fields.last_update().timestamp(),
            next_update: fields.next_update().map(|time| time.timestamp()),
            list: CertRevocationList::from(list),
        })
    };
    let mut crls =
        store.crls.iter().map(|crl| parse(crl)).collect::<Result<Vec<ParsedCrl>, PolicyError>>()?;
    crls.sort_by_key(|crl| std::cmp::Reverse(crl.this_update));
    Ok(crls)
}

fn public_key(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    Ok(SubjectPublicKeyInfoDer::from(CertificateFields::read(certificate)?.public_key))
}

/// webpki's errors as rustls names them, so that the peer gets the fitting alert.
pub(super) fn rustls_error(error: webpki::Error) -> Error {
    use webpki::Error as Webpki;
    Error::InvalidCertificate(match error {
        Webpki::BadDer | Webpki::BadDerTime | Webpki::TrailingData(_) => CertificateError::BadEncoding,
        Webpki::CertNotValidYet { .. } => CertificateError::NotValidYet,
        Webpki::CertExpired { .. } | Webpki::InvalidCertValidity => CertificateError::Expired,
        Webpki::UnknownIssuer => CertificateError::UnknownIssuer,
        Webpki::CertRevoked => CertificateError::Revoked,
        Webpki::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        Webpki::CrlExpired { .. } => CertificateError::ExpiredRevocationList,
        Webpki::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        Webpki::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        Webpki::UnsupportedCriticalExtension => CertificateError::UnhandledCriticalExtension,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    })
}
