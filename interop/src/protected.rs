//! The shell and the tools of Zebu at a server with TLS and SASL, Apache's or Zebu's. The certificates are
//! those of `zebu cert`; each step is a run of the program with the arguments that a user would write.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tempfile::TempDir;
use zebu_testing::port::free_address;
use zebu_testing::{Launch, ServerProcess};

use crate::apache::Edition;
use crate::outcome::{self, Ending};

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary whose shell and tools are tested
    #[arg(long, value_name = "PATH")]
    zebu: PathBuf,
    /// The server: `zebu`, `latest`, `debian` or a version
    #[arg(long, default_value = "latest", value_name = "SERVER")]
    server: String,
}

const LOGINS: &str = "Server { org.apache.zookeeper.server.auth.DigestLoginModule required \
                      user_bob=\"bob's secret\" user_eve=\"eve's secret\"; };\n";
const CLIENT_LOGIN: &str = "Client { org.apache.zookeeper.server.auth.DigestLoginModule required \
                            username=\"bob\" password=\"bob's secret\"; };\n";

/// A server and the files of its clients.
struct Protected {
    home: TempDir,
    zebu: PathBuf,
    _server: ServerProcess,
    plain: String,
    secure: String,
}

/// The output of one run.
struct Run {
    words: String,
    output: Output,
}

impl Run {
    fn text(&self) -> String {
        format!(
            "{}{}",
            String::from_utf8_lossy(&self.output.stdout),
            String::from_utf8_lossy(&self.output.stderr)
        )
    }

    /// Fails unless the run succeeded and printed these texts.
    fn succeeds_with(&self, texts: &[&str]) -> Result<()> {
        let text = self.text();
        ensure!(self.output.status.success(), "{}: {}\n{text}", self.words, self.output.status);
        for wanted in texts {
            ensure!(text.contains(wanted), "{}: {wanted:?} is missing in\n{text}", self.words);
        }
        Ok(())
    }

    /// Fails unless the run failed and printed this text.
    fn fails_with(&self, wanted: &str) -> Result<()> {
        let text = self.text();
        ensure!(!self.output.status.success(), "{} succeeded:\n{text}", self.words);
        ensure!(text.contains(wanted), "{}: {wanted:?} is missing in\n{text}", self.words);
        ensure!(!text.contains("secret"), "{} prints a password:\n{text}", self.words);
        Ok(())
    }
}

