//! Refused protection as an operator sees it: each refusal has a log line with address and reason, a counter
//! by reason, and a bound.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
mod sasl_common;
mod tls_common;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, date_time_ymd};
use rustls::ClientConfig;
use sasl_common::{SaslServer, authenticate};
use tempfile::TempDir;
use tls_common::*;
use zebu_testing::{ServerProcess, old_client_hello, port};

impl SecureServer {
    fn usual_client(&self) -> Arc<ClientConfig> {
        self.changed(&|_| ())
    }

    /// A client with a certificate that differs in one point.
    fn changed(&self, change: &dyn Fn(&mut CertificateParams)) -> Arc<ClientConfig> {
        let mut params = subject(&[(DnType::CommonName, "c")]);
        change(&mut params);
        client_config(&self.authority.pem(), Some(&self.authority.issue(&params)), &BOTH_VERSIONS)
    }

    /// Expects one more failure of this reason, and a line about it.
    fn expect(&self, reason: &str, line: Option<&str>, attempt: &mut dyn FnMut()) {
        let name = format!("{reason}_tls_handshake_failed");
        let before = self.metric(&name);
        attempt();
        eventually(reason, || self.metric(&name) == before + 1);
        let Some(text) = line else { return };
        eventually(&format!("a line for {reason}: {text}"), || {
            let log = self.server.output();
            log.lines().any(|line| line.contains("peer=127.0.0.1:") && line.contains(text))
        });
    }
}

/// Sends bytes and waits for the end.
fn send(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn each_failed_handshake_has_a_reason() {
    let started = SecureServer::start(&[]);
    let secure = started.secure;
    let stranger = TestAuthority::new("Other CA");
    let unknown = client_config(&started.authority.pem(), Some(&stranger.client(&[])), &BOTH_VERSIONS);
    let distrustful = {
        let identity = started.authority.client(&[(DnType::CommonName, "c")]);
        client_config(&stranger.pem(), Some(&identity), &BOTH_VERSIONS)
    };
    let expired = started.changed(&|params| params.not_after = date_time_ymd(2021, 1, 1));
    let early = started.changed(&|params| params.not_before = date_time_ymd(2089, 1, 1));
    let for_servers =
        started.changed(&|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    let anonymous = client_config(&started.authority.pem(), None, &BOTH_VERSIONS);
    started.expect("not_tls", Some("unsuccessful TLS handshake"), &mut || {
        send(secure, b"GET / HTTP/1.1\r\n\r\n");
    });
    started.expect("protocol", Some("unsuccessful TLS handshake"), &mut || send(secure, &old_client_hello()));
    for (reason, text, config) in [
        ("unknown_ca", "UnknownIssuer", &unknown),
        ("not_in_time", "Expired", &expired),
        ("not_in_time", "NotValidYet", &early),
        ("bad_certificate", "InvalidPurpose", &for_servers),
        ("no_certificate", "peer sent no certificates", &anonymous),
        ("refused_by_peer", "received fatal alert", &distrustful),
    ] {
        started.expect(reason, Some(text), &mut || assert!(!is_accepted(secure, config), "{reason}"));
    }
    // A connection that just ends is no line of the log: load balancers do that.
    started.expect("closed", None, &mut || {
        let mut half = TcpStream::connect(secure).unwrap();
        half.write_all(&old_client_hello()[..20]).unwrap();
    });
    assert_eq!(started.metric("unsuccessful_handshake"), 9);
    assert!(is_accepted(secure, &started.usual_client()));
    zebu_testing::four_letter::ask(started.server.address(), "srst", TIME_LIMIT).unwrap();
    assert_eq!(started.metric("not_tls_tls_handshake_failed"), 0);
}

#[test]
fn names_and_revocation() {
    let started = SecureServer::start(&["ssl.clientHostnameVerification=true"]);
    let (secure, wrong) = (started.secure, started.usual_client());
    started.expect("wrong_name", Some("the certificate of a client was refused"), &mut || {
        assert!(!is_accepted(secure, &wrong));
    });
    assert_eq!(started.metric("auth_failed_count"), 1);

    let authority = TestAuthority::new("Test CA");
    let (folder, secure) = (TempDir::new().unwrap(), port::free_address().unwrap());
    let trust = fixture("ca.crt") + &fixture("ca.crl");
    let server = with_tls(folder.path(), secure, &authority.server("localhost"), &trust);
    let server = server.line("ssl.crl=true").start().unwrap();
    let started = SecureServer { server, secure, authority, folder };
    let identity = fixture("revoked.key") + &fixture("revoked.crt");
    let revoked = client_config(&started.authority.pem(), Some(&identity), &BOTH_VERSIONS);
    started.expect("revoked", Some("Revoked"), &mut || assert!(!is_accepted(secure, &revoked)));
}

/// Resident memory of a process in bytes.
fn resident(server: &ServerProcess) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Handshakes beyond the limit are closed at once. Neither memory nor the log grows with them.
#[test]
fn a_thousand_handshakes_at_once() {
    const CONNECTIONS: usize = 1000;
    const LIMIT: i64 = 250;
    const GROWTH_MAX: u64 = 64 << 20;
    let started = SecureServer::start(&[]);
    assert!(is_accepted(started.secure, &started.usual_client()));
    let before = resident(&started.server);
    let hello = old_client_hello();
    let half: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(started.secure).unwrap();
            // A refused connection may be closed already.
            let _ = stream.write_all(&hello[..hello.len() - 1]);
            stream
        })
        .collect();
    let refused = CONNECTIONS as i64 - LIMIT;
    eventually("all are handled", || {
        // Those within the limit end after ten seconds, and make room for others.
        started.metric("tls_handshake_exceeded")
            + started.metric("timeout_tls_handshake_failed")
            + started.metric("outstanding_tls_handshake")
            >= CONNECTIONS as i64
    });
    assert!(started.metric("outstanding_tls_handshake") <= LIMIT);
    assert!(started.metric("tls_handshake_exceeded") > refused / 2);
    let grown = resident(&started.server).saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes");
    eventually("the slow ones end", || started.metric("outstanding_tls_handshake") == 0);
    drop(half);
    assert!(is_accepted(started.secure, &started.usual_client()));
    let log = started.server.output();
    let lines = log.lines().filter(|line| line.contains("too many TLS handshakes")).count();
    assert!((1..=3).contains(&lines), "{lines} lines for {refused} connections");
    assert!(log.contains("the TLS handshake took longer than 10 seconds"), "{log}");
}

