//! A session on an ensemble: it outlives the leader, and its end takes its ephemeral nodes from every member.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::time::Duration;

use zebu_client::{Client, EventKind};
use zebu_testing::TestEnsemble;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(TIMEOUT, future).await.expect("it should have happened by now")
}

async fn client_of(addresses: &str, timeout: Duration) -> Client {
    soon(Client::builder(addresses).unwrap().session_timeout(timeout).connect()).await.unwrap()
}

#[tokio::test]
async fn a_session_survives_the_loss_of_its_leader() {
    let ensemble = TestEnsemble::start(3).await.unwrap();
    let leader = ensemble.wait_for_leader().await.unwrap();
    // It is with the leader first, and has to go elsewhere.
    let client = client_of(&ensemble.address(leader).to_string(), TIMEOUT).await;
    client.update_servers(&ensemble.connect_string()).unwrap();
    let session = client.session().id;
    soon(client.create("/mine").ephemeral()).await.unwrap();
    let (_, watch) = soon(client.get("/mine").watched()).await.unwrap();
    ensemble.kill(leader).await.unwrap();

    let other = client_of(&ensemble.connect_string(), TIMEOUT).await;
    assert!(soon(other.exists("/mine")).await.unwrap().is_some(), "the session lives");
    soon(other.set("/mine", "seen")).await.unwrap();
    let event = soon(watch).await;
    assert_eq!(event.kind, EventKind::NodeDataChanged);
    assert_eq!(client.session().id, session);
}

#[tokio::test]
async fn ephemeral_nodes_go_with_their_session_although_the_leader_has_changed() {
    let ensemble = TestEnsemble::start(3).await.unwrap();
    let watcher = client_of(&ensemble.connect_string(), TIMEOUT).await;
    // A client with threads of its own, which can go without a farewell.
    let elsewhere =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let addresses = ensemble.connect_string();
    let created = elsewhere.spawn(async move {
        let client = client_of(&addresses, Duration::from_secs(1)).await;
        soon(client.create("/mine").ephemeral()).await.unwrap();
        client
    });
    let client = soon(created).await.unwrap();
    let leader = ensemble.wait_for_leader().await.unwrap();
    // No client renews the session any more; the next leader has to expire it.
    elsewhere.shutdown_background();
    drop(client);
    ensemble.kill(leader).await.unwrap();
    soon(async {
        while watcher.exists("/mine").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    ensemble.restart(leader).await.unwrap();
    ensemble.wait_for_all().await.unwrap();
    let late = client_of(&ensemble.address(leader).to_string(), TIMEOUT).await;
    soon(late.sync("/")).await.unwrap();
    assert!(soon(late.exists("/mine")).await.unwrap().is_none(), "the member that was away knows it too");
}
