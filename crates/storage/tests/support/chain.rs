//! A state that is one number, made of every transaction in order, and a little server that lives on a disk:
//! whatever recovery gets wrong changes the number.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use zebu_proto::txn::{SetDataTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::format::log::append_entry;
use zebu_storage::format::snapshot::SnapshotVisitor;
use zebu_storage::{
    Compression, Directories, Disk, Epochs, LogOptions, LogWriter, Missing, RecoveredState, RecoveryOptions,
    RecoveryTarget, Sections, SnapshotTarget, SnapshotWriter, purge, recover,
};

/// The number, and the last transaction in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    pub hash: u64,
    pub last: Zxid,
}

impl Chain {
    pub fn push(&mut self, entry: &TxnEntry) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3).rotate_left(5);
        }
        self.last = entry.header.zxid;
    }
}

impl SnapshotVisitor for Chain {
    fn session(&mut self, _: SessionId, _: i32) {}
    fn acl(&mut self, _: i64, _: Vec<Acl>) {}
    fn node(&mut self, path: &str, data: Option<&[u8]>, _: i64, _: &StatPersisted) -> Result<(), String> {
        if path.is_empty() {
            let data = data.ok_or("no data")?;
            self.hash = u64::from_be_bytes(data.try_into().map_err(|_| "not a hash")?);
        }
        Ok(())
    }
}

impl RecoveryTarget for Chain {
    fn reset(&mut self) {
        *self = Chain::default();
    }
    fn snapshot_loaded(&mut self, zxid: Zxid) {
        self.last = zxid;
    }
    fn apply(&mut self, entry: &TxnEntry) {
        self.push(entry);
    }
    fn digest(&self) -> Option<i64> {
        None
    }
}

/// The state that a client of the model server knows.
#[derive(Clone, Debug, Default)]
pub struct KnownState {
    /// The number after each transaction that was given to the log.
    pub chain: BTreeMap<Zxid, u64>,
    /// The last transaction that was acknowledged.
    pub acknowledged: Zxid,
    /// The last durable acceptedEpoch, and the last attempted one.
    pub accepted: (i64, i64),
}

#[derive(Clone, Debug)]
pub enum Step {
    /// Appends entries with so many bytes of data each; zeros or text.
    Append(Vec<usize>, u8),
    Sync,
    Roll,
    Snapshot(Compression),
    /// A new epoch: promised, then accepted; transactions are counted from one again.
    Epoch(i64),
    Purge,
    Restart,
}

pub fn directories() -> Directories {
    Directories::new("/data", "/logs")
}

pub fn options() -> LogOptions {
    let mut options = LogOptions::new(directories().logs(), directories().snapshots());
    options.preallocate = 1500;
    options
}

pub fn entry(zxid: Zxid, size: usize, fill: u8) -> TxnEntry {
    let set = SetDataTxn { path: "/n".into(), data: Some(vec![fill; size].into()), version: 1 };
    let header = TxnHeader { session: SessionId(7), cxid: 1, zxid, time_ms: 1_700_000_000_000 };
    TxnEntry { header, txn: Txn::SetData(set), digest: None }
}

pub fn write_snapshot<D: Disk>(
    disk: &D,
    chain: Chain,
    compression: Compression,
) -> Result<PathBuf, Box<dyn Error>> {
    let acl = Acl::open();
    let mut writer = SnapshotWriter::begin(
        disk.clone(),
        SnapshotTarget::new(directories().snapshots(), chain.last, compression),
        [(SessionId(7), 4000)].into_iter(),
        [(1, &acl[..])].into_iter(),
    )?;
    let stat = StatPersisted::default();
    writer.node("", Some(&chain.hash.to_be_bytes()), 1, &stat)?;
    for index in 0..5u64 {
        let data = chain.hash.wrapping_mul(index + 3).to_be_bytes().repeat(20);
        writer.node(&format!("/node-{index}"), Some(&data), 1, &stat)?;
    }
    let sections = Sections::DigestAndLastZxid { zxid: chain.last, digest: 0, last_zxid: chain.last };
    Ok(writer.finish(sections)?.path().to_owned())
}

/// A server of the log and the snapshots, without a network.
pub struct ModelServer<D: Disk> {
    pub disk: D,
    pub chain: Chain,
    pub writer: LogWriter<D>,
    pub epochs: Epochs,
    pub recovered: RecoveredState,
}

impl<D: Disk> ModelServer<D> {
    pub fn start(disk: &D) -> Result<ModelServer<D>, Box<dyn Error>> {
        let _locks = directories().open(disk, Missing::Create, "test")?;
        let mut chain = Chain::default();
        let recovered = recover(disk, &directories(), RecoveryOptions::default(), &mut chain, &mut |_| {})?;
        if recovered.snapshot.is_none() {
            write_snapshot(disk, chain, Compression::Plain)?;
        }
        let epochs = Epochs::load(disk, directories().snapshots(), recovered.last_zxid)?;
        let writer = LogWriter::open(disk.clone(), options(), recovered.last_zxid)?;
        Ok(ModelServer { disk: disk.clone(), chain, writer, epochs, recovered })
    }

    pub fn next_zxid(&self) -> Zxid {
        let last = self.chain.last;
        let epoch = self.epochs.current() as u32;
        if last.epoch() < epoch { Zxid::new(epoch, 1) } else { last.next().unwrap() }
    }

    pub fn append(
        &mut self,
        sizes: &[usize],
        fill: u8,
        ledger: &mut KnownState,
    ) -> Result<(), Box<dyn Error>> {
        let mut batch = Vec::new();
        let first = self.next_zxid();
        for &size in sizes {
            let entry = entry(self.next_zxid(), size, fill);
            append_entry(&entry, &mut batch);
            self.chain.push(&entry);
            ledger.chain.insert(self.chain.last, self.chain.hash);
        }
        Ok(self.writer.append(first, self.chain.last, &batch)?)
    }

    pub fn step(&mut self, step: &Step, ledger: &mut KnownState) -> Result<(), Box<dyn Error>> {
        match *step {
            Step::Append(ref sizes, fill) => self.append(sizes, fill, ledger)?,
            Step::Sync => ledger.acknowledged = self.writer.sync()?,
            Step::Roll => self.writer.roll()?,
            Step::Snapshot(compression) => {
                write_snapshot(&self.disk, self.chain, compression)?;
            }
            Step::Epoch(epoch) => {
                ledger.accepted.1 = epoch;
                self.epochs.save_accepted(&self.disk, epoch)?;
                ledger.accepted.0 = epoch;
                self.epochs.save_current(&self.disk, epoch)?;
            }
            Step::Purge => {
                purge(&self.disk, &directories(), 3)?;
            }
            Step::Restart => {
                // The last run was not closed: the process was killed.
                let next = ModelServer::start(&self.disk)?;
                assert_eq!(next.chain, self.chain);
                *self = next;
            }
        }
        Ok(())
    }
}
