//! What waits to be sent on one link, and who may write it. The core encodes packets into the outbox as it sends them
//! and writes them itself, as far as the socket takes them at once; what is left, and everything behind a whole state,
//! is the task's. Whoever writes has the pen, so that bytes neither mix nor overtake each other. What a state consists
//! of is not known here, and who hears of what was sent is not decided here.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;
use tokio::time::sleep;
use zebu_proto::Zxid;
use zebu_proto::quorum::Packet;
use zebu_zab::weight;

use super::behind_state::without_early_digest;

/// Bytes that the core writes to a link at a time. More is left to the task: the core has other things to do.
const DIRECT_BYTES: usize = 64 << 10;

/// Bytes of packets behind a state that are encoded for one write.
const WRITE_BYTES: usize = 256 << 10;

/// How long a link that is closed here may take to send what it has.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// The outbox of one link. What waits in it is bounded by the brain, which is told when something has left.
#[derive(Debug)]
pub(super) struct Outbox {
    writer: OwnedWriteHalf,
    waiting: Mutex<Waiting>,
    /// Calls the task.
    bell: Notify,
}

#[derive(Debug)]
struct Waiting {
    /// Encoded packets in their order, of which nothing has been written.
    bytes: Vec<u8>,
    /// The sum of their weights. A packet that was written in part counts as not written.
    weight: usize,
    line: Line,
    /// The last transaction whose effects may be in a state that was sent.
    state_end: Zxid,
    pen: Pen,
}

/// What becomes of a packet that is put in.
#[derive(Debug)]
enum Line {
    /// It is encoded at once.
    Moving,
    /// A state waits or is on its way: where it ends is not known yet. The task begins with the front.
    BehindState(VecDeque<Outgoing>),
}

#[derive(Debug)]
enum Outgoing {
    Packet(Packet),
    State,
}

/// Who may write to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pen {
    /// Whoever has the lock.
    Free,
    /// The task: it was called, and gives the pen back when it finds nothing more to write.
    Task,
    /// The task, for the last time: the link is closed, and ends when everything is written.
    Farewell,
}

/// Whether packets wait for [`Outbox::flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// These are the first: the outbox was empty, and nobody was called.
    First,
    /// It is known already that something waits here.
    Behind,
}

/// What the task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Write the bytes that it was given, and tell that this weight has left.
    Write { weight: usize },
    /// Send the whole state, as it is now; then [`Outbox::state_sent`].
    State,
    /// Nothing, until it is called.
    Wait,
    /// The link was closed and has sent everything.
    End,
}

impl Outbox {
    pub(super) fn new(writer: OwnedWriteHalf) -> Outbox {
        let waiting = Waiting {
            bytes: Vec::new(),
            weight: 0,
            line: Line::Moving,
            state_end: Zxid(i64::MIN),
            pen: Pen::Free,
        };
        Outbox { writer, waiting: Mutex::new(waiting), bell: Notify::new() }
    }

    pub(super) fn put(&self, packet: Packet) -> Put {
        let mut waiting = self.lock();
        let first = waiting.bytes.is_empty() && waiting.pen == Pen::Free;
        match &mut waiting.line {
            Line::Moving => waiting.encode(packet),
            Line::BehindState(line) => line.push_back(Outgoing::Packet(packet)),
        }
        if first { Put::First } else { Put::Behind }
    }

    /// A whole state, as it is when its turn comes.
    pub(super) fn put_state(&self) {
        let mut waiting = self.lock();
        match &mut waiting.line {
            Line::Moving => waiting.line = Line::BehindState([Outgoing::State].into()),
            Line::BehindState(line) => line.push_back(Outgoing::State),
        }
        self.call(&mut waiting);
    }

    /// Writes what the socket takes without waiting, and calls the task for the rest. Returns the weight of what has
    /// left. Whether the socket has failed is found out by the task.
    pub(super) fn flush(&self) -> usize {
        let mut waiting = self.lock();
        if waiting.pen != Pen::Free || waiting.bytes.is_empty() {
            return 0;
        }
        if waiting.bytes.len() <= DIRECT_BYTES
            && let Ok(written) = self.writer.try_write(&waiting.bytes)
        {
            waiting.bytes.drain(..written);
            if waiting.bytes.is_empty() {
                return std::mem::take(&mut waiting.weight);
            }
        }
        self.call(&mut waiting);
        0
    }

    /// What was put in before still leaves.
    pub(super) fn close(&self) {
        self.lock().pen = Pen::Farewell;
        self.bell.notify_one();
    }

    /// Tells the task what to do, and exchanges the bytes to be written for its empty buffer.
    pub(super) fn next_job(&self, bytes: &mut Vec<u8>) -> Job {
        let mut waiting = self.lock();
        waiting.move_up();
        if !waiting.bytes.is_empty() {
            // It may come by itself, between the core's sending and its flush.
            waiting.pen = match waiting.pen {
                Pen::Free | Pen::Task => Pen::Task,
                Pen::Farewell => Pen::Farewell,
            };
            std::mem::swap(&mut waiting.bytes, bytes);
            return Job::Write { weight: std::mem::take(&mut waiting.weight) };
        }
        if let Line::BehindState(line) = &mut waiting.line {
            // Packets would have been encoded: the front is a state.
            line.pop_front();
            return Job::State;
        }
        match waiting.pen {
            Pen::Free | Pen::Task => {
                waiting.pen = Pen::Free;
                Job::Wait
            }
            Pen::Farewell => Job::End,
        }
    }

    /// The state is on its way as a whole; transactions up to this one may be in it.
    pub(super) fn state_sent(&self, end: Zxid) {
        self.lock().state_end = end;
    }

    /// Waits until there may be something to do.
    pub(super) async fn called(&self) {
        self.bell.notified().await;
    }

    /// Writes for the task, which has the pen. Fails if the link is closed and the other side does not take it: nobody
    /// waits for such a link for long.
    pub(super) async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        tokio::select! {
            result = self.write(bytes) => result,
            () = self.farewell_is_over() => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        // The socket may take whatever it is given for a long time, and others want to run too.
        consume_budget().await;
        while !bytes.is_empty() {
            match self.writer.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writer.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn farewell_is_over(&self) {
        while self.lock().pen != Pen::Farewell {
            self.called().await;
        }
        sleep(FAREWELL_MAX).await;
    }

    fn call(&self, waiting: &mut Waiting) {
        if waiting.pen == Pen::Free {
            waiting.pen = Pen::Task;
            self.bell.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn encode(&mut self, packet: Packet) {
        self.weight += weight(&packet);
        without_early_digest(packet, self.state_end).encode(&mut self.bytes);
    }

    /// Encodes what stood behind a state that was sent, up to the next state.
    fn move_up(&mut self) {
        let Line::BehindState(line) = &mut self.line else { return };
        let mut line = std::mem::take(line);
        while self.bytes.len() < WRITE_BYTES {
            match line.pop_front() {
                Some(Outgoing::Packet(packet)) => self.encode(packet),
                Some(Outgoing::State) => {
                    line.push_front(Outgoing::State);
                    break;
                }
                None => {
                    self.line = Line::Moving;
                    return;
                }
            }
        }
        self.line = Line::BehindState(line);
    }
}

#[cfg(test)]
mod tests;
