//! The keys of TLS: defaults, ports, stores and refusals.

use zebu_security::store::StoreType;

use super::super::security::tls_family::{ClientAuth, StorePassword, TlsFamily};
use super::*;

const KEY: &str = include_str!("../../../../security/testdata/certificates/localhost.key");
const CERTIFICATE: &str = include_str!("../../../../security/testdata/certificates/localhost.crt");
const AUTHORITY: &str = include_str!("../../../../security/testdata/certificates/ca.crt");

fn with_stores(text: &str) -> ConfigCase {
    let stores = "ssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\n";
    with_base(&format!("{stores}{text}"))
        .other_file("/k.pem", &format!("{KEY}{CERTIFICATE}"))
        .other_file("/t.pem", AUTHORITY)
}

#[test]
fn client_family_defaults() {
    let config = with_stores("secureClientPort=2281\n").clean();
    let tls = &config.security.client_tls;
    assert_eq!(tls.secure_address, Some(BindAddress::AllInterfaces { port: 2281 }));
    let providers = config.security.client_sasl.providers;
    assert!(!tls.port_unification && providers.x509 && !providers.x509_line);
    assert_eq!((tls.handshakes_max, &tls.x509_super_user), (250, &None));
    let family = tls.family.as_ref().unwrap();
    assert_eq!(family.family, TlsFamily::Client);
    assert_eq!(family.client_auth, ClientAuth::Need);
    assert_eq!(family.protocols, [&rustls::version::TLS13, &rustls::version::TLS12]);
    assert!(family.hostname_verification && !family.client_hostname_verification && !family.crl);
    assert_eq!(family.detection_timeout, Duration::from_secs(5));
    assert_eq!(family.key_store.declared, Some(StoreType::Pem));
    assert_eq!(config.security.quorum_tls.family, None);
}

#[test]
fn values_of_the_client_family() {
    let config = with_stores(
        "secureClientPort=2281\nsecureClientPortAddress=10.0.0.9\nclient.portUnification=true\n\
         ssl.clientAuth=Want\nssl.enabledProtocols=TLSv1.2\nssl.clientHostnameVerification=true\n\
         ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\nssl.keyStore.password=x\n\
         ssl.keyStore.passwordPath=/password\nnetty.server.outstandingHandshake.limit=7\n\
         X509AuthenticationProvider.superUser=CN=root\nssl.handshakeDetectionTimeoutMillis=0\n",
    )
    .other_file("/password", "secret\n")
    .config();
    let tls = &config.security.client_tls;
    assert_eq!(tls.secure_address, Some(address("10.0.0.9:2281")));
    assert!(tls.port_unification);
    assert_eq!((tls.handshakes_max, tls.x509_super_user.as_deref()), (7, Some("CN=root")));
    let family = tls.family.as_ref().unwrap();
    assert_eq!((family.client_auth, family.client_hostname_verification), (ClientAuth::Want, true));
    assert_eq!((family.protocols.len(), family.cipher_suites.len()), (1, 1));
    assert_eq!(family.key_store.password, StorePassword::File("/password".into()), "the file wins");
    assert_eq!(family.detection_timeout, Duration::from_secs(5));
    assert!(!format!("{config:?}").contains("secret"));
}

#[test]
fn the_plain_port_may_be_absent() {
    let text = "dataDir=/data\nsecureClientPort=2281\nssl.keyStore.location=/k.pem\nssl.clientAuth=none\n";
    let config = file(text).other_file("/k.pem", &format!("{KEY}{CERTIFICATE}")).clean();
    assert_eq!(config.listen.client, None);
    assert!(config.security.client_tls.family.as_ref().unwrap().trust_store.is_none());
}

#[test]
fn a_tls_port_needs_its_stores() {
    with_base("secureClientPort=2281\n").errors(&[
        "zoo.cfg:4: ssl.keyStore.location is not set; a TLS port needs it: a PEM, PKCS12 or JKS file with key and \
         certificate",
        "zoo.cfg:4: ssl.trustStore.location is not set: clients show certificates; write ssl.clientAuth=none if they \
         do not",
    ]);
    with_base("secureClientPortAddress=10.0.0.9\n").errors(&[
        "zoo.cfg:4: secureClientPortAddress is set but secureClientPort is not; set both or neither",
    ]);
    with_stores("client.portUnification=yes\n")
        .errors(&["zoo.cfg:6: client.portUnification = \"yes\" is not valid; allowed: true or false"]);
    with_stores("secureClientPort=2281\nssl.keyStore.passwordPath=/absent\n")
        .errors(&["zoo.cfg:4: ssl.keyStore.location: /absent: entity not found"]);
}

#[test]
fn suites_must_fit_the_versions() {
    with_stores(
        "secureClientPort=1\nssl.enabledProtocols=TLSv1.2\nssl.ciphersuites=TLS_AES_128_GCM_SHA256\n",
    )
    .errors(&["zoo.cfg:8: no suite of ssl.ciphersuites belongs to an enabled protocol version; write \
           TLS_AES_128_GCM_SHA256 for TLSv1.3 or TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 for TLSv1.2"]);
    with_stores("secureClientPort=1\nssl.enabledProtocols=TLSv1.1,TLSv1.2\n").warnings(&[
        "zoo.cfg:7: ssl.enabledProtocols: TLSv1.1 is not used: this version is broken; write TLSv1.2 or TLSv1.3",
    ]);
}

#[test]
fn keys_without_a_port_or_a_meaning_are_told() {
    with_stores("").warnings(&[
        "zoo.cfg:4: no port uses TLS, so these have no effect: ssl.keyStore.location, ssl.trustStore.location; set \
         secureClientPort, or client.portUnification=true",
    ]);
    with_stores("secureClientPort=1\nssl.keystore.locatio=/k\nfips-mode=true\n").warnings(&[
        "zoo.cfg:7: ssl.keystore.locatio is unknown and has no effect; did you mean ssl.keyStore.location?",
        "zoo.cfg:8: fips-mode=true: the cryptography of this server has no FIPS 140 certificate",
    ]);
    with_stores("secureClientPort=1\nclient.certReload=true\n").notes(&[
        "zoo.cfg:7: client.certReload has no effect: changed certificate files are always read again",
    ]);
}

#[test]
fn servers_that_are_not_checked_are_reported() {
    let stores =
        "ssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\nsslQuorum=true\n";
    for (line, expected) in [
        ("ssl.quorum.clientAuth=need\n", None),
        ("ssl.quorum.clientAuth=want\n", None),
        ("ssl.quorum.clientAuth=none\n", Some("needs no certificate")),
        (
            "ssl.quorum.clientAuth=want\nssl.quorum.clientHostnameVerification=false\n",
            Some("needs no certificate"),
        ),
        ("ssl.quorum.hostnameVerification=false\n", Some("any certificate of the trust store")),
    ] {
        let loaded = with_base(&format!("{stores}{line}"))
            .other_file("/k.pem", &format!("{KEY}{CERTIFICATE}"))
            .other_file("/t.pem", AUTHORITY)
            .load();
        let warnings: Vec<String> = loaded.diagnostics.warnings.iter().map(ToString::to_string).collect();
        match expected {
            None => assert!(warnings.is_empty(), "{line}: {warnings:?}"),
            Some(text) => {
                assert!(warnings.iter().any(|warning| warning.contains(text)), "{line}: {warnings:?}")
            }
        }
    }
}
