//! TLS on the client ports of the real server: ports, identities, reload, stores and refusals.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
mod tls_common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{auth_body, create_body, path_and_watch, server};
use rcgen::DnType;
use tempfile::TempDir;
use tls_common::*;
use zebu_proto::{Acl, ErrorCode, OpCode};
use zebu_testing::{RawClient, Received, ServerProcess, port};

fn error(code: ErrorCode) -> i32 {
    code.wire()
}

#[test]
fn both_ports_serve_sessions() {
    let started = SecureServer::start(&[]);
    let plain_config = zebu_testing::four_letter::ask(started.server.address(), "conf", TIME_LIMIT).unwrap();
    assert!(
        plain_config.contains(&format!("secureClientPort={}\n", started.secure.port())),
        "{plain_config}"
    );
    let mut plain = common::open(&started.server).0;
    common::create(&mut plain, "/plain", b"data");
    let identity = started.authority.client(&[(DnType::CommonName, "c")]);
    for version in BOTH_VERSIONS {
        let config = client_config(&started.authority.pem(), Some(&identity), &[version]);
        let mut client = TlsClient::open(started.secure, &config).unwrap();
        assert_eq!(client.who_am_i(), ["x509:CN=c", "ip:127.0.0.1"]);
        let (header, body) = client.call(OpCode::GetData, path_and_watch("/plain", false)).unwrap();
        assert_eq!(header.err, 0);
        assert!(body.starts_with(b"\0\0\0\x04data"));
        // Larger than the buffers of TLS and of the socket.
        let path = format!("/large-{:?}", version.version);
        let (header, _) =
            client.call(OpCode::Create, create_body(&path, &vec![7; 1_000_000], Acl::open(), 0)).unwrap();
        assert_eq!(header.err, 0);
        for _ in 0..5 {
            let (header, body) = client.call(OpCode::GetData, path_and_watch(&path, false)).unwrap();
            assert_eq!((header.err, body.len() > 1_000_000), (0, true));
        }
    }
    assert_eq!(started.metric("unsuccessful_handshake"), 0);
    assert_eq!(started.metric("outstanding_tls_handshake"), 0);
}

#[test]
fn watch_events_reach_a_tls_client() {
    let started = SecureServer::start(&[]);
    let mut plain = common::open(&started.server).0;
    common::create(&mut plain, "/watched", b"0");
    let mut client = TlsClient::open(started.secure, &started.client("c")).unwrap();
    for value in [b"1", b"2"] {
        let (header, _) = client.call(OpCode::GetData, path_and_watch("/watched", true)).unwrap();
        assert_eq!(header.err, 0);
        common::done(&mut plain, OpCode::SetData, common::set_data_body("/watched", value, -1));
        let event = client.receive_frame().unwrap();
        assert_eq!(event[..4], (-1i32).to_be_bytes());
    }
}

#[test]
fn four_letter_words_work_inside_tls() {
    let started = SecureServer::start(&[]);
    for (word, expected) in [("ruok", "imok"), ("srvr", "Mode: standalone"), ("mntr", "zk_znode_count")] {
        let mut client = TlsClient::connect(started.secure, &started.client("c")).unwrap();
        client.stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        // A clean end: close_notify came.
        client.stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(expected), "{word}: {answer}");
    }
}

