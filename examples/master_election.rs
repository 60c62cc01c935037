//! Master election: one of several processes works, the others wait to take over.
//!
//! `cargo run --example master_election`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use zebu_client::{Client, Version};
use zebu_recipes::{Fenced, LeaderLatch, Ownership, run_while_held};

const ELECTION: &str = "/examples/master/election";
const LEDGER: &str = "/examples/master/ledger";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

/// Participates until it has been the master once.
async fn candidate(
    servers: String,
    name: &'static str,
    terms: Arc<Mutex<Vec<&'static str>>>,
) -> anyhow::Result<()> {
    let client = Client::connect(&servers).await?;
    let latch = LeaderLatch::join(&client, ELECTION, name);
    loop {
        let leadership = latch.lead().await?;
        let work = async {
            leadership.acknowledge().await?;
            println!("{name}: is the master, term {}", leadership.token());
            // Commits only if it is still the master.
            let mut transaction = leadership.transaction();
            transaction.set(LEDGER, name, Version::Any);
            transaction.await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            anyhow::Ok(())
        };
        match run_while_held(&leadership, work).await {
            Ok(done) => {
                done?;
                break;
            }
            Err(reason) => println!("{name}: is not the master any more: {reason}"),
        }
    }
    terms.lock().await.push(name);
    println!("{name}: leaves");
    latch.leave().await?;
    client.close().await?;
    Ok(())
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    client.ensure_path(LEDGER).await?;
    let terms = Arc::new(Mutex::new(Vec::new()));
    let candidates =
        ["anna", "bert", "cora"].map(|name| tokio::spawn(candidate(servers.to_owned(), name, terms.clone())));
    for candidate in candidates {
        candidate.await??;
    }
    println!("the masters were, in this order: {:?}", terms.lock().await);
    let last = client.get(LEDGER).await?;
    anyhow::ensure!(terms.lock().await.last().is_some_and(|name| last.data == name.as_bytes()));
    client.delete("/examples/master").recursive().await?;
    client.close().await?;
    Ok(())
}
