//! Certificates of the tests' own, and clients that trust them.

use std::net::SocketAddr;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zebu_client::{Client, ConnectError, Tls, TlsConnector};

/// Signs certificates.
pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) der: (CertificateDer<'static>, PrivateKeyDer<'static>),
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "authority of a test");
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.issue_with(name, |_| {})
    }

    pub(crate) fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: (
                certificate.der().clone(),
                PrivateKeyDer::try_from(key.serialize_der()).expect("a key is a key"),
            ),
        }
    }
}

pub(crate) fn trusting(authority: &Authority) -> Tls {
    Tls::new().trust_pem(authority.pem()).expect("a certificate")
}

pub(crate) async fn connect(address: &str, tls: TlsConnector) -> Result<Client, ConnectError> {
    connect_within(super::TIMEOUT, address, tls).await
}

async fn connect_within(timeout: Duration, address: &str, tls: TlsConnector) -> Result<Client, ConnectError> {
    let builder = Client::builder(address).expect("an address").connection_timeout(timeout);
    builder.tls(tls).connect().await
}

/// The text of an attempt that must fail, and where it must say that it was made.
pub(crate) async fn refused(address: SocketAddr, tls: Tls) -> String {
    let tls = tls.connector().expect("a connector");
    let mut timeout = Duration::from_millis(500);
    loop {
        let result = connect_within(timeout, &address.to_string(), tls.clone()).await;
        let error = result.expect_err("nobody may connect").to_string();
        // A busy machine may not get to the end of a handshake in time.
        let unfinished = error.contains("no answer") || error.contains("timed out");
        if unfinished && timeout < super::TIMEOUT {
            timeout *= 4;
            continue;
        }
        assert!(error.contains(&format!("the last failure was {address}: ")), "{error}");
        return error;
    }
}
