//! TLS over a TCP stream: trusted authorities, the client's certificate and host name verification. PEM files
//! are read once. There is no store of public authorities, because ensembles use their own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as RustlsError, RootCertStore,
    SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::connector::{Connector, TcpConnector};
use crate::core::ServerAddress;

/// Whether the certificate of a server must match its host name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostNames {
    /// A subject alternative name must match the host name or address of the connection string.
    #[default]
    Verify,
    /// Any certificate of a trusted authority is accepted. The owner of any such certificate can then pose as
    /// any server.
    Ignore,
}

/// The reason why TLS cannot be set up. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The text is not PEM.
    #[error("{origin} is not PEM: {reason}")]
    Pem {
        /// The file, or a description of the text.
        origin: String,
        /// The reason.
        reason: String,
    },
    /// A certificate is missing.
    #[error("{origin} holds no certificate (-----BEGIN CERTIFICATE-----)")]
    NoCertificate {
        /// The file, or a description of the text.
        origin: String,
    },
    /// A private key is missing.
    #[error("{origin} holds no private key (-----BEGIN PRIVATE KEY-----)")]
    NoKey {
        /// The file, or a description of the text.
        origin: String,
    },
    /// The key is encrypted.
    #[error(
        "the private key in {origin} is encrypted; write it without a password: openssl pkey -in KEY -out PLAIN"
    )]
    EncryptedKey {
        /// The file, or a description of the text.
        origin: String,
    },
    /// There is no trusted authority.
    #[error("no trusted certificate was given; add the authority that signed the servers' certificates")]
    NoTrustedCertificate,
    /// Certificate and key do not match, or use something unsupported.
    #[error("{what}: {reason}")]
    Unusable {
        /// The subject of the error.
        what: &'static str,
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
#[derive(Debug, Default)]
#[must_use = "it does nothing before it is a connector"]
pub struct Tls {
    trusted: Vec<CertificateDer<'static>>,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    names: HostNames,
}

impl Tls {
    /// No trusted authority, no client certificate, host names verified.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Trusts every certificate of this PEM file as an authority.
    pub fn trust_file(self, path: impl AsRef<Path>) -> Result<Tls, TlsError> {
        let path = path.as_ref();
        self.trust(&read(path)?, path.display().to_string())
    }

    /// Trusts every certificate of this PEM text as an authority.
    pub fn trust_pem(self, pem: impl AsRef<[u8]>) -> Result<Tls, TlsError> {
        self.trust(pem.as_ref(), "the text of trusted certificates".to_owned())
    }

    fn trust(mut self, pem: &[u8], origin: String) -> Result<Tls, TlsError> {
        self.trusted.extend(certificates(pem, origin)?);
        Ok(self)
    }

    /// Presents this certificate, followed by its chain, to servers. Certificate and key may be in one file.
    pub fn identity_files(
        self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Tls, TlsError> {
        let (certificate, key) = (certificate.as_ref(), key.as_ref());
        let origins = (certificate.display().to_string(), key.display().to_string());
        self.identity(&read(certificate)?, &read(key)?, origins)
    }

    /// Presents this certificate, given as PEM text and followed by its chain, to servers.
    pub fn identity_pem(self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Tls, TlsError> {
        let origins = ("the text of the client's certificate".to_owned(), "the text of its key".to_owned());
        self.identity(certificate.as_ref(), key.as_ref(), origins)
    }

    fn identity(mut self, chain: &[u8], key: &[u8], origins: (String, String)) -> Result<Tls, TlsError> {
        self.identity = Some((certificates(chain, origins.0)?, private_key(key, origins.1)?));
        Ok(self)
    }

    /// Whether the certificate of a server must match its host name (default: yes).
    pub fn host_names(mut self, names: HostNames) -> Tls {
        self.names = names;
        self
    }

    /// Validates the settings and builds the connector.
    pub fn connector(self) -> Result<TlsConnector, TlsError> {
        if self.trusted.is_empty() {
            return Err(TlsError::NoTrustedCertificate);
        }
        let mut roots = RootCertStore::empty();
        for certificate in self.trusted {
            roots.add(certificate).map_err(unusable("a trusted certificate"))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().map_err(
                |error| TlsError::Unusable { what: "the trusted certificates", reason: error.to_string() },
            )?;
        let verifier: Arc<dyn ServerCertVerifier> = match self.names {
            HostNames::Verify => verifier,
            HostNames::Ignore => Arc::new(IgnoreHostName { verifier }),
        };
        let builder = with_safe_versions(provider)?.dangerous().with_custom_certificate_verifier(verifier);
        let config = match self.identity {
            Some((chain, key)) => {
                builder.with_client_auth_cert(chain, key).map_err(unusable("the client's certificate"))?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(TlsConnector { inner: Arc::new(config).into() })
    }
}

type TlsConfigBuilder = rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>;

fn with_safe_versions(provider: Arc<CryptoProvider>) -> Result<TlsConfigBuilder, TlsError> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable("the versions of TLS"))
}

fn unusable(what: &'static str) -> impl Fn(RustlsError) -> TlsError {
    move |error| TlsError::Unusable { what, reason: error.to_string() }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

fn certificates(pem: &[u8], origin: String) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::NoCertificate { origin }),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::Pem { origin, reason: error.to_string() }),
    }
}

fn private_key(pem: &[u8], origin: String) -> Result<PrivateKeyDer<'static>, TlsError> {
    const ENCRYPTED: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];
    if ENCRYPTED.iter().any(|mark| pem.windows(mark.len()).any(|window| window == *mark)) {
        return Err(TlsError::EncryptedKey { origin });
    }
    let mut sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem);
    loop {
        match sections.next() {
            None => return Err(TlsError::NoKey { origin }),
            Some(Err(error)) => return Err(TlsError::Pem { origin, reason: error.to_string() }),
            Some(Ok((kind, der))) => {
                if let Some(key) = PrivateKeyDer::from_pem(kind, der) {
                    return Ok(key);
                }
            }
        }
    }
}

/// Opens TLS streams; made by [`Tls::connector`].
#[derive(Clone)]
pub struct TlsConnector {
    inner: tokio_rustls::TlsConnector,
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

/// Verifies all but the host name.
#[derive(Debug)]
struct IgnoreHostName {
    verifier: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for IgnoreHostName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        match self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is checked last: chain, dates and purpose are valid.
            Err(RustlsError::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
