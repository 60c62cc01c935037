//! One generation of a family: its stores, opened and checked, and the rustls configurations made of them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};
use zebu_security::secret::SecretText;
use zebu_security::store::{self, StoreInput, StoreLimits};
use zebu_security::verify::{
    CertificatePolicy, CertificateUsage, CertificateValidity, ClientCertDemand, JavaClientVerifier,
    JavaServerVerifier, NameCheck, OwnCertificate, RevocationMode,
};

use crate::config::security::tls_family::{
    ClientAuth, StoreConfig, StorePassword, TlsFamily, TlsFamilyConfig,
};

/// Longest file of a store.
pub(crate) const STORE_FILE_BYTES_MAX: usize = 16 << 20;

/// Reads a file within [`STORE_FILE_BYTES_MAX`].
pub(crate) type ReadStore<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// A store of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsStore {
    /// Key and certificate of this server.
    Key,
    /// Trusted certificates.
    Trust,
}

/// Why the stores of a family cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub(crate) struct TlsLoadError {
    /// The store that is wrong.
    pub(crate) store: TlsStore,
    /// Its file, or the file of its password.
    path: PathBuf,
    reason: String,
}

/// A remark about a store that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsNote {
    /// The store.
    pub(crate) store: TlsStore,
    /// The remark.
    pub(crate) text: String,
}

/// The keys and rules of a family at one time. Connections keep the context they began with.
#[derive(Debug)]
pub(crate) struct TlsContext {
    acceptor: Arc<ServerConfig>,
    own: Arc<OwnCertificate>,
    policy: Option<Arc<CertificatePolicy>>,
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    hostname_verification: bool,
    validity: Option<CertificateValidity>,
    notes: Vec<TlsNote>,
}

impl TlsContext {
    /// Opens the stores, and builds everything that a connection needs.
    ///
    /// # Errors
    /// The store that cannot be used.
    pub(crate) fn load(config: &TlsFamilyConfig, read: ReadStore<'_>) -> Result<TlsContext, TlsLoadError> {
        let mut notes = Vec::new();
        let opened = OpenStore { config: &config.key_store, store: TlsStore::Key, read };
        let keys = opened.parse(store::read_key_store)?;
        let own = OwnCertificate::new(&keys).map_err(|error| opened.error(error))?;
        let note = |store| move |text| TlsNote { store, text };
        notes.extend(keys.notes.into_iter().map(note(TlsStore::Key)));
        let mut policy = None;
        if let Some(trust) = &config.trust_store {
            let opened = OpenStore { config: trust, store: TlsStore::Trust, read };
            let trusted = opened.parse(store::read_trust_store)?;
            let (usage, revocation) = (usage(config.family), revocation(config));
            let built = CertificatePolicy::new(&trusted, usage, revocation);
            policy = Some(built.map_err(|error| opened.error(error))?);
            notes.extend(trusted.notes.into_iter().map(note(TlsStore::Trust)));
        }
        let provider = Arc::new(CryptoProvider {
            cipher_suites: config.cipher_suites.clone(),
            ..rustls::crypto::ring::default_provider()
        });
        let acceptor =
            acceptor(config, &provider, &own, policy.as_ref()).map_err(|error| opened.error(error))?;
        Ok(TlsContext {
            acceptor: Arc::new(acceptor),
            own,
            policy,
            provider,
            versions: config.protocols.clone(),
            hostname_verification: config.hostname_verification,
            validity: keys.chain.first().and_then(|leaf| CertificateValidity::of(leaf)),
            notes,
        })
    }

    /// The configuration of the accepting side. It checks the path of a certificate, not its names.
    pub(crate) fn acceptor(&self) -> Arc<ServerConfig> {
        self.acceptor.clone()
    }

