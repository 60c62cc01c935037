//! Two-phase commit: a bank and a shop book both or none. The coordinator of the second order dies, and a
//! participant decides in its place.
//!
//! `cargo run --example two_phase_commit`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use std::time::Duration;

use anyhow::Context;
use zebu_client::{Client, Parents};
use zebu_recipes::{CommitCoordinator, CommitDecision, CommitParticipant, CommitProtocol, CommitVote};

const ORDERS: &str = "/examples/orders";
const PARTICIPANTS: [&str; 2] = ["bank", "shop"];
const PROTOCOL: CommitProtocol = CommitProtocol::CoordinatorAnnounces;
const VOTES_WITHIN: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

/// A participant: it votes, learns the decision, applies it and acknowledges.
async fn participant(
    servers: String,
    order: String,
    name: &'static str,
    vote: CommitVote,
) -> anyhow::Result<CommitDecision> {
    let client = Client::connect(&servers).await?;
    let participant = CommitParticipant::join(&client, &order, name).await?;
    println!("{name}: votes {vote:?} on {:?}", participant.body());
    participant.vote(vote).await?;
    let decision = participant.decision().await?;
    println!("{name}: {decision:?}");
    participant.acknowledge().await?;
    client.close().await?;
    Ok(decision)
}

async fn order(
    client: &Client,
    servers: &str,
    number: u32,
    shop: CommitVote,
) -> anyhow::Result<CommitDecision> {
    let path = format!("{ORDERS}/{number}");
    let coordinator =
        CommitCoordinator::propose(client, &path, PROTOCOL, &PARTICIPANTS, format!("order {number}")).await?;
    let votes = [("bank", CommitVote::Commit), ("shop", shop)];
    let participants =
        votes.map(|(name, vote)| tokio::spawn(participant(servers.to_owned(), path.clone(), name, vote)));
    let decision = coordinator.decide_within(VOTES_WITHIN).await?;
    for participant in participants {
        anyhow::ensure!(participant.await?? == decision, "both decide the same");
    }
    coordinator.finish().await?;
    Ok(decision)
}

/// An order whose coordinator is gone before it decides.
async fn abandoned_order(client: &Client, servers: &str, number: u32) -> anyhow::Result<CommitDecision> {
    let path = format!("{ORDERS}/{number}");
    let coordinator =
        CommitCoordinator::propose(client, &path, PROTOCOL, &PARTICIPANTS, format!("order {number}")).await?;
    drop(coordinator);
    let participants = PARTICIPANTS
        .map(|name| tokio::spawn(participant(servers.to_owned(), path.clone(), name, CommitVote::Commit)));
    let [bank, shop] = participants;
    let (bank, shop) = (bank.await??, shop.await??);
    anyhow::ensure!(bank == shop, "both decide the same");
    let successor = CommitCoordinator::resume(client, &path).await?.context("the order is still there")?;
    successor.finish().await?;
    Ok(bank)
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    client.create(ORDERS).parents(Parents::Persistent).await?;
    anyhow::ensure!(order(&client, servers, 1, CommitVote::Commit).await? == CommitDecision::Commit);
    anyhow::ensure!(order(&client, servers, 2, CommitVote::Abort).await? == CommitDecision::Abort);
    anyhow::ensure!(abandoned_order(&client, servers, 3).await? == CommitDecision::Commit);
    client.delete(ORDERS).recursive().await?;
    client.close().await?;
    Ok(())
}
