//! Key stores and trust stores from bytes: JKS, PKCS12 and PEM, recognized by their content.

mod error;
mod jks;
mod modified_utf8;
mod pbe;
mod pem;
mod pkcs12;
mod private_key;
mod select;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::secret::{SecretBytes, SecretText};

pub use error::StoreError;
pub(crate) use private_key::signing_key_fits;

/// Limits that a store must keep, so that a wrong file costs little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of the file.
    pub file_bytes: usize,
    /// Keys, certificates and CRLs.
    pub entries: usize,
    /// Rounds of key derivation, summed over the file.
    pub rounds: u32,
    /// Certificates in the chain of a key.
    pub chain: usize,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits { file_bytes: 16 << 20, entries: 1000, rounds: 10_000_000, chain: 16 }
    }
}

/// The type of a store as the configuration declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreType {
    /// Java key store.
    Jks,
    /// PEM blocks.
    Pem,
    /// PKCS12.
    Pkcs12,
    /// Bouncy Castle's FIPS key store.
    Bcfks,
}

impl StoreType {
    /// Reads the value of `keyStore.type` or `trustStore.type`, in any case.
    pub fn from_name(name: &str) -> Option<StoreType> {
        let types = [StoreType::Jks, StoreType::Pem, StoreType::Pkcs12, StoreType::Bcfks];
        types.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// The type that ZooKeeper derives from the ending of a file name.
    pub fn from_file_name(name: &str) -> Option<StoreType> {
        let endings = [
            (".jks", StoreType::Jks),
            (".pem", StoreType::Pem),
            (".p12", StoreType::Pkcs12),
            (".bcfks", StoreType::Bcfks),
        ];
        endings.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, kind)| kind)
    }

    /// ZooKeeper's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            StoreType::Jks => "JKS",
            StoreType::Pem => "PEM",
            StoreType::Pkcs12 => "PKCS12",
            StoreType::Bcfks => "BCFKS",
        }
    }
}

/// The bytes of a store and all that is needed to open it.
#[derive(Clone, Copy, Debug)]
pub struct StoreInput<'a> {
    /// Content of the file.
    pub bytes: &'a [u8],
    /// Password of the store and of its key. Empty if none is set.
    pub password: &'a SecretText,
    /// The type that the configuration or the file name declares.
    pub declared: Option<StoreType>,
    /// Limits.
    pub limits: StoreLimits,
}

impl<'a> StoreInput<'a> {
    /// An input without declared type, under the default limits.
    pub fn new(bytes: &'a [u8], password: &'a SecretText) -> StoreInput<'a> {
        StoreInput { bytes, password, declared: None, limits: StoreLimits::default() }
    }
}

/// A private key with its certificate chain.
#[derive(Clone, Debug)]
pub struct KeyStore {
    /// The private key, as PKCS#8.
    key: SecretBytes,
    /// The chain; the first certificate fits the key.
    pub chain: Vec<CertificateDer<'static>>,
    /// Alias or line of the chosen key.
    pub place: String,
    /// The format of the content.
    pub found: StoreType,
    /// Remarks for the log.
    pub notes: Vec<String>,
}

impl KeyStore {
    /// The private key for rustls.
    pub fn private_key(&self) -> PrivateKeyDer<'_> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.reveal()))
    }
}

/// One trust anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedEntry {
    /// Alias or line.
    pub place: String,
    /// The certificate.
    pub certificate: CertificateDer<'static>,
}

/// Trust anchors and revocation lists.
#[derive(Clone, Debug)]
pub struct TrustStore {
    /// The anchors, in file order.
    pub entries: Vec<TrustedEntry>,
    /// `X509 CRL` blocks of a PEM file.
    pub crls: Vec<CertificateRevocationListDer<'static>>,
    /// The format of the content.
    pub found: StoreType,
    /// Remarks for the log.
    pub notes: Vec<String>,
}

/// Reads a key store.
pub fn read_key_store(input: &StoreInput<'_>) -> Result<KeyStore, StoreError> {
    let (found, mut contents) = read(input)?;
    let selected = select::select_key(&mut contents, input)?;
    let notes = contents.notes;
    Ok(KeyStore { key: selected.key, chain: selected.chain, place: selected.place, found, notes })
}

/// Reads a trust store.
pub fn read_trust_store(input: &StoreInput<'_>) -> Result<TrustStore, StoreError> {
    let (found, mut contents) = read(input)?;
    select::select_trusted(&mut contents)?;
    Ok(TrustStore { entries: contents.trusted, crls: contents.crls, found, notes: contents.notes })
}

