//! The network between the members of an ensemble, and between clients and members: a proxy in this process
//! for every ordered pair. It knows who talks to whom, because each host is told ports of its own for every
//! other one.
//!
//! It changes one thing: a member that calls another one for an election says where it can be called back,
//! and that is replaced by the place where the other one reaches it through the network.

mod ports;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

pub use ports::Ports;

/// Bytes that are moved at once.
const PIECE: usize = 16 << 10;

/// The longest address in an election's first message that is read.
const ADDRESS_MAX: usize = 4096;

/// What becomes of the bytes on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    #[default]
    /// They pass.
    Free,
    /// Delivered after a delay.
    Late(Duration),
    /// Not delivered until the path is free: the sender blocks when the buffers are full.
    Held,
    /// They vanish. A connection that has lost some ends when the path is free.
    Lost,
}

/// A path from one host to another.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    flow: Flow,
    /// Connections that were opened before the latest cut end.
    cuts: u64,
    /// Whenever so many bytes have passed, the connection that carries the next one ends.
    reset_every: Option<u64>,
    /// Bytes since the last one ended.
    passed: u64,
}

#[derive(Debug)]
struct Shared {
    hosts: usize,
    paths: Mutex<Vec<Path>>,
    changes: watch::Sender<u64>,
}

impl Shared {
    fn paths(&self) -> MutexGuard<'_, Vec<Path>> {
        // Every change is one statement; a panic cannot leave half of one.
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, from: usize, to: usize) -> Path {
        self.paths()[from * self.hosts + to]
    }

    fn change(&self, from: usize, to: usize, change: impl FnOnce(&mut Path)) {
        change(&mut self.paths()[from * self.hosts + to]);
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Waits until a path is as wanted.
    async fn until(&self, from: usize, to: usize, wanted: impl Fn(&Path) -> bool) -> Path {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let path = self.path(from, to);
            if wanted(&path) {
                return path;
            }
            // The sender lives in self.
            let _ = changes.changed().await;
        }
    }

    /// Counts bytes that are to pass; how many of them pass.
    fn count(&self, from: usize, to: usize, count: usize) -> usize {
        let mut paths = self.paths();
        let path = &mut paths[from * self.hosts + to];
        let Some(every) = path.reset_every else { return count };
        let left = usize::try_from(every.saturating_sub(path.passed)).unwrap_or(usize::MAX);
        path.passed = if left < count { 0 } else { path.passed + count as u64 };
        count.min(left)
    }
}

/// The network. Members are the hosts from zero; all clients together are the last host.
#[derive(Debug)]
pub struct Network {
    shared: Arc<Shared>,
    /// Only taken when the network goes.
    runtime: Option<Runtime>,
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped inside of another runtime, where blocking is not allowed.
            runtime.shutdown_background();
        }
    }
}

/// What passes through a port.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Bytes pass as they are.
    Plain,
    /// The first message names an address, which becomes this one.
    Election {
        /// Where the called one finds the caller.
        called_back_at: SocketAddr,
    },
}

