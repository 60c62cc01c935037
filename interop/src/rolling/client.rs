//! A client that writes at one server: the Rust client in this process, others as programs that report by
//! lines.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_client::Client;

use super::account::Account;
use crate::apache::Edition;

const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// A client says that it can move after a third of this.
const MOVING_TIMEOUT: Duration = Duration::from_secs(4);

/// How long a client may take to start, or to write again. Far more than it needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two writes.
const PAUSE: Duration = Duration::from_millis(2);

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RollingKind {
    /// zebu-client, which knows one server
    Rust,
    /// zebu-client, which knows all servers and moves when its server stops
    Moving,
    /// ZooKeeper's own client
    Java,
    /// Curator
    Curator,
    /// kazoo
    Kazoo,
    /// go-zookeeper
    Go,
}

impl fmt::Display for RollingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RollingKind::Rust => "rust",
            RollingKind::Moving => "moving",
            RollingKind::Java => "java",
            RollingKind::Curator => "curator",
            RollingKind::Kazoo => "kazoo",
            RollingKind::Go => "go",
        })
    }
}

#[derive(Debug, Default)]
struct Progress {
    account: Account,
    is_ready: bool,
    is_done: bool,
    written_at: Option<Instant>,
    /// The longest time between two writes since it was last asked for.
    longest_pause: Duration,
}

impl Progress {
    fn written(&mut self, number: u64) {
        let now = Instant::now();
        if let Some(before) = self.written_at.replace(now) {
            self.longest_pause = self.longest_pause.max(now - before);
        }
        self.account.written.insert(number);
    }
}

#[derive(Debug, Default)]
struct SharedProgress {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl SharedProgress {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn await_until(&self, what: &str, reached: impl Fn(&Progress) -> bool) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let mut progress = self.lock();
        while !reached(&progress) {
            let left = until.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "{}: {what}", progress.account.prefix);
            progress = self.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

enum Work {
    Task(Arc<AtomicBool>),
    Program { child: Child, input: ChildStdin },
}

/// A running client.
pub(super) struct RollingClient {
    pub(super) kind: RollingKind,
    shared: Arc<SharedProgress>,
    work: Work,
}

impl RollingClient {
    /// Starts a client and waits until it is connected.
    pub(super) fn start(
        kind: RollingKind,
        servers: &[SocketAddr],
        prefix: &str,
        edition: &Edition,
        runtime: &tokio::runtime::Runtime,
    ) -> Result<RollingClient> {
        let shared = Arc::new(SharedProgress::default());
        shared.lock().account.prefix = prefix.to_owned();
        let list = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let work = match kind {
            RollingKind::Rust | RollingKind::Moving => {
                let stop = Arc::new(AtomicBool::new(false));
                let client = runtime.block_on(async {
                    let timeout = match kind {
                        RollingKind::Moving => MOVING_TIMEOUT,
                        _ => SESSION_TIMEOUT,
                    };
                    anyhow::Ok(Client::builder(&list)?.session_timeout(timeout).connect().await?)
                })?;
                runtime.spawn(count_losses(kind, client.clone(), shared.clone()));
                runtime.spawn(write(client, prefix.to_owned(), shared.clone(), stop.clone()));
                Work::Task(stop)
            }
            RollingKind::Java => {
                let source = home().join("java/rolling/RollingWriter.java");
                let mut command = edition.tool(&source.display().to_string())?;
                run(command.arg(list).arg(prefix), shared.clone())?
            }
            RollingKind::Curator => {
                let mut command = Command::new(home().join("java/run-curator-rolling.sh"));
                run(command.arg(list).arg(prefix), shared.clone())?
            }
            RollingKind::Kazoo => {
                let mut command = Command::new("python3");
                run(command.arg(home().join("kazoo/rolling.py")).arg(list).arg(prefix), shared.clone())?
            }
            RollingKind::Go => {
                let mut command = Command::new(home().join("go/run-rolling.sh"));
                run(command.arg(list).arg(prefix), shared.clone())?
            }
        };
        let client = RollingClient { kind, shared, work };
        client.shared.await_until("did not connect", |progress| progress.is_ready)?;
        Ok(client)
    }

    /// The longest time between two writes since the last call.
    pub(super) fn take_longest_pause(&self) -> Duration {
        std::mem::take(&mut self.shared.lock().longest_pause)
    }

    /// Waits until more writes than these are acknowledged.
    pub(super) fn await_progress(&self, written: usize) -> Result<()> {
        self.shared.await_until("writes no more", |progress| progress.account.written.len() > written)
    }

    pub(super) fn lost(&self) -> usize {
        self.shared.lock().account.lost
    }

    pub(super) fn written(&self) -> usize {
        self.shared.lock().account.written.len()
    }

    /// Ends the writing.
    pub(super) fn finish(self) -> Result<Account> {
        match self.work {
            Work::Task(stop) => {
                stop.store(true, Ordering::Release);
                self.shared.await_until("did not end", |progress| progress.is_done)?;
            }
            Work::Program { mut child, input } => {
                drop(input);
                self.shared.await_until("did not end", |progress| progress.is_done)?;
                child.wait()?;
            }
        }
        Ok(self.shared.lock().account.clone())
    }
}

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Starts a program and reads its lines.
fn run(command: &mut Command, shared: Arc<SharedProgress>) -> Result<Work> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start a client program")?;
    let input = child.stdin.take().context("no input of a client program")?;
    let output = child.stdout.take().context("no output of a client program")?;
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            shared.update(|progress| read_line(&line, progress));
        }
    });
    Ok(Work::Program { child, input })
}

fn read_line(line: &str, progress: &mut Progress) {
    let mut words = line.split_whitespace();
    let (word, number) = (words.next(), words.next().and_then(|number| number.parse().ok()));
    match (word, number) {
        (Some("ready"), _) => progress.is_ready = true,
        (Some("done"), _) => progress.is_done = true,
        (Some("lost"), _) => progress.account.lost += 1,
        (Some("ok"), Some(number)) => progress.written(number),
        (Some("unknown"), Some(number)) => drop(progress.account.unknown.insert(number)),
        _ => println!("{}: {line}", progress.account.prefix),
    }
}

/// At one server every change of the state is a lost connection, or the next one. A client that moves is on
/// another connection of the same session then.
async fn count_losses(kind: RollingKind, client: Client, shared: Arc<SharedProgress>) {
    let mut states = client.states();
    states.mark_unchanged();
    while states.changed().await.is_ok() {
        let has_moved = kind == RollingKind::Moving && states.borrow_and_update().state.is_connected();
        let is_done = shared.lock().is_done;
        if !is_done && !has_moved {
            shared.update(|progress| progress.account.lost += 1);
        }
    }
}

async fn write(client: Client, prefix: String, shared: Arc<SharedProgress>, stop: Arc<AtomicBool>) {
    shared.update(|progress| progress.is_ready = true);
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let result = client.create(&format!("{prefix}-{number}-")).sequential().await;
        shared.update(|progress| match result {
            Ok(_) => progress.written(number),
            Err(_) => drop(progress.account.unknown.insert(number)),
        });
        tokio::time::sleep(PAUSE).await;
    }
    shared.update(|progress| progress.is_done = true);
    // A session that cannot be closed expires.
    let _ = client.close().await;
}
