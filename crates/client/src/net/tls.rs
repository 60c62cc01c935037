//! TLS over a TCP stream: trusted authorities, the client's certificate, versions and suites, and host name
//! verification. Files are read once. There is no list of public authorities; ensembles use their own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::{
    CertificateError, ClientConfig, Error as RustlsError, SupportedCipherSuite, SupportedProtocolVersion,
};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use zebu_security::java_names::{JavaNamesError, parse_cipher_suites, parse_protocols};
use zebu_security::secret::{SecretBytes, SecretText};
use zebu_security::store::{KeyStore, StoreError, StoreInput, StoreType, TrustStore};
use zebu_security::store::{read_key_store, read_trust_store};
use zebu_security::verify::{
    CertificatePolicy, CertificateUsage, JavaServerVerifier, NameCheck, OwnCertificate, OwnCertificateError,
    PolicyError, RevocationMode,
};

use super::connector::{Connector, TcpConnector};
use crate::core::ServerAddress;

/// Whether the certificate of a server must match its host name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostNames {
    /// A subject alternative name must match the host name or address of the connection string. Without DNS
    /// names, the common name must match.
    #[default]
    Verify,
    /// Any certificate of a trusted authority is accepted. The owner of any such certificate can then pose as
    /// any server.
    Ignore,
}

