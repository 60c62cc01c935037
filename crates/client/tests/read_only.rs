//! A client that is content with reads: what it can do while two of three servers are gone, and that it finds
//! its session again.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::time::Duration;

use zebu_client::{Client, ErrorCode, EventKind, ReadOnlyServers, SessionState};
use zebu_testing::TestEnsemble;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(TIMEOUT, future).await.expect("it should have happened by now")
}

async fn state(client: &Client, wanted: &[SessionState]) {
    soon(client.states().wait_for(|status| wanted.contains(&status.state))).await.unwrap();
}

/// Three servers, one of which stays.
async fn ensemble() -> TestEnsemble {
    TestEnsemble::builder(3).line("readonlymode.enabled=true").start().await.unwrap()
}

async fn reader(ensemble: &TestEnsemble) -> Client {
    let builder = Client::builder(&ensemble.connect_string()).unwrap().read_only(ReadOnlyServers::Accept);
    soon(builder.session_timeout(TIMEOUT).connect()).await.unwrap()
}

async fn refused<T: std::fmt::Debug>(call: impl IntoFuture<Output = Result<T, zebu_client::Error>>) {
    let error = soon(call).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotReadOnly), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_reads_alone_and_goes_on() {
    let ensemble = ensemble().await;
    let client = reader(&ensemble).await;
    assert_eq!(client.state(), SessionState::Connected);
    let session = client.session();
    soon(client.create("/mine").data("x").ephemeral()).await.unwrap();
    let (_, before) = soon(client.get("/mine").watched()).await.unwrap();
    ensemble.kill(0).await.unwrap();
    ensemble.kill(1).await.unwrap();
    state(&client, &[SessionState::ReadOnly]).await;
    assert_eq!((client.session().id, client.session().epoch), (session.id, session.epoch));
    assert_eq!(soon(client.get("/mine")).await.unwrap().data, "x");
    let (_, during) = soon(client.exists("/later").watched()).await.unwrap();
    refused(client.set("/mine", "y")).await;
    refused(client.create("/other")).await;
    refused(client.delete("/mine")).await;
    refused(client.sync("/mine")).await;

    // It finds out by itself that there is a server again which takes writes.
    ensemble.restart(0).await.unwrap();
    state(&client, &[SessionState::Reconnected]).await;
    assert_eq!((client.session().id, client.session().epoch), (session.id, session.epoch));
    soon(client.set("/mine", "y")).await.unwrap();
    assert_eq!(soon(before).await.kind, EventKind::NodeDataChanged);
    soon(client.create("/later")).await.unwrap();
    assert_eq!(soon(during).await.kind, EventKind::NodeCreated);
    assert_eq!(soon(client.get("/mine")).await.unwrap().stat.ephemeral_owner, session.id.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_meanwhile_gets_a_session_later() {
    let ensemble = ensemble().await;
    ensemble.kill(0).await.unwrap();
    ensemble.kill(1).await.unwrap();
    let builder = Client::builder(&ensemble.connect_string()).unwrap();
    let timeout = Duration::from_secs(4);
    builder.connection_timeout(timeout).connect().await.expect_err("it wants a server that takes writes");
    let client = reader(&ensemble).await;
    assert_eq!((client.state(), client.lease_deadline()), (SessionState::ReadOnly, None));
    let (_, watch) = soon(client.exists("/later").watched()).await.unwrap();
    refused(client.create("/later").ephemeral()).await;
    let first = client.session();
    ensemble.restart(1).await.unwrap();
    state(&client, &[SessionState::Connected]).await;
    assert!(client.session().id != first.id && client.session().epoch > first.epoch);
    soon(client.create("/later").ephemeral()).await.unwrap();
    assert_eq!(soon(watch).await.kind, EventKind::NodeCreated, "watches move along");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_reads_alone_stops_and_starts_again() {
    let ensemble = ensemble().await;
    ensemble.kill(0).await.unwrap();
    ensemble.kill(1).await.unwrap();
    let client = reader(&ensemble).await;
    let first = client.session();
    soon(ensemble.stop(2)).await.unwrap();
    state(&client, &[SessionState::Suspended]).await;
    ensemble.restart(2).await.unwrap();
    state(&client, &[SessionState::ReadOnly]).await;
    assert!(client.session().epoch > first.epoch, "what it knew of the session went with it");
    assert!(soon(client.exists("/zookeeper")).await.unwrap().is_some());
    soon(client.close()).await.unwrap();
}
