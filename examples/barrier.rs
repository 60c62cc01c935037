//! A double barrier: the parts of a computation start together and end together, round after round.
//!
//! `cargo run --example barrier`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use zebu_client::Client;
use zebu_recipes::DoubleBarrier;

const BARRIER: &str = "/examples/barrier";
const MEMBERS: usize = 3;
const ROUNDS: usize = 2;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

/// One part. `started` counts the parts that have begun a round, over all rounds.
async fn part(servers: String, name: &'static str, started: Arc<AtomicUsize>) -> anyhow::Result<()> {
    let client = Client::connect(&servers).await?;
    let members = NonZeroU32::new(u32::try_from(MEMBERS)?).context("a barrier has members")?;
    let barrier = DoubleBarrier::new(&client, BARRIER, members);
    for round in 1..=ROUNDS {
        let entered = barrier.enter().await?;
        started.fetch_add(1, Ordering::SeqCst);
        println!("{name}: computes round {round}");
        entered.leave().await?;
        // A member leaves when all have entered, and when all others leave too.
        anyhow::ensure!(started.load(Ordering::SeqCst) >= round * MEMBERS, "{name} left too early");
    }
    client.close().await?;
    Ok(())
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let started = Arc::new(AtomicUsize::new(0));
    let parts =
        ["anna", "bert", "cora"].map(|name| tokio::spawn(part(servers.to_owned(), name, started.clone())));
    for part in parts {
        part.await??;
    }
    println!("{} parts in {ROUNDS} rounds", started.load(Ordering::SeqCst));
    Ok(())
}