/// OpenSSL renegotiates when it reads an R. The server refuses, and serves on.
#[test]
fn renegotiation_is_refused() {
    let started = SecureServer::start(&[]);
    let identity = started.authority.client(&[(DnType::CommonName, "c")]);
    let file = started.folder.path().join("client.pem");
    fs::write(&file, identity).unwrap();
    let child = Command::new("openssl")
        .args(["s_client", "-tls1_2", "-connect", &started.secure.to_string(), "-cert"])
        .arg(&file)
        .arg("-CAfile")
        .arg(started.folder.path().join("trust.pem"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return eprintln!("skipped: there is no openssl") };
    eventually("the handshake is done", || started.metric("num_alive_connections") >= 2);
    child.stdin.as_mut().unwrap().write_all(b"R\n").unwrap();
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(told.contains("RENEGOTIATING"), "{told}");
    let refused = ["no renegotiation", "unexpected message", "alert", "unexpected eof"];
    assert!(refused.iter().any(|text| told.contains(text)), "{told}");
    assert!(is_accepted(started.secure, &started.usual_client()));
}

#[test]
fn failed_sasl_has_a_line_and_a_counter() {
    let server = SaslServer::start(&[]);
    assert_eq!(authenticate(&mut server.client(), "bob", "wrong"), -115);
    assert_eq!(metric(server.server.address(), "sasl_failed"), 1);
    let log = server.server.output();
    let line = log.lines().find(|line| line.contains("SASL authentication failed")).unwrap();
    assert!(line.contains("peer=127.0.0.1:") && line.contains("reason="), "{line}");
    fs::write(server.jaas_path(), "Server {\n broken").unwrap();
    eventually("the reload is counted", || metric(server.server.address(), "sasl_users_reload_failed") == 1);
}

/// A certificate that ends soon is reported at the start, and its days are counted.
#[test]
fn the_end_of_a_certificate_is_reported() {
    for (days, level) in [("20", Some("days_left=")), ("400", None)] {
        let home = TempDir::new().unwrap();
        let made = Command::new(env!("CARGO_BIN_EXE_zebu"))
            .args(["cert", "server", "--days", days])
            .current_dir(home.path())
            .output()
            .unwrap();
        assert!(made.status.success());
        let secure = port::free_address().unwrap();
        let read = |name: &str| fs::read_to_string(home.path().join("zebu-certs").join(name)).unwrap();
        let server = with_tls(home.path(), secure, &read("server.pem"), &read("ca.pem")).start().unwrap();
        let left = metric(server.address(), "tls_certificate_days_left");
        let expected: i64 = days.parse().unwrap();
        assert!((expected - 2..=expected).contains(&left), "{left}");
        match level {
            Some(text) => eventually("a warning", || {
                let log = server.output();
                log.lines().any(|line| line.contains("ends soon") && line.contains(text))
            }),
            None => assert!(!server.output().contains("ends soon")),
        }
        // A file that cannot be used is counted.
        assert_eq!(metric(server.address(), "tls_certificate_reload_failed"), 0);
        if level.is_some() {
            write_private(&home.path().join("server.pem"), "half a fi");
            eventually("a failed reload", || metric(server.address(), "tls_certificate_reload_failed") == 1);
        }
    }
}

/// `cons` and `stat` list the connections of the port on which they are asked.
#[test]
fn connections_are_listed_per_port() {
    let started = SecureServer::start(&[]);
    let _plain = common::open(&started.server);
    let _others: Vec<TlsClient> =
        (0..2).map(|_| TlsClient::open(started.secure, &started.usual_client()).unwrap()).collect();
    let of_plain = zebu_testing::four_letter::ask(started.server.address(), "cons", TIME_LIMIT).unwrap();
    assert_eq!(of_plain.matches("sid=0x").count(), 1, "{of_plain}");
    let mut client = TlsClient::connect(started.secure, &started.usual_client()).unwrap();
    client.stream.write_all(b"cons").unwrap();
    let mut of_tls = String::new();
    client.stream.read_to_string(&mut of_tls).unwrap();
    assert_eq!(of_tls.matches("sid=0x").count(), 2, "{of_tls}");
}

#[test]
fn a_super_user_by_certificate_is_recorded() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("audit.log");
    let started = SecureServer::start(&[
        "X509AuthenticationProvider.superUser=CN=c",
        "audit.enable=true",
        "zebu.audit.extraEvents=true",
        &format!("zebu.audit.file={}", file.display()),
    ]);
    let mut client = TlsClient::open(started.secure, &started.usual_client()).unwrap();
    assert!(client.who_am_i().contains(&"x509:CN=c".to_owned()));
    eventually("an audit line", || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains("operation=superLogin"))
    });
    let log = started.server.output();
    assert!(log.contains("a super user connected with its certificate"), "{log}");
}

