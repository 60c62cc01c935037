//! The first client of docs/getting-started.md, word for word. A test compares them.
//!
//! `cargo run --example first_client` with a server on 127.0.0.1:2181.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use zebu_client::{Client, Parents};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    run("127.0.0.1:2181").await
}

pub(crate) async fn run(servers: &str) -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(servers).await?;
    client.create("/first/rust").data("hello").parents(Parents::Persistent).await?;

    // Read and watch in one request: no change between the two can be missed.
    let (node, changed) = client.get("/first/rust").watched().await?;
    println!("{} Rust", String::from_utf8_lossy(&node.data));

    client.set("/first/rust", "good evening").await?;
    println!("event: {:?}", changed.await);
    client.close().await?;
    Ok(())
}
