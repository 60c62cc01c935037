//! Clients that write all the time and remember what they were told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinHandle;
use zebu_client::{Client, ErrorCode};

/// What a writer knows.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Paths of nodes whose creation was acknowledged.
    pub(super) acknowledged: Vec<String>,
    /// Calls whose outcome is not known.
    pub(super) unknown: usize,
    /// The highest number that was acknowledged for the counter, and the highest that was tried.
    pub(super) counter: (u64, u64),
    /// How often the session was lost.
    pub(super) expired: usize,
}

/// A client with a directory of its own.
pub(super) struct Writer {
    name: String,
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<Written>>,
}

impl Writer {
    pub(super) fn start(servers: &str, number: usize) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let name = format!("/writer-{number}");
        let task = tokio::spawn(write(servers.to_owned(), name.clone(), stop.clone()));
        Writer { name, stop, task }
    }

    /// Ends the writer and returns what it knows.
    pub(super) async fn finish(self) -> Result<(String, Written)> {
        self.stop.store(true, Ordering::Release);
        let written = self.task.await.context("a writer panicked")??;
        Ok((self.name, written))
    }
}

async fn connect(servers: &str) -> Result<Client> {
    let mut attempts = 0;
    loop {
        match Client::builder(servers)?.session_timeout(Duration::from_secs(10)).connect().await {
            Ok(client) => return Ok(client),
            Err(error) if attempts > 60 => return Err(error.into()),
            Err(_) => attempts += 1,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn write(servers: String, directory: String, stop: Arc<AtomicBool>) -> Result<Written> {
    let client = connect(&servers).await?;
    let mut written = Written::default();
    let counter = format!("{directory}/counter");
    while client.create(&directory).await.is_err_and(|error| error.code() != Some(ErrorCode::NodeExists)) {}
    while client
        .create(&counter)
        .data("0")
        .await
        .is_err_and(|error| error.code() != Some(ErrorCode::NodeExists))
    {}
    let mut number = 0u64;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let path = format!("{directory}/n{number}");
        match client.create(&path).data(number.to_string()).await {
            Ok(_) => written.acknowledged.push(path),
            Err(error) => {
                written.unknown += 1;
                if error.code() == Some(ErrorCode::SessionExpired) {
                    written.expired += 1;
                }
            }
        }
        written.counter.1 = number;
        if client.set(&counter, number.to_string()).await.is_ok() {
            written.counter.0 = number;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // A client that cannot say farewell now is forgotten by its timeout.
    let _ = client.close().await;
    Ok(written)
}

/// Everything below a writer's directory on one member: data and change by path.
pub(super) type Contents = BTreeMap<String, (Vec<u8>, i64)>;

/// Reads everything that the writers made from one member, after a sync.
pub(super) async fn contents(server: &str, directories: &[String]) -> Result<Contents> {
    let client = connect(server).await?;
    client.sync("/").await?;
    let mut contents = Contents::new();
    for directory in directories {
        let children = client.children(directory).await?;
        let reads: Vec<_> = children
            .names
            .iter()
            .map(|name| {
                let path = format!("{directory}/{name}");
                let read = client.get(&path).send();
                (path, read)
            })
            .collect();
        for (path, read) in reads {
            let node = read.await?;
            contents.insert(path, (node.data.to_vec(), node.stat.mzxid));
        }
    }
    client.close().await?;
    Ok(contents)
}

/// What was acknowledged is there, and the counter did not go back.
pub(super) fn check(directory: &str, written: &Written, contents: &Contents) -> Result<()> {
    for path in &written.acknowledged {
        ensure!(contents.contains_key(path), "{path} was acknowledged and is lost");
    }
    let counter = format!("{directory}/counter");
    let (data, _) = contents.get(&counter).with_context(|| format!("{counter} is lost"))?;
    let value: u64 = String::from_utf8_lossy(data).parse()?;
    let (acknowledged, tried) = written.counter;
    ensure!(
        (acknowledged..=tried).contains(&value),
        "{counter} is {value}, but {acknowledged} was acknowledged and {tried} was tried"
    );
    Ok(())
}
