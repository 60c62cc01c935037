//! Clients, each on a thread of its own, that ask for all kinds of things all the time. It owns sockets,
//! threads and the one record of everything that was said and heard.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use zebu_sim::live::{ClientRecord, Player, PlayerRequest};

use crate::differential::Random;

/// Clients, each with a session of its own.
const CLIENTS: usize = 6;

/// The timeout of their sessions: longer than any fault lasts.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest a client waits for bytes before it looks around.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// The longest anything may take when nothing is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two bursts of calls, at most.
const PAUSE_MS: usize = 80;

/// What clients have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duty {
    /// Ask for things.
    Work = 0,
    /// Wait until everything is answered, write once more, and stay.
    Settle = 1,
    /// End the session.
    Leave = 2,
}

/// When writes were last acknowledged.
#[derive(Debug)]
struct Availability {
    last: Instant,
    longest: Duration,
}

struct Shared {
    servers: Vec<SocketAddr>,
    seed: u64,
    records: Mutex<Vec<ClientRecord>>,
    availability: Mutex<Availability>,
    duty: AtomicUsize,
    /// Numbers of clients that were used.
    numbers: AtomicUsize,
    settled: AtomicUsize,
    broken: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Lists and times only: a panic cannot leave half of a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All clients.
pub(super) struct Load {
    shared: Arc<Shared>,
    vanish: Vec<Arc<AtomicBool>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    /// Starts the clients.
    pub(super) fn start(servers: Vec<SocketAddr>, seed: u64) -> Load {
        let shared = Arc::new(Shared {
            servers,
            seed,
            records: Mutex::default(),
            availability: Mutex::new(Availability { last: Instant::now(), longest: Duration::ZERO }),
            duty: AtomicUsize::new(Duty::Work as usize),
            numbers: AtomicUsize::new(0),
            settled: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        });
        let vanish: Vec<Arc<AtomicBool>> = (0..CLIENTS).map(|_| Arc::default()).collect();
        let run = |flag: &Arc<AtomicBool>| {
            let (shared, flag) = (shared.clone(), flag.clone());
            std::thread::spawn(move || {
                let result = work(&shared, &flag);
                shared.broken.fetch_or(result.is_err(), Ordering::AcqRel);
                result
            })
        };
        let threads = vanish.iter().map(run).collect();
        Load { shared, vanish, threads }
    }

    /// A client goes without a word, and another one takes its place.
    pub(super) fn vanish(&self, which: usize) {
        self.vanish[which % self.vanish.len()].store(true, Ordering::Release);
    }

    /// The longest time between two acknowledged writes since this was last asked.
    pub(super) fn longest_silence(&self) -> Duration {
        let mut availability = lock(&self.shared.availability);
        let longest = availability.longest.max(availability.last.elapsed());
        availability.longest = Duration::ZERO;
        longest
    }