impl Protected {
    fn start(arguments: &Arguments) -> Result<Protected> {
        let home = tempfile::tempdir()?;
        let zebu = arguments.zebu.canonicalize().context("find the zebu binary")?;
        let launch = match arguments.server.as_str() {
            "zebu" => Launch::zebu(&zebu),
            edition => Edition::parse(edition).launch()?,
        };
        run(&zebu, home.path(), &["cert", "server"])?.succeeds_with(&["server.pem"])?;
        run(&zebu, home.path(), &["cert", "client", "shop"])?.succeeds_with(&["x509:CN=shop"])?;
        fs::write(home.path().join("server.jaas"), LOGINS)?;
        for (name, text) in [
            ("client.jaas", CLIENT_LOGIN),
            ("bob", "bob's secret\n"),
            ("eve", "eve's secret\n"),
            ("wrong", "x\n"),
        ] {
            fs::write(home.path().join(name), text)?;
        }
        let secure = free_address()?;
        let certs = home.path().join("zebu-certs");
        let file = |name: &str| certs.join(name).display().to_string();
        let server = ServerProcess::launch(launch)
            .property(
                "java.security.auth.login.config",
                home.path().join("server.jaas").display().to_string(),
            )
            .property("zookeeper.4lw.commands.whitelist", "*")
            .line(format!("secureClientPort={}", secure.port()))
            .line("secureClientPortAddress=127.0.0.1")
            .line("serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
            .line("authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
            .line(format!("ssl.keyStore.location={}", file("server.pem")))
            .line(format!("ssl.trustStore.location={}", file("ca.pem")))
            .start()?;
        let plain = server.address().to_string();
        Ok(Protected { home, zebu, plain, secure: format!("localhost:{}", secure.port()), _server: server })
    }

    fn run(&self, words: &[&[&str]]) -> Result<Run> {
        run(&self.zebu, self.home.path(), &words.concat())
    }
}

fn run(zebu: &Path, home: &Path, words: &[&str]) -> Result<Run> {
    let output = Command::new(zebu).args(words).current_dir(home).output().context("run zebu")?;
    Ok(Run { words: format!("zebu {}", words.join(" ")), output })
}

type Step = (&'static str, fn(&Protected) -> Result<()>);

const STEPS: [Step; 5] = [
    ("x509 by TLS", x509),
    ("SASL by TLS", sasl),
    ("SASL without TLS", plain_sasl),
    ("four-letter words by TLS", words),
    ("load by TLS and SASL", load),
];

const TLS: [&str; 4] = ["--tls-ca", "zebu-certs/ca.pem", "--tls-cert", "zebu-certs/shop.pem"];
const BOB: [&str; 4] = ["--sasl-user", "bob", "--sasl-password-file", "bob"];

fn x509(server: &Protected) -> Result<()> {
    let at = ["-server", &server.secure];
    server.run(&[&TLS, &at, &["whoami"]])?.succeeds_with(&["x509: CN=shop"])?;
    let properties = [
        "-Dzookeeper.client.secure=true",
        "-Dzookeeper.ssl.keyStore.location=zebu-certs/shop.pem",
        "-Dzookeeper.ssl.trustStore.location=zebu-certs/ca.pem",
    ];
    server.run(&[&properties, &at, &["whoami"]])?.succeeds_with(&["x509: CN=shop"])?;
    server.run(&[&TLS, &at, &["create", "/x509", "a", "x509:CN=shop:cdrwa"]])?.succeeds_with(&[])?;
    server.run(&[&TLS, &at, &["get", "/x509"]])?.succeeds_with(&["a"])?;
    server.run(&[&["-server", &server.plain], &["get", "/x509"]])?.fails_with("/x509")
}

fn sasl(server: &Protected) -> Result<()> {
    let at = ["-server", &server.secure];
    server.run(&[&TLS, &BOB, &at, &["whoami"]])?.succeeds_with(&["sasl: bob", "x509: CN=shop"])?;
    server.run(&[&TLS, &BOB, &at, &["create", "/sasl", "a", "sasl:bob:cdrwa"]])?.succeeds_with(&[])?;
    server.run(&[&TLS, &BOB, &at, &["get", "/sasl"]])?.succeeds_with(&["a"])?;
    let eve = ["--sasl-user", "eve", "--sasl-password-file", "eve"];
    server.run(&[&TLS, &eve, &at, &["get", "/sasl"]])?.fails_with("/sasl")?;
    let wrong = ["--sasl-user", "bob", "--sasl-password-file", "wrong"];
    server.run(&[&TLS, &wrong, &at, &["ls", "/"]])?.fails_with("refused the SASL login")
}

fn plain_sasl(server: &Protected) -> Result<()> {
    let at = ["-server", &server.plain];
    server.run(&[&BOB, &at, &["whoami"]])?.succeeds_with(&["sasl: bob"])?;
    let login = ["-Djava.security.auth.login.config=client.jaas"];
    server.run(&[&login, &at, &["get", "/sasl"]])?.succeeds_with(&["a"])?;
    let unknown = ["--sasl-user", "mallory", "--sasl-password-file", "bob"];
    server.run(&[&unknown, &at, &["ls", "/"]])?.fails_with("refused the SASL login")
}

fn words(server: &Protected) -> Result<()> {
    server.run(&[&["stat", "--once"], &TLS, &[&server.secure]])?.succeeds_with(&["standalone"])?;
    server.run(&[&["status"], &TLS, &[&server.secure]])?.succeeds_with(&["standalone"])?;
    server.run(&[&["stat", "--once"], &[&server.secure]])?.fails_with("localhost")
}

fn load(server: &Protected) -> Result<()> {
    let shape = ["bench", "--mix", "get=1,set=1", "--sessions", "4", "--in-flight", "4", "--nodes", "10"];
    let times = ["--warm-up", "0", "--seconds", "1"];
    let at = ["--server", &server.secure];
    server.run(&[&shape, &times, &TLS, &BOB, &at])?.succeeds_with(&["operations"])
}

/// Runs all steps and prints a line for each.
pub(crate) fn run_all(arguments: &Arguments) -> Result<Ending> {
    let server = Protected::start(arguments)?;
    let mut ending = Ending::Good;
    for (name, step) in STEPS {
        let name = format!("{}: {name}", arguments.server);
        match step(&server) {
            Ok(()) => _ = outcome::ok(&name),
            Err(error) => ending = outcome::not_ok(&name, &error),
        }
    }
    Ok(ending)
}
