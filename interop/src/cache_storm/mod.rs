//! Cached clients over a rolling restart of three Zebu servers. It compares the bytes that the servers send
//! to caches that follow a feed with those of caches that follow watches and read everything again.

mod counted_stream;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::task::JoinSet;
use zebu_client::{Client, CreateSpec};
use zebu_recipes::{Cache, CacheScope, CacheWatchMode};
use zebu_testing::Launch;

use crate::bench::Table;
use crate::outcome::{self, Ending};
use crate::trio::{SERVERS, Trio};
use counted_stream::{CountingConnector, Received};

/// The root of the caches.
const TOP: &str = "/storm";

/// Nodes that one transaction creates.
const BATCH: usize = 500;

/// How long caches may take to be complete. Far more than they need.
const PATIENCE: Duration = Duration::from_secs(300);

const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The most clients that connect at a time.
const CONNECTING: usize = 50;

/// How much less the servers must send.
const BAR: u64 = 50;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary
    #[arg(long, value_name = "PATH")]
    zebu: PathBuf,
    /// Clients whose caches follow a feed
    #[arg(long, default_value_t = 1000)]
    clients: usize,
    /// Clients whose caches follow watches; bytes are compared per client
    #[arg(long, default_value_t = 30)]
    watching: usize,
    /// Nodes of each cache
    #[arg(long, default_value_t = 2000)]
    nodes: usize,
    /// Bytes of data of each node
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Writes while each server is away
    #[arg(long, default_value_t = 5)]
    writes: usize,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let result = storm(arguments);
    Ok(match result {
        Ok(()) => outcome::ok("cached clients over a rolling restart"),
        Err(fault) => outcome::not_ok("cached clients over a rolling restart", &fault),
    })
}

fn storm(arguments: &Arguments) -> Result<()> {
    let zebu = Launch::zebu(arguments.zebu.canonicalize().context("no zebu binary there")?);
    let lines = format!("feed.readers=world:anyone\nfeed.max={}\n", arguments.clients.max(1));
    let mut trio = Trio::new([zebu.clone(), zebu.clone(), zebu], &lines)?;
    trio.start_all()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let writer = runtime.block_on(create_nodes(&trio, arguments))?;
    let mut table = Table::new([
        "caches",
        "clients",
        "connections again",
        "bytes per client at first",
        "bytes per client after it",
    ]);
    let mut spent = Vec::new();
    for (mode, clients) in
        [(CacheWatchMode::Feed, arguments.clients), (CacheWatchMode::Persistent, arguments.watching)]
    {
        let caches = runtime.block_on(Caches::start(&trio, mode, clients, arguments.nodes + 1))?;
        let first = caches.take();
        for server in 0..SERVERS {
            trio.terminate(server)?;
            trio.reap(server)?;
            let mark = format!("{mode:?} {server}");
            runtime.block_on(write(&writer, arguments.writes, &mark))?;
            trio.start(server)?;
            trio.await_service()?;
            runtime.block_on(caches.await_mark(&mark))?;
        }
        let (bytes, connections) = caches.take();
        ensure!(connections > 0, "no client has lost its server");
        runtime.block_on(caches.close(arguments.nodes + 1))?;
        let per_client = bytes / clients as u64;
        table.row([
            format!("{mode:?}"),
            clients.to_string(),
            connections.to_string(),
            (first.0 / clients as u64).to_string(),
            per_client.to_string(),
        ]);
        spent.push((per_client, connections * 1000 / clients as u64));
    }
    print!("{table}");
    let [(feed, feed_losses), (watches, watch_losses)] = spent[..] else {
        unreachable!("two kinds of caches")
    };
    // Fewer lost connections would be no merit of the caches.
    let times = watches * feed_losses / (feed * watch_losses).max(1);
    println!("{times} times less for each connection");
    ensure!(times >= BAR, "the servers sent {times} times less to caches with feeds, and not {BAR} times");
    Ok(())
}

