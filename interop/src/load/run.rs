//! All writers at once, with one reader that watches their counters: what anybody has seen must not be
//! taken back either.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use zebu_proto::client::WriteRequest;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, OpCode, Reader};
use zebu_testing::ServerProcess;

use super::writer::{TIMEOUT_MS, Writer};
use crate::client::Client;
use crate::differential::Random;
use crate::dump::Dump;

/// The writers and what was seen of them.
#[derive(Debug)]
pub(crate) struct Load {
    writers: Vec<Writer>,
    /// The highest counter of each writer that the reader saw.
    seen: Vec<u64>,
    /// The highest zxid in a reply to the reader.
    seen_zxid: i64,
}

/// What a verification found in order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verified {
    /// Nodes of the writers that were compared.
    pub(crate) nodes: usize,
    /// Operations that were not acknowledged and have happened.
    pub(crate) unacknowledged: usize,
}

impl Load {
    /// Makes `count` writers below `top`, which exists.
    pub(crate) fn new(address: SocketAddr, top: &str, count: usize, random: &mut Random) -> Result<Load> {
        let mut writers = Vec::new();
        for number in 0..count {
            let random = Random::new(random.below(usize::MAX) as u64);
            writers.push(Writer::new(address, format!("{top}/w{number}"), random)?);
        }
        Ok(Load { seen: vec![0; writers.len()], writers, seen_zxid: 0 })
    }

    /// The directories of the writers.
    pub(crate) fn tops(&self) -> impl Iterator<Item = &str> {
        self.writers.iter().map(Writer::top)
    }

    /// Operations that were acknowledged so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.writers.iter().map(Writer::acknowledged).sum()
    }

    /// The highest zxid that any client here has seen.
    pub(crate) fn last_zxid(&self) -> i64 {
        self.writers.iter().map(Writer::last_zxid).max().unwrap_or(0).max(self.seen_zxid)
    }

    /// Starts all writers and kills the server after `delay`.
    pub(crate) fn run_until_killed(&mut self, server: &mut ServerProcess, delay: Duration) -> Result<()> {
        let address = server.address();
        let mut clients = Vec::new();
        for writer in &self.writers {
            let client = writer.connect(address)?;
            clients.push(client.with_context(|| format!("the session of {} is forgotten", writer.top()))?);
        }
        let counters: Vec<String> = self.writers.iter().map(Writer::counter).collect();
        let mut reader = Client::open(address, TIMEOUT_MS)?;
        let (seen, seen_zxid) = (&mut self.seen, &mut self.seen_zxid);
        let writers = &mut self.writers;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (writer, client) in writers.iter_mut().zip(&mut clients) {
                threads.push(scope.spawn(move || writer.write_until_gone(client)));
            }
            let reading = scope.spawn(move || watch(&mut reader, &counters, seen, seen_zxid));
            thread::sleep(delay);
            let was_running = server.is_running();
            let killed = server.kill();
            for thread in threads {
                thread.join().expect("a writer does not panic")?;
            }
            reading.join().expect("the reader does not panic");
            killed?;
            if !was_running {
                bail!("the server ended by itself");
            }
            Ok(())
        })
    }

    /// Compares the directories of all writers with what they know. Afterwards they can go on.
    pub(crate) fn verify(&mut self, dump: &Dump) -> Result<Verified> {
        let mut verified = Verified::default();
        for (writer, seen) in self.writers.iter_mut().zip(&self.seen) {
            let counter = dump.0.get(&writer.counter()).and_then(|node| node.data.as_deref());
            let counter = number(counter).with_context(|| format!("{} is missing", writer.counter()))?;
            ensure!(counter >= *seen, "{} is {counter}, a client has seen {seen}", writer.counter());
            verified.unacknowledged += writer.verify(dump)?;
            verified.nodes += writer.nodes();
        }
        Ok(verified)
    }

    /// Resumes the session of every writer and leaves it again.
    pub(crate) fn check_sessions(&self, address: SocketAddr) -> Result<usize> {
        for writer in &self.writers {
            let id = writer.session().id.0;
            let client = writer.connect(address)?;
            let client = client.with_context(|| format!("session 0x{id:x} is forgotten"))?;
            ensure!(client.timeout_ms() == TIMEOUT_MS, "session 0x{id:x} has another timeout");
        }
        Ok(self.writers.len())
    }

    /// Ends the sessions of all writers, and with them their ephemeral nodes.
    pub(crate) fn close(self, address: SocketAddr) -> Result<usize> {
        for writer in &self.writers {
            let client = writer.connect(address)?;
            let mut client =
                client.with_context(|| format!("the session of {} is forgotten", writer.top()))?;
            client.write(&WriteRequest::CloseSession)?;
        }
        Ok(self.writers.len())
    }
}

/// Reads all counters again and again until the server is gone.
fn watch(client: &mut Client, counters: &[String], seen: &mut [u64], seen_zxid: &mut i64) {
    loop {
        for (counter, seen) in counters.iter().zip(seen.iter_mut()) {
            client.queue(OpCode::GetData, |out| {
                Some(Box::from(counter.as_str())).encode(out);
                false.encode(out);
            });
            if client.flush().is_err() {
                return;
            }
            let Ok((header, body)) = client.reply() else { return };
            *seen_zxid = header.zxid.max(*seen_zxid);
            let data = GetDataResponse::decode(&mut Reader::new(&body)).ok().and_then(|reply| reply.data);
            *seen = number(data.as_deref()).unwrap_or(0).max(*seen);
        }
    }
}

fn number(data: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(data?).ok()?.parse().ok()
}
