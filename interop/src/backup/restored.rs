//! A restored directory, served by Apache or Zebu, and what a client reads there.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zebu_client::Client;
use zebu_testing::{Launch, port};
use zebu_tree::{Lifetime, Tree, TtlNodes};

use super::load::TOP;

/// How long a server may take to serve.
const PATIENCE: Duration = Duration::from_secs(60);

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on `data`, and compares the nodes below [`TOP`] with those of a tree, without ephemeral
/// ones.
pub(super) fn serve_and_compare(launch: &Launch, home: &Path, data: &Path, expected: &Tree) -> Result<()> {
    let address = port::free_address()?;
    let config = home.join(format!("restored.{}.cfg", address.port()));
    let text = format!(
        "tickTime=2000\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
        data.display(),
        address.port()
    );
    fs::write(&config, text)?;
    let log = File::create(home.join("restored.log"))?;
    let child = Command::new(&launch.program)
        .args(&launch.before)
        .args(&launch.after)
        .arg(&config)
        .stdout(log.try_clone()?)
        .stderr(log)
        .stdin(Stdio::null())
        .spawn()?;
    let _served = Served(child);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(read(&address.to_string()))?;
    let mut wanted = Vec::new();
    for (name, data) in children(expected) {
        wanted.push((name, data));
    }
    wanted.sort();
    ensure!(found.len() == wanted.len(), "the server has {} nodes and not {}", found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        ensure!(found == wanted, "the server has {found:?} and not {wanted:?}");
    }
    Ok(())
}

fn children(tree: &Tree) -> Vec<(String, Vec<u8>)> {
    let Some(top) = tree.node(TOP) else { return Vec::new() };
    let names = top.children();
    let mut nodes = Vec::new();
    for name in names {
        let Some(node) = tree.node(&format!("{TOP}/{name}")) else { continue };
        let owner = node.persisted().ephemeral_owner;
        if !matches!(Lifetime::of_owner(owner, TtlNodes::Enabled), Lifetime::Session(_)) {
            nodes.push((name.to_string(), node.data().map(<[u8]>::to_vec).unwrap_or_default()));
        }
    }
    nodes
}

async fn read(address: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let deadline = Instant::now() + PATIENCE;
    let client = loop {
        match Client::connect(address).await {
            Ok(client) => break client,
            Err(error) => ensure!(Instant::now() < deadline, "the restored server does not serve: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let mut nodes = Vec::new();
    if client.exists(TOP).await?.is_some() {
        for name in client.children(TOP).await?.names {
            let data = client.get(&format!("{TOP}/{name}")).await?.data.to_vec();
            nodes.push((name, data));
        }
    }
    // It lives: a write follows the restored history.
    client.create("/after-the-restore").await?;
    client.close().await?;
    nodes.sort();
    Ok(nodes)
}
