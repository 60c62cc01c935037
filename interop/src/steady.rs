//! Writers that never give up: each has a session and a node, writes to it again and again, and after a lost
//! connection goes on at the next server with the same session. Every acknowledgement is noted with its
//! times.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use zebu_proto::client::{CreateOp, CreateRequest, SetDataRequest};
use zebu_proto::{Acl, Jute, OpCode, SessionId};
use zebu_testing::raw::{RawError, new_session_request};
use zebu_testing::{RawClient, Session};

/// Wait between two attempts to find a server that serves.
const RETRY: Duration = Duration::from_millis(2);

/// How long an answer may take before the next server is tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long no server at all may be found.
const PATIENCE_IN_ALL: Duration = Duration::from_secs(120);

const NODE_EXISTS: i32 = -110;

/// An acknowledged write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    /// When it was sent, or with a fixed pace when it was due.
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
    /// The writer, and which of its connections it was.
    pub(crate) writer: usize,
    pub(crate) connection: usize,
}

/// How a writer fared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fate {
    /// Connections that were lost.
    pub(crate) lost: usize,
    /// Sessions that were gone when their writer came back.
    pub(crate) expired: usize,
}

/// How fast a writer writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// The next one when the last was answered.
    Unbounded,
    /// One in so much time, whether or not the last ones were slow.
    Every(Duration),
}

/// Writers at work.
pub(crate) struct Writers {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
    threads: Vec<JoinHandle<Result<Fate>>>,
}

impl Writers {
    pub(crate) fn start(servers: &[SocketAddr], count: usize, pace: Pace, timeout_ms: i32) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let threads = (0..count)
            .map(|number| {
                let writer = Writer {
                    number,
                    servers: servers.to_vec(),
                    server: number,
                    path: format!("/writer{number}"),
                    pace,
                    timeout_ms,
                    session: None,
                    fate: Fate::default(),
                };
                let (stop, acknowledged) = (stop.clone(), acknowledged.clone());
                std::thread::spawn(move || writer.run(&stop, &acknowledged))
            })
            .collect();
        Writers { stop, acknowledged, threads }
    }

    /// The acknowledged writes so far, in the order of the replies.
    pub(crate) fn acknowledged(&self) -> Vec<Acknowledged> {
        let mut all = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort_by_key(|write| write.answered);
        all
    }

    /// Ends all writers.
    pub(crate) fn finish(self) -> Result<Vec<Fate>> {
        self.stop.store(true, Ordering::Release);
        let end = |thread: JoinHandle<Result<Fate>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a writer panicked")))
        };
        self.threads.into_iter().map(end).collect()
    }
}

struct Writer {
    number: usize,
    servers: Vec<SocketAddr>,
    server: usize,
    path: String,
    pace: Pace,
    timeout_ms: i32,
    session: Option<Session>,
    fate: Fate,
}

impl Writer {
    fn run(mut self, stop: &AtomicBool, acknowledged: &Mutex<Vec<Acknowledged>>) -> Result<Fate> {
        let mut client = self.connect()?;
        let mut due = Instant::now();
        while !stop.load(Ordering::Acquire) {
            if let Pace::Every(gap) = self.pace {
                due += gap;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            } else {
                due = Instant::now();
            }
            match self.write(&mut client) {
                Ok(()) => {
                    let write = Acknowledged {
                        sent: due,
                        answered: Instant::now(),
                        writer: self.number,
                        connection: self.fate.lost,
                    };
                    acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(write);
                }
                Err(_) => {
                    self.fate.lost += 1;
                    client = self.connect()?;
                }
            }
        }
        Ok(self.fate)
    }

    fn write(&self, client: &mut RawClient) -> Result<()> {
        let request = SetDataRequest {
            path: Some(self.path.as_str().into()),
            data: Some([7; 100].into()),
            version: -1,
        };
        let (_, header, _) = client.call(OpCode::SetData, |out| request.encode(out))?;
        if header.err != 0 {
            bail!("a write was answered {}", header.err);
        }
        Ok(())
    }

    /// Tries one server after the other until one serves.
    fn connect(&mut self) -> Result<RawClient> {
        let started = Instant::now();
        loop {
            let address = self.servers[self.server % self.servers.len()];
            match self.attempt(address) {
                Ok(client) => return Ok(client),
                Err(error) if started.elapsed() > PATIENCE_IN_ALL => return Err(error),
                Err(_) => {
                    self.server += 1;
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    fn attempt(&mut self, address: SocketAddr) -> Result<RawClient> {
        let mut client = RawClient::connect(address)?;
        client.set_patience(PATIENCE);
        let mut request = self.session.as_ref().map_or_else(new_session_request, Session::resume_request);
        request.timeout_ms = self.timeout_ms;
        let response = client.handshake(&request)?;
        if response.session_id == 0 {
            self.fate.expired += 1;
            self.session = None;
            bail!("the session has expired");
        }
        if self.session.is_none() {
            self.make_node(&mut client)?;
        }
        self.session = Some(Session { id: SessionId(response.session_id), password: response.password });
        Ok(client)
    }

    fn make_node(&self, client: &mut RawClient) -> Result<(), RawError> {
        let request = CreateRequest {
            op: CreateOp::Create,
            path: Some(self.path.as_str().into()),
            data: Some([7; 100].into()),
            acl: Some(Acl::open().into()),
            flags: 0,
            ttl_ms: -1,
        };
        let (_, header, _) = client.call(OpCode::Create, |out| request.encode(out))?;
        match header.err {
            0 | NODE_EXISTS => Ok(()),
            _ => Err(RawError::Closed { address: client.address() }),
        }
    }
}
