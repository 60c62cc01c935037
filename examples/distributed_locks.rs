//! Distributed locks: an exclusive lock protects a balance, a shared one lets several readers in at once.
//!
//! `cargo run --example distributed_locks`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use std::sync::Arc;

use tokio::sync::Barrier;
use zebu_client::{Client, Version};
use zebu_recipes::{Fenced, Mutex, Ownership, RwLock};

const ROOT: &str = "/examples/locks";
const BALANCE: &str = "/examples/locks/balance";
const TELLERS: usize = 3;
const BOOKINGS: usize = 5;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

async fn balance(client: &Client) -> anyhow::Result<usize> {
    Ok(String::from_utf8_lossy(&client.get(BALANCE).await?.data).parse()?)
}

/// Books one unit at a time. Read, add and write would lose bookings without the lock.
async fn teller(servers: String) -> anyhow::Result<()> {
    let client = Client::connect(&servers).await?;
    let mutex = Mutex::new(&client, &format!("{ROOT}/exclusive"));
    for _ in 0..BOOKINGS {
        let guard = mutex.acquire().await?;
        let next = balance(&client).await? + 1;
        // Commits only if the lock is still held at this point of the history.
        let mut transaction = guard.transaction();
        transaction.set(BALANCE, next.to_string(), Version::Any);
        transaction.await?;
        guard.release().await?;
    }
    client.close().await?;
    Ok(())
}

/// Reads while the other reader has the lock too: both wait for each other inside of it.
async fn reader(servers: String, together: Arc<Barrier>) -> anyhow::Result<usize> {
    let client = Client::connect(&servers).await?;
    let guard = RwLock::new(&client, &format!("{ROOT}/shared")).read().await?;
    together.wait().await;
    let seen = balance(&client).await?;
    guard.release().await?;
    client.close().await?;
    Ok(seen)
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    client.ensure_path(ROOT).await?;
    client.create(BALANCE).data("0").await?;

    let tellers: Vec<_> = (0..TELLERS).map(|_| tokio::spawn(teller(servers.to_owned()))).collect();
    for teller in tellers {
        teller.await??;
    }
    let booked = balance(&client).await?;
    println!("exclusive lock: {TELLERS} tellers booked {booked} units");
    anyhow::ensure!(booked == TELLERS * BOOKINGS, "no booking was lost");

    let together = Arc::new(Barrier::new(2));
    let readers: Vec<_> =
        (0..2).map(|_| tokio::spawn(reader(servers.to_owned(), together.clone()))).collect();
    for reader in readers {
        anyhow::ensure!(reader.await?? == booked);
    }
    println!("shared lock: two readers had it at the same time");

    let lock = RwLock::new(&client, &format!("{ROOT}/shared"));
    let writer = lock.write().await?;
    anyhow::ensure!(lock.try_read().await?.is_none(), "a writer is alone");
    // A writer becomes a reader without giving the lock up in between.
    let reader = writer.downgrade().await?;
    anyhow::ensure!(reader.check().is_ok());
    reader.release().await?;
    println!("shared lock: a writer was alone, and then a reader");
    client.delete(ROOT).recursive().await?;
    client.close().await?;
    Ok(())
}