/// Everything that a store holds, before the choice of a key.
#[derive(Debug, Default)]
struct StoreContents {
    keys: Vec<KeyEntry>,
    trusted: Vec<TrustedEntry>,
    /// Certificates that belong to no entry: PKCS12 bags without the trust attribute.
    unassigned: Vec<TrustedEntry>,
    crls: Vec<CertificateRevocationListDer<'static>>,
    notes: Vec<String>,
}

/// A key as the file holds it.
#[derive(Debug)]
struct KeyEntry {
    place: String,
    key: StoredKey,
    chain: Vec<CertificateDer<'static>>,
}

/// The encodings of private keys.
#[derive(Debug)]
enum StoredKey {
    Pkcs8(SecretBytes),
    /// An RSA key of its own format.
    Pkcs1(SecretBytes),
    /// An elliptic curve key of its own format.
    Sec1(SecretBytes),
    /// An EncryptedPrivateKeyInfo.
    Encrypted(Vec<u8>),
}

fn read(input: &StoreInput<'_>) -> Result<(StoreType, StoreContents), StoreError> {
    let bytes = input.bytes;
    if bytes.len() > input.limits.file_bytes {
        return Err(StoreError::TooLarge { size: bytes.len(), limit: input.limits.file_bytes });
    }
    let found = recognize(bytes, input.declared)?;
    let mut contents = match found {
        StoreType::Jks => jks::read(input)?,
        StoreType::Pkcs12 => pkcs12::read(input)?,
        StoreType::Pem => pem::read(input)?,
        StoreType::Bcfks => return Err(BCFKS),
    };
    if let Some(declared) = input.declared.filter(|declared| *declared != found) {
        let note = format!("the store is declared as {} and contains {}", declared.name(), found.name());
        contents.notes.push(note);
    }
    Ok((found, contents))
}

const BCFKS: StoreError = StoreError::UnsupportedType {
    kind: "BCFKS",
    command: "keytool -importkeystore -srckeystore OLD -srcstoretype BCFKS -destkeystore NEW.p12 \
              -deststoretype PKCS12 -providerclass \
              org.bouncycastle.jcajce.provider.BouncyCastleFipsProvider -providerpath bc-fips.jar",
};

const JCEKS: StoreError = StoreError::UnsupportedType {
    kind: "JCEKS",
    command: "keytool -importkeystore -srckeystore OLD -srcstoretype JCEKS -destkeystore NEW.p12 \
              -deststoretype PKCS12",
};

fn recognize(bytes: &[u8], declared: Option<StoreType>) -> Result<StoreType, StoreError> {
    match bytes {
        [] => Err(StoreError::EmptyFile),
        [0xfe, 0xed, 0xfe, 0xed, ..] => Ok(StoreType::Jks),
        [0xce, 0xce, 0xce, 0xce, ..] => Err(JCEKS),
        [0x30, ..] if declared == Some(StoreType::Bcfks) && !pkcs12::looks_like_pfx(bytes) => Err(BCFKS),
        // A text may begin with the digit 0, which is the first byte of DER.
        [0x30, ..] if pkcs12::looks_like_pfx(bytes) || !pem::has_block(bytes) => Ok(StoreType::Pkcs12),
        _ if pem::has_block(bytes) => Ok(StoreType::Pem),
        _ if declared == Some(StoreType::Bcfks) => Err(BCFKS),
        _ => Err(StoreError::UnknownContent),
    }
}

/// Fails if one more entry exceeds the limit.
fn check_entries(count: usize, limits: &StoreLimits) -> Result<(), StoreError> {
    if count <= limits.entries {
        return Ok(());
    }
    Err(StoreError::Limit {
        place: "the store".to_owned(),
        what: "entries",
        found: count as u64,
        limit: limits.entries as u64,
    })
}

/// A certificate whose fields can be read.
fn check_certificate(place: &str, der: &[u8]) -> Result<CertificateDer<'static>, StoreError> {
    match x509_parser::parse_x509_certificate(der) {
        Ok(([], _)) => Ok(CertificateDer::from(der.to_vec())),
        Ok(_) => Err(StoreError::malformed(place, "bytes follow the certificate")),
        Err(error) => Err(StoreError::malformed(place, format!("no X.509 certificate: {error}"))),
    }
}
