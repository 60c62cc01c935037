//! One session of the load: keeps a number of requests in flight until it is told to stop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zebu_proto::client::connect::{ConnectRequest, ConnectResponse, ReadOnlyField, empty_password};
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::client::{ReplyHeader, RequestHeader};
use zebu_proto::frame::{self, Framed, LENGTH_SIZE};
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, Reader};

use crate::mix::{Mix, Operation};
use crate::run::BenchError;

const SESSION_TIMEOUT_MS: i32 = 30_000;
const REPLY_BYTES_MAX: usize = 512 << 20;

/// What a session has counted.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) latency_us: hdrhistogram::Histogram<u64>,
    pub(crate) done: u64,
    pub(crate) errors: u64,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        let latency_us =
            hdrhistogram::Histogram::new_with_max(600_000_000, 3).expect("the bounds are in range");
        Tally { latency_us, done: 0, errors: 0 }
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.latency_us.add(&other.latency_us).expect("all histograms have the same bounds");
        self.done += other.done;
        self.errors += other.errors;
    }
}

/// What all sessions of a run have in common.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) mix: Mix,
    pub(crate) in_flight: usize,
    pub(crate) paths: Vec<String>,
    pub(crate) data: Vec<u8>,
    pub(crate) measure_from: Instant,
    pub(crate) until: Instant,
    pub(crate) progress: AtomicU64,
}

/// A connection with a session on it.
pub(crate) struct BenchSession {
    stream: TcpStream,
    received: Vec<u8>,
    used: usize,
    send: Vec<u8>,
    xid: i32,
    random: u64,
}