fn zebu(home: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zebu")).args(words).current_dir(home).env_clear().output().unwrap()
}

/// A cut file never starts a server with fewer users or without a key.
#[test]
fn cut_files_and_wrong_passwords_refuse_the_start() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../security/testdata/keystores");
    let port = port::free_address().unwrap().port();
    let refuses = |what: &str, text: &str, expected: &str| {
        fs::write(home.join("zoo.cfg"), format!("dataDir=data\nclientPort={port}\n{text}")).unwrap();
        let output = zebu(home, &["check", "zoo.cfg"]);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{what}: {told}");
        assert!(told.contains(expected), "{what}: {told}");
    };
    let jaas = sasl_common::jaas(&[]);
    let end = jaas.trim_end().len();
    for cut in [end - 1, end - 2, end - 8, end / 2, end / 2 + 1, end / 3, 12] {
        let cut = (0..=cut).rev().find(|place| jaas.is_char_boundary(*place)).unwrap();
        fs::write(home.join("jaas.conf"), &jaas[..cut]).unwrap();
        refuses(
            &format!("a JAAS file of {cut} bytes"),
            "java.security.auth.login.config=jaas.conf\n",
            "error: jaas.conf:",
        );
    }
    for (name, password) in [("keytool-ec.jks", "secret"), ("keytool-ec.p12", "secret")] {
        let whole = fs::read(stores.join(name)).unwrap();
        let lines = |password: &str| {
            format!(
                "secureClientPort=1\nssl.clientAuth=none\nssl.keyStore.location={name}\n\
                 ssl.keyStore.password={password}\n"
            )
        };
        for cut in [whole.len() - 1, whole.len() - 30, whole.len() / 2, 60, 5, 0] {
            fs::write(home.join(name), &whole[..cut]).unwrap();
            refuses(&format!("{name} of {cut} bytes"), &lines(password), name);
        }
        fs::write(home.join(name), &whole).unwrap();
        refuses(&format!("{name} and a wrong password"), &lines("wrong"), "password");
    }
}

