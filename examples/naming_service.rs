//! A naming service: unique numbers, and names that stand for something else.
//!
//! `cargo run --example naming_service`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use std::collections::BTreeSet;

use zebu_client::{Client, Parents, path};
use zebu_recipes::UniqueIds;

const ROOT: &str = "/examples/names";
const WORKERS: usize = 3;
const NUMBERS: usize = 20;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

/// Draws numbers. Each worker reserves ten at a time, so that most of them cost no request.
async fn draw(servers: String) -> anyhow::Result<Vec<i64>> {
    let client = Client::connect(&servers).await?;
    let ids = UniqueIds::new(&client, &format!("{ROOT}/counter"), 10);
    let mut drawn = Vec::new();
    for _ in 0..NUMBERS {
        drawn.push(ids.next().await?);
    }
    client.close().await?;
    Ok(drawn)
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    client.ensure_path(ROOT).await?;

    let workers: Vec<_> = (0..WORKERS).map(|_| tokio::spawn(draw(servers.to_owned()))).collect();
    let mut numbers = BTreeSet::new();
    for worker in workers {
        numbers.extend(worker.await??);
    }
    println!("{} workers drew {} different numbers", WORKERS, numbers.len());
    anyhow::ensure!(numbers.len() == WORKERS * NUMBERS, "no number was given twice");

    // The server gives a number too: the name of a sequential node. The numbers of one parent only grow.
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let created = client.create(&format!("{ROOT}/job-")).sequential().await?;
        jobs.push(path::name(&created.path).to_owned());
    }
    println!("the server named {jobs:?}");
    anyhow::ensure!(jobs.is_sorted() && jobs.len() == 3, "sequence numbers grow");

    // A name stands for an address, and all clients resolve it in the same way.
    let name = format!("{ROOT}/services/billing");
    client.create(&name).data("10.0.0.7:8080").parents(Parents::Persistent).await?;
    let address = client.get(&name).await?.data;
    println!("billing is at {}", String::from_utf8_lossy(&address));
    client.delete(ROOT).recursive().await?;
    client.close().await?;
    Ok(())
}
