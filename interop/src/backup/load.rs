//! Clients that write while everything is killed: creates, changes, deletes, transactions, ephemeral and
//! sequential nodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use zebu_client::{Client, CreateMode, CreateSpec, ErrorCode, SessionState, Version};
use zebu_proto::Zxid;

use crate::differential::Random;

/// The parent of all nodes.
pub(super) const TOP: &str = "/load";

/// Nodes of one writer, of which each write takes one.
const NODES: usize = 40;

const WRITERS: u64 = 2;

/// How long no write at all may succeed.
const PATIENCE: Duration = Duration::from_secs(90);

/// Writers at work.
pub(super) struct BackupLoad {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<()>>>,
    servers: String,
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

impl BackupLoad {
    pub(super) fn start(servers: &[SocketAddr], random: &mut Random) -> Result<BackupLoad> {
        let servers = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        block_on(async {
            let client = Client::connect(&servers).await?;
            client.create(TOP).await?;
            client.close().await?;
            Ok(())
        })?;
        let threads = (0..WRITERS).map(|number| {
            let (servers, stop, written) = (servers.clone(), stop.clone(), written.clone());
            let random = Random::new(number + ((random.below(1 << 20) as u64) << 8));
            std::thread::spawn(move || block_on(write(&servers, number, random, &stop, &written)))
        });
        let threads = threads.collect();
        Ok(BackupLoad { stop, written, threads, servers })
    }

    /// Writes that were acknowledged.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Ends all writers, and returns the zxid of a last write.
    pub(super) fn finish(self) -> Result<Zxid> {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a writer panicked")))?;
        }
        block_on(async {
            let client = Client::connect(&self.servers).await?;
            let last = client.set(TOP, "the end").await?.mzxid;
            client.close().await?;
            Ok(Zxid(last))
        })
    }
}

async fn write(
    servers: &str,
    number: u64,
    mut random: Random,
    stop: &AtomicBool,
    written: &AtomicU64,
) -> Result<()> {
    let mut client = Client::connect(servers).await?;
    let mut last = Instant::now();
    while !stop.load(Ordering::Acquire) {
        let path = format!("{TOP}/{number}-{}", random.below(NODES));
        let result = step(&client, &mut random, &path).await;
        match result {
            Ok(()) => {
                written.fetch_add(1, Ordering::Relaxed);
                last = Instant::now();
            }
            // Other answers, as that of a node that is there already, are part of the log too.
            Err(error) if is_answer(error.code()) => {}
            Err(error) => {
                if last.elapsed() > PATIENCE {
                    bail!("no write succeeds any more: {error}");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                if client.state() == SessionState::Expired {
                    client = Client::connect(servers).await?;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // The session holds ephemeral nodes, which go with it.
    let _ = client.close().await;
    Ok(())
}

fn is_answer(code: Option<ErrorCode>) -> bool {
    matches!(code, Some(ErrorCode::NoNode | ErrorCode::NodeExists | ErrorCode::NotEmpty))
}

async fn step(client: &Client, random: &mut Random, path: &str) -> Result<(), zebu_client::Error> {
    let data = vec![b'x'; random.below(300)];
    match random.below(10) {
        0..=2 => client.create(path).data(data).await.map(drop),
        3..=5 => client.set(path, data).await.map(drop),
        6 => client.delete(path).await,
        7 => client.create(&format!("{path}-e")).mode(CreateMode::Ephemeral).await.map(drop),
        8 => client.create(&format!("{TOP}/s-")).mode(CreateMode::PersistentSequential).await.map(drop),
        _ => {
            let mut transaction = client.transaction();
            transaction.create(&format!("{path}-t"), CreateSpec::new().data(data.clone()));
            transaction.set(&format!("{path}-t"), data, Version::Any);
            transaction.delete(&format!("{path}-t"), Version::Any);
            transaction.await.map(drop)
        }
    }
}
