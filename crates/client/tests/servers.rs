//! Servers that come and go: crashes, restarts, late starts, long absences, and an ensemble without a quorum.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;

use std::time::Duration;

use common::own::{Own, apache, settings};
use common::{own_root, soon, until};
use tokio::task::block_in_place;
use zebu_client::{
    Client, ErrorCode, EventKind, ReadOnlyServers, Retry, SessionState, WatchMode, WatchStream,
};
use zebu_testing::{Launch, ServerProcess, port};

/// A client that does not lose its patience with a server that takes long to start.
async fn patient(server: &Own) -> Client {
    let builder = server.builder().session_timeout(Duration::from_secs(20));
    builder.connection_timeout(common::PATIENCE).connect().await.unwrap()
}

async fn next(events: &mut WatchStream) -> EventKind {
    soon(events.next()).await.expect("the watch lives").kind
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_its_watches_survive_restarts() {
    let mut server = Own::start().await;
    let client = own_root(&patient(&server).await).await;
    let session = client.session().id;
    client.create("/e").ephemeral().await.unwrap();
    client.create("/n").data("0").await.unwrap();
    for round in 0..2 {
        let (_, changed) = client.get("/n").watched().await.unwrap();
        let mut stream = client.watch("/n", WatchMode::Node).await.unwrap();
        match round {
            0 => server.kill().await,
            _ => server.stop().await,
        }
        until(&client, SessionState::Suspended).await;
        server.start_again().await;
        assert_eq!(next(&mut stream).await, EventKind::Resynced);
        let other = patient(&server).await.namespaced(client.root()).unwrap();
        other.set("/n", "1").await.unwrap();
        assert_eq!(soon(changed).await.kind, EventKind::NodeDataChanged);
        // A server that keeps one watch per node has turned this one into a one-shot watch; it fires once.
        assert_eq!(next(&mut stream).await, EventKind::NodeDataChanged);
    }
    assert_eq!((client.session().id, client.session().epoch), (session, 1));
    assert!(client.exists("/e").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_a_crash_under_load() {
    let mut server = Own::start().await;
    let client = own_root(&patient(&server).await).await;
    let calls: Vec<_> =
        (0..2000).map(|_| client.create("/n-").sequential().retry(Retry::Never).send()).collect();
    let mut calls = calls.into_iter();
    let mut answered = vec![soon(calls.next().unwrap()).await.unwrap().path];
    server.kill().await;
    for call in calls {
        match soon(call).await {
            Ok(created) => answered.push(created.path),
            Err(error) => assert!(error.is_ambiguous() || error.is_not_sent(), "{error}"),
        }
    }
    server.start_again().await;
    let kept = soon(client.children("/")).await.unwrap().names;
    for path in answered {
        assert!(kept.iter().any(|name| *name == path[1..]), "{path} was answered and is gone");
    }
    assert!(kept.len() <= 2000, "{} nodes of 2000 calls", kept.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_come_later_than_its_clients() {
    let mut server = Own::start().await;
    server.stop().await;
    let client = server.builder().connection_timeout(common::PATIENCE).start();
    let early = client.create("/early").ephemeral().send();
    assert_eq!(client.state(), SessionState::Connecting);
    server.start_again().await;
    soon(early).await.expect("a call waits for the first connection");
    assert_eq!(client.session().epoch, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_away_costs_the_session() {
    let mut server = Own::start().await;
    let builder = server.builder().session_timeout(Duration::from_secs(1));
    let client = builder.connection_timeout(common::PATIENCE).connect().await.unwrap();
    client.create("/e").ephemeral().await.unwrap();
    let (_, watch) = client.get("/e").watched().await.unwrap();
    let mut stream = client.watch("/e", WatchMode::Node).await.unwrap();
    server.stop().await;
    until(&client, SessionState::Expired).await;
    assert_eq!(client.lease_deadline(), None);
    assert_eq!(soon(watch).await.kind, EventKind::WatchLost);
    server.start_again().await;
    soon(client.states().wait_for(|status| status.session.epoch == 2)).await.unwrap();
    assert_eq!(next(&mut stream).await, EventKind::Resynced);
    // The server gives the old session a full timeout before it takes its node away.
    if soon(client.exists("/e")).await.unwrap().is_some() {
        assert_eq!(next(&mut stream).await, EventKind::NodeDeleted);
    }
}

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
#[ignore = "Zebu has no ensembles yet; ZOOKEEPER_CLASSPATH names Apache's"]
async fn a_server_without_a_quorum_serves_reads() {
    let address = || port::free_address().unwrap().port();
    let ensemble: Vec<String> =
        (1..=3).map(|number| format!("server.{number}=127.0.0.1:{}:{}", address(), address())).collect();
    let first = member(1, &ensemble);
    let servers = first.address().to_string();
    let builder = Client::builder(&servers).unwrap().connection_timeout(Duration::from_secs(2));
    builder.connect().await.expect_err("it wants a server that takes writes");

    let builder = Client::builder(&servers).unwrap().connection_timeout(common::PATIENCE);
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
