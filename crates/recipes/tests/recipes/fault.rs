//! A way to the server that breaks at a chosen request: before it leaves, after it was carried out, with the
//! end of the session, or by standing still. It owns the bytes of one client, in both directions.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use zebu_client::{Connector, ServerAddress};

/// What happens at the chosen request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection breaks and the request is lost.
    CutBefore,
    /// The request is carried out, its answer is lost.
    CutAfter,
    /// The session ends; the request does not leave.
    Expire,
    /// The server crashes and starts again; the request does not leave.
    Kill,
    /// The request waits until it is told to go on.
    Hold,
    /// The same; only transactions count.
    HoldTransaction,
}

/// Where the fault is, and what has come of it.
#[derive(Debug)]
pub(crate) struct Plan {
    fault: Fault,
    at: AtomicUsize,
    seen: AtomicUsize,
    events: AtomicUsize,
    fired: watch::Sender<bool>,
    go_on: Semaphore,
}

impl Plan {
    /// No fault before [`Plan::arm`].
    pub(crate) fn new(fault: Fault) -> Arc<Plan> {
        Arc::new(Plan {
            fault,
            at: AtomicUsize::new(usize::MAX),
            seen: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
            fired: watch::channel(false).0,
            go_on: Semaphore::new(0),
        })
    }

    /// The fault comes at the request with this number from now, counted from one.
    pub(crate) fn arm(&self, step: usize) {
        self.seen.store(0, Ordering::SeqCst);
        self.at.store(step, Ordering::SeqCst);
    }

    pub(crate) fn fault(&self) -> Fault {
        self.fault
    }

    pub(crate) fn has_fired(&self) -> bool {
        *self.fired.borrow()
    }

    pub(crate) async fn fires(&self) {
        let mut fired = self.fired.subscribe();
        fired.wait_for(|fired| *fired).await.expect("the plan lives");
    }

    /// Lets a request that is held go on.
    pub(crate) fn go_on(&self) {
        self.go_on.add_permits(1);
    }

    /// Requests since the plan was armed.
    pub(crate) fn requests(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }

    /// Events of watches that the server has sent.
    pub(crate) fn events(&self) -> usize {
        self.events.load(Ordering::SeqCst)
    }

    fn strikes(&self, request: &[u8]) -> bool {
        if self.fault == Fault::HoldTransaction && operation(request) != TRANSACTION {
            return false;
        }
        let number = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        number == self.at.load(Ordering::SeqCst)
    }
}

/// Connects through a plan.
pub(crate) struct FaultyConnector(pub(crate) Arc<Plan>);

impl Connector for FaultyConnector {
    type Stream = DuplexStream;

    async fn connect(&self, server: &ServerAddress, _random: u64) -> io::Result<DuplexStream> {
        let server = TcpStream::connect((&*server.host, server.port)).await?;
        server.set_nodelay(true)?;
        let (near, far) = tokio::io::duplex(1 << 20);
        let plan = self.0.clone();
        // The end of either direction is the end of both, as with a connection that breaks.
        tokio::spawn(async move {
            let (from_server, mut to_server) = server.into_split();
            let (from_client, to_client) = tokio::io::split(far);
            let (lose, lost) = watch::channel(None);
            tokio::select! {
                _ = requests(from_client, &mut to_server, &plan, lose) => {}
                _ = answers(from_server, to_client, &plan, lost) => {}
            }
        });
        Ok(near)
    }
}

async fn frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.resize(4 + length as usize, 0);
    stream.read_exact(&mut bytes[4..]).await?;
    Ok(bytes)
}

/// The number of what the server sends without being asked.
const EVENT: i32 = -1;

/// The number of a request or an answer; negative for those that the client makes by itself.
fn xid(frame: &[u8]) -> i32 {
    frame.get(4..8).map_or(-1, |bytes| i32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

/// The operation code of a transaction.
const TRANSACTION: i32 = 14;

/// The operation code of a request.
fn operation(frame: &[u8]) -> i32 {
    frame.get(8..12).map_or(-1, |bytes| i32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

async fn requests(
    mut from: ReadHalf<DuplexStream>,
    to: &mut tokio::net::tcp::OwnedWriteHalf,
    plan: &Plan,
    lose: watch::Sender<Option<i32>>,
) -> io::Result<()> {
    let handshake = frame(&mut from).await?;
    to.write_all(&handshake).await?;
    loop {
        let request = frame(&mut from).await?;
        if xid(&request) > 0 && plan.strikes(&request) {
            plan.fired.send_replace(true);
            match plan.fault {
                Fault::CutBefore => return Ok(()),
                Fault::CutAfter => {
                    lose.send_replace(Some(xid(&request)));
                }
                Fault::Expire | Fault::Kill => std::future::pending().await,
                Fault::Hold | Fault::HoldTransaction => {
                    plan.go_on.acquire().await.expect("never closed").forget()
                }
            }
        }
        to.write_all(&request).await?;
    }
}

async fn answers(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: WriteHalf<DuplexStream>,
    plan: &Plan,
    lost: watch::Receiver<Option<i32>>,
) -> io::Result<()> {
    let handshake = frame(&mut from).await?;
    to.write_all(&handshake).await?;
    loop {
        let answer = frame(&mut from).await?;
        if xid(&answer) == EVENT {
            plan.events.fetch_add(1, Ordering::SeqCst);
        }
        if *lost.borrow() == Some(xid(&answer)) {
            return Ok(());
        }
        to.write_all(&answer).await?;
    }
}
