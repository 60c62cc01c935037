//! A leader in memory that speaks to observers as Zebu and Apache ZooKeeper do.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use zebu_backup::core::replay::tree_options;
use zebu_backup::run::{Ensemble, LeaderConnection};
use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::quorum::packet_length::{PacketLength, packet_length};
use zebu_proto::txn::{CreateTxn, Txn, TxnDigest, TxnEntry, TxnHeader};
use zebu_proto::{Acl, Reader, SessionId, Zxid};
use zebu_storage::format::snapshot::{append_node, begin_stream, end_stream};
use zebu_tree::{Tree, WalkProgress};
use zebu_zab::EncodedTxn;

/// The time between two pings.
const PING: Duration = Duration::from_millis(20);

struct State {
    tree: Tree,
    log: Vec<EncodedTxn>,
    epoch: u32,
    /// No DIFF begins before this transaction.
    floor: Zxid,
    clock_ms: i64,
    /// The leader adds this to each digest that it writes.
    digest_error: i64,
    /// Counts the lives of the leader. A connection ends with its life.
    life: u64,
}

impl State {
    fn commit(&mut self) -> Zxid {
        let last = self.tree.last_zxid();
        let counter = if last.epoch() == self.epoch { last.counter() + 1 } else { 1 };
        let zxid = Zxid::new(self.epoch, counter);
        self.clock_ms += 1;
        let parent_cversion = self.tree.node("/").unwrap().persisted().cversion + 1;
        let (path, acl) = (format!("/n{:x}", zxid.0).into(), Some(Acl::open().to_vec().into()));
        let txn = Txn::Create(CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion });
        let header = TxnHeader { session: SessionId(1), cxid: 0, zxid, time_ms: self.clock_ms };
        self.tree.apply(&header, &txn, &mut |_| ());
        let tree_digest = self.tree.digest().wrapping_add(self.digest_error);
        let mut bytes = Vec::new();
        TxnEntry { header, txn, digest: Some(TxnDigest { version: 2, tree_digest }) }.encode(&mut bytes);
        self.log.push(EncodedTxn { zxid, bytes: bytes.into() });
        zxid
    }
}

/// A leader. Clones are the same one.
#[derive(Clone)]
pub(crate) struct FakeLeader {
    state: Arc<Mutex<State>>,
    /// Tells connections that the state has changed.
    changes: watch::Sender<()>,
}

