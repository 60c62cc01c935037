//! An ensemble of one thread, a backup process without a network, and targets that are paused.

#![allow(dead_code, reason = "each test program uses a part")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use zebu_backup::core::archive::{Archive, ArchiveError, Continuity, NewBase, all_segments};
use zebu_backup::core::manifest::Manifest;
use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::plan::{Point, plan};
use zebu_backup::core::replay::{Unobserved, rebuild, tree_options};
use zebu_backup::core::retention;
use zebu_backup::core::segment::{ClosedSegment, SegmentLimits, Segmenter};
use zebu_backup::core::target::{Content, Revision, StoredManifest, Target, TargetError};
use zebu_backup::core::verify::verify;
use zebu_backup::spool::spool;
use zebu_proto::txn::{CreateTxn, SetDataTxn, Txn, TxnDigest, TxnEntry, TxnHeader};
use zebu_proto::{Acl, SessionId, Zxid};
use zebu_storage::Compression;
use zebu_tree::{Tree, TreeOptions};

pub(crate) const SEED: u64 = 7;

/// An ensemble of one thread: it applies transactions and remembers the digest after each.
pub(crate) struct Ensemble {
    pub(crate) tree: Tree,
    pub(crate) log: Vec<(Zxid, i64, Vec<u8>)>,
    pub(crate) digests: BTreeMap<Zxid, i64>,
}

impl Ensemble {
    pub(crate) fn new() -> Ensemble {
        let options: TreeOptions = tree_options(SEED);
        Ensemble { tree: Tree::new(options), log: Vec::new(), digests: BTreeMap::new() }
    }

    pub(crate) fn commit(&mut self, zxid: Zxid, txn: Txn) {
        let header = TxnHeader { session: SessionId(1), cxid: 0, zxid, time_ms: zxid.0 * 10 };
        self.tree.apply(&header, &txn, &mut |_| ());
        let digest = Some(TxnDigest { version: 2, tree_digest: self.tree.digest() });
        let mut bytes = Vec::new();
        TxnEntry { header, txn, digest }.encode(&mut bytes);
        self.log.push((zxid, header.time_ms, bytes));
        self.digests.insert(zxid, self.tree.digest());
    }

    /// Repeats what another ensemble has committed.
    pub(crate) fn replay(&mut self, log: &[(Zxid, i64, Vec<u8>)]) {
        for (zxid, _, bytes) in log {
            self.commit(*zxid, TxnEntry::decode(bytes).unwrap().txn);
        }
    }

    /// Creates a node, or sets the data of one, by the number of the transaction.
    pub(crate) fn write(&mut self, zxid: Zxid) {
        self.write_as(zxid, "");
    }

    pub(crate) fn write_as(&mut self, zxid: Zxid, history: &str) {
        let number = zxid.counter();
        let path: Box<str> = format!("/n{}", number / 3).into();
        let data = Some(format!("{number}{history}").into_bytes().into());
        let exists = self.tree.node(&path).is_some();
        self.commit(
            zxid,
            match exists {
                true => Txn::SetData(SetDataTxn { path, data, version: (number % 3) as i32 }),
                false => Txn::Create(CreateTxn {
                    path,
                    data,
                    acl: Some(Acl::open().to_vec().into()),
                    ephemeral: false,
                    parent_cversion: -1,
                }),
            },
        );
    }
}

/// A backup process without a network: it follows the log of an ensemble.
pub(crate) struct Writer {
    pub(crate) archive: Archive<MemoryTarget>,
    spool: tempfile::TempDir,
}

impl Writer {
    pub(crate) fn open(target: &MemoryTarget, run: &str) -> Result<Writer, ArchiveError> {
        let archive = Archive::open(target.clone(), run)?;
        Ok(Writer { archive, spool: tempfile::tempdir().unwrap() })
    }

    pub(crate) fn base(&mut self, tree: &Tree, continuity: Continuity) -> Result<(), ArchiveError> {
        let snapshot = spool(tree, self.spool.path(), Compression::Snappy, None).unwrap();
        let zxid = tree.last_zxid();
        let new = NewBase {
            zxid,
            time_ms: zxid.0 * 10,
            local_time: false,
            nodes: tree.node_count() as u64,
            digest: tree.digest(),
            compression: Compression::Snappy,
            continuity,
        };
        self.archive.add_base(new, zxid.epoch(), &snapshot)
    }

    /// Stores the log behind the end of the backup, `per_segment` transactions in each segment.
    pub(crate) fn follow(&mut self, ensemble: &Ensemble, per_segment: usize) -> Result<(), ArchiveError> {
        let end = self.archive.end().unwrap();
        let rest: Vec<_> = ensemble.log.iter().filter(|(zxid, ..)| *zxid > end.zxid).collect();
        let mut segmenter = Segmenter::new(SegmentLimits::default(), end.zxid, end.time_ms);
        for part in rest.chunks(per_segment) {
            self.archive.add_segments(&[closed(&mut segmenter, part)], 1)?;
        }
        Ok(())
    }
}