#[test]
fn certificates_are_identities() {
    let started = SecureServer::start(&["X509AuthenticationProvider.superUser=CN=root,O=Zebu Test"]);
    let mut owner = TlsClient::open(started.secure, &started.client("owner")).unwrap();
    let acl = vec![Acl::new(31, "x509", "CN=owner,O=Zebu Test")];
    let (header, _) = owner.call(OpCode::Create, create_body("/owned", b"x", acl, 0)).unwrap();
    assert_eq!(header.err, 0);
    let own = vec![Acl::new(31, "auth", "")];
    let (header, _) = owner.call(OpCode::Create, create_body("/auth", b"x", own, 0)).unwrap();
    assert_eq!(header.err, 0, "a certificate counts for auth");
    let (header, _) = owner
        .call(OpCode::Create, create_body("/bad", b"x", vec![Acl::new(31, "x509", "owner")], 0))
        .unwrap();
    assert_eq!(header.err, error(ErrorCode::InvalidAcl));

    let mut other = TlsClient::open(started.secure, &started.client("other")).unwrap();
    let mut root = TlsClient::open(started.secure, &started.client("root")).unwrap();
    assert_eq!(root.who_am_i(), ["x509:CN=root,O=Zebu Test", "super:", "ip:127.0.0.1"]);
    for path in ["/owned", "/auth"] {
        let read =
            |client: &mut TlsClient| client.call(OpCode::GetData, path_and_watch(path, false)).unwrap().0.err;
        assert_eq!(read(&mut owner), 0);
        assert_eq!(read(&mut other), error(ErrorCode::NoAuth));
        assert_eq!(read(&mut root), 0);
    }

    let (header, _) = owner.call(OpCode::Auth, auth_body("x509", b"")).unwrap();
    assert_eq!(header.err, 0, "it repeats the identity");
    assert_eq!(owner.who_am_i().len(), 2);
    let mut plain = common::open(&started.server).0;
    let (_, header, _) = plain.call(OpCode::Auth, auth_body("x509", b"")).unwrap();
    assert_eq!(header.err, error(ErrorCode::AuthFailed));
    assert_eq!(plain.receive(TIME_LIMIT).unwrap(), Received::Closed);
}

#[test]
fn certificates_that_java_accepts_are_accepted() {
    let started = SecureServer::start(&[]);
    let trust = started.authority.pem() + &fixture("ca.crt");
    write_private(&started.path("trust.pem"), &trust);
    let old = fixture("v1.key") + &fixture("v1.crt");
    let config = client_config(&started.authority.pem(), Some(&old), &BOTH_VERSIONS);
    eventually("the authority of the old certificate is trusted", || is_accepted(started.secure, &config));
    let mut client = TlsClient::open(started.secure, &config).unwrap();
    assert_eq!(client.who_am_i(), ["x509:CN=v1,O=Zebu Test", "ip:127.0.0.1"]);
    assert!(is_accepted(started.secure, &config));
    let reports =
        started.server.output().matches("a client shows a certificate that newer software refuses").count();
    assert_eq!(reports, 1, "it is reported once");
}

#[test]
fn client_auth_decides_who_needs_a_certificate() {
    for (line, without, with) in [
        ("ssl.clientAuth=need", None, Some(2)),
        ("ssl.clientAuth=WANT", Some(1), Some(2)),
        ("ssl.clientAuth=none", Some(1), Some(1)),
    ] {
        let started = SecureServer::start(&[line]);
        let ids =
            |config| TlsClient::open(started.secure, &config).ok().map(|mut client| client.who_am_i().len());
        for version in BOTH_VERSIONS {
            let anonymous = client_config(&started.authority.pem(), None, &[version]);
            assert_eq!(ids(anonymous), without, "{line}");
        }
        assert_eq!(ids(started.client("c")), with, "{line}");
        let stranger = TestAuthority::new("Other CA").client(&[(DnType::CommonName, "c")]);
        let stranger = client_config(&started.authority.pem(), Some(&stranger), &BOTH_VERSIONS);
        let expected = if line.ends_with("none") { Some(1) } else { None };
        assert_eq!(ids(stranger), expected, "{line}: an unknown authority");
    }
}

#[test]
fn addresses_of_clients_are_checked_when_asked_for() {
    let started = SecureServer::start(&["ssl.clientHostnameVerification=true"]);
    assert!(!is_accepted(started.secure, &started.client("c")), "no address in the certificate");
    let fitting = started.authority.server("client");
    let fitting = client_config(&started.authority.pem(), Some(&fitting), &BOTH_VERSIONS);
    assert!(is_accepted(started.secure, &fitting));
    assert_eq!(started.metric("auth_failed_count"), 1);
}

#[test]
fn protocols_are_narrowed() {
    let started = SecureServer::start(&["ssl.enabledProtocols=TLSv1.3,TLSv1.1"]);
    let identity = started.authority.client(&[(DnType::CommonName, "c")]);
    for (version, expected) in BOTH_VERSIONS.into_iter().zip([false, true]) {
        let config = client_config(&started.authority.pem(), Some(&identity), &[version]);
        assert_eq!(is_accepted(started.secure, &config), expected, "{version:?}");
    }
}