impl FakeLeader {
    pub(crate) fn new(epoch: u32, clock_ms: i64) -> FakeLeader {
        let tree = Tree::new(tree_options(1));
        let floor = Zxid::ZERO;
        let state = State { tree, log: Vec::new(), epoch, floor, clock_ms, digest_error: 0, life: 0 };
        FakeLeader { state: Arc::new(Mutex::new(state)), changes: watch::Sender::new(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits the creation of a node.
    pub(crate) fn commit(&self) -> Zxid {
        let zxid = self.state().commit();
        self.changes.send_replace(());
        zxid
    }

    /// The digests that the leader writes from now on are wrong by this number.
    pub(crate) fn write_digests_wrong_by(&self, error: i64) {
        self.state().digest_error = error;
    }

    /// The clock of the leader, milliseconds since 1970.
    pub(crate) fn clock_ms(&self) -> i64 {
        self.state().clock_ms
    }

    /// Ends all connections. Meanwhile a transaction is committed that the next leader has in no log, so that
    /// it sends a whole state.
    pub(crate) fn lose_log_while_away(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.commit();
        state.floor = state.tree.last_zxid();
        state.log.clear();
        state.life += 1;
        drop(state);
        self.changes.send_replace(());
    }

    /// Ends all connections. The next leader has lost everything, epochs too.
    pub(crate) fn restart_empty(&self, epoch: u32) {
        let mut state = self.state();
        state.tree = Tree::new(tree_options(1));
        state.log.clear();
        state.epoch = epoch;
        state.floor = Zxid::ZERO;
        state.life += 1;
        drop(state);
        self.changes.send_replace(());
    }

    /// Ends all connections.
    pub(crate) fn end_connections(&self) {
        self.state().life += 1;
        self.changes.send_replace(());
    }

    /// How the backup reaches this leader.
    pub(crate) fn ensemble(&self) -> Ensemble {
        let leader = self.clone();
        Ensemble {
            find: Arc::new(|| Ok(vec!["leader:2888".to_owned()])),
            connect: Arc::new(move |_| {
                let leader = leader.clone();
                Box::pin(async move {
                    let (near, far) = tokio::io::duplex(1 << 20);
                    tokio::spawn(async move { leader.serve(far).await });
                    Ok(Box::new(near) as Box<dyn LeaderConnection>)
                })
            }),
        }
    }

    async fn serve(self, mut stream: DuplexStream) -> io::Result<()> {
        let mut changes = self.changes.subscribe();
        let life = self.state().life;
        let mut received = Vec::new();
        let mut progress = Progress::default();
        loop {
            let mut out = Vec::new();
            changes.mark_unchanged();
            while let Some(packet) = next_packet(&mut received) {
                if !self.answer(packet, life, &mut progress, &mut out) {
                    return Ok(());
                }
            }
            if !self.inform(life, &mut progress, &mut out) {
                return Ok(());
            }
            stream.write_all(&out).await?;
            tokio::select! {
                read = stream.read_buf(&mut received) => if read? == 0 { return Ok(()) },
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
                () = tokio::time::sleep(PING) => {}
            }
        }
    }

    /// Sends what was committed; false if the leader is another one by now.
    fn inform(&self, life: u64, progress: &mut Progress, out: &mut Vec<u8>) -> bool {
        let state = self.state();
        if state.life == life && progress.is_synchronized {
            for entry in &state.log[progress.sent..] {
                Packet::Inform { zxid: entry.zxid, entry: entry.bytes.clone() }.encode(out);
            }
            progress.sent = state.log.len();
            Packet::Ping { zxid: last(&state) }.encode(out);
        }
        state.life == life
    }

    fn answer(&self, packet: Packet, life: u64, progress: &mut Progress, out: &mut Vec<u8>) -> bool {
        let state = self.state();
        if state.life != life {
            return false;
        }
        let epoch = Zxid::new(state.epoch, 0);
        match packet {
            Packet::ObserverInfo { .. } => {
                Packet::LeaderInfo { zxid: epoch, protocol: LEARNER_PROTOCOL, zebu: None }.encode(out);
            }
            Packet::AckEpoch { last: known, .. } => {
                let position = state.log.iter().position(|entry| entry.zxid == known);
                let from = position.map(|index| index + 1).or((known == state.floor).then_some(0));
                match from {
                    Some(from) => send_diff(&state.log[from..], state.tree.last_zxid(), out),
                    None => send_snapshot(&state.tree, out),
                }
                progress.sent = state.log.len();
                Packet::NewLeader { zxid: epoch, config: None }.encode(out);
            }
            Packet::Ack { zxid } if zxid == epoch => {
                Packet::UpToDate.encode(out);
                progress.is_synchronized = true;
            }
            _ => {}
        }
        true
    }
}

/// What one observer has.
#[derive(Default)]
struct Progress {
    is_synchronized: bool,
    /// Entries of the log that it was sent.
    sent: usize,
}

fn last(state: &State) -> Zxid {
    state.tree.last_zxid().max(Zxid::new(state.epoch, 0))
}

fn send_diff(entries: &[EncodedTxn], end: Zxid, out: &mut Vec<u8>) {
    Packet::Diff { zxid: end }.encode(out);
    for entry in entries {
        Packet::Proposal { zxid: entry.zxid, entry: entry.bytes.clone() }.encode(out);
        Packet::Commit { zxid: entry.zxid }.encode(out);
    }
}

fn send_snapshot(tree: &Tree, out: &mut Vec<u8>) {
    Packet::Snap { zxid: tree.last_zxid() }.encode(out);
    let sessions: Vec<_> = tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect();
    let acls: Vec<_> = tree.acl_table().map(|(id, acl)| (id, &acl[..])).collect();
    begin_stream(sessions.into_iter(), acls.into_iter(), out);
    let mut walker = tree.walker();
    let walked = walker.next_slice(tree, usize::MAX, &mut |path, data, acl, stat| {
        append_node(path, data, acl, stat, out);
    });
    assert_eq!(walked, WalkProgress::Done);
    end_stream(out);
}

fn next_packet(received: &mut Vec<u8>) -> Option<Packet> {
    let PacketLength::Complete { length } = packet_length(received, 1 << 20) else { return None };
    let packet = Packet::decode(&mut Reader::new(&received[..length])).unwrap();
    received.drain(..length);
    Some(packet)
}
