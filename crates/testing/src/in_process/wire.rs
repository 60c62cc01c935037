//! The wire between clients and a server of a test: a stable port, and faults. It owns the connections; it
//! changes nothing in what it lets pass.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, RwLock, oneshot, watch};
use zebu_proto::client::ConnectResponse;
use zebu_proto::frame::LENGTH_SIZE;
use zebu_proto::{Reader, SessionId};

use super::splitter::Splitter;

/// Bytes that are moved at once.
const PIECE: usize = 64 << 10;

/// Whether bytes pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flow {
    #[default]
    Free,
    Held,
}

/// Which connections are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    All,
    Session(SessionId),
}

/// A connection that is being served.
#[derive(Debug)]
struct Link {
    /// Zero before the handshake.
    session: Arc<AtomicI64>,
    cut: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` while no server runs.
    target: Option<SocketAddr>,
    flow: Flow,
    held: BTreeSet<i64>,
    /// Sessions whose next reply is thrown away.
    doomed: BTreeSet<i64>,
    /// Who wants that new connections wait.
    holds: usize,
    links: BTreeMap<u64, Link>,
    last_link: u64,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Counts changes of the state, for tests that wait.
    changes: watch::Sender<u64>,
    /// Held shared while bytes are forwarded, so that a pause can wait for the bytes in flight.
    passing: RwLock<()>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one statement; a panic cannot leave half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Waits until the state allows it.
    async fn until<R>(&self, look: impl Fn(&State) -> Option<R>) -> R {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(result) = look(&self.state()) {
                return result;
            }
            // The sender lives in self.
            let _ = changes.changed().await;
        }
    }

    /// Hands bytes on when they may pass.
    async fn pass(&self, session: &AtomicI64, to: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<()> {
        loop {
            self.until(|state| state.is_free(session).then_some(())).await;
            let _passing = self.passing.read().await;
            if self.state().is_free(session) {
                return to.write_all(bytes).await;
            }
        }
    }
}

impl State {
    fn is_free(&self, session: &AtomicI64) -> bool {
        self.flow == Flow::Free && !self.held.contains(&session.load(Ordering::Acquire))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Dropped to end the thread.
    life: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// New connections wait while it lives.
#[derive(Debug)]
pub(super) struct Held(Arc<Shared>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.change(|state| state.holds -= 1);
    }
}

impl Wire {
    /// Opens a port. It has a thread and a runtime of its own: a test that blocks does not stop it.
    pub(super) fn start() -> io::Result<Wire> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (changes, _) = watch::channel(0);
        let shared = Arc::new(Shared { state: Mutex::default(), changes, passing: RwLock::new(()) });
        let (life, over) = oneshot::channel::<()>();
        let control = shared.clone();
        let thread = std::thread::Builder::new().name("zebu-test-wire".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = over => {}
                    () = accept(listener, control) => {}
                }
            });
        })?;
        Ok(Wire { address, shared, life: Some(life), thread: Some(thread) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where new connections lead; with nothing, they end at once.
    pub(super) fn lead_to(&self, target: Option<SocketAddr>) {
        self.shared.change(|state| state.target = target);
    }

    pub(super) fn cut(&self, whose: Whose) {
        for link in self.shared.state().links.values() {
            let meant = match whose {
                Whose::All => true,
                Whose::Session(id) => link.session.load(Ordering::Acquire) == id.0,
            };
            if meant {
                link.cut.notify_one();
            }
        }
    }

    pub(super) fn hold_newcomers(&self) -> Held {
        self.shared.change(|state| state.holds += 1);
        Held(self.shared.clone())
    }

    pub(super) fn doom(&self, session: SessionId) {
        self.shared.change(|state| {
            state.doomed.insert(session.0);
        });
    }

    /// When it returns, nothing of what it holds is under way any more.
    pub(super) async fn set_flow(&self, whose: Whose, flow: Flow) {
        self.shared.change(|state| match (whose, flow) {
            (Whose::All, flow) => state.flow = flow,
            (Whose::Session(id), Flow::Held) => {
                state.held.insert(id.0);
            }
            (Whose::Session(id), Flow::Free) => {
                state.held.remove(&id.0);
            }
        });
        drop(self.shared.passing.write().await);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        drop(self.life.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((client, _)) = listener.accept().await {
        let (session, cut) = (Arc::new(AtomicI64::new(0)), Arc::new(Notify::new()));
        let number = {
            let mut state = shared.state();
            state.last_link += 1;
            let number = state.last_link;
            state.links.insert(number, Link { session: session.clone(), cut: cut.clone() });
            number
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = cut.notified() => {}
                // However it ended, both sides are closed.
                _ = serve(client, &shared, &session) => {}
            }
            shared.state().links.remove(&number);
        });
    }
}

/// Moves bytes until either side ends.
async fn serve(mut client: TcpStream, shared: &Shared, session: &AtomicI64) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut first = [0; LENGTH_SIZE];
    client.read_exact(&mut first).await?;
    let target = shared.until(|state| (state.holds == 0).then_some(state.target)).await;
    let Some(target) = target else { return Ok(()) };
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let (from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    shared.pass(session, &mut to_server, &first).await?;
    // Four-letter words have no frames.
    let frames = !first.iter().all(u8::is_ascii_alphabetic);
    tokio::select! {
        result = copy(from_client, &mut to_server, shared, session) => result?,
        result = async {
            if frames {
                replies(from_server, &mut to_client, shared, session).await
            } else {
                copy(from_server, &mut to_client, shared, session).await
            }
        } => return result,
    }
    Ok(())
}

async fn copy(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    shared: &Shared,
    session: &AtomicI64,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        shared.pass(session, to, &piece[..count]).await?;
    }
}

/// The next frame that a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Handshake,
    Replies,
}

/// What the server says: the session in its first frame, and a reply that may be doomed.
async fn replies(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    shared: &Shared,
    session: &AtomicI64,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut splitter = Splitter::default();
    let mut out = Vec::new();
    let mut expected = Expected::Handshake;
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        let mut doomed = false;
        out.clear();
        splitter.push(&piece[..count], |frame| {
            match expected {
                Expected::Handshake => {
                    session.store(session_of(frame), Ordering::Release);
                    expected = Expected::Replies;
                }
                Expected::Replies if !doomed && is_reply(frame) => {
                    doomed = shared.state().doomed.remove(&session.load(Ordering::Acquire));
                }
                Expected::Replies => {}
            }
            if !doomed {
                out.extend_from_slice(frame);
            }
        });
        if !out.is_empty() {
            shared.pass(session, to, &out).await?;
        }
        if doomed {
            return Ok(());
        }
    }
}

/// The session that a handshake grants; zero if it grants none.
fn session_of(frame: &[u8]) -> i64 {
    ConnectResponse::decode(&mut Reader::new(&frame[LENGTH_SIZE..])).map_or(0, |response| response.session_id)
}

/// Whether it answers a request of the program: those have numbers from one.
fn is_reply(frame: &[u8]) -> bool {
    frame[LENGTH_SIZE..].first_chunk::<4>().is_some_and(|xid| i32::from_be_bytes(*xid) > 0)
}
