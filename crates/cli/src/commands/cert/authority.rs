//! The test CA of a directory, and the certificates that it signs. Keys are of the curve P-256, which Java,
//! OpenSSL and Zebu know.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use jiff::{ToSpan, Zoned, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use zebu_security::secret::SecretText;
use zebu_security::store::{StoreError, StoreInput, read_key_store};

use super::files;

/// The certificate of the CA.
pub(crate) const CA_FILE: &str = "ca.pem";
/// The key of the CA.
pub(crate) const CA_KEY_FILE: &str = "ca.key";

/// Certificates cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} exists and is not overwritten; choose another --directory or --file, or remove it", path.display())]
    Exists { path: PathBuf },
    #[error("{name:?} is no name for a file; use letters, digits, '.', '_' and '-', or --file NAME")]
    FileName { name: String },
    #[error("{host:?} is neither a host name nor an address")]
    Host { host: String },
    #[error("the CA in {} is not usable: {source}", directory.display())]
    Unusable { directory: PathBuf, source: StoreError },
    #[error("the CA in {} is incomplete: it needs ca.pem and ca.key", directory.display())]
    Incomplete { directory: PathBuf },
    #[error("the certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// A CA with its key.
pub(crate) struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The owner of a certificate.
#[derive(Clone, Debug)]
pub(crate) enum LeafKind {
    /// A server with these names and addresses.
    Server {
        hosts: Vec<String>,
    },
    Client,
}

/// A certificate to make.
#[derive(Clone, Debug)]
pub(crate) struct LeafRequest {
    /// The common name.
    pub(crate) name: String,
    pub(crate) kind: LeafKind,
    pub(crate) days: u16,
}

/// A certificate with its key.
pub(crate) struct Leaf {
    /// Key, certificate and CA.
    pub(crate) pem: String,
    /// DER.
    pub(crate) certificate: Vec<u8>,
}

impl Authority {
    /// Makes a CA and writes its files.
    pub(crate) fn create(directory: &Path, name: &str, days: u16) -> Result<Authority, CertError> {
        let (certificate_file, key_file) = (directory.join(CA_FILE), directory.join(CA_KEY_FILE));
        files::refuse_existing(&certificate_file)?;
        files::refuse_existing(&key_file)?;
        let mut params = named(name, days);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate_pem = params.self_signed(&key)?.pem();
        files::write_secret(&key_file, &key.serialize_pem())?;
        files::write_public(&certificate_file, &certificate_pem)?;
        Ok(Authority { certificate_pem, issuer: Issuer::new(params, key) })
    }

    /// The CA of a directory, if it has one.
    pub(crate) fn open(directory: &Path) -> Result<Option<Authority>, CertError> {
        let (certificate_pem, key) = (read(&directory.join(CA_FILE))?, read(&directory.join(CA_KEY_FILE))?);
        let (certificate_pem, key) = match (certificate_pem, key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate, key),
            _ => return Err(CertError::Incomplete { directory: directory.to_owned() }),
        };
        let both = format!("{certificate_pem}\n{key}");
        // Key and certificate must belong together.
        read_key_store(&StoreInput::new(both.as_bytes(), &SecretText::default()))
            .map_err(|source| CertError::Unusable { directory: directory.to_owned(), source })?;
        let issuer = Issuer::from_ca_cert_pem(&certificate_pem, KeyPair::from_pem(&key)?)?;
        Ok(Some(Authority { certificate_pem, issuer }))
    }

    /// Signs a certificate with a new key.
    pub(crate) fn issue(&self, request: &LeafRequest) -> Result<Leaf, CertError> {
        let mut params = named(&request.name, request.days);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        if let LeafKind::Server { hosts } = &request.kind {
            // A server dials other servers too.
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
            params.subject_alt_names =
                hosts.iter().map(|host| alternative_name(host)).collect::<Result<_, _>>()?;
        }
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let pem = format!("{}{}{}", key.serialize_pem(), certificate.pem(), self.certificate_pem);
        Ok(Leaf { pem, certificate: certificate.der().to_vec() })
    }
}

fn alternative_name(host: &str) -> Result<SanType, CertError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let is_name = |character: char| character.is_ascii_alphanumeric() || "._-*".contains(character);
    let refused = || CertError::Host { host: host.to_owned() };
    if host.is_empty() || !host.chars().all(is_name) {
        return Err(refused());
    }
    Ok(SanType::DnsName(host.try_into().map_err(|_| refused())?))
}

/// The parameters that all certificates share. Clocks may differ by a day.
fn named(name: &str, days: u16) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = Zoned::now().with_time_zone(TimeZone::UTC);
    let date = |days: i64| {
        let day = now.checked_add(days.days()).unwrap_or_else(|_| now.clone()).date();
        let positive = |number: i8| u8::try_from(number).unwrap_or(1);
        date_time_ymd(i32::from(day.year()), positive(day.month()), positive(day.day()))
    };
    params.not_before = date(-1);
    params.not_after = date(i64::from(days));
    params
}

fn read(path: &Path) -> Result<Option<String>, CertError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CertError::File { path: path.to_owned(), source }),
    }
}