impl Network {
    /// A network in which everything passes. Its ports are opened by [`Network::listen`].
    pub fn new(members: usize) -> io::Result<Network> {
        let hosts = members + 1;
        let (changes, _) = watch::channel(0);
        let paths = Mutex::new(vec![Path::default(); hosts * hosts]);
        let shared = Arc::new(Shared { hosts, paths, changes });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Network { shared, runtime: Some(runtime) })
    }

    /// The host that all clients are.
    pub fn clients(&self) -> usize {
        self.shared.hosts - 1
    }

    /// Opens a port at which one host will find another; see [`Network::serve`].
    pub fn listen(&self, ports: &mut Ports) -> io::Result<(SocketAddr, std::net::TcpListener)> {
        let (address, listener) = ports.open()?;
        listener.set_nonblocking(true)?;
        Ok((address, listener))
    }

    /// Serves a port at which `from` finds `to`, which really listens at `target`.
    pub fn serve(
        &self,
        listener: std::net::TcpListener,
        (from, to): (usize, usize),
        target: SocketAddr,
        content: Content,
    ) {
        let (shared, Some(runtime)) = (self.shared.clone(), &self.runtime) else { return };
        runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            loop {
                // A listener that fails for a moment (no descriptors) is asked again.
                let Ok((dialer, _)) = listener.accept().await else {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let link = Link { shared: shared.clone(), from, to };
                tokio::spawn(async move {
                    // However it ends, both sides are told.
                    let _ = link.carry(dialer, target, content).await;
                });
            }
        });
    }

    /// Decides what becomes of the bytes from one host to another.
    pub fn set(&self, from: usize, to: usize, flow: Flow) {
        self.shared.change(from, to, |path| path.flow = flow);
    }

    /// Ends all connections between two hosts, now.
    pub fn cut(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.shared.change(from, to, |path| path.cuts += 1);
        }
    }

    /// Ends connections in the middle of what is said, whenever so many bytes have passed on the path.
    pub fn reset_every(&self, from: usize, to: usize, bytes: u64) {
        self.shared.change(from, to, |path| (path.reset_every, path.passed) = (Some(bytes), 0));
    }

    /// Everything passes again.
    pub fn heal(&self) {
        for from in 0..self.shared.hosts {
            for to in 0..self.shared.hosts {
                self.shared.change(from, to, |path| {
                    path.flow = Flow::Free;
                    path.reset_every = None;
                });
            }
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// One side has closed it.
    Farewell,
    Fault,
}

struct Link {
    shared: Arc<Shared>,
    from: usize,
    to: usize,
}

impl Link {
    async fn carry(&self, mut dialer: TcpStream, target: SocketAddr, content: Content) -> io::Result<()> {
        let (shared, from, to) = (&self.shared, self.from, self.to);
        dialer.set_nodelay(true)?;
        let passes = |path: &Path| matches!(path.flow, Flow::Free | Flow::Late(_));
        shared.until(from, to, passes).await;
        let first = match content {
            Content::Plain => Vec::new(),
            Content::Election { called_back_at } => election_greeting(&mut dialer, called_back_at).await?,
        };
        let mut called = TcpStream::connect(target).await?;
        called.set_nodelay(true)?;
        called.write_all(&first).await?;
        let cuts = (shared.path(from, to).cuts, shared.path(to, from).cuts);
        let (mut dialer_in, mut dialer_out) = dialer.into_split();
        let (mut called_in, mut called_out) = called.into_split();
        let end = tokio::select! {
            end = self.pump((from, to), &mut dialer_in, &mut called_out) => end?,
            end = self.pump((to, from), &mut called_in, &mut dialer_out) => end?,
            _ = shared.until(from, to, |path| path.cuts != cuts.0) => End::Fault,
            _ = shared.until(to, from, |path| path.cuts != cuts.1) => End::Fault,
        };
        if end == End::Fault {
            // As by a host that knows nothing of the connection.
            dialer_out.as_ref().set_zero_linger()?;
            called_out.as_ref().set_zero_linger()?;
        }
        Ok(())
    }

    async fn pump(
        &self,
        (from, to): (usize, usize),
        source: &mut OwnedReadHalf,
        sink: &mut OwnedWriteHalf,
    ) -> io::Result<End> {
        let mut piece = vec![0; PIECE];
        loop {
            self.shared.until(from, to, |path| path.flow != Flow::Held).await;
            let count = source.read(&mut piece).await?;
            if count == 0 {
                return Ok(End::Farewell);
            }
            let path = self.shared.until(from, to, |path| path.flow != Flow::Held).await;
            match path.flow {
                Flow::Late(by) => tokio::time::sleep(by).await,
                Flow::Lost => {
                    self.swallow(from, to, source, &mut piece).await;
                    return Ok(End::Fault);
                }
                Flow::Free | Flow::Held => {}
            }
            let passing = self.shared.count(from, to, count);
            sink.write_all(&piece[..passing]).await?;
            if passing < count {
                return Ok(End::Fault);
            }
        }
    }

    /// Takes everything, until the path is free again.
    async fn swallow(&self, from: usize, to: usize, source: &mut OwnedReadHalf, piece: &mut [u8]) {
        let free = self.shared.until(from, to, |path| path.flow != Flow::Lost);
        tokio::pin!(free);
        loop {
            tokio::select! {
                _ = &mut free => return,
                result = source.read(piece) => {
                    if !matches!(result, Ok(count) if count > 0) {
                        // The end does not get through either.
                        free.await;
                        return;
                    }
                }
            }
        }
    }
}

/// The first message of an election's connection, with another address in it: a version (negative), the
/// caller's number, the length of the address, the address.
async fn election_greeting(dialer: &mut TcpStream, called_back_at: SocketAddr) -> io::Result<Vec<u8>> {
    let mut head = [0; 20];
    dialer.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([head[16], head[17], head[18], head[19]]) as usize;
    if head[0] & 0x80 == 0 || length > ADDRESS_MAX {
        // Not a version that names an address.
        return Ok(head.to_vec());
    }
    let mut address = vec![0; length];
    dialer.read_exact(&mut address).await?;
    let address = called_back_at.to_string();
    let mut greeting = head[..16].to_vec();
    greeting.extend_from_slice(&(address.len() as u32).to_be_bytes());
    greeting.extend_from_slice(address.as_bytes());
    Ok(greeting)
}
