//! The server that a step looks at, among the others: who made it, what it counts, and what clients ask of
//! it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_proto::client::{CreateOp, CreateRequest, DeleteRequest, MultiOp, SetDataRequest, WriteRequest};
use zebu_proto::{Acl, Jute, OpCode, Xid, Zxid};
use zebu_testing::four_letter;

use crate::client::Client;
use crate::trio::{SERVERS, Trio};

/// How long something may take that happens by itself.
const PATIENCE: Duration = Duration::from_secs(20);

const WORD_PATIENCE: Duration = Duration::from_secs(5);

/// Twice a tick, the least that servers give: for sessions that are to expire.
pub(super) const SHORT_MS: i32 = 1000;

/// For all others.
pub(super) const LONG_MS: i32 = 10_000;

/// Whether local sessions can become global.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Upgrade {
    On,
    Off,
}

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    Zebu,
    Apache,
}

/// Three servers, and who made them. The last one leads.
pub(super) struct Ensemble {
    pub(super) trio: Trio,
    pub(super) makers: [Maker; SERVERS],
}

/// One of them.
pub(super) struct Home<'a> {
    pub(super) ensemble: &'a Ensemble,
    pub(super) index: usize,
}

/// What a server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) local: i64,
    pub(super) global: i64,
}

impl Home<'_> {
    pub(super) fn trio(&self) -> &Trio {
        &self.ensemble.trio
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.trio().address(self.index)
    }

    pub(super) fn maker(&self) -> Maker {
        self.ensemble.makers[self.index]
    }

    pub(super) fn leads(&self) -> bool {
        self.index == SERVERS - 1
    }

    /// The addresses of the others.
    pub(super) fn elsewhere(&self) -> Vec<SocketAddr> {
        (0..SERVERS).filter(|&index| index != self.index).map(|index| self.trio().address(index)).collect()
    }

    /// A path that no other step uses.
    pub(super) fn path(&self, name: &str) -> String {
        format!("/{name}-{}", self.index + 1)
    }

    pub(super) fn client(&self, timeout_ms: i32) -> Result<Client> {
        Client::open(self.address(), timeout_ms)
    }

    pub(super) fn counts(&self) -> Result<Counts> {
        let number = |key: &str| -> Result<i64> {
            let text = self.trio().mntr(self.index, key).with_context(|| format!("no {key} in mntr"))?;
            Ok(text.parse()?)
        };
        Ok(Counts { local: number("zk_local_sessions")?, global: number("zk_global_sessions")? })
    }

    /// What a four-letter word says.
    pub(super) fn ask(&self, word: &str) -> Result<String> {
        Ok(four_letter::ask(self.address(), word, WORD_PATIENCE)?)
    }

    /// The last transaction of each server.
    pub(super) fn zxids(&self) -> Result<Vec<Zxid>> {
        let addresses = self.trio().addresses();
        addresses.into_iter().map(|address| Ok(four_letter::last_zxid(address, WORD_PATIENCE)?)).collect()
    }

    /// Waits until a server has these counts.
    pub(super) fn await_counts(&self, wanted: Counts) -> Result<()> {
        let started = Instant::now();
        loop {
            let counts = self.counts()?;
            if counts == wanted {
                return Ok(());
            }
            ensure!(started.elapsed() < PATIENCE, "there are {counts:?}, not {wanted:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all servers stand at the same transaction, and nothing of former steps is left.
    pub(super) fn await_rest(&self) -> Result<Counts> {
        let started = Instant::now();
        loop {
            let zxids = self.zxids()?;
            let counts = self.counts()?;
            if zxids.iter().all(|zxid| *zxid == zxids[0]) && counts == (Counts { local: 0, global: 0 }) {
                return Ok(counts);
            }
            ensure!(started.elapsed() < PATIENCE, "before the step: {counts:?}, {zxids:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a node is gone at this server.
    pub(super) fn await_absence(&self, path: &str) -> Result<()> {
        let started = Instant::now();
        let mut client = self.client(LONG_MS)?;
        while exists(&mut client, path)? {
            ensure!(started.elapsed() < PATIENCE, "{path} stays");
            std::thread::sleep(Duration::from_millis(100));
        }
        close(client)
    }
}

pub(super) fn create(op: CreateOp, path: &str, flags: i32) -> CreateRequest {
    let data = Some((*b"x").into());
    CreateRequest { op, path: Some(path.into()), data, acl: Some(Acl::open().into()), flags, ttl_ms: -1 }
}

pub(super) fn persistent(path: &str) -> WriteRequest {
    WriteRequest::Create(create(CreateOp::Create, path, 0))
}

pub(super) fn ephemeral(path: &str) -> WriteRequest {
    WriteRequest::Create(create(CreateOp::Create, path, 1))
}

pub(super) fn set(path: &str) -> WriteRequest {
    WriteRequest::SetData(SetDataRequest { path: Some(path.into()), data: None, version: -1 })
}

pub(super) fn delete(path: &str) -> WriteRequest {
    WriteRequest::Delete(DeleteRequest { path: Some(path.into()), version: -1 })
}

/// A persistent node and an ephemeral one.
pub(super) fn both(persistent: &str, ephemeral: &str) -> WriteRequest {
    WriteRequest::Multi(vec![
        MultiOp::Create(create(CreateOp::Create, persistent, 0)),
        MultiOp::Create(create(CreateOp::Create2, ephemeral, 1)),
    ])
}

/// Appends an exists request.
pub(super) fn queue_exists(client: &mut Client, path: &str) {
    client.queue(OpCode::Exists, |out| {
        zebu_proto::jute::encode_bytes(path.as_bytes(), out);
        false.encode(out);
    });
}

/// Whether a node exists, after a sync.
pub(super) fn exists(client: &mut Client, path: &str) -> Result<bool> {
    client.queue(OpCode::Sync, |out| zebu_proto::jute::encode_bytes(b"/", out));
    queue_exists(client, path);
    client.flush()?;
    client.reply()?;
    Ok(client.reply()?.0.err == 0)
}

/// Says farewell and hears it answered.
pub(super) fn close(mut client: Client) -> Result<()> {
    client.queue_write(&WriteRequest::CloseSession);
    client.flush()?;
    let (header, _) = client.reply()?;
    ensure!(header.err == 0, "closeSession was answered {}", header.err);
    Ok(())
}

/// Sends a ping and hears it answered.
pub(super) fn ping(client: &mut Client) -> Result<()> {
    client.queue_as(Xid::PING, OpCode::Ping);
    client.flush()?;
    client.reply()?;
    Ok(())
}

/// Writes, and has it succeed.
pub(super) fn succeed(client: &mut Client, request: &WriteRequest) -> Result<()> {
    let answer = client.write(request)?;
    ensure!(answer.error == 0, "{request:?} was answered {}", answer.error);
    Ok(())
}