pub(crate) fn closed(segmenter: &mut Segmenter, part: &[&(Zxid, i64, Vec<u8>)]) -> ClosedSegment {
    for (zxid, time_ms, bytes) in part {
        assert_eq!(segmenter.append(*zxid, *time_ms, bytes, 0), None);
    }
    segmenter.close().unwrap()
}

/// Checks every point that the manifest claims, and that no object of the manifest is missing.
pub(crate) fn check_all_points(target: &MemoryTarget, ensemble: &Ensemble) -> Option<Zxid> {
    let manifest = Manifest::decode(&target.manifest().unwrap()?.bytes).unwrap();
    let segments = all_segments(target, &manifest).unwrap();
    let first = manifest.bases.first()?.zxid;
    let end = manifest.end().unwrap().zxid;
    for (zxid, digest) in ensemble.digests.range(first..=end) {
        let plan = plan(&manifest, &segments, Point::Zxid(*zxid)).unwrap();
        let state = rebuild(target, &plan, SEED, &mut Unobserved).unwrap();
        assert_eq!((state.tree.last_zxid(), state.tree.digest()), (*zxid, *digest));
    }
    verify(target, &manifest, SEED, &mut Unobserved, |_| ()).unwrap();
    Some(end)
}

pub(crate) fn ensemble(transactions: u32) -> Ensemble {
    let mut ensemble = Ensemble::new();
    (1..=transactions).for_each(|counter| ensemble.write(Zxid::new(1, counter)));
    ensemble
}

/// The work of one process: a base at zxid 5 if there is none, the log, a base at the end.
pub(crate) fn work(target: &MemoryTarget, ensemble: &Ensemble, run: &str) -> Result<(), ArchiveError> {
    let mut writer = Writer::open(target, run)?;
    if writer.archive.end().is_none() {
        let mut begin = Ensemble::new();
        (1..=5).for_each(|counter| begin.write(Zxid::new(1, counter)));
        writer.base(&begin.tree, Continuity::NewChain)?;
    }
    writer.follow(ensemble, 4)?;
    writer.base(&ensemble.tree, Continuity::Continues)?;
    retention::sweep(&mut writer.archive).map_err(|error| match error {
        retention::SweepError::Archive(error) => error,
        retention::SweepError::Index(error) => panic!("{error}"),
    })?;
    Ok(())
}

/// A backup of 20 transactions with two bases.
pub(crate) fn finished() -> (MemoryTarget, Manifest) {
    let ensemble = ensemble(20);
    let target = MemoryTarget::new();
    work(&target, &ensemble, "run").unwrap();
    let manifest = Manifest::decode(&target.manifest().unwrap().unwrap().bytes).unwrap();
    (target, manifest)
}

/// Where a target is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Before this operation, counted from zero.
    BeforeOperation(u64),
    /// Before this object is opened.
    BeforeOpening(String),
}

/// A target that is paused once, while another process works.
pub(crate) struct PausedTarget {
    inner: MemoryTarget,
    pause: Pause,
    operations: Cell<u64>,
    meanwhile: RefCell<Option<Box<dyn FnOnce() + Send>>>,
}

impl PausedTarget {
    pub(crate) fn new(
        inner: &MemoryTarget,
        pause: Pause,
        meanwhile: impl FnOnce() + Send + 'static,
    ) -> PausedTarget {
        let meanwhile: Box<dyn FnOnce() + Send> = Box::new(meanwhile);
        let (inner, operations) = (inner.clone(), Cell::new(0));
        PausedTarget { inner, pause, operations, meanwhile: RefCell::new(Some(meanwhile)) }
    }

    pub(crate) fn has_paused(&self) -> bool {
        self.meanwhile.borrow().is_none()
    }

    fn step(&self, opened: Option<&str>) {
        let number = self.operations.replace(self.operations.get() + 1);
        let is_here = match &self.pause {
            Pause::BeforeOperation(wanted) => number == *wanted,
            Pause::BeforeOpening(name) => opened == Some(name),
        };
        if is_here && let Some(meanwhile) = self.meanwhile.borrow_mut().take() {
            meanwhile();
        }
    }
}

impl Target for PausedTarget {
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError> {
        self.step(None);
        self.inner.put(name, content)
    }

    fn open(&self, name: &str) -> Result<Box<dyn std::io::Read + Send + '_>, TargetError> {
        self.step(Some(name));
        self.inner.open(name)
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        self.step(None);
        self.inner.list()
    }

    fn delete(&self, name: &str) -> Result<(), TargetError> {
        self.step(None);
        self.inner.delete(name)
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        self.step(None);
        self.inner.manifest()
    }

    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError> {
        self.step(None);
        self.inner.replace_manifest(bytes, expected)
    }
}
