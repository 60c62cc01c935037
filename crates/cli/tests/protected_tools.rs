//! Certificates of `zebu cert`, and the tools and the shell through TLS with them.

mod common;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use rustls::ServerConfig;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use zebu_security::secret::SecretText;
use zebu_security::store::{StoreInput, read_key_store, read_trust_store};
use zebu_security::verify::{
    CertificatePolicy, CertificateUsage, ClientCertDemand, JavaClientVerifier, OwnCertificate, RevocationMode,
};
use zebu_testing::ServerProcess;

/// The program in a directory, without the environment variables of the caller.
fn zebu(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(words).current_dir(home).env_clear();
    command
}

fn run(home: &Path, words: &[&str]) -> Output {
    zebu(home, words).output().expect("the program runs")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeed(home: &Path, words: &[&str]) -> String {
    let output = run(home, words);
    assert!(output.status.success(), "{words:?}: {}{}", out(&output), err(&output));
    out(&output)
}

fn fail(home: &Path, words: &[&str]) -> String {
    let output = run(home, words);
    assert!(!output.status.success(), "{words:?}: {}", out(&output));
    err(&output)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn certificates_from_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    let told = succeed(home, &["cert", "server"]);
    assert!(told.contains("wrote zebu-certs/ca.pem") && told.contains("secureClientPort=2281"), "{told}");
    let told = succeed(home, &["cert", "client", "shop"]);
    assert!(!told.contains("ca.pem: trust it") && told.contains("its id in ACLs: x509:CN=shop"), "{told}");
    let certs = home.join("zebu-certs");
    for (file, expected) in [("ca.pem", 0o644), ("ca.key", 0o600), ("server.pem", 0o600), ("shop.pem", 0o600)]
    {
        assert_eq!(mode(&certs.join(file)), expected, "{file}");
    }
    let before = std::fs::read(certs.join("server.pem")).expect("a file");
    for words in [&["cert", "ca"][..], &["cert", "server"], &["cert", "client", "shop"]] {
        let error = fail(home, words);
        assert!(error.contains("exists and is not overwritten"), "{error}");
    }
    assert_eq!(std::fs::read(certs.join("server.pem")).expect("a file"), before);
    for (words, text) in [
        (&["cert", "client", "a/b"][..], "is no name for a file"),
        (&["cert", "client", "ca"], "is no name for a file"),
        (&["cert", "server", "two words", "--file", "x"], "neither a host name nor an address"),
        (&["cert", "ca", "--days", "0"], "0 is not in"),
    ] {
        let error = fail(home, words);
        assert!(error.contains(text), "{words:?}: {error}");
    }
    std::fs::remove_file(certs.join("ca.key")).expect("removed");
    let error = fail(home, &["cert", "client", "other"]);
    assert!(error.contains("is incomplete"), "{error}");
}

#[test]
fn openssl_accepts_the_certificates() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    succeed(home, &["cert", "server", "zk1.example.com", "10.0.0.1", "fd00::1"]);
    succeed(home, &["cert", "client", "Jane Doe", "--file", "jane"]);
    let certs = home.join("zebu-certs");
    let openssl = |words: &[&str]| Command::new("openssl").args(words).current_dir(&certs).output();
    for (file, purpose, checks) in [
        ("server.pem", "sslserver", &["-verify_hostname", "zk1.example.com", "-verify_ip", "10.0.0.1"][..]),
        ("server.pem", "sslclient", &[]),
        ("jane.pem", "sslclient", &[]),
    ] {
        let words =
            [&["verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", purpose], checks, &[file]].concat();
        match openssl(&words) {
            Ok(output) => assert!(output.status.success(), "{file}: {}{}", out(&output), err(&output)),
            Err(_) => return eprintln!("skipped: there is no openssl"),
        }
    }
}

/// A server behind a TLS listener that demands client certificates.
struct Protected {
    home: TempDir,
    server: ServerProcess,
    address: SocketAddr,
    _runtime: Runtime,
}

