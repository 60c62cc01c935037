//! One server on one directory: the previous program writes, the tested one takes over and writes too, and
//! the previous one goes on after a crash. Each reads the tree that the other one left.

use anyhow::{Result, ensure};
use zebu_client::{Client, CreateMode, CreateSpec, Parents, Version};

use super::conclude;
use crate::client::Client as RawSession;
use crate::dump::Dump;
use crate::mixed::agree;
use crate::mixed::fleet::{Fleet, Server, Signal};
use crate::mixed::writes::SESSION_MS;

/// Nodes that each program writes, and changes of them.
const NODES: usize = 300;

pub(super) async fn run(fleet: &mut Fleet, previous: &Server, tested: &Server) -> Result<()> {
    fleet.start(0)?;
    fleet.await_service()?;
    write(fleet, "/by-previous").await?;
    let upgraded = change(fleet, tested, Signal::Terminate);
    conclude("one server: the tested release goes on with the directory of the previous one", upgraded)?;
    write(fleet, "/by-tested").await?;
    let downgraded = change(fleet, previous, Signal::Kill);
    conclude("one server: the previous release goes on after a crash of the tested one", downgraded)?;
    write(fleet, "/by-previous-again").await?;
    fleet.signal(0, Signal::Terminate)
}

/// Another program takes over the directory; the tree and the last transaction must be the same.
fn change(fleet: &mut Fleet, next: &Server, signal: Signal) -> Result<String> {
    let before = read(fleet)?;
    fleet.signal(0, signal)?;
    fleet.hand_over(0, next.clone());
    fleet.start(0)?;
    fleet.await_service()?;
    let differences = before.differences(&read(fleet)?, &|_| false);
    ensure!(
        differences.is_empty(),
        "{} nodes differ:\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
    agree::no_mismatches(fleet)?;
    Ok(format!("{} reads the same {} nodes", next.name(), before.0.len()))
}

fn read(fleet: &Fleet) -> Result<Dump> {
    let mut session = RawSession::open(fleet.address(0), SESSION_MS)?;
    Dump::read(&mut session)
}

/// Every kind of transaction that leaves a node: creates in several modes, sets, deletes, multis.
async fn write(fleet: &Fleet, top: &str) -> Result<()> {
    let client = Client::connect(&fleet.connect_string()).await?;
    client.create(&format!("{top}/containers/kept")).container().parents(Parents::Persistent).await?;
    client.create(&format!("{top}/containers/kept/child")).await?;
    client.create(&format!("{top}/empty")).null_data().await?;
    for number in 0..NODES {
        let path = format!("{top}/n{number}");
        client.create(&path).data(format!("value {number}")).await?;
        client.create(&format!("{path}/s-")).sequential().await?;
        match number % 3 {
            0 => drop(client.set(&path, vec![number as u8; number]).await?),
            1 => {
                let mut transaction = client.transaction();
                transaction.check(&path, Version::Exactly(0));
                let spec = CreateSpec::new().data("of a multi").mode(CreateMode::Persistent);
                transaction.create(&format!("{path}/multi"), spec);
                transaction.set(&path, "by a multi", Version::Any);
                transaction.await?;
            }
            _ => {
                client.create(&format!("{path}/gone")).await?;
                client.delete(&format!("{path}/gone")).await?;
            }
        }
    }
    client.close().await?;
    Ok(())
}
