//! TLS: a terminator with certificates of the test's own in front of a server.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::date_time_ymd;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use zebu_client::{Client, HostNames, SessionState, Tls, TlsError};
use zebu_testing::TestServer;

use common::authority::{Authority, Identity, connect, refused, trusting};
use common::soon;

/// What a terminator asks of clients.
enum Clients {
    Anybody,
    SignedBy(CertificateDer<'static>),
}

/// Takes TLS connections and forwards what they say to a server.
async fn terminator(
    target: SocketAddr,
    identity: Identity,
    clients: Clients,
    versions: &[&'static SupportedProtocolVersion],
) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .expect("versions that exist");
    let builder = match clients {
        Clients::Anybody => builder.with_no_client_auth(),
        Clients::SignedBy(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority).expect("an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
    };
    let (certificate, key) = identity.der;
    let config = builder.with_single_cert(vec![certificate], key).expect("a certificate and its key");
    zebu_testing::terminate_tls(target, config).await.expect("a free port")
}

async fn simple(server: &TestServer, identity: Identity) -> SocketAddr {
    terminator(server.address(), identity, Clients::Anybody, rustls::ALL_VERSIONS).await
}

#[tokio::test]
async fn a_session_over_tls() {
    let server = TestServer::start().await.expect("a server");
    let authority = Authority::new();
    for versions in [rustls::ALL_VERSIONS, &[&rustls::version::TLS12], &[&rustls::version::TLS13]] {
        let identity = authority.issue("127.0.0.1");
        let address = terminator(server.address(), identity, Clients::Anybody, versions).await;
        let tls = trusting(&authority).connector().expect("a connector");
        let builder = Client::builder(&address.to_string()).expect("an address");
        let client = builder.tls(tls).connect().await.expect("a session");
        // More than the buffers of both sides hold, in both directions at once.
        let data = vec![b'x'; 500_000];
        client.create("/large").data(data.clone()).await.expect("created");
        let writes: Vec<_> = (0..20).map(|_| client.set("/large", data.clone()).send()).collect();
        let reads: Vec<_> = (0..20).map(|_| client.get("/large").send()).collect();
        for write in writes {
            soon(write).await.expect("written");
        }
        for read in reads {
            assert_eq!(soon(read).await.expect("read").data, data);
        }
        server.cut_all();
        let mut states = client.states();
        soon(states.wait_for(|status| status.state == SessionState::Reconnected))
            .await
            .expect("it comes back");
        client.delete("/large").await.expect("deleted");
        client.close().await.expect("closed");
    }
}

#[tokio::test]
async fn names_are_verified_by_default() {
    let server = TestServer::start().await.expect("a server");
    let authority = Authority::new();
    let local = simple(&server, authority.issue("localhost")).await;
    let tls = trusting(&authority).connector().expect("a connector");
    connect(&format!("localhost:{}", local.port()), tls).await.expect("its name is localhost");

    let other = simple(&server, authority.issue("zk1.example")).await;
    let error = refused(other, trusting(&authority)).await;
    assert!(error.contains("its certificate does not name 127.0.0.1"), "{error}");
    let tls = trusting(&authority).host_names(HostNames::Ignore).connector().expect("a connector");
    connect(&other.to_string(), tls).await.expect("its name does not matter");
}

#[tokio::test]
async fn only_what_is_trusted_is_trusted() {
    let server = TestServer::start().await.expect("a server");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let address = simple(&server, stranger.issue("127.0.0.1")).await;
    for names in [HostNames::Verify, HostNames::Ignore] {
        let error = refused(address, trusting(&authority).host_names(names)).await;
        assert!(error.contains("not signed by a trusted authority"), "{error}");
    }
    let expired = authority.issue_with("127.0.0.1", |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    });
    let address = simple(&server, expired).await;
    for names in [HostNames::Verify, HostNames::Ignore] {
        let error = refused(address, trusting(&authority).host_names(names)).await;
        assert!(error.contains("expired"), "{error}");
    }
    // Several authorities can be trusted at once.
    let address = simple(&server, stranger.issue("127.0.0.1")).await;
    let both = format!("{}{}", authority.pem(), stranger.pem());
    let tls = Tls::new().trust_pem(both).expect("two certificates").connector().expect("a connector");
    connect(&address.to_string(), tls).await.expect("a session");
}

#[tokio::test]
async fn tls_and_plain_do_not_mix() {
    let server = TestServer::start().await.expect("a server");
    let authority = Authority::new();
    let error = refused(server.address(), trusting(&authority)).await;
    assert!(error.contains("not its port for TLS") || error.contains("does not speak TLS"), "{error}");

    let address = simple(&server, authority.issue("127.0.0.1")).await;
    let builder = Client::builder(&address.to_string()).expect("an address");
    let builder = builder.connection_timeout(Duration::from_secs(2));
    let error = builder.connect().await.expect_err("no session").to_string();
    assert!(error.contains("speaks TLS on this port"), "{error}");
}

#[tokio::test]
async fn a_server_can_demand_a_certificate() {
    let server = TestServer::start().await.expect("a server");
    let (authority, people) = (Authority::new(), Authority::new());
    for versions in [&[&rustls::version::TLS12], &[&rustls::version::TLS13]] {
        let clients = Clients::SignedBy(people.0.der().clone());
        let identity = authority.issue("127.0.0.1");
        let address = terminator(server.address(), identity, clients, versions).await;
        let error = refused(address, trusting(&authority)).await;
        assert!(error.contains("CertificateRequired") || error.contains("HandshakeFailure"), "{error}");

        let stranger = authority.issue("somebody");
        let tls = trusting(&authority).identity_pem(stranger.certificate, stranger.key).expect("an identity");
        let error = refused(address, tls).await;
        assert!(error.contains("UnknownCA") || error.contains("DecryptError"), "{error}");

        let known = people.issue("somebody");
        let directory = tempfile::tempdir().expect("a directory");
        let (certificate, key) = (directory.path().join("client.pem"), directory.path().join("client.key"));
        std::fs::write(&certificate, known.certificate).expect("written");
        std::fs::write(&key, known.key).expect("written");
        let tls = trusting(&authority).identity_files(certificate, key).expect("an identity");
        connect(&address.to_string(), tls.connector().expect("a connector")).await.expect("a session");
    }
}

#[test]
fn what_cannot_be_used_is_named() {
    let authority = Authority::new();
    let (one, other) = (authority.issue("a"), authority.issue("b"));
    let text = |result: Result<Tls, TlsError>| result.expect_err("it cannot be used").to_string();
    let missing = text(Tls::new().trust_file("/no/such/authority.pem"));
    assert!(missing.starts_with("cannot read /no/such/authority.pem: "), "{missing}");
    assert!(text(Tls::new().trust_pem("hello")).contains("neither PEM nor PKCS12 nor JKS"));
    assert!(text(Tls::new().trust_pem(&one.key)).contains("has no trusted certificate"));
    assert!(text(Tls::new().trust_pem(&authority.pem()[..200])).contains("it has no END line"));
    let no_key = text(Tls::new().identity_pem(&one.certificate, &one.certificate));
    assert!(no_key.contains("has no private key"), "{no_key}");
    // Both may be in one text.
    let joined = format!("{}{}", one.certificate, one.key);
    trusting(&authority).identity_pem(&joined, &joined).expect("both").connector().expect("a connector");
    let mixed = text(trusting(&authority).identity_pem(&one.certificate, &other.key));
    assert!(mixed.contains("no certificate of the store fits"), "{mixed}");
    assert!(matches!(Tls::new().connector(), Err(TlsError::NoTrustedCertificate)));
    let tls = trusting(&authority).connector().expect("a connector");
    assert_eq!(format!("{tls:?}"), "TlsConnector { .. }");
}
