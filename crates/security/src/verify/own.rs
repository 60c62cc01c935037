//! The own certificate of a process, for listeners and for dialled connections. X.509 v1 is accepted.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::store::{KeyStore, signing_key_fits};

/// The key store cannot be used for TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnCertificateError {
    /// rustls cannot sign with the key.
    #[error("the private key {place} cannot be used: {problem}")]
    Key {
        /// Alias or line.
        place: String,
        /// The reason.
        problem: String,
    },
    /// The first certificate belongs to another key.
    #[error("the first certificate does not fit the private key {place}")]
    DoesNotFit {
        /// Alias or line.
        place: String,
    },
}

/// Presents one certificate chain to every peer. rustls' own types refuse v1 certificates.
#[derive(Debug)]
pub struct OwnCertificate {
    key: Arc<CertifiedKey>,
}

impl OwnCertificate {
    /// Takes key and chain of a key store.
    pub fn new(store: &KeyStore) -> Result<Arc<OwnCertificate>, OwnCertificateError> {
        let place = || store.place.clone();
        let key = any_supported_type(&store.private_key())
            .map_err(|error| OwnCertificateError::Key { place: place(), problem: error.to_string() })?;
        if !store.chain.first().is_some_and(|leaf| signing_key_fits(key.as_ref(), leaf)) {
            return Err(OwnCertificateError::DoesNotFit { place: place() });
        }
        Ok(Arc::new(OwnCertificate { key: Arc::new(CertifiedKey::new(store.chain.clone(), key)) }))
    }
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.key))
    }
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(
        &self,
        _root_hint_subjects: &[&[u8]],
        _sigschemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.key))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
