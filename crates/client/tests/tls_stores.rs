//! TLS with the stores that Java programs have, certificates that only Java accepts, and OpenSSL as the peer.

mod common;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zebu_client::{Client, Connector, HostNames, ServerAddress, Tls, TlsError};
use zebu_security::secret::SecretText;
use zebu_security::store::{StoreInput, read_key_store, read_trust_store};
use zebu_security::verify::{
    CertificatePolicy, CertificateUsage, ClientCertDemand, JavaClientVerifier, OwnCertificate, RevocationMode,
};
use zebu_testing::TestServer;

use common::soon;

/// A store of this crate, or a certificate of `security`, from which the stores were made.
fn file(name: &str) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["testdata/stores", "../security/testdata/certificates"];
    let paths = folders.map(|folder| crate_folder.join(folder).join(name));
    paths.into_iter().find(|path| path.exists()).expect("a file of the tests")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).expect("a file of the tests")
}

/// A listener as the server has it, with the v1 certificate of `localhost`. It demands client certificates.
async fn listener(target: SocketAddr, versions: &[&'static rustls::SupportedProtocolVersion]) -> SocketAddr {
    let (none, own) = (SecretText::default(), [read("localhost.key"), read("localhost.crt")].concat());
    let own = read_key_store(&StoreInput::new(&own, &none)).expect("a key store");
    let trusted = read_trust_store(&StoreInput::new(&read("ca.crt"), &none)).expect("a trust store");
    let policy =
        CertificatePolicy::new(&trusted, CertificateUsage::Client, RevocationMode::Off).expect("a policy");
    let verifier = Arc::new(JavaClientVerifier::new(policy, ClientCertDemand::Need));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions that exist")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(OwnCertificate::new(&own).expect("a certificate"));
    zebu_testing::terminate_tls(target, config).await.expect("a free port")
}

/// A pair of trust store and key store, by what is special about them.
type StorePair = (&'static str, fn() -> Result<Tls, TlsError>);

const STORES: [StorePair; 6] = [
    ("JKS", || Tls::new().trust_store(file("trust.jks"), "secret")?.key_store(file("client.jks"), "secret")),
    ("PKCS12", || {
        Tls::new().trust_store(file("trust.p12"), "secret")?.key_store(file("client.p12"), "secret")
    }),
    ("old PKCS12", || Tls::new().trust_file(file("ca.crt"))?.key_store(file("client-legacy.p12"), "secret")),
    ("PEM", || Tls::new().trust_file(file("ca.crt"))?.identity_files(file("v1.crt"), file("v1.key"))),
    ("PEM, encrypted as Java 17 reads it", || {
        let tls = Tls::new().trust_file(file("ca.crt"))?;
        tls.identity_files_with_password(file("v1.crt"), file("encrypted-3des.key"), "secret")
    }),
    ("PEM, encrypted as OpenSSL writes it", || {
        let tls = Tls::new().trust_file(file("ca.crt"))?;
        tls.identity_files_with_password(file("v1.crt"), file("encrypted-aes.key"), "secret")
    }),
];

async fn connect(port: u16, tls: Tls) -> Result<Client, zebu_client::ConnectError> {
    let builder = Client::builder(&format!("localhost:{port}")).expect("an address");
    builder.connection_timeout(common::TIMEOUT).tls(tls.connector().expect("a connector")).connect().await
}

#[tokio::test]
async fn sessions_with_every_kind_of_store() {
    let server = TestServer::start().await.expect("a server");
    for versions in [&[&rustls::version::TLS12], &[&rustls::version::TLS13]] {
        let address = listener(server.address(), versions).await;
        for (kind, tls) in STORES {
            let client = soon(connect(address.port(), tls().expect(kind))).await;
            let client = client.unwrap_or_else(|error| panic!("{kind}: {error}"));
            client.get("/").await.expect("read");
            client.close().await.expect("closed");
        }
    }
}

#[tokio::test]
async fn versions_and_suites_are_those_of_the_lists() {
    let server = TestServer::start().await.expect("a server");
    let address = listener(server.address(), &[&rustls::version::TLS12]).await;
    let tls = || STORES[0].1().expect("stores");
    let only_12 = tls().protocols("TLSv1.2,TLSv1.1").expect("one of them");
    assert!(only_12.notes().iter().any(|note| note.starts_with("TLSv1.1: ")), "{:?}", only_12.notes());
    let suites = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA";
    let one = only_12.cipher_suites(suites).expect("one of them");
    soon(connect(address.port(), one)).await.expect("a session").close().await.expect("closed");

    let connector = tls().protocols("TLSv1.3").expect("a version").connector().expect("a connector");
    let error =
        soon(connector.connect(&ServerAddress { host: "localhost".into(), port: address.port() }, 0)).await;
    let error = error.map(drop).expect_err("the server only has 1.2").to_string();
    assert!(error.contains("refused the handshake (ProtocolVersion)"), "{error}");

    let error = tls().protocols("TLSv1").expect_err("broken").to_string();
    assert!(error.contains("write TLSv1.2 or TLSv1.3"), "{error}");
    let mixed = tls().protocols("TLSv1.3").expect("a version").cipher_suites(suites).expect("a suite");
    let error = mixed.connector().expect_err("they do not fit").to_string();
    assert!(error.contains("do not fit each other"), "{error}");
}

#[tokio::test]
async fn revoked_and_wrong_names_are_refused() {
    let server = TestServer::start().await.expect("a server");
    let address = listener(server.address(), rustls::ALL_VERSIONS).await;
    let attempt = async |host: &str, tls: Tls| {
        let connector = tls.connector().expect("a connector");
        let server = ServerAddress { host: host.into(), port: address.port() };
        soon(connector.connect(&server, 0)).await.map(drop).map_err(|error| error.to_string())
    };
    let tls = || STORES[3].1().expect("stores");
    attempt("localhost", tls()).await.expect("its common name");
    let error = attempt("127.0.0.1", tls()).await.expect_err("an address is no name");
    assert!(error.contains("does not name 127.0.0.1"), "{error}");
    attempt("127.0.0.1", tls().host_names(HostNames::Ignore)).await.expect("any name");

    let with_lists = [read("ca.crt"), read("ca.crl")].concat();
    let lists = Tls::new().trust_pem(&with_lists).expect("a trust store");
    let lists = lists.identity_files(file("v1.crt"), file("v1.key")).expect("an identity");
    attempt("localhost", lists.check_revocation()).await.expect("it is not revoked");
    let error = tls().check_revocation().connector().expect_err("no lists").to_string();
    assert!(error.contains("CRL"), "{error}");
}

#[test]
fn stores_that_do_not_open_are_named() {
    let text = |result: Result<Tls, TlsError>| result.expect_err("it cannot be used").to_string();
    let wrong = text(Tls::new().trust_store(file("trust.jks"), "other"));
    assert!(wrong.contains("trust.jks: the password does not open") && !wrong.contains("other"), "{wrong}");
    let wrong = text(Tls::new().key_store(file("client.p12"), "other"));
    assert!(wrong.contains("client.p12: the password does not open"), "{wrong}");
    let none = text(Tls::new().identity_files(file("v1.crt"), file("encrypted-aes.key")));
    assert!(none.contains("no password is set"), "{none}");
    let none = text(Tls::new().key_store(file("ca.crt"), ""));
    assert!(none.contains("has no private key"), "{none}");
    let empty = tempfile::NamedTempFile::new().expect("a file");
    assert!(text(Tls::new().trust_file(empty.path())).contains("the store is empty"));
}

/// `openssl s_server` with the v1 certificate. It demands a client certificate and sends lines back reversed.
struct OpenSsl {
    child: std::process::Child,
    port: u16,
}

impl OpenSsl {
    async fn start(version: &str) -> Option<OpenSsl> {
        if Command::new("openssl").arg("version").output().is_err() {
            eprintln!("skipped: there is no openssl");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").await.ok()?.local_addr().ok()?.port();
        let child = Command::new("openssl")
            .args(["s_server", "-rev", "-quiet", version, "-Verify", "2", "-verify_return_error"])
            .args(["-accept", &format!("127.0.0.1:{port}")])
            .arg("-CAfile")
            .arg(file("ca.crt"))
            .arg("-cert")
            .arg(file("localhost.crt"))
            .arg("-key")
            .arg(file("localhost.key"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let server = OpenSsl { child, port };
        soon(async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        Some(server)
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn openssl_as_the_peer() {
    for version in ["-tls1_2", "-tls1_3"] {
        let Some(server) = OpenSsl::start(version).await else { return };
        let connector = STORES[0].1().expect("stores").connector().expect("a connector");
        let address = ServerAddress { host: "localhost".into(), port: server.port };
        let mut stream = soon(connector.connect(&address, 0)).await.expect("a handshake");
        stream.write_all(b"ruok\n").await.expect("sent");
        let mut answer = [0; 5];
        soon(stream.read_exact(&mut answer)).await.expect("an answer");
        assert_eq!(&answer, b"kour\n");
        drop(stream);

        // Without a certificate, TLS 1.3 says no only after the client's handshake.
        let bare = Tls::new().trust_file(file("ca.crt")).expect("a store").connector().expect("a connector");
        let outcome = soon(async {
            let mut stream = bare.connect(&address, 0).await?;
            stream.write_all(b"ruok\n").await?;
            stream.read_exact(&mut [0; 5]).await
        });
        outcome.await.expect_err("a certificate is demanded");
    }
}
