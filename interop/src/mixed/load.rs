//! Clients that stay connected while servers change hands: they write all the time, hold ephemeral nodes, and
//! remember what they were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinHandle;
use zebu_client::{Client, ErrorCode, SessionId};

/// The top of everything that they write.
pub(super) const TOP: &str = "/load";

/// Ephemeral nodes of each client.
const EPHEMERALS: usize = 5;

/// The longest that clients of a small ensemble usually ask for; a migration takes several times as long.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// What a client knows at the end.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) directory: String,
    pub(super) acknowledged: usize,
    /// Writes whose outcome is not known.
    pub(super) unknown: usize,
    paths: Vec<String>,
    counter: (u64, u64),
}

/// A client with a directory of its own.
pub(super) struct Writer {
    directory: String,
    client: Client,
    session: SessionId,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    task: JoinHandle<Account>,
}

impl Writer {
    pub(super) async fn start(servers: &str, number: usize) -> Result<Writer> {
        let client = Client::builder(servers)?.session_timeout(SESSION_TIMEOUT).connect().await?;
        let session = client.session();
        ensure!(session.timeout == SESSION_TIMEOUT, "the timeout became {:?}", session.timeout);
        let directory = format!("{TOP}/{number}");
        client.ensure_path(&directory).await?;
        for ephemeral in 0..EPHEMERALS {
            client.create(&format!("{directory}/e{ephemeral}")).ephemeral().await?;
        }
        client.create(&format!("{directory}/counter")).data("0").await?;
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let task = tokio::spawn(write(client.clone(), directory.clone(), stop.clone(), acknowledged.clone()));
        Ok(Writer { directory, client, session: session.id, stop, acknowledged, task })
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// The session is the one that it began with, and its ephemeral nodes are there and belong to it, as one
    /// member shows it.
    pub(super) async fn check_session(&self, member: &Client) -> Result<()> {
        let now = self.client.session().id;
        ensure!(now == self.session, "{}: session {} became {now}", self.directory, self.session);
        for ephemeral in 0..EPHEMERALS {
            let path = format!("{}/e{ephemeral}", self.directory);
            let stat = member.exists(&path).await?.with_context(|| format!("{path} is gone"))?;
            ensure!(stat.ephemeral_owner == self.session.0, "{path} belongs to {:#x}", stat.ephemeral_owner);
        }
        Ok(())
    }

    /// Ends the writing; the session goes on.
    pub(super) async fn finish(&mut self) -> Result<Account> {
        self.stop.store(true, Ordering::Release);
        (&mut self.task).await.context("a writer panicked")
    }

    pub(super) async fn close(self) {
        // A session that cannot be closed expires.
        let _ = self.client.close().await;
    }
}

async fn write(
    client: Client,
    directory: String,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
) -> Account {
    let (mut unknown, mut paths, mut counter, mut number) = (0, Vec::new(), (0, 0), 0u64);
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let path = format!("{directory}/n{number}");
        match client.create(&path).data(number.to_string()).await {
            Ok(_) => {
                paths.push(path);
                acknowledged.fetch_add(1, Ordering::AcqRel);
            }
            Err(_) => unknown += 1,
        }
        counter.1 = number;
        match client.set(&format!("{directory}/counter"), number.to_string()).await {
            Ok(_) => counter.0 = number,
            Err(_) => unknown += 1,
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Account { directory, acknowledged: paths.len(), unknown, paths, counter }
}

/// A session at one member, which has everything that was decided before.
pub(super) async fn visit(server: &str) -> Result<Client> {
    let client = Client::builder(server)?.session_timeout(SESSION_TIMEOUT).connect().await?;
    client.sync("/").await?;
    Ok(client)
}

impl Account {
    /// Checks at one server that all acknowledged writes exist and that the counter did not fall.
    pub(super) async fn check(&self, member: &Client) -> Result<()> {
        let children = member.children(&self.directory).await?;
        let names: std::collections::BTreeSet<&str> =
            children.names.iter().map(|name| name.as_ref()).collect();
        for path in &self.paths {
            let name = path.rsplit('/').next().unwrap_or(path);
            ensure!(names.contains(name), "{path} was acknowledged and is lost");
        }
        let node = member.get(&format!("{}/counter", self.directory)).await?;
        let value: u64 = String::from_utf8_lossy(&node.data).parse()?;
        let (acknowledged, tried) = self.counter;
        ensure!(
            (acknowledged..=tried).contains(&value),
            "{}: the counter is {value}; {acknowledged} was acknowledged and {tried} was tried",
            self.directory
        );
        Ok(())
    }
}

/// Makes the top, which may be there.
pub(super) async fn make_top(servers: &str) -> Result<()> {
    let client = Client::builder(servers)?.session_timeout(SESSION_TIMEOUT).connect().await?;
    match client.create(TOP).await {
        Err(error) if error.code() != Some(ErrorCode::NodeExists) => return Err(error.into()),
        Ok(_) | Err(_) => {}
    }
    client.close().await?;
    Ok(())
}
