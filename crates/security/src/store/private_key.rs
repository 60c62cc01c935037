//! Private keys in the form that rustls signs with, and their comparison with certificates.

use std::sync::Arc;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;
use zeroize::Zeroizing;

use super::StoreError;
use crate::der::{self, DerError, DerReader};
use crate::secret::SecretBytes;

/// 1.2.840.113549.1.1.1
const RSA_ENCRYPTION: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// 1.2.840.10045.2.1
const EC_PUBLIC_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// Wraps an RSA key of its own format into PKCS#8.
pub(super) fn from_pkcs1(key: &[u8]) -> SecretBytes {
    let mut algorithm = Vec::new();
    der::write(&mut algorithm, der::OBJECT_IDENTIFIER, &RSA_ENCRYPTION);
    der::write(&mut algorithm, der::NULL, &[]);
    wrap(&algorithm, key)
}

/// Wraps an elliptic curve key of its own format into PKCS#8.
pub(super) fn from_sec1(place: &str, key: &[u8]) -> Result<SecretBytes, StoreError> {
    let fields = read_sec1(key).map_err(|error| StoreError::der(place, error))?;
    let Some(curve) = fields.curve else {
        return Err(StoreError::malformed(place, "the EC key does not name its curve"));
    };
    Ok(wrap_ec(curve, key))
}

fn wrap_ec(curve: &[u8], key: &[u8]) -> SecretBytes {
    let mut algorithm = Vec::new();
    der::write(&mut algorithm, der::OBJECT_IDENTIFIER, &EC_PUBLIC_KEY);
    der::write(&mut algorithm, der::OBJECT_IDENTIFIER, curve);
    wrap(&algorithm, key)
}

fn wrap(algorithm: &[u8], key: &[u8]) -> SecretBytes {
    let mut inner = Zeroizing::new(Vec::with_capacity(key.len() + 64));
    der::write(&mut inner, der::INTEGER, &[0]);
    der::write(&mut inner, der::SEQUENCE, algorithm);
    der::write(&mut inner, der::OCTET_STRING, key);
    let mut outer = Vec::with_capacity(inner.len() + 8);
    der::write(&mut outer, der::SEQUENCE, &inner);
    SecretBytes::new(outer)
}

struct Sec1Fields<'a> {
    private: &'a [u8],
    curve: Option<&'a [u8]>,
    has_public: bool,
}

fn read_sec1(key: &[u8]) -> Result<Sec1Fields<'_>, DerError> {
    let mut reader = DerReader::new(key).enter(der::SEQUENCE)?;
    reader.number()?;
    let private = reader.expect(der::OCTET_STRING)?;
    let curve = match reader.optional(der::context(0))? {
        Some(parameters) => Some(DerReader::new(parameters).expect(der::OBJECT_IDENTIFIER)?),
        None => None,
    };
    Ok(Sec1Fields { private, curve, has_public: reader.next_is(der::context(1)) })
}

/// A key that can sign, and its PKCS#8 form.
pub(super) struct UsableKey {
    pub(super) pkcs8: SecretBytes,
    signing: Arc<dyn SigningKey>,
}

impl UsableKey {
    /// Loads a key. Java writes EC keys without their public half; it is taken from the certificates.
    pub(super) fn load(
        place: &str,
        pkcs8: SecretBytes,
        certificates: &[CertificateDer<'_>],
    ) -> Result<UsableKey, StoreError> {
        if let Some(signing) = signing_key(&pkcs8) {
            return Ok(UsableKey { pkcs8, signing });
        }
        let missing_public = ec_without_public(&pkcs8).map_err(|error| StoreError::der(place, error))?;
        let Some(half) = missing_public else {
            return Err(StoreError::Unsupported {
                place: place.to_owned(),
                feature: "a private key of unknown type or size".to_owned(),
                remedy: "use RSA with 2048 to 4096 bits, EC with P-256 or P-384, or Ed25519".to_owned(),
            });
        };
        for certificate in certificates {
            let Some(public) = public_key_bits(certificate) else { continue };
            let pkcs8 = with_public(&half, &public.bits);
            if let Some(signing) = signing_key(&pkcs8) {
                return Ok(UsableKey { pkcs8, signing });
            }
        }
        Err(StoreError::KeyDoesNotFit { place: place.to_owned() })
    }

    /// Whether the certificate carries the public half of this key.
    pub(super) fn fits(&self, certificate: &CertificateDer<'_>) -> bool {
        signing_key_fits(self.signing.as_ref(), certificate)
    }
}

fn signing_key(pkcs8: &SecretBytes) -> Option<Arc<dyn SigningKey>> {
    any_supported_type(&PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.reveal()))).ok()
}

/// Whether the certificate carries the public half of a key.
pub(crate) fn signing_key_fits(key: &dyn SigningKey, certificate: &CertificateDer<'_>) -> bool {
    let Some(own) = key.public_key().and_then(|info| read_public_key(info.as_ref()).ok()) else {
        return false;
    };
    public_key_bits(certificate).is_some_and(|public| public == own)
}

/// Algorithm and bits of a SubjectPublicKeyInfo. Parameters that do not matter are left out.
#[derive(PartialEq, Eq)]
struct PublicKeyBits {
    algorithm: Vec<u8>,
    bits: Vec<u8>,
}

fn public_key_bits(certificate: &CertificateDer<'_>) -> Option<PublicKeyBits> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    read_public_key(parsed.tbs_certificate.subject_pki.raw).ok()
}

fn read_public_key(info: &[u8]) -> Result<PublicKeyBits, DerError> {
    let mut reader = DerReader::new(info).enter(der::SEQUENCE)?;
    let algorithm = reader.enter(der::SEQUENCE)?.expect(der::OBJECT_IDENTIFIER)?.to_vec();
    let bits = reader.expect(der::BIT_STRING)?;
    Ok(PublicKeyBits { algorithm, bits: bits.get(1..).unwrap_or_default().to_vec() })
}

/// An EC key whose public half is missing.
struct EcPrivateHalf<'a> {
    curve: &'a [u8],
    private: &'a [u8],
}

fn ec_without_public(pkcs8: &SecretBytes) -> Result<Option<EcPrivateHalf<'_>>, DerError> {
    let mut reader = DerReader::new(pkcs8.reveal()).enter(der::SEQUENCE)?;
    reader.number()?;
    let mut algorithm = reader.enter(der::SEQUENCE)?;
    if algorithm.expect(der::OBJECT_IDENTIFIER)? != EC_PUBLIC_KEY {
        return Ok(None);
    }
    let curve = algorithm.expect(der::OBJECT_IDENTIFIER)?;
    let fields = read_sec1(reader.expect(der::OCTET_STRING)?)?;
    Ok((!fields.has_public).then_some(EcPrivateHalf { curve, private: fields.private }))
}

fn with_public(half: &EcPrivateHalf<'_>, public: &[u8]) -> SecretBytes {
    let mut bits = vec![0];
    bits.extend_from_slice(public);
    let mut tagged = Vec::new();
    der::write(&mut tagged, der::BIT_STRING, &bits);
    let mut fields = Zeroizing::new(Vec::with_capacity(half.private.len() + tagged.len() + 16));
    der::write(&mut fields, der::INTEGER, &[1]);
    der::write(&mut fields, der::OCTET_STRING, half.private);
    der::write(&mut fields, der::context(1), &tagged);
    let mut key = Zeroizing::new(Vec::with_capacity(fields.len() + 8));
    der::write(&mut key, der::SEQUENCE, &fields);
    wrap_ec(half.curve, &key)
}