impl Protected {
    fn start() -> Protected {
        let home = tempfile::tempdir().expect("a directory");
        succeed(home.path(), &["cert", "server"]);
        succeed(home.path(), &["cert", "client", "shop"]);
        succeed(home.path(), &["cert", "ca", "--directory", "other"]);
        let server = common::server().start().expect("a server");
        let runtime = Runtime::new().expect("a runtime");
        let address = runtime.block_on(listen(&home.path().join("zebu-certs"), server.address()));
        Protected { home, server, address, _runtime: runtime }
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

async fn listen(certs: &Path, target: SocketAddr) -> SocketAddr {
    let none = SecretText::default();
    let read = |name: &str| std::fs::read(certs.join(name)).expect("a file");
    let own = read_key_store(&StoreInput::new(&read("server.pem"), &none)).expect("a key store");
    let trusted = read_trust_store(&StoreInput::new(&read("ca.pem"), &none)).expect("a trust store");
    let policy =
        CertificatePolicy::new(&trusted, CertificateUsage::Client, RevocationMode::Off).expect("a policy");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(Arc::new(JavaClientVerifier::new(policy, ClientCertDemand::Need)))
        .with_cert_resolver(OwnCertificate::new(&own).expect("a certificate"));
    zebu_testing::terminate_tls(target, config).await.expect("a free port")
}

const FLAGS: [&str; 4] = ["--tls-ca", "zebu-certs/ca.pem", "--tls-cert", "zebu-certs/shop.pem"];

#[test]
fn the_shell_through_tls() {
    let protected = Protected::start();
    let (home, address) = (protected.home(), protected.address.to_string());
    let create = [&["shell"], &FLAGS[..], &["-server", &address, "create", "/a", "x"]].concat();
    succeed(home, &create);
    // Without the word shell, with zkCli's properties, in a file, and in zkCli.sh's variable.
    let properties = [
        "zookeeper.client.secure=true",
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keyStore.location=zebu-certs/shop.pem",
        "zookeeper.ssl.trustStore.location=zebu-certs/ca.pem",
    ];
    protected.file("client.cfg", &properties.join("\n"));
    let get = ["-q", "-server", &address, "get", "/a"];
    let by_flags = [&FLAGS[..], &get].concat();
    let words = properties.map(|property| format!("-D{property}"));
    let by_properties: Vec<&str> = words.iter().map(String::as_str).chain(get).collect();
    let by_file = [&["-client-configuration", "client.cfg"][..], &get].concat();
    for words in [&by_flags, &by_properties, &by_file] {
        assert_eq!(succeed(home, words), "x\n", "{words:?}");
    }
    let by_variable = zebu(home, &get).env("CLIENT_JVMFLAGS", words.join(" ")).output().expect("it runs");
    assert_eq!(out(&by_variable), "x\n", "{}", err(&by_variable));
}

#[test]
fn what_the_shell_refuses() {
    let protected = Protected::start();
    let (home, address) = (protected.home(), protected.address.to_string());
    let get = ["-q", "-timeout", "2000", "-server", &address, "ls", "/"];
    for (words, text) in [
        (
            &["--tls-ca", "other/ca.pem", "--tls-cert", "zebu-certs/shop.pem"][..],
            "not signed by a trusted authority",
        ),
        (&["--tls-ca", "zebu-certs/ca.pem"], "CertificateRequired"),
        (&[], "speaks TLS on this port"),
        (&["--tls"], "no trusted certificate was given"),
        (&["--tls-ca", "none.pem"], "cannot read none.pem"),
        (&["--tls-ca", "zebu-certs/ca.pem", "--sasl-user", "bob"], "ZEBU_SASL_PASSWORD"),
        (&["-Dzookeeper.client.secure=true", "-Dzookeeper.ssl.ocsp=true"], "OCSP"),
    ] {
        let error = fail(home, &[words, &get].concat());
        assert!(error.contains(text), "{words:?}: {error}");
    }
    // Plain text on a plain port that is asked for by TLS.
    let plain = protected.server.address().to_string();
    let error = fail(home, &[&FLAGS[..], &["-q", "-timeout", "2000", "-server", &plain, "ls", "/"]].concat());
    assert!(error.contains("TLS handshake failed"), "{error}");
}

#[test]
fn passwords_stay_out_of_sight() {
    let protected = Protected::start();
    let home = protected.home();
    let login = protected.file(
        "jaas.conf",
        "Client { org.apache.zookeeper.server.auth.DigestLoginModule required username=\"bob\" password=\"hidden\"; };",
    );
    let open = protected.file("password", "hidden\n");
    for path in [&login, &open] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).expect("permissions");
    }
    // The server has no SASL for this user.
    let plain = protected.server.address().to_string();
    let get = ["-q", "-timeout", "20000", "-server", &plain, "ls", "/"];
    for words in [
        &["--sasl-user", "bob", "--sasl-password-file", "password"][..],
        &["-Djava.security.auth.login.config=jaas.conf"],
    ] {
        let error = fail(home, &[words, &get].concat());
        assert!(error.contains("others can read it; chmod 600"), "{error}");
        assert!(error.contains("AuthFailed") && !error.contains("hidden"), "{error}");
    }
    protected.file("fips.cfg", "zookeeper.fips-mode=true\njava.security.auth.login.config=jaas.conf\n");
    let error = fail(home, &[&["-client-configuration", "fips.cfg"][..], &get].concat());
    assert!(error.contains("fips-mode"), "{error}");
    protected
        .file("other.cfg", "zookeeper.sasl.clientconfig=Other\njava.security.auth.login.config=jaas.conf\n");
    let error = fail(home, &[&["-client-configuration", "other.cfg"][..], &get].concat());
    assert!(error.contains("there is no section Other"), "{error}");
}

