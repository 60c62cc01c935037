//! What needs Apache ZooKeeper, named in `ZOOKEEPER_CLASSPATH`: its server without a quorum, and a secure
//! port, which Zebu does not have yet. `cargo test` leaves it out; `cargo xtask interop rust-client --apache`
//! runs it.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;

use std::time::Duration;

use common::authority::{Authority, refused, trusting};
use common::dedicated_server::{apache, settings};
use common::soon;
use tokio::task::block_in_place;
use zebu_client::{Client, ErrorCode, ReadOnlyServers, SessionState};
use zebu_testing::{Launch, ServerProcess, port};

/// One server of an ensemble of three that does not exist otherwise.
fn member(number: usize, ensemble: &[String]) -> ServerProcess {
    let apache = apache().expect("ZOOKEEPER_CLASSPATH names Apache's jars");
    let mut before = vec!["-c".into()];
    before.push(format!("echo {number} > data/myid; exec java \"$@\"").into());
    before.push("java".into());
    before.extend(apache.before);
    let launch = Launch { program: "sh".into(), before, after: apache.after };
    let builder = settings(ServerProcess::launch(launch)).property("readonlymode.enabled", "true");
    let builder = builder
        .line("initLimit=10")
        .line("syncLimit=5")
        .line("tickTime=500")
        .line("localSessionsEnabled=true");
    let builder = ensemble.iter().fold(builder, |builder, line| builder.line(line));
    block_in_place(|| builder.start()).expect("a server")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_quorum_serves_reads() {
    let address = || port::free_address().unwrap().port();
    let ensemble: Vec<String> =
        (1..=3).map(|number| format!("server.{number}=127.0.0.1:{}:{}", address(), address())).collect();
    let first = member(1, &ensemble);
    let servers = first.address().to_string();
    let builder = Client::builder(&servers).unwrap().connection_timeout(Duration::from_secs(2));
    builder.connect().await.expect_err("it wants a server that takes writes");

    let builder = Client::builder(&servers).unwrap().connection_timeout(common::TIMEOUT);
    let client = builder.read_only(ReadOnlyServers::Accept).connect().await.unwrap();
    assert_eq!(client.state(), SessionState::ReadOnly);
    assert!(client.children("/").await.unwrap().names.contains(&"zookeeper".to_owned()));
    let error = client.create("/n").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotReadOnly), "{error}");

    // With a quorum the same client gets a session that takes writes, without being told anything.
    let second = member(2, &ensemble);
    client.update_servers(&format!("{servers},{}", second.address())).unwrap();
    soon(
        client
            .states()
            .wait_for(|status| matches!(status.state, SessionState::Connected | SessionState::Reconnected)),
    )
    .await
    .unwrap();
    soon(client.create("/n")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_secure_port() {
    let (authority, people) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let server = authority.issue("127.0.0.1");
    let keys = write("server.pem", &format!("{}{}", server.key, server.certificate));
    let trusted = write("people.pem", &people.pem());
    let secure = port::free_address().expect("a free port");
    let launch = apache().expect("ZOOKEEPER_CLASSPATH names Apache's jars");
    let factory = "org.apache.zookeeper.server.NettyServerCnxnFactory";
    let builder = settings(ServerProcess::launch(launch))
        .property("zookeeper.serverCnxnFactory", factory)
        .property("zookeeper.ssl.keyStore.location", keys)
        .property("zookeeper.ssl.trustStore.location", trusted)
        .line(format!("secureClientPort={}", secure.port()))
        .line("secureClientPortAddress=127.0.0.1");
    let apache = block_in_place(|| builder.start()).expect("a server");

    let known = people.issue("somebody");
    let tls = trusting(&authority).identity_pem(known.certificate, known.key).expect("an identity");
    let timeout = Duration::from_secs(30);
    let builder = Client::builder(&secure.to_string()).expect("an address").connection_timeout(timeout);
    let client = builder.tls(tls.connector().expect("a connector")).connect().await.expect("a session");
    client.create("/large").data(vec![b'x'; 500_000]).await.expect("created");
    let reads: Vec<_> = (0..20).map(|_| client.get("/large").send()).collect();
    for read in reads {
        assert_eq!(soon(read).await.expect("read").data.len(), 500_000);
    }

    // The server requires a client certificate of a known authority.
    refused(secure, trusting(&authority)).await;
    let stranger = authority.issue("somebody");
    let tls = trusting(&authority).identity_pem(stranger.certificate, stranger.key).expect("an identity");
    refused(secure, tls).await;
    let error = refused(apache.address(), trusting(&authority)).await;
    assert!(error.contains("not its port for TLS") || error.contains("does not speak TLS"), "{error}");
    // What a client says without TLS is not understood.
    let builder = Client::builder(&secure.to_string()).expect("an address");
    let error =
        builder.connection_timeout(Duration::from_millis(500)).connect().await.expect_err("no session");
    assert!(error.to_string().contains(&secure.to_string()), "{error}");
}
