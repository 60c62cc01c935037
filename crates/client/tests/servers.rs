//! Servers that come and go: crashes, restarts, late starts and long absences.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;

use std::time::Duration;

use common::dedicated_server::DedicatedServer;
use common::{own_root, soon, until};
use zebu_client::{Client, EventKind, Retry, SessionState, WatchMode, WatchStream};

/// A client with a long timeout, for servers that start slowly.
async fn client_with_long_timeout(server: &DedicatedServer) -> Client {
    let builder = server.builder().session_timeout(Duration::from_secs(20));
    builder.connection_timeout(common::TIMEOUT).connect().await.unwrap()
}

async fn next(events: &mut WatchStream) -> EventKind {
    soon(events.next()).await.expect("the watch lives").kind
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_its_watches_survive_restarts() {
    let mut server = DedicatedServer::start().await;
    let client = own_root(&client_with_long_timeout(&server).await).await;
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
        let other = client_with_long_timeout(&server).await.namespaced(client.root()).unwrap();
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
    let mut server = DedicatedServer::start().await;
    let client = own_root(&client_with_long_timeout(&server).await).await;
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
    let mut server = DedicatedServer::start().await;
    server.stop().await;
    let client = server.builder().connection_timeout(common::TIMEOUT).start();
    let early = client.create("/early").ephemeral().send();
    assert_eq!(client.state(), SessionState::Connecting);
    server.start_again().await;
    soon(early).await.expect("a call waits for the first connection");
    assert_eq!(client.session().epoch, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_away_costs_the_session() {
    let mut server = DedicatedServer::start().await;
    let builder = server.builder().session_timeout(Duration::from_secs(1));
    let client = builder.connection_timeout(common::TIMEOUT).connect().await.unwrap();
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
