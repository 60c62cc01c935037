//! The check of client certificates at a listener.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::host;
use super::policy::CertificatePolicy;

/// The value of `clientAuth`, if certificates are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertDemand {
    /// A connection without certificate is kept, without identity.
    Want,
    /// A connection without certificate is refused.
    Need,
}

/// Verifies client certificates as Java does, within the limits of modern algorithms.
#[derive(Debug)]
pub struct JavaClientVerifier {
    policy: Arc<CertificatePolicy>,
    demand: ClientCertDemand,
    hosts: Option<Vec<String>>,
    subjects: Vec<DistinguishedName>,
}

impl JavaClientVerifier {
    /// A verifier for clients.
    pub fn new(policy: Arc<CertificatePolicy>, demand: ClientCertDemand) -> JavaClientVerifier {
        let subjects = policy.subjects();
        JavaClientVerifier { policy, demand, hosts: None, subjects }
    }

    /// A verifier for servers of the ensemble: the certificate must fit one of the hosts.
    pub fn for_hosts(policy: Arc<CertificatePolicy>, hosts: Vec<String>) -> JavaClientVerifier {
        let subjects = policy.subjects();
        JavaClientVerifier { policy, demand: ClientCertDemand::Need, hosts: Some(hosts), subjects }
    }
}

impl ClientCertVerifier for JavaClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.demand == ClientCertDemand::Need
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let fields = self.policy.check(end_entity, intermediates, now)?;
        if let Some(hosts) = &self.hosts {
            host::fits_any_peer(&fields, hosts)?;
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.policy.verify_tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.policy.verify_tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.policy.schemes()
    }
}
