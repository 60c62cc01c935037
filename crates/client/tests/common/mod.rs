//! Servers for the tests. The tests are the same for all of them; each test works below a node of its own.
//!
//! | Environment | Server |
//! |---|---|
//! | nothing | inside the test |
//! | `ZEBU_TEST_SERVER=host:port` | that one, for the tests that do not restart it |
//! | `ZEBU=path` | for the others: processes of that binary |
//! | `ZOOKEEPER_CLASSPATH=jars` | for the others: Apache ZooKeeper from these jars |
#![allow(dead_code, reason = "every test file uses its own part of this")]

pub(crate) mod authority;
pub(crate) mod dedicated_server;
pub(crate) mod proxy;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use zebu_client::{Client, ClientBuilder, SessionState, SessionStatus};
use zebu_testing::TestServer;

/// How long anything in a test may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A server that is only used, ours or a foreign one.
pub(crate) struct Server {
    address: SocketAddr,
    _own: Option<TestServer>,
}

impl Server {
    pub(crate) async fn start() -> Server {
        if let Ok(name) = std::env::var("ZEBU_TEST_SERVER") {
            let mut addresses = name.to_socket_addrs().expect("ZEBU_TEST_SERVER is host:port");
            return Server { address: addresses.next().expect("it has an address"), _own: None };
        }
        let own = TestServer::start().await.expect("a server");
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

/// Fails a test that waits too long.
pub(crate) async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(TIMEOUT, future).await.expect("it should have happened by now")
}

/// Waits for a state of the session.
pub(crate) async fn until(client: &Client, state: SessionState) -> SessionStatus {
    let mut states = client.states();
    soon(states.wait_for(|status| status.state == state)).await.expect("the client lives").clone()
}
