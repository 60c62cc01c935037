//! A server for the tests: the `zebu` program of this project, or the one that `ZEBU_TEST_SERVER` names.
//! The tests are the same for both; each works below a node of its own.
#![allow(dead_code, reason = "every test file uses its own part of this")]

pub(crate) mod proxy;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use zebu_client::{Client, ClientBuilder};
use zebu_testing::{ServerProcess, four_letter};

/// How long anything in a test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Builds the program once per test run, so that it is never an old one.
fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(build).clone()
}

fn build() -> PathBuf {
    if let Some(path) = std::env::var_os("ZEBU_BINARY") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a running test has a file");
    // target/<profile>/deps/<test>
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests lie in target/<profile>/deps");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "zebu"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.arg("--target-dir").arg(profile.parent().expect("target holds the profile"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "the server does not build; name one in ZEBU_BINARY");
    profile.join("zebu")
}

/// A server, ours or a foreign one.
pub(crate) struct Server {
    address: SocketAddr,
    _own: Option<ServerProcess>,
}

impl Server {
    pub(crate) fn start() -> Server {
        if let Ok(name) = std::env::var("ZEBU_TEST_SERVER") {
            let mut addresses = name.to_socket_addrs().expect("ZEBU_TEST_SERVER is host:port");
            return Server { address: addresses.next().expect("it has an address"), _own: None };
        }
        let builder = ServerProcess::builder(binary())
            .property("zookeeper.4lw.commands.whitelist", "*")
            .property("zookeeper.extendedTypesEnabled", "true")
            .line("minSessionTimeout=1000");
        let own = builder.start().expect("a server");
        Server { address: own.address(), _own: Some(own) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder(&self.address.to_string()).expect("an address is a connection string")
    }

    /// A client below a node of its own.
    pub(crate) async fn client(&self) -> Client {
        let client = self.builder().connect().await.expect("a session");
        own_root(&client).await
    }

    /// A value of the `mntr` word.
    pub(crate) fn monitored(&self, key: &str) -> i64 {
        let text = four_letter::ask(self.address, "mntr", PATIENCE).expect("mntr answers");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{key}\t")));
        line.unwrap_or_else(|| panic!("mntr has no {key}: {text}")).trim().parse().expect("a number")
    }
}

/// The same session below a node that no other test uses.
pub(crate) async fn own_root(client: &Client) -> Client {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let session = client.session().id;
    let own = client.namespaced(&format!("/client-tests/{session}-{number}")).expect("a path");
    own.ensure_path("/").await.expect("a root for the test");
    own
}

/// Fails a test that waits for something that never comes.
pub(crate) async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it should have happened by now")
}