/// The reason why TLS cannot be set up. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A key store or trust store cannot be used.
    #[error("{origin}: {source}")]
    Store {
        /// The file, or a description of the text.
        origin: String,
        /// The reason.
        source: StoreError,
    },
    /// A list of protocol versions or cipher suites has no usable name.
    #[error(transparent)]
    Names(#[from] JavaNamesError),
    /// There is no trusted authority.
    #[error("no trusted certificate was given; add the authority that signed the servers' certificates")]
    NoTrustedCertificate,
    /// A trusted certificate or CRL cannot be used.
    #[error(transparent)]
    Trust(#[from] PolicyError),
    /// The client's certificate or key cannot be used.
    #[error("the client's certificate: {0}")]
    Identity(#[from] OwnCertificateError),
    /// The versions of TLS and the cipher suites do not fit each other.
    #[error("the versions of TLS and the cipher suites do not fit each other: {reason}")]
    Unusable {
        /// The reason.
        reason: String,
    },
}

/// The settings of TLS; [`Tls::connector`] turns them into a [`TlsConnector`].
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zebu_client::{Client, Tls};
///
/// let tls = Tls::new()
///     .trust_file("/etc/zebu/authority.pem")?
///     .identity_files("/etc/zebu/client.pem", "/etc/zebu/client.key")?
///     .connector()?;
/// let client = Client::builder("zk1:2281,zk2:2281,zk3:2281")?.tls(tls).connect().await?;
/// # Ok(()) }
/// ```
///
/// The stores of a Java client work too:
///
/// ```no_run
/// # fn example() -> Result<(), zebu_client::TlsError> {
/// let tls = zebu_client::Tls::new()
///     .trust_store("/etc/kafka/truststore.jks", "secret")?
///     .key_store("/etc/kafka/keystore.p12", "secret")?
///     .protocols("TLSv1.3,TLSv1.2")?
///     .connector()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "it does nothing before it is a connector"]
pub struct Tls {
    trusted: Option<TrustStore>,
    identity: Option<KeyStore>,
    names: HostNames,
    versions: Option<Vec<&'static SupportedProtocolVersion>>,
    suites: Option<Vec<SupportedCipherSuite>>,
    checks_revocation: bool,
    notes: Vec<String>,
}

impl Tls {
    /// No trusted authority, no client certificate, host names verified, TLS 1.2 and 1.3.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Trusts every certificate of this file as an authority. PEM, and PKCS12 without a password.
    pub fn trust_file(self, path: impl AsRef<Path>) -> Result<Tls, TlsError> {
        self.trust_store(path, "")
    }

    /// Trusts every trusted certificate of this store: PEM, PKCS12 or JKS. The content decides the format.
    pub fn trust_store(self, path: impl AsRef<Path>, password: impl Into<String>) -> Result<Tls, TlsError> {
        let path = path.as_ref();
        let declared = declared_type(path);
        self.trust(&read(path)?, &SecretText::new(password), declared, path.display().to_string())
    }

    /// Trusts every certificate of this PEM text as an authority.
    pub fn trust_pem(self, pem: impl AsRef<[u8]>) -> Result<Tls, TlsError> {
        let origin = "the text of trusted certificates".to_owned();
        self.trust(pem.as_ref(), &SecretText::default(), None, origin)
    }

    fn trust(
        mut self,
        bytes: &[u8],
        password: &SecretText,
        declared: Option<StoreType>,
        origin: String,
    ) -> Result<Tls, TlsError> {
        let input = StoreInput { declared, ..StoreInput::new(bytes, password) };
        let mut store =
            read_trust_store(&input).map_err(|source| TlsError::Store { origin: origin.clone(), source })?;
        self.notes.extend(store.notes.drain(..).map(|note| format!("{origin}: {note}")));
        match &mut self.trusted {
            Some(trusted) => {
                trusted.entries.append(&mut store.entries);
                trusted.crls.append(&mut store.crls);
            }
            None => self.trusted = Some(store),
        }
        Ok(self)
    }

    /// Presents this certificate, followed by its chain, to servers. Certificate and key may be in one PEM
    /// file.
    pub fn identity_files(
        self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Tls, TlsError> {
        self.identity_files_with_password(certificate, key, "")
    }

    /// Like [`Tls::identity_files`], with an encrypted private key.
    pub fn identity_files_with_password(
        self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
        password: impl Into<String>,
    ) -> Result<Tls, TlsError> {
        let (certificate, key) = (certificate.as_ref(), key.as_ref());
        if certificate == key {
            return self.key_store(certificate, password);
        }
        let origin = format!("{} with {}", certificate.display(), key.display());
        self.identity(joined(&read(certificate)?, &read(key)?), &SecretText::new(password), None, origin)
    }

    /// Presents the certificate of this store: PEM, PKCS12 or JKS. The content decides the format. The
    /// password is that of the store and of its key; an unencrypted PEM file needs none.
    pub fn key_store(self, path: impl AsRef<Path>, password: impl Into<String>) -> Result<Tls, TlsError> {
        let path = path.as_ref();
        let declared = declared_type(path);
        self.identity(read(path)?, &SecretText::new(password), declared, path.display().to_string())
    }

    /// Presents this certificate, given as PEM text and followed by its chain, to servers.
    pub fn identity_pem(self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Tls, TlsError> {
        let origin = "the text of the client's certificate and key".to_owned();
        self.identity(joined(certificate.as_ref(), key.as_ref()), &SecretText::default(), None, origin)
    }

    fn identity(
        mut self,
        bytes: Vec<u8>,
        password: &SecretText,
        declared: Option<StoreType>,
        origin: String,
    ) -> Result<Tls, TlsError> {
        // The buffer holds a private key.
        let bytes = SecretBytes::new(bytes);
        let input = StoreInput { declared, ..StoreInput::new(bytes.reveal(), password) };
        let mut store =
            read_key_store(&input).map_err(|source| TlsError::Store { origin: origin.clone(), source })?;
        self.notes.extend(store.notes.drain(..).map(|note| format!("{origin}: {note}")));
        // The file of the key may repeat the certificates.
        let mut sent = Vec::new();
        store.chain.retain(|certificate| {
            let is_new = !sent.contains(certificate);
            sent.push(certificate.clone());
            is_new
        });
        self.identity = Some(store);
        Ok(self)
    }

    /// Whether the certificate of a server must match its host name (default: yes).
    pub fn host_names(mut self, names: HostNames) -> Tls {
        self.names = names;
        self
    }

    /// The offered versions by their Java names, separated by commas (default: `TLSv1.3,TLSv1.2`).
    pub fn protocols(mut self, list: &str) -> Result<Tls, TlsError> {
        let names = parse_protocols(list)?;
        self.notes.extend(names.ignored.iter().map(|name| format!("{}: {}", name.name, name.reason)));
        self.versions = Some(names.supported);
        Ok(self)
    }

    /// The offered cipher suites by their IANA names, separated by commas (default: all that are safe).
    pub fn cipher_suites(mut self, list: &str) -> Result<Tls, TlsError> {
        let names = parse_cipher_suites(list)?;
        self.notes.extend(names.ignored.iter().map(|name| format!("{}: {}", name.name, name.reason)));
        self.suites = Some(names.supported);
        Ok(self)
    }

    /// Refuses revoked certificates by the `X509 CRL` blocks of the PEM trust store (default: no check). Each
    /// authority of a chain needs a list.
    pub fn check_revocation(mut self) -> Tls {
        self.checks_revocation = true;
        self
    }

    /// Remarks about the given files and lists, such as an ignored name or a second key.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Validates the settings and builds the connector.
    pub fn connector(self) -> Result<TlsConnector, TlsError> {
        let trusted = self.trusted.ok_or(TlsError::NoTrustedCertificate)?;
        let revocation = if self.checks_revocation { RevocationMode::Crls } else { RevocationMode::Off };
        let policy = CertificatePolicy::new(&trusted, CertificateUsage::Server, revocation)?;
        let names = match self.names {
            HostNames::Verify => NameCheck::DialledName,
            HostNames::Ignore => NameCheck::Off,
        };
        let mut provider: CryptoProvider = ring::default_provider();
        if let Some(suites) = self.suites {
            provider.cipher_suites = suites;
        }
        let versions = self.versions.as_deref().unwrap_or(rustls::ALL_VERSIONS);
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .map_err(|error| TlsError::Unusable { reason: error.to_string() })?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(JavaServerVerifier::new(policy, names)));
        let config = match &self.identity {
            Some(identity) => builder.with_client_cert_resolver(OwnCertificate::new(identity)?),
            None => builder.with_no_client_auth(),
        };
        Ok(TlsConnector { inner: Arc::new(config).into() })
    }
}

/// The files of a certificate and its key as one text.
fn joined(certificate: &[u8], key: &[u8]) -> Vec<u8> {
    if certificate == key { certificate.to_vec() } else { [certificate, b"\n", key].concat() }
}

/// The type that the name of a file declares. The content wins.
fn declared_type(path: &Path) -> Option<StoreType> {
    path.file_name().and_then(|name| name.to_str()).and_then(StoreType::from_file_name)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// Opens TLS streams; made by [`Tls::connector`].
#[derive(Clone)]
pub struct TlsConnector {
    inner: tokio_rustls::TlsConnector,
}

impl TlsConnector {
    /// Whether servers see a certificate of this client.
    pub fn has_certificate(&self) -> bool {
        self.inner.config().client_auth_cert_resolver.has_certs()
    }
}

impl std::fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys must not appear in logs.
        f.debug_struct("TlsConnector").finish_non_exhaustive()
    }
}

impl Connector for TlsConnector {
    type Stream = TlsStream<TcpStream>;

    async fn connect(&self, server: &ServerAddress, random: u64) -> io::Result<TlsStream<TcpStream>> {
        let host = &*server.host;
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            let why = format!("TLS: {host} is neither a host name nor an address");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        let stream = TcpConnector.connect(server, random).await?;
        self.inner.connect(name, stream).await.map_err(|error| explain(host, &error))
    }
}

/// Explains a failed handshake.
fn explain(host: &str, error: &io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<RustlsError>());
    let meaning = match cause {
        // The signature does not verify if a trusted authority has the same name and another key.
        Some(RustlsError::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => {
            "its certificate was not signed by a trusted authority".to_owned()
        }
        Some(RustlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => format!("its certificate does not name {host}"),
        Some(RustlsError::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "its certificate has expired".to_owned(),
        Some(RustlsError::InvalidCertificate(CertificateError::Revoked)) => {
            "its certificate is revoked".to_owned()
        }
        Some(RustlsError::InvalidMessage(_)) => "it does not speak TLS on this port".to_owned(),
        Some(RustlsError::AlertReceived(alert)) => format!("it refused the handshake ({alert:?})"),
        Some(other) => other.to_string(),
        None if ended(error) => {
            "it closed the connection; perhaps this is not its port for TLS, or it demands a client certificate"
                .to_owned()
        }
        None => error.to_string(),
    };
    io::Error::new(error.kind(), format!("TLS handshake failed: {meaning}"))
}

fn ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}