    /// A configuration of the accepting side for other servers: the certificate of the dialling server must
    /// fit one of the hosts.
    ///
    /// # Errors
    /// The family has no trust store.
    pub(crate) fn peer_acceptor(&self, hosts: Vec<String>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let missing = || rustls::Error::General("no trust store is configured".to_owned());
        let policy = self.policy.clone().ok_or_else(missing)?;
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&self.versions)?
            .with_client_cert_verifier(Arc::new(JavaClientVerifier::for_hosts(policy, hosts)));
        Ok(Arc::new(without_resumption(builder.with_cert_resolver(self.own.clone()))))
    }

    /// A configuration of the dialling side: the certificate of the dialled server must fit one of the
    /// hosts, unless `hostnameVerification` is off.
    ///
    /// # Errors
    /// The family has no trust store.
    pub(crate) fn dialer(&self, hosts: Vec<String>) -> Result<Arc<ClientConfig>, rustls::Error> {
        let missing = || rustls::Error::General("no trust store is configured".to_owned());
        let policy = self.policy.clone().ok_or_else(missing)?;
        let names = if self.hostname_verification { NameCheck::AnyOf(hosts) } else { NameCheck::Off };
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&self.versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(JavaServerVerifier::new(policy, names)))
            .with_client_cert_resolver(self.own.clone());
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// The time in which the certificate of this server is valid.
    pub(crate) fn validity(&self) -> Option<CertificateValidity> {
        self.validity
    }

    /// Remarks about the stores, for the log.
    pub(crate) fn notes(&self) -> &[TlsNote] {
        &self.notes
    }
}

fn usage(family: TlsFamily) -> CertificateUsage {
    match family {
        TlsFamily::Client | TlsFamily::Exporter => CertificateUsage::Client,
        TlsFamily::Quorum => CertificateUsage::Peer,
    }
}

fn revocation(config: &TlsFamilyConfig) -> RevocationMode {
    if config.crl { RevocationMode::Crls } else { RevocationMode::Off }
}

fn acceptor(
    config: &TlsFamilyConfig,
    provider: &Arc<CryptoProvider>,
    own: &Arc<OwnCertificate>,
    policy: Option<&Arc<CertificatePolicy>>,
) -> Result<ServerConfig, rustls::Error> {
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&config.protocols)?;
    let demand = match config.client_auth {
        ClientAuth::None => None,
        ClientAuth::Want => Some(ClientCertDemand::Want),
        ClientAuth::Need => Some(ClientCertDemand::Need),
    };
    let builder = match (demand, policy) {
        (None, _) => builder.with_no_client_auth(),
        (Some(demand), Some(policy)) => {
            builder.with_client_cert_verifier(Arc::new(JavaClientVerifier::new(policy.clone(), demand)))
        }
        (Some(_), None) => {
            return Err(rustls::Error::General("client certificates need a trust store".to_owned()));
        }
    };
    Ok(without_resumption(builder.with_cert_resolver(own.clone())))
}

/// A resumed session would outlive a removed CA, a new CRL and the end of a certificate. Connections are
/// long, and ZooKeeper's clients do not resume.
fn without_resumption(mut config: ServerConfig) -> ServerConfig {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

/// A store while it is read.
struct OpenStore<'a> {
    config: &'a StoreConfig,
    store: TlsStore,
    read: ReadStore<'a>,
}

impl OpenStore<'_> {
    fn error(&self, reason: impl ToString) -> TlsLoadError {
        TlsLoadError { store: self.store, path: self.config.path.clone(), reason: reason.to_string() }
    }

    fn parse<T>(
        &self,
        parse: impl Fn(&StoreInput<'_>) -> Result<T, store::StoreError>,
    ) -> Result<T, TlsLoadError> {
        let password = self.password()?;
        let bytes = (self.read)(&self.config.path).map_err(|error| self.error(error))?;
        let input = StoreInput {
            bytes: &bytes,
            password: &password,
            declared: self.config.declared,
            limits: StoreLimits { file_bytes: STORE_FILE_BYTES_MAX, ..StoreLimits::default() },
        };
        parse(&input).map_err(|error| self.error(error))
    }

    fn password(&self) -> Result<SecretText, TlsLoadError> {
        let path = match &self.config.password {
            StorePassword::Text(text) => return Ok(text.clone()),
            StorePassword::File(path) => path,
        };
        let error = |reason: String| TlsLoadError { store: self.store, path: path.clone(), reason };
        let content = (self.read)(path).map_err(|problem| error(problem.to_string()))?;
        SecretText::from_file_content(&content)
            .map_err(|_| error("the password file is not UTF-8".to_owned()))
    }
}
