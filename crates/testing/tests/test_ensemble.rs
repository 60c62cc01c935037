//! The ensemble for tests, seen by the client that users have.

use std::time::Duration;

use zebu_client::{Client, SessionState};
use zebu_testing::TestEnsemble;

/// How long anything may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);

async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(TIME_LIMIT, future).await.expect("it should have happened by now")
}

async fn connected(addresses: &str) -> Client {
    soon(Client::connect(addresses)).await.expect("a session")
}

#[tokio::test]
async fn members_end_and_come_back() {
    let ensemble = TestEnsemble::start(3).await.expect("an ensemble");
    let client = connected(&ensemble.connect_string()).await;
    soon(client.create("/kept").data("0")).await.expect("created");
    for round in 1..=3 {
        let leader = ensemble.wait_for_leader().await.expect("a leader");
        match round {
            1 => ensemble.kill(leader).await.expect("killed"),
            2 => ensemble.stop(leader).await.expect("stopped"),
            _ => {}
        }
        if round < 3 {
            let next = ensemble.wait_for_leader().await.expect("another leader");
            assert_ne!(next, leader, "one that does not run does not lead");
        }
        ensemble.restart(leader).await.expect("started again");
        ensemble.wait_for_all().await.expect("all serve");
        let set = soon(client.set("/kept", "x").idempotent()).await.expect("set");
        assert!(set.version >= round);
    }
    for member in 0..ensemble.members() {
        let reader = connected(&ensemble.address(member).to_string()).await;
        reader.sync("/").await.expect("synced");
        assert!(reader.exists("/kept").await.expect("an answer").is_some(), "member {member}");
    }
}

#[tokio::test]
async fn a_leader_that_is_cut_off_is_replaced_and_follows_later() {
    let ensemble = TestEnsemble::start(3).await.expect("an ensemble");
    let leader = ensemble.wait_for_leader().await.expect("a leader");
    let others: Vec<String> = (0..ensemble.members())
        .filter(|&member| member != leader)
        .map(|member| ensemble.address(member).to_string())
        .collect();
    let client = connected(&others.join(",")).await;
    ensemble.isolate(leader);
    soon(client.create("/meanwhile").idempotent()).await.expect("the others go on");
    ensemble.heal();
    ensemble.wait_for_all().await.expect("all serve");
    let reader = connected(&ensemble.address(leader).to_string()).await;
    reader.sync("/").await.expect("synced");
    assert!(reader.exists("/meanwhile").await.expect("an answer").is_some());
}

#[tokio::test]
async fn clients_that_are_cut_off_come_back() {
    let ensemble = TestEnsemble::start(3).await.expect("an ensemble");
    let client = connected(&ensemble.address(0).to_string()).await;
    let mut states = client.states();
    ensemble.cut_clients(0);
    soon(states.wait_for(|status| status.state == SessionState::Reconnected)).await.expect("it lives");
}