impl BenchSession {
    pub(crate) async fn open(address: &str, seed: u64) -> Result<BenchSession, BenchError> {
        let stream = TcpStream::connect(address).await.map_err(|error| BenchError::io(address, error))?;
        stream.set_nodelay(true).map_err(|error| BenchError::io(address, error))?;
        let mut session =
            BenchSession { stream, received: Vec::new(), used: 0, send: Vec::new(), xid: 0, random: seed };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: SESSION_TIMEOUT_MS,
            session_id: 0,
            password: empty_password(),
            read_only: ReadOnlyField::Present(false),
        };
        frame::write_frame(&mut session.send, |out| request.encode(out));
        session.flush().await?;
        let (start, end) = session.frame().await?;
        let response = ConnectResponse::decode(&mut Reader::new(&session.received[start..end]));
        match response {
            Ok(response) if response.session_id != 0 => Ok(session),
            _ => Err(BenchError::Refused(address.to_owned())),
        }
    }

    /// Creates a node unless it is there.
    pub(crate) async fn ensure(&mut self, path: &str, data: &[u8]) -> Result<(), BenchError> {
        self.request(OpCode::Create, |out| create_body(path, data, 0, out));
        self.flush().await?;
        let header = self.reply().await?;
        match ErrorCode::from_wire(header.err) {
            None | Some(ErrorCode::NodeExists) => Ok(()),
            Some(error) => Err(BenchError::Setup { path: path.to_owned(), error }),
        }
    }

    /// Sends the load until the end of the run, then ends the session.
    pub(crate) async fn run(mut self, shape: Arc<Shape>) -> Result<Tally, BenchError> {
        let mut tally = Tally::new();
        let mut sent: VecDeque<Instant> = VecDeque::with_capacity(shape.in_flight);
        loop {
            let now = Instant::now();
            if now < shape.until {
                while sent.len() < shape.in_flight {
                    self.push_operation(&shape);
                    sent.push_back(now);
                }
            } else if sent.is_empty() {
                break;
            }
            self.flush().await?;
            // At least one reply, then all that are there already: a batch is the unit here too.
            let mut counted = 0;
            loop {
                let header = self.reply().await?;
                let asked = sent.pop_front().unwrap_or(now);
                counted += 1;
                if asked >= shape.measure_from {
                    tally.done += 1;
                    tally.errors += u64::from(header.err != 0);
                    let latency_us = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
                    tally.latency_us.saturating_record(latency_us.max(1));
                }
                if sent.is_empty() || !self.has_frame() {
                    break;
                }
            }
            shape.progress.fetch_add(counted, Ordering::Relaxed);
        }
        self.request(OpCode::CloseSession, |_| ());
        self.flush().await?;
        self.reply().await?;
        Ok(tally)
    }

    fn push_operation(&mut self, shape: &Shape) {
        let random = self.next_random();
        let path = shape.paths[(random >> 32) as usize % shape.paths.len()].as_str();
        match shape.mix.pick(random & 0xffff_ffff) {
            Operation::Get => self.request(OpCode::GetData, |out| path_and_watch(path, out)),
            Operation::Exists => self.request(OpCode::Exists, |out| path_and_watch(path, out)),
            Operation::Children => {
                let parent = path.rsplit_once('/').map_or("/", |(parent, _)| parent);
                self.request(OpCode::GetChildren2, |out| path_and_watch(parent, out));
            }
            Operation::Set => self.request(OpCode::SetData, |out| set_body(path, &shape.data, out)),
            Operation::Create => {
                // Ephemeral and sequential: the server removes them all when the session ends.
                self.request(OpCode::Create, |out| create_body(&format!("{path}-e"), &shape.data, 3, out));
            }
            Operation::Multi => self.request(OpCode::Multi, |out| {
                MultiHeader { op: OpCode::Check.wire(), done: false, err: -1 }.encode(out);
                encode_bytes(path.as_bytes(), out);
                (-1i32).encode(out);
                MultiHeader { op: OpCode::SetData.wire(), done: false, err: -1 }.encode(out);
                set_body(path, &shape.data, out);
                MULTI_END.encode(out);
            }),
            Operation::Ping => self.request(OpCode::Ping, |_| ()),
            Operation::Sync => self.request(OpCode::Sync, |out| encode_bytes(path.as_bytes(), out)),
        }
    }

    fn request(&mut self, op: OpCode, body: impl FnOnce(&mut Vec<u8>)) {
        self.xid = self.xid.wrapping_add(1).max(1);
        let header = RequestHeader { xid: self.xid, op: op.wire() };
        frame::write_frame(&mut self.send, |out| {
            header.encode(out);
            body(out);
        });
    }

    async fn flush(&mut self) -> Result<(), BenchError> {
        self.stream.write_all(&self.send).await.map_err(BenchError::lost)?;
        self.send.clear();
        Ok(())
    }

    async fn reply(&mut self) -> Result<ReplyHeader, BenchError> {
        let (start, end) = self.frame().await?;
        ReplyHeader::decode(&mut Reader::new(&self.received[start..end])).map_err(|_| BenchError::Garbage)
    }

    fn has_frame(&self) -> bool {
        matches!(frame::peek(&self.received[self.used..], REPLY_BYTES_MAX), Framed::Complete { .. })
    }

    /// Where the next frame's payload is, waiting for it if needed.
    async fn frame(&mut self) -> Result<(usize, usize), BenchError> {
        loop {
            match frame::peek(&self.received[self.used..], REPLY_BYTES_MAX) {
                Framed::Complete { length } => {
                    let start = self.used + LENGTH_SIZE;
                    self.used = start + length;
                    return Ok((start, self.used));
                }
                Framed::Refused { .. } => return Err(BenchError::Garbage),
                Framed::Partial => {}
            }
            self.received.drain(..self.used);
            self.used = 0;
            self.received.reserve(64 * 1024);
            if self.stream.read_buf(&mut self.received).await.map_err(BenchError::lost)? == 0 {
                return Err(BenchError::Closed);
            }
        }
    }

    /// A xorshift generator: quick, and the same for the same seed.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn path_and_watch(path: &str, out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    false.encode(out);
}

fn set_body(path: &str, data: &[u8], out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    encode_bytes(data, out);
    (-1i32).encode(out);
}

fn create_body(path: &str, data: &[u8], flags: i32, out: &mut Vec<u8>) {
    encode_bytes(path.as_bytes(), out);
    encode_bytes(data, out);
    Acl::open().encode(out);
    flags.encode(out);
}
