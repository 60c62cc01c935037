//! A configuration centre: one node holds the settings, and every process sees a change at once.
//!
//! `cargo run --example configuration_centre`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use zebu_client::Client;
use zebu_recipes::JsonConfig;

const PATH: &str = "/examples/configuration/shop";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shop {
    workers: u32,
    greeting: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

/// One process of the shop: it uses the newest settings until they demand no workers.
async fn process(servers: String, name: &'static str) -> anyhow::Result<u32> {
    let client = Client::connect(&servers).await?;
    let default = Shop { workers: 1, greeting: "hello".into() };
    let config = JsonConfig::start(&client, PATH, &default).await?;
    let mut readings = config.states();
    let mut changes = 0;
    loop {
        let reading = readings.borrow_and_update().clone();
        match &reading.error {
            None => println!("{name}: works with {:?}", reading.value.value),
            Some(problem) => println!("{name}: stays with the last good settings: {problem}"),
        }
        if reading.value.value.workers == 0 {
            client.close().await?;
            return Ok(changes);
        }
        readings.changed().await.context("the settings are not followed any more")?;
        changes += 1;
    }
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    let default = Shop { workers: 1, greeting: "hello".into() };
    let centre = JsonConfig::start(&client, PATH, &default).await?;
    centre.update(|shop| *shop = default.clone()).await?;
    let processes =
        ["till", "storehouse", "bakery"].map(|name| tokio::spawn(process(servers.to_owned(), name)));

    println!("centre: more workers, one update at a time, also if others update at the same time");
    for _ in 0..3 {
        centre.update(|shop| shop.workers += 1).await?;
    }
    println!("centre: somebody writes nonsense");
    client.set(PATH, r#"{"workers": "many"}"#).await?;
    println!("centre: and somebody repairs it; then it is closing time");
    client.set(PATH, r#"{"workers": 5, "greeting": "good evening"}"#).await?;
    centre.update(|shop| shop.workers = 0).await?;
    for process in processes {
        process.await??;
    }
    client.delete("/examples/configuration").recursive().await?;
    client.close().await?;
    Ok(())
}
