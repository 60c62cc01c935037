//! A client that writes all the time and follows the members by its watch on the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinHandle;
use zebu_client::{Client, ErrorCode};

/// What it writes below.
const DIRECTORY: &str = "/written";

/// Which servers it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// All servers of the current config.
    Members,
    /// Those that it was given.
    Given,
}

pub(crate) struct Writer {
    client: Client,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    writing: JoinHandle<Result<Vec<u64>>>,
    following: JoinHandle<()>,
}

impl Writer {
    pub(crate) async fn start(servers: &str, which: Servers) -> Result<Writer> {
        let client = Client::builder(servers)?.session_timeout(Duration::from_secs(10)).connect().await?;
        client.create(DIRECTORY).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let writing = tokio::spawn(write(client.clone(), stop.clone(), acknowledged.clone()));
        let following = match which {
            Servers::Members => tokio::spawn(follow(client.clone())),
            Servers::Given => tokio::spawn(std::future::ready(())),
        };
        Ok(Writer { client, stop, acknowledged, writing, following })
    }

    /// Waits until something more was acknowledged.
    pub(crate) async fn goes_on(&self) -> Result<()> {
        let before = self.acknowledged.load(Ordering::Acquire);
        for _ in 0..600 {
            if self.acknowledged.load(Ordering::Acquire) > before + 5 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("nothing was acknowledged for half a minute, after {before} writes")
    }

    /// Ends; everything that was acknowledged must be at this server. Returns how much that is.
    pub(crate) async fn finish(self, server: &str) -> Result<usize> {
        self.stop.store(true, Ordering::Release);
        let acknowledged = self.writing.await.context("the writer panicked")??;
        self.following.abort();
        self.client.close().await?;
        let reader = Client::connect(server).await?;
        reader.sync("/").await?;
        let there = reader.children(DIRECTORY).await?;
        for number in &acknowledged {
            ensure!(there.names.iter().any(|name| *name == format!("n{number}")), "write {number} is lost");
        }
        Ok(acknowledged.len())
    }
}

async fn write(client: Client, stop: Arc<AtomicBool>, count: Arc<AtomicU64>) -> Result<Vec<u64>> {
    let mut acknowledged = Vec::new();
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        match client.create(&format!("{DIRECTORY}/n{number}")).await {
            Ok(_) => {
                acknowledged.push(number);
                count.fetch_add(1, Ordering::AcqRel);
            }
            Err(error) if error.code() == Some(ErrorCode::SessionExpired) => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(acknowledged)
}

async fn follow(client: Client) {
    loop {
        match client.watch_config().await {
            Ok((config, changed)) => {
                if let Some(servers) = config.connection_string() {
                    // A list that cannot be used leaves the one that was there.
                    let _ = client.update_servers(&servers);
                }
                changed.await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
