//! The fields of a certificate that the checks need, read once.

use rustls::{CertificateError, Error};
use x509_parser::extensions::{GeneralName, ParsedExtension, X509Extension};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::{SubjectPublicKeyInfo, X509Version};

use crate::der::{self, DerError, DerReader};

/// Extensions that the checks of this crate understand when they are critical.
const KNOWN_CRITICAL: [&str; 5] = ["2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.30", "2.5.29.37"];

#[derive(Clone, Debug)]
pub(super) struct CertificateFields {
    pub(super) has_extensions_version: bool,
    pub(super) issuer: Vec<u8>,
    pub(super) subject: Vec<u8>,
    pub(super) public_key: Vec<u8>,
    pub(super) serial: Vec<u8>,
    /// Seconds since 1970.
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    pub(super) key_usage: Option<KeyUsageBits>,
    pub(super) extended_usage: Option<ExtendedUsageBits>,
    pub(super) is_ca: bool,
    pub(super) path_length: Option<u32>,
    pub(super) has_name_constraints: bool,
    pub(super) has_unknown_critical: bool,
    /// Whether any dNSName stands in the certificate, readable or not.
    pub(super) has_dns_names: bool,
    pub(super) dns_names: Vec<String>,
    pub(super) ip_addresses: Vec<Vec<u8>>,
    /// The last common name of the subject.
    pub(super) common_name: Option<String>,
    /// The reason why signatures of the public key are not accepted.
    pub(super) key_problem: Option<UnsupportedKey>,
}

/// A public key whose signatures Zebu does not verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnsupportedKey {
    #[error("the certificate has an RSA key of {bits} bits; 2048 to 8192 are supported")]
    RsaSize { bits: usize },
    #[error("the certificate has a key of unknown type; RSA, P-256, P-384 and Ed25519 are supported")]
    Other,
}

const EC_PUBLIC_KEY: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const CURVES: [&str; 2] = ["1.2.840.10045.3.1.7", "1.3.132.0.34"];

fn key_problem(info: &SubjectPublicKeyInfo<'_>) -> Option<UnsupportedKey> {
    if let Ok(PublicKey::RSA(key)) = info.parsed() {
        let bits = key.key_size();
        return (!(2048..=8192).contains(&bits)).then_some(UnsupportedKey::RsaSize { bits });
    }
    let curve = || info.algorithm.parameters.as_ref()?.as_oid().ok();
    let is_supported = match info.algorithm.algorithm.to_id_string().as_str() {
        EC_PUBLIC_KEY => curve().is_some_and(|curve| CURVES.contains(&curve.to_id_string().as_str())),
        ED25519 => true,
        _ => false,
    };
    (!is_supported).then_some(UnsupportedKey::Other)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KeyUsageBits {
    pub(super) digital_signature: bool,
    pub(super) certificate_sign: bool,
    pub(super) crl_sign: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ExtendedUsageBits {
    pub(super) any: bool,
    pub(super) server: bool,
    pub(super) client: bool,
}

fn bad_encoding<E>(_: E) -> Error {
    Error::InvalidCertificate(CertificateError::BadEncoding)
}

impl CertificateFields {
    pub(super) fn read(certificate: &[u8]) -> Result<CertificateFields, Error> {
        let (rest, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(bad_encoding)?;
        if !rest.is_empty() {
            return Err(bad_encoding(()));
        }
        // The parser reports a broken extension as absent, which must not loosen a check.
        let is_broken = |extension: &X509Extension<'_>| {
            matches!(extension.parsed_extension(), ParsedExtension::ParseError { .. })
                && KNOWN_CRITICAL.contains(&extension.oid.to_id_string().as_str())
        };
        if parsed.extensions().iter().any(is_broken) {
            return Err(bad_encoding(()));
        }
        let key_usage = parsed.key_usage().map_err(bad_encoding)?.map(|usage| KeyUsageBits {
            digital_signature: usage.value.digital_signature(),
            certificate_sign: usage.value.key_cert_sign(),
            crl_sign: usage.value.crl_sign(),
        });
        let extended = parsed.extended_key_usage().map_err(bad_encoding)?;
        let extended_usage = extended.map(|usage| ExtendedUsageBits {
            any: usage.value.any,
            server: usage.value.server_auth,
            client: usage.value.client_auth,
        });
        let constraints = parsed.basic_constraints().map_err(bad_encoding)?.map(|found| found.value);
        let has_unknown_critical = parsed.extensions().iter().any(|extension| {
            extension.critical && !KNOWN_CRITICAL.contains(&extension.oid.to_id_string().as_str())
        });
        let fields = &parsed.tbs_certificate;
        let common_names = fields.subject.iter_common_name().filter_map(|name| name.as_str().ok());
        let mut read = CertificateFields {
            has_extensions_version: parsed.version() == X509Version::V3,
            issuer: fields.issuer.as_raw().to_vec(),
            subject: fields.subject.as_raw().to_vec(),
            public_key: fields.subject_pki.raw.to_vec(),
            serial: parsed.raw_serial().to_vec(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            key_usage,
            extended_usage,
            is_ca: constraints.is_some_and(|constraints| constraints.ca),
            path_length: constraints.and_then(|constraints| constraints.path_len_constraint),
            has_name_constraints: parsed.name_constraints().map_err(bad_encoding)?.is_some(),
            has_unknown_critical,
            has_dns_names: false,
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            common_name: common_names.last().map(str::to_owned),
            key_problem: key_problem(&fields.subject_pki),
        };
        if let Some(names) = parsed.subject_alternative_name().map_err(bad_encoding)? {
            names.value.general_names.iter().for_each(|name| read.add_name(name));
        }
        Ok(read)
    }

    fn add_name(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => {
                self.has_dns_names = true;
                self.dns_names.push((*name).to_owned());
            }
            GeneralName::IPAddress(bytes) => self.ip_addresses.push(bytes.to_vec()),
            // A name that cannot be read must not open the way to the common name.
            GeneralName::Invalid(..) => self.has_dns_names = true,
            _ => {}
        }
    }

    /// Whether other certificates may hang below this trusted entry, by Java's rule for trust anchors.
    pub(super) fn may_issue(&self) -> bool {
        !self.has_extensions_version
            || self.is_ca && self.key_usage.is_none_or(|usage| usage.certificate_sign)
    }
}

/// The signed bytes, the algorithm and the signature of a certificate or CRL.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignedParts<'a> {
    pub(super) message: &'a [u8],
    /// Content of the AlgorithmIdentifier.
    pub(super) algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
}

impl<'a> SignedParts<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<SignedParts<'a>, Error> {
        let read = || {
            let mut reader = DerReader::new(bytes).enter(der::SEQUENCE)?;
            let message = reader.element()?.whole;
            let algorithm = reader.expect(der::SEQUENCE)?;
            match reader.expect(der::BIT_STRING)? {
                [0, signature @ ..] => Ok(SignedParts { message, algorithm, signature }),
                _ => Err(DerError::Truncated),
            }
        };
        read().map_err(bad_encoding)
    }
}
