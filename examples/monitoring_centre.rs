//! A monitoring centre: machines come and go below one node, and whoever watches knows it.
//!
//! `cargo run --example monitoring_centre`, or `… -- 127.0.0.1:2181` with a server that runs already.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod place;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use zebu_client::{Client, path};
use zebu_recipes::{Cache, Change, Changes, GroupMember, Reach};

const MACHINES: &str = "/examples/machines";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = place::Place::find().await?;
    run(&place.servers).await
}

/// A machine that says how busy it is. The session is short: a machine that dies is missed soon.
async fn machine(servers: String, name: &str, load: &str) -> anyhow::Result<(Client, GroupMember)> {
    let client = Client::builder(&servers)?.session_timeout(Duration::from_secs(2)).connect().await?;
    let member = GroupMember::join(&client, MACHINES, name, load.to_owned()).await?;
    Ok((client, member))
}

/// What the centre knows.
#[derive(Default)]
struct Board(BTreeMap<String, String>);

impl Board {
    fn note(&mut self, change: &Change) {
        match change {
            Change::Created(node) | Change::Updated { new: node, .. } if node.path != MACHINES => {
                let load = String::from_utf8_lossy(&node.data).into_owned();
                println!("centre: {} is there, load {load}", path::name(&node.path));
                self.0.insert(path::name(&node.path).to_owned(), load);
            }
            Change::Deleted(node) if self.0.remove(path::name(&node.path)).is_some() => {
                println!("centre: {} is gone", path::name(&node.path));
            }
            Change::Stale => println!("centre: no connection, what is known may be old"),
            _ => {}
        }
    }

    async fn until(&mut self, changes: &mut Changes, wanted: &[(&str, &str)]) -> anyhow::Result<()> {
        let is_so =
            |board: &Board| board.0.iter().map(|(name, load)| (&**name, &**load)).eq(wanted.iter().copied());
        while !is_so(self) {
            self.note(&changes.next().await.context("the centre sees nothing any more")?);
        }
        Ok(())
    }
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    let cache = Cache::start(&client, MACHINES, Reach::Children);
    cache.synced().await?;
    let (nodes, mut changes) = cache.watch_from_here();
    let mut board = Board::default();
    nodes.into_iter().for_each(|node| board.note(&Change::Created(node)));

    let (first, seven) = machine(servers.to_owned(), "host-7", "0.1").await?;
    // A machine of its own, as far as that is possible here: it can be switched off.
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
