//! The check of a server's certificate by the side that dials.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::host;
use super::policy::CertificatePolicy;

/// The names that the certificate of a dialled server must fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameCheck {
    /// The name or address that was dialled.
    DialledName,
    /// One of these hosts.
    AnyOf(Vec<String>),
    /// Any: `hostnameVerification=false`.
    Off,
}

/// Verifies server certificates as Java does, within the limits of modern algorithms.
#[derive(Debug)]
pub struct JavaServerVerifier {
    policy: Arc<CertificatePolicy>,
    names: NameCheck,
}

impl JavaServerVerifier {
    /// A verifier for dialled servers.
    pub fn new(policy: Arc<CertificatePolicy>, names: NameCheck) -> JavaServerVerifier {
        JavaServerVerifier { policy, names }
    }
}

impl ServerCertVerifier for JavaServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let fields = self.policy.check(end_entity, intermediates, now)?;
        match &self.names {
            NameCheck::DialledName => host::fits_any(&fields, &[server_name.to_str().into_owned()])?,
            NameCheck::AnyOf(hosts) => host::fits_any_peer(&fields, hosts)?,
            NameCheck::Off => {}
        }
        Ok(ServerCertVerified::assertion())
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