#[test]
fn four_letter_words_through_tls() {
    let protected = Protected::start();
    let (home, address) = (protected.home(), protected.address.to_string());
    let status = succeed(home, &[&["status"], &FLAGS[..], &[&address]].concat());
    assert!(status.contains("standalone"), "{status}");
    let stat = succeed(home, &[&["stat", "--once"], &FLAGS[..], &[&address]].concat());
    assert!(stat.contains("standalone"), "{stat}");
    let port = protected.address.port();
    protected.file("zoo.cfg", &format!("dataDir=.\nsecureClientPort={port}\n"));
    let of_file = succeed(home, &[&["status", "./zoo.cfg"], &FLAGS[..]].concat());
    assert!(of_file.contains("Client SSL: true.") && of_file.contains("Mode: standalone"), "{of_file}");
    let bare = fail(home, &["status", "./zoo.cfg"]);
    assert!(bare.contains("no trusted certificate was given"), "{bare}");
    let plain = run(home, &["stat", "--once", &address]);
    assert!(!plain.status.success() && out(&plain).contains("use --tls"), "{}", out(&plain));
    let shares = succeed(home, &[&["rebalance", "--dry-run"], &FLAGS[..], &[&address]].concat());
    assert!(shares.contains("CONNECTIONS"), "{shares}");
}

/// The words of a line, with quotes as a shell reads them.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

#[test]
fn the_examples_of_the_manual() {
    let home = tempfile::tempdir().expect("a directory");
    let manual = include_str!("../../../docs/tools.md");
    let section = manual.split("## zebu cert\n").nth(1).expect("a section");
    let block = section.split("```").nth(1).expect("a block of examples");
    let examples: Vec<Vec<String>> = block.lines().filter(|line| !line.is_empty()).map(words).collect();
    assert!(examples.len() >= 5);
    for example in examples {
        let rest: Vec<&str> = example.iter().skip(1).map(String::as_str).collect();
        succeed(home.path(), &rest);
    }
    for file in ["zebu-certs/ca.pem", "zebu-certs/server.pem", "zebu-certs/shop.pem", "other/localhost.pem"] {
        assert!(home.path().join(file).exists(), "{file}");
    }
}