/// Both protocols on `clientPort`.
#[test]
fn port_unification_takes_both_protocols() {
    let started = SecureServer::start(&["client.portUnification=true"]);
    let address = started.server.address();
    let (mut plain, _) = common::open(&started.server);
    let (_, header, _) = plain.call(OpCode::Auth, auth_body("x509", b"")).unwrap();
    assert_eq!(header.err, error(ErrorCode::AuthFailed), "a plain client has no certificate");
    let mut client = TlsClient::open(address, &started.client("c")).unwrap();
    assert_eq!(client.who_am_i()[0], "x509:CN=c,O=Zebu Test");
    assert_eq!(zebu_testing::four_letter::ask(address, "ruok", TIME_LIMIT).unwrap(), "imok");
    // TLS byte by byte: the first byte alone decides.
    let mut slow = SlowWriter(TcpStream::connect(address).unwrap());
    slow.0.set_nodelay(true).unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut session = rustls::ClientConnection::new(started.client("slow"), name).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut slow).unwrap();
    }
}

/// Sends the first bytes one by one.
struct SlowWriter(TcpStream);

impl Read for SlowWriter {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for SlowWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes.iter().take(8) {
            self.0.write_all(&[*byte])?;
            std::thread::sleep(Duration::from_millis(2));
        }
        self.0.write_all(&bytes[bytes.len().min(8)..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// New connections use new files; old ones stay; bad files change nothing and are reported.
#[test]
fn certificates_are_reloaded() {
    let started = SecureServer::start(&[]);
    let config = started.client("c");
    let mut old = TlsClient::open(started.secure, &config).unwrap();
    let first = old.server_certificate();
    let store = started.path("server.pem");

    write_private(&store, &started.authority.server("renewed"));
    let certificate = || TlsClient::open(started.secure, &config).unwrap().server_certificate();
    eventually("the new certificate is used", || certificate() != first);
    let renewed = certificate();
    assert_eq!(old.who_am_i().len(), 2, "a running connection stays");

    let reports = |server: &ServerProcess| server.output().matches("the old ones stay in use").count();
    let before = reports(&started.server);
    let unusable: [(&str, &dyn Fn()); 4] = [
        ("garbage", &|| write_private(&store, "no store at all")),
        ("a half file", &|| {
            let whole = started.authority.server("half");
            write_private(&store, &whole[..whole.len() / 2]);
        }),
        ("deleted", &|| fs::remove_file(&store).unwrap()),
        ("a pipe", &|| {
            assert!(Command::new("mkfifo").arg(&store).status().unwrap().success());
        }),
    ];
    for (index, (what, change)) in unusable.into_iter().enumerate() {
        change();
        eventually(what, || reports(&started.server) > before + index);
        assert_eq!(certificate(), renewed, "{what}");
    }
    fs::remove_file(&store).unwrap();
    write_private(&store, &started.authority.server("last"));
    eventually("a good file is used again", || certificate() != renewed);

    // A removed authority: its clients are refused from now on, the running connection stays.
    let other = TestAuthority::new("Other CA");
    write_private(&started.path("trust.pem"), &other.pem());
    eventually("the old authority is not trusted", || !is_accepted(started.secure, &config));
    assert_eq!(old.who_am_i().len(), 2);
}

#[test]
fn revoked_certificates_are_refused() {
    let folder = TempDir::new().unwrap();
    let secure = port::free_address().unwrap();
    let authority = TestAuthority::new("Test CA");
    write_private(&folder.path().join("server.pem"), &authority.server("localhost"));
    let trust = folder.path().join("trust.pem");
    fs::write(&trust, fixture("ca.crt") + &fixture("ca.crl")).unwrap();
    let _server = server()
        .line(format!("secureClientPort={}", secure.port()))
        .line("secureClientPortAddress=127.0.0.1")
        .line(format!("ssl.keyStore.location={}", folder.path().join("server.pem").display()))
        .line(format!("ssl.trustStore.location={}", trust.display()))
        .line("ssl.crl=true")
        .start()
        .unwrap();
    for (name, expected) in [("v1", true), ("revoked", false)] {
        let identity = fixture(&format!("{name}.key")) + &fixture(&format!("{name}.crt"));
        let config = client_config(&authority.pem(), Some(&identity), &BOTH_VERSIONS);
        assert_eq!(is_accepted(secure, &config), expected, "{name}");
    }
}

/// A server process with a configuration of its own, gone at the end of the test.
struct BareServer(Child);

impl Drop for BareServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_may_have_the_tls_port_only() {
    let authority = TestAuthority::new("Test CA");
    let folder = TempDir::new().unwrap();
    let secure = port::free_address().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_private(&path("server.pem"), &authority.server("localhost"));
    fs::write(path("trust.pem"), authority.pem()).unwrap();
    let config = format!(
        "tickTime=2000\ndataDir={}\nsecureClientPort={}\nsecureClientPortAddress=127.0.0.1\n\
         ssl.keyStore.location={}\nssl.trustStore.location={}\n",
        path("data").display(),
        secure.port(),
        path("server.pem").display(),
        path("trust.pem").display()
    );
    fs::write(path("zoo.cfg"), config).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .arg("serve")
        .arg(path("zoo.cfg"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _server = BareServer(child);
    let identity = authority.client(&[(DnType::CommonName, "c")]);
    let config = client_config(&authority.pem(), Some(&identity), &BOTH_VERSIONS);
    eventually("the server serves", || is_accepted(secure, &config));
}

/// The output of a server that must not start.
fn refused_start(lines: &[String]) -> String {
    let folder = TempDir::new().unwrap();
    let text = format!(
        "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n{}\n",
        folder.path().join("data").display(),
        port::free_address().unwrap().port(),
        lines.join("\n")
    );
    let config = folder.path().join("zoo.cfg");
    fs::write(&config, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_zebu")).arg("serve").arg(&config).output().unwrap();
    assert!(!output.status.success(), "{lines:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn wrong_stores_refuse_the_start() {
    let authority = TestAuthority::new("Test CA");
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    write_private(Path::new(&path("good.pem")), &authority.server("localhost"));
    fs::write(path("trust.pem"), authority.pem()).unwrap();
    fs::write(path("garbage.jks"), "garbage").unwrap();
    let store = |key: &str, trust: &str| {
        vec![
            "secureClientPort=1".to_owned(),
            format!("ssl.keyStore.location={}", path(key)),
            format!("ssl.trustStore.location={}", path(trust)),
        ]
    };
    let more = |line: &str| {
        let mut lines = store("good.pem", "trust.pem");
        lines.push(line.to_owned());
        lines
    };
    for (lines, expected) in [
        (store("absent.pem", "trust.pem"), "zoo.cfg:5: ssl.keyStore.location: "),
        (store("garbage.jks", "trust.pem"), "neither PEM nor PKCS12 nor JKS"),
        (store("trust.pem", "trust.pem"), "the store has no private key"),
        (store("good.pem", "."), "zoo.cfg:6: ssl.trustStore.location: "),
        (more("ssl.crl=true"), "zoo.cfg:6: ssl.trustStore.location"),
        (more("ssl.ocsp=true"), "zoo.cfg:7: ssl.ocsp=true: OCSP is not supported; write ssl.crl=true"),
        (
            more("ssl.protocol=TLSv1"),
            "zoo.cfg:7: ssl.protocol: no protocol version of \"TLSv1\" is supported",
        ),
        (more("ssl.ciphersuites=SSL_RSA_WITH_RC4_128_SHA"), "zoo.cfg:7: ssl.ciphersuites: no cipher suite"),
        (more("ssl.context.supplier.class=a.B"), "zoo.cfg:7: ssl.context.supplier.class: the Java class a.B"),
        (more("ssl.authProvider=mine"), "zoo.cfg:7: ssl.authProvider = \"mine\" is not valid; allowed: x509"),
        (more("ssl.clientAuth=maybe"), "zoo.cfg:7: ssl.clientAuth = \"maybe\" is not valid"),
        (more("ssl.keyStore.type=BCFK"), "zoo.cfg:7: ssl.keyStore.type"),
        (more("ssl.keyStore.passwordPath=/absent"), "/absent: "),
        (vec!["secureClientPort=1".to_owned()], "ssl.keyStore.location is not set"),
    ] {
        let output = refused_start(&lines);
        assert!(output.contains(expected), "{expected} is missing in: {output}");
    }
}

#[test]
fn passwords_are_never_shown() {
    let authority = TestAuthority::new("Test CA");
    let folder = TempDir::new().unwrap();
    let key = folder.path().join("server.pem");
    fs::write(&key, authority.server("localhost")).unwrap();
    let output = refused_start(&[
        "secureClientPort=1".to_owned(),
        format!("ssl.keyStore.location={}", key.display()),
        "ssl.keyStore.password=geheim".to_owned(),
        "ssl.trustStore.location=/absent".to_owned(),
        "ssl.trustStore.password=streng".to_owned(),
    ]);
    assert!(!output.contains("geheim") && !output.contains("streng"), "{output}");
    assert!(output.contains("chmod o-rwx"), "the key is readable for everybody: {output}");
}

/// The JKS and PKCS12 files that operators have, made by the tools that made them.
#[test]
fn stores_of_openssl_and_keytool_are_served() {
    let authority = TestAuthority::new("Test CA");
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("server.pem"), authority.server("localhost")).unwrap();
    fs::write(path("ca.pem"), authority.pem()).unwrap();
    let run = |program: &str, arguments: &str| {
        let words = arguments.split_whitespace().map(|word| match word.strip_prefix('@') {
            Some(name) => path(name),
            None => word.to_owned(),
        });
        Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
    };
    if !run("openssl", "pkcs12 -export -name server -in @server.pem -out @server.p12 -passout pass:secret") {
        return;
    }
    let mut pairs = vec![("server.p12", "ca.pem")];
    let keytool = run(
        "keytool",
        "-importkeystore -noprompt -srckeystore @server.p12 -srcstoretype PKCS12 -srcstorepass secret \
         -destkeystore @server.jks -deststoretype JKS -deststorepass secret",
    ) && run(
        "keytool",
        "-importcert -noprompt -alias ca -file @ca.pem -keystore @trust.jks -storetype JKS -storepass secret",
    );
    if keytool {
        pairs.push(("server.jks", "trust.jks"));
    }
    fs::write(path("password"), "secret\n").unwrap();
    let identity = authority.client(&[(DnType::CommonName, "c")]);
    let config = client_config(&authority.pem(), Some(&identity), &BOTH_VERSIONS);
    for (key, trust) in pairs {
        let secure = port::free_address().unwrap();
        let _server = server()
            .property("zookeeper.ssl.keyStore.location", path(key))
            .property("zookeeper.ssl.keyStore.passwordPath", path("password"))
            .property("zookeeper.ssl.trustStore.location", path(trust))
            .property("zookeeper.ssl.trustStore.password", "secret")
            .line(format!("secureClientPort={}", secure.port()))
            .start()
            .unwrap();
        assert!(is_accepted(secure, &config), "{key}");
    }
}

/// OpenSSL as a client, where it is installed.
#[test]
fn openssl_is_served() {
    let started = SecureServer::start(&[]);
    let identity = started.authority.client(&[(DnType::CommonName, "c")]);
    fs::write(started.path("client.pem"), identity).unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let child = Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_return_error", version, "-connect"])
            .arg(started.secure.to_string())
            .arg("-cert")
            .arg(started.path("client.pem"))
            .arg("-CAfile")
            .arg(started.path("trust.pem"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else { return };
        child.stdin.as_mut().unwrap().write_all(b"ruok").unwrap();
        let mut answer = String::new();
        child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        child.wait().unwrap();
        assert_eq!(answer, "imok", "{version}");
    }
}

#[test]
fn raw_clients_on_the_wrong_port() {
    let started = SecureServer::start(&[]);
    let mut plain = RawClient::connect(started.secure).unwrap();
    plain.send_connect(&zebu_testing::raw::new_session_request()).unwrap();
    // An alert may come before the end; no frame does.
    assert!(!matches!(plain.receive(TIME_LIMIT), Ok(Received::Frame(_) | Received::Nothing)));
    assert_eq!(started.metric("unsuccessful_handshake"), 1);
    let log = started.server.output();
    assert!(log.contains("unsuccessful TLS handshake"), "{log}");
    assert!(
        TlsClient::connect(started.server.address(), &started.client("c")).is_err(),
        "TLS on the plain port"
    );
    assert!(is_accepted(started.secure, &started.client("c")));
}