    /// Waits until writes are acknowledged again.
    pub(super) fn await_writes(&self) -> Result<()> {
        let asked = Instant::now();
        while lock(&self.shared.availability).last < asked {
            if asked.elapsed() > PATIENCE {
                bail!("g09_timeliness: all members serve, but no write is acknowledged for {PATIENCE:?}");
            }
            if self.shared.broken.load(Ordering::Acquire) {
                bail!("a client has failed; its message comes at the end of the load");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the calls: everything is answered, and every client can write once more. Sessions stay.
    pub(super) fn settle(&self) -> Result<()> {
        self.shared.duty.store(Duty::Settle as usize, Ordering::Release);
        let asked = Instant::now();
        while self.shared.settled.load(Ordering::Acquire) < CLIENTS {
            if asked.elapsed() > PATIENCE {
                bail!("g09_timeliness: not every client has had its last write acknowledged in {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the sessions and the threads.
    pub(super) fn leave(&mut self) -> Result<()> {
        self.shared.duty.store(Duty::Leave as usize, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        Ok(())
    }

    /// Reads the whole tree from one member, as a client of its own: it is part of the record.
    pub(super) fn read_everything(&self, server: SocketAddr) -> Result<usize> {
        let mut connection = Connection::new(&self.shared, &[server]);
        let started = Instant::now();
        connection.player.sync(Instant::now());
        connection.player.read(Instant::now(), "/");
        let mut nodes = 1;
        loop {
            connection.turn(&self.shared)?;
            for path in connection.player.take_found() {
                if path.starts_with("/zookeeper") {
                    continue;
                }
                nodes += 1;
                connection.player.read(Instant::now(), &path);
            }
            if connection.player.outstanding() == 0 {
                break;
            }
            if started.elapsed() > PATIENCE {
                bail!("{server} was not read in {PATIENCE:?}");
            }
        }
        connection.leave(&self.shared)?;
        Ok(nodes)
    }

    /// Everything that was said and heard.
    pub(super) fn take_records(&self) -> Vec<ClientRecord> {
        std::mem::take(&mut lock(&self.shared.records))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.duty.store(Duty::Leave as usize, Ordering::Release);
        for thread in self.threads.drain(..) {
            // Something else has failed already.
            let _ = thread.join();
        }
    }
}

/// A player with its socket.
struct Connection {
    player: Player,
    stream: Option<TcpStream>,
    acknowledged: u64,
}

impl Connection {
    fn new(shared: &Shared, servers: &[SocketAddr]) -> Connection {
        let number = shared.numbers.fetch_add(1, Ordering::AcqRel);
        let player = Player::new(number, shared.seed, servers, SESSION_TIMEOUT, Instant::now());
        Connection { player, stream: None, acknowledged: 0 }
    }

    /// Does what is to be done, and waits a little for bytes.
    fn turn(&mut self, shared: &Shared) -> Result<()> {
        self.player.tick(Instant::now());
        while let Some(order) = self.player.next_order() {
            match order {
                PlayerRequest::Open { server, patience } => self.open(server, patience)?,
                PlayerRequest::Drop => self.stream = None,
            }
        }
        let bytes = self.player.to_write(Instant::now());
        // Before anybody can know of it.
        self.record(shared);
        if let Some(stream) = &mut self.stream
            && !bytes.is_empty()
            && let Err(error) = stream.write_all(&bytes)
        {
            self.lost(&error.to_string());
        }
        self.read();
        self.record(shared);
        let acknowledged = self.player.writes_acknowledged();
        if acknowledged != self.acknowledged {
            self.acknowledged = acknowledged;
            let mut availability = lock(&shared.availability);
            let now = Instant::now();
            availability.longest = availability.longest.max(now - availability.last);
            availability.last = now;
        }
        Ok(())
    }

    fn open(&mut self, server: SocketAddr, patience: Duration) -> Result<()> {
        match TcpStream::connect_timeout(&server, patience.max(Duration::from_millis(1))) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LOOK_AROUND))?;
                stream.set_write_timeout(Some(Duration::from_secs(2)))?;
                self.stream = Some(stream);
                self.player.opened(Instant::now());
            }
            Err(error) => self.player.lost(Instant::now(), &error.to_string()),
        }
        Ok(())
    }

    fn read(&mut self) {
        let Some(stream) = &mut self.stream else {
            return std::thread::sleep(Duration::from_millis(2));
        };
        let mut piece = [0; 64 << 10];
        match stream.read(&mut piece) {
            Ok(0) => self.lost("closed by the server"),
            Ok(count) => self.player.received(Instant::now(), &piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => self.lost(&error.to_string()),
        }
    }

    fn lost(&mut self, why: &str) {
        self.stream = None;
        self.player.lost(Instant::now(), why);
    }

    fn record(&mut self, shared: &Shared) {
        let records = self.player.take_records();
        if !records.is_empty() {
            lock(&shared.records).extend(records);
        }
    }

    fn leave(mut self, shared: &Shared) -> Result<()> {
        self.player.close(Instant::now());
        let started = Instant::now();
        while self.player.is_connected() && started.elapsed() < PATIENCE {
            self.turn(shared)?;
        }
        self.player.vanish();
        self.record(shared);
        Ok(())
    }
}

/// The life of a client.
fn work(shared: &Shared, vanish: &AtomicBool) -> Result<()> {
    let mut connection = Connection::new(shared, &shared.servers);
    let mut random = Random::new(shared.seed ^ shared.numbers.load(Ordering::Acquire) as u64);
    let mut next = Instant::now();
    while shared.duty.load(Ordering::Acquire) == Duty::Work as usize {
        if vanish.swap(false, Ordering::AcqRel) {
            connection.player.vanish();
            connection.record(shared);
            connection = Connection::new(shared, &shared.servers);
        }
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_millis(random.below(PAUSE_MS) as u64);
            // A client that has no connection does not pile calls up.
            let room = if connection.player.is_connected() { 8 } else { 1 };
            let burst = 1 + random.below(4);
            for _ in connection.player.outstanding()..room.min(connection.player.outstanding() + burst) {
                connection.player.act(Instant::now());
            }
        }
        connection.turn(shared)?;
    }
    settle(shared, &mut connection).context("the last write of a client")?;
    while shared.duty.load(Ordering::Acquire) == Duty::Settle as usize {
        connection.turn(shared)?;
    }
    connection.leave(shared)
}

/// Waits for all answers, then for that of a last write.
fn settle(shared: &Shared, connection: &mut Connection) -> Result<()> {
    let has_left = || shared.duty.load(Ordering::Acquire) == Duty::Leave as usize;
    while connection.player.outstanding() > 0 && !has_left() {
        connection.turn(shared)?;
    }
    let before = connection.player.writes_acknowledged();
    while connection.player.writes_acknowledged() == before && !has_left() {
        if connection.player.outstanding() == 0 {
            connection.player.write_something(Instant::now());
        }
        connection.turn(shared)?;
    }
    shared.settled.fetch_add(1, Ordering::AcqRel);
    Ok(())
}