#[test]
fn check_reports_the_protection() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    succeed(home, &["cert", "server"]);
    let port = zebu_testing::port::free_address().expect("a port").port();
    let text = format!(
        "dataDir=data\nsecureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.clientAuth=want\n\
         ssl.enabledProtocols=TLSv1.3\nssl.keyStore.location=zebu-certs/server.pem\n\
         ssl.trustStore.location=zebu-certs/ca.pem\nX509AuthenticationProvider.superUser=CN=admin\n\
         DigestAuthenticationProvider.superDigest=super:hidden\n"
    );
    std::fs::write(home.join("zoo.cfg"), text).expect("a file");
    let told = succeed(home, &["check", "zoo.cfg"]);
    let port =
        format!("  clients:   127.0.0.1:{port}, TLS (TLSv1.3), a certificate is checked if there is one\n");
    assert!(told.contains(&port), "{told}");
    assert!(
        told.contains("  super:     digest:super, x509:CN=admin\n") && !told.contains("hidden"),
        "{told}"
    );
    assert!(told.contains("  Apache:    TLS needs serverCnxnFactory="), "{told}");
    let json = succeed(home, &["check", "--json", "zoo.cfg"]);
    assert!(json.contains("\"apache_differences\"") && json.contains("x509:CN=admin"), "{json}");
}

#[test]
fn check_reports_sasl() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    let login = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let text = format!(
        "Server {{ {login} user_shop=\"hidden1\" user_admin=\"hidden2\"; }};\n\
         QuorumServer {{ {login} user_quorum=\"hidden3\"; }};\n\
         QuorumLearner {{ {login} username=\"quorum\" password=\"hidden3\"; }};\n"
    );
    let jaas = home.join("jaas.conf");
    std::fs::write(&jaas, text).expect("a file");
    std::fs::set_permissions(&jaas, PermissionsExt::from_mode(0o644)).expect("permissions");
    let ports: Vec<u16> =
        (0..3).map(|_| zebu_testing::port::free_address().expect("a port").port()).collect();
    let text = format!(
        "dataDir=data\nclientPort={}\nclientPortAddress=127.0.0.1\ninitLimit=5\nsyncLimit=2\n\
         server.1=127.0.0.1:{}:{}\nserver.2=127.0.0.2:2888:3888\n\
         java.security.auth.login.config=jaas.conf\nsessionRequireClientSASLAuth=true\n\
         authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
         superUser.1=admin\nsuperUser.2=nobody\nquorum.auth.enableSasl=true\n\
         quorum.auth.learnerRequireSasl=true\n",
        ports[0], ports[1], ports[2]
    );
    std::fs::write(home.join("zoo.cfg"), text).expect("a file");
    std::fs::create_dir(home.join("data")).expect("a directory");
    std::fs::write(home.join("data/myid"), "1").expect("a file");
    let told = succeed(home, &["check", "zoo.cfg"]);
    for line in [
        "  SASL:      clients: DIGEST-MD5, users admin, shop, required\n",
        "  SASL:      servers: DIGEST-MD5, users quorum, dials as quorum, not required\n",
        "  super:     sasl:admin, sasl:nobody (no user has this id)\n",
        "  Apache:    keeps the connection of a server with a wrong password, unless SASL is required\n",
        "jaas.conf holds passwords and every user can read it; write: chmod o-rwx jaas.conf\n",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert!(!told.contains("hidden"), "{told}");
    let json = succeed(home, &["check", "--json", "zoo.cfg"]);
    assert!(json.contains("\"mechanism\": \"DIGEST-MD5\"") && !json.contains("hidden"), "{json}");
}