/// Creates the nodes. Returns the client that writes.
async fn create_nodes(trio: &Trio, arguments: &Arguments) -> Result<Client> {
    let client = Client::builder(&servers(trio))?.session_timeout(SESSION_TIMEOUT).connect().await?;
    client.create(TOP).await?;
    let data = vec![b'x'; arguments.bytes];
    let numbers: Vec<usize> = (0..arguments.nodes).collect();
    for batch in numbers.chunks(BATCH) {
        let mut transaction = client.transaction();
        for number in batch {
            transaction.create(&format!("{TOP}/{number}"), CreateSpec::new().data(data.clone()));
        }
        transaction.await?;
    }
    Ok(client)
}

fn servers(trio: &Trio) -> String {
    trio.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Writes to some nodes, the first one last.
async fn write(client: &Client, writes: usize, mark: &str) -> Result<()> {
    for number in (0..writes.max(1)).rev() {
        // Repeating the same data is harmless.
        while let Err(error) = client.set(&format!("{TOP}/{number}"), mark.to_owned()).await {
            ensure!(error.is_ambiguous() || error.is_not_sent(), error);
        }
    }
    Ok(())
}

/// Clients with a cache each.
struct Caches {
    all: Vec<(Client, Cache)>,
    received: Arc<Received>,
}

impl Caches {
    /// Starts clients and waits until their caches have this many nodes.
    async fn start(trio: &Trio, mode: CacheWatchMode, clients: usize, nodes: usize) -> Result<Caches> {
        let received = Arc::new(Received::default());
        let servers = servers(trio);
        let mut all = Vec::with_capacity(clients);
        let mut starting = JoinSet::new();
        for started in 0..clients {
            let (servers, received) = (servers.clone(), received.clone());
            starting.spawn(async move {
                let builder = Client::builder(&servers)?.session_timeout(SESSION_TIMEOUT);
                let client = builder.connect_with(CountingConnector(received)).await?;
                let cache = Cache::start_with(&client, TOP, CacheScope::Tree, mode);
                tokio::time::timeout(PATIENCE, cache.synced()).await.context("a cache is incomplete")??;
                let found = cache.snapshot().len();
                ensure!(found == nodes, "a cache has {found} nodes");
                anyhow::Ok((client, cache))
            });
            if starting.len() >= CONNECTING || started + 1 == clients {
                while let Some(client) = starting.join_next().await {
                    all.push(client??);
                    if started + 1 < clients {
                        break;
                    }
                }
            }
        }
        Ok(Caches { all, received })
    }

    /// Waits until all caches show what was written last.
    async fn await_mark(&self, mark: &str) -> Result<()> {
        let wait = async {
            for (_, cache) in &self.all {
                while cache.get(&format!("{TOP}/0")).is_none_or(|node| node.data != mark)
                    || !cache.is_synced()
                {
                    if let Some(failure) = cache.failure() {
                        return Err(failure);
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            Ok(())
        };
        Ok(tokio::time::timeout(PATIENCE, wait).await.context("a cache did not follow")??)
    }

    /// The bytes and the connections since the last call.
    fn take(&self) -> (u64, u64) {
        let take = |number: &std::sync::atomic::AtomicU64| number.swap(0, Ordering::Relaxed);
        (take(&self.received.bytes), take(&self.received.connections))
    }

    /// Checks that all caches are equal, and closes the clients.
    async fn close(self, nodes: usize) -> Result<()> {
        let contents = |cache: &Cache| -> Vec<_> {
            let nodes = cache.snapshot();
            nodes.iter().map(|node| (node.path.clone(), node.data.clone(), node.stat.mzxid)).collect()
        };
        let expected = self.all.first().map(|(_, cache)| contents(cache)).unwrap_or_default();
        ensure!(expected.len() == nodes, "{} nodes in a cache", expected.len());
        for (client, cache) in self.all {
            ensure!(contents(&cache) == expected, "two caches differ");
            drop(cache);
            client.close().await?;
        }
        Ok(())
    }
}
