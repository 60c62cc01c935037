//! A monitoring centre: machines register below one node, and a cache shows which of them are alive.
//!
//! `cargo run --example monitoring_centre`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use zebu_client::{Client, path};
use zebu_recipes::{Cache, CacheChange, CacheChanges, CacheScope, GroupMember};

const MACHINES: &str = "/examples/machines";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

/// A machine that reports its load. Its session timeout is short, so that a failure is noticed soon.
async fn machine(servers: String, name: &str, load: &str) -> anyhow::Result<(Client, GroupMember)> {
    let client = Client::builder(&servers)?.session_timeout(Duration::from_secs(2)).connect().await?;
    let member = GroupMember::join(&client, MACHINES, name, load.to_owned()).await?;
    Ok((client, member))
}

/// The machines that the centre knows.
#[derive(Default)]
struct Board(BTreeMap<String, String>);

impl Board {
    fn note(&mut self, change: &CacheChange) {
        match change {
            CacheChange::Created(node) | CacheChange::Updated { new: node, .. } if node.path != MACHINES => {
                let load = String::from_utf8_lossy(&node.data).into_owned();
                println!("centre: {} is there, load {load}", path::name(&node.path));
                self.0.insert(path::name(&node.path).to_owned(), load);
            }
            CacheChange::Deleted(node) if self.0.remove(path::name(&node.path)).is_some() => {
                println!("centre: {} is gone", path::name(&node.path));
            }
            CacheChange::Stale => println!("centre: no connection, the list may be outdated"),
            _ => {}
        }
    }

    async fn until(&mut self, changes: &mut CacheChanges, wanted: &[(&str, &str)]) -> anyhow::Result<()> {
        let is_so =
            |board: &Board| board.0.iter().map(|(name, load)| (&**name, &**load)).eq(wanted.iter().copied());
        while !is_so(self) {
            self.note(&changes.next().await.context("the cache has ended")?);
        }
        Ok(())
    }
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    let cache = Cache::start(&client, MACHINES, CacheScope::Children);
    cache.synced().await?;
    let (nodes, mut changes) = cache.snapshot_and_changes();
    let mut board = Board::default();
    nodes.into_iter().for_each(|node| board.note(&CacheChange::Created(node)));

    let (first, seven) = machine(servers.to_owned(), "host-7", "0.1").await?;
    // A machine with its own runtime, which can be shut down.
    let power = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let second = power.spawn(machine(servers.to_owned(), "host-8", "0.2")).await??;
    board.until(&mut changes, &[("host-7", "0.1"), ("host-8", "0.2")]).await?;

    println!("host-7 is busy");
    seven.set("0.9").await?;
    board.until(&mut changes, &[("host-7", "0.9"), ("host-8", "0.2")]).await?;

    println!("host-7 is switched off in good order");
    seven.leave().await?;
    first.close().await?;
    board.until(&mut changes, &[("host-8", "0.2")]).await?;

    println!("host-8 loses its power; it is missed when its session has timed out");
    power.shutdown_background();
    board.until(&mut changes, &[]).await?;
    drop(second);
    client.close().await?;
    Ok(())
}