/// Each secret that every user can read is one line with the command that ends it.
#[test]
fn readable_secrets_are_reported() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    assert!(zebu(home, &["cert", "server"]).status.success());
    fs::write(home.join("password"), "").unwrap();
    fs::write(home.join("jaas.conf"), sasl_common::jaas(&[])).unwrap();
    let port = port::free_address().unwrap().port();
    let text = format!(
        "dataDir=data\nsecureClientPort={port}\nssl.keyStore.location=zebu-certs/server.pem\n\
         ssl.keyStore.passwordPath=password\nssl.trustStore.location=zebu-certs/ca.pem\n\
         java.security.auth.login.config=jaas.conf\n"
    );
    fs::write(home.join("zoo.cfg"), text).unwrap();
    let files = ["zebu-certs/server.pem", "password", "jaas.conf"];
    for (mode, expected) in [(0o644, 1), (0o640, 0)] {
        for file in files {
            fs::set_permissions(home.join(file), PermissionsExt::from_mode(mode)).unwrap();
        }
        let told = String::from_utf8(zebu(home, &["check", "zoo.cfg"]).stdout).unwrap();
        for file in files {
            let remedy = format!("every user can read it; write: chmod o-rwx {file}\n");
            assert_eq!(told.matches(&remedy).count(), expected, "{file}: {told}");
        }
    }
}

/// A client address of the config that is not opened is told: this server has the TLS port only.
#[test]
fn a_client_address_that_is_not_opened_is_reported() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    for words in [&["cert", "server"][..], &["cert", "client", "admin"]] {
        assert!(zebu(home, words).status.success());
    }
    let ports: Vec<u16> = (0..4).map(|_| port::free_address().unwrap().port()).collect();
    let member = format!("server.1=127.0.0.1:{}:{}:participant", ports[0], ports[1]);
    let text = format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=data\nstandaloneEnabled=false\nreconfigEnabled=true\n\
         X509AuthenticationProvider.superUser=CN=admin\nsecureClientPort={}\n\
         secureClientPortAddress=127.0.0.1\nssl.keyStore.location=zebu-certs/server.pem\n\
         ssl.trustStore.location=zebu-certs/ca.pem\n{member}\n",
        ports[2]
    );
    fs::write(home.join("zoo.cfg"), text).unwrap();
    fs::create_dir(home.join("data")).unwrap();
    fs::write(home.join("data/myid"), "1").unwrap();
    let log = home.join("log");
    let output = fs::File::create(&log).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .args(["serve", "zoo.cfg"])
        .current_dir(home)
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let server = format!("localhost:{}", ports[2]);
    let added = format!("{member};127.0.0.1:{}", ports[3]);
    let words = [
        "-q",
        "--tls-ca",
        "zebu-certs/ca.pem",
        "--tls-cert",
        "zebu-certs/admin.pem",
        "-timeout",
        "10000",
        "-waitforconnection",
        "-server",
        &server,
        "reconfig",
        "-add",
        &added,
    ];
    let done = zebu(home, &words);
    let is_told = || {
        let text = fs::read_to_string(&log).unwrap();
        text.contains("the config names a client address that is not opened")
    };
    let deadline = std::time::Instant::now() + TIME_LIMIT;
    while !is_told() && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = is_told();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told, "{}\n{done:?}", fs::read_to_string(&log).unwrap());
}
