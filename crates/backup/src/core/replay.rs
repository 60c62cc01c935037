//! Loads a base and replays segments. Every checksum, every zxid and every digest is compared on the way.

use std::io::{self, Read};

use sha2::{Digest, Sha256};
use zebu_node::Restore;
use zebu_proto::txn::{DIGEST_VERSION, TxnEntry};
use zebu_proto::{DecodeError, Zxid};
use zebu_storage::RecoveryTarget;
use zebu_storage::format::log::payload_zxid;
use zebu_storage::format::scan::{LogEnd, LogHeader, LogScanner, ScanItem};
use zebu_storage::format::snapshot::SnapshotFlaw;
use zebu_storage::snapshot_file::{MAGIC_SIZE, compression_by_magic, decode};
use zebu_tree::{DigestMode, Tree, TreeOptions, TtlNodes};

use super::follow::follows;
use super::hexadecimal;
use super::manifest::{Base, Segment};
use super::plan::{Plan, Point};
use super::seal::Sealing;
use super::target::{Target, TargetError};

/// Why a state cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The target failed or lacks an object.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// An object is not the one that the manifest names.
    #[error("{name} is damaged: its checksum is not that of the manifest")]
    Checksum {
        /// The name of the object.
        name: String,
    },
    /// A base is no snapshot.
    #[error("{name} is no snapshot: {source}")]
    Snapshot {
        /// The name of the base.
        name: String,
        /// The reason.
        source: SnapshotFlaw,
    },
    /// A segment is no log, or its log ends too early.
    #[error("{name} is no complete log: {what}")]
    Log {
        /// The name of the segment.
        name: String,
        /// The flaw.
        what: String,
    },
    /// A transaction cannot be decoded.
    #[error("{name}: transaction {zxid} cannot be decoded: {source}")]
    Transaction {
        /// The name of the segment.
        name: String,
        /// The transaction.
        zxid: Zxid,
        /// The reason.
        source: DecodeError,
    },
    /// Transactions are missing.
    #[error("{name}: transaction {found} does not follow {last}; the backup has a hole")]
    Hole {
        /// The name of the segment.
        name: String,
        /// The last transaction before the hole.
        last: Zxid,
        /// The next one.
        found: Zxid,
    },
    /// The observer stopped the replay.
    #[error("the replay was stopped")]
    Cancelled,
    /// The rebuilt tree is not the tree that the ensemble had.
    #[error("{name}: after {zxid} the digest of the tree is {found:#x}, and the ensemble had {expected:#x}")]
    Digest {
        /// The object with the expected digest.
        name: String,
        /// The transaction.
        zxid: Zxid,
        /// The digest of the ensemble.
        expected: i64,
        /// The digest of the rebuilt tree.
        found: i64,
    },
}

/// The options of a rebuilt tree.
pub fn tree_options(hash_seed: u64) -> TreeOptions {
    TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed }
}

/// A rebuilt state.
#[derive(Debug)]
pub struct RebuiltState {
    /// The tree.
    pub tree: Tree,
    /// The time of its last transaction, milliseconds since 1970; never less than that of an earlier one.
    pub time_ms: i64,
    /// Transactions that were replayed.
    pub transactions: u64,
    /// Digests that were compared.
    pub digests: u64,
}

/// What a replay does with each transaction.
pub trait ReplayObserver {
    /// The bytes of all objects that will be read.
    fn expect_bytes(&mut self, _bytes: u64) {}

    /// Whether the replay must stop.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Bytes of objects that were read.
    fn read_bytes(&mut self, _bytes: u64) {}

    /// A transaction was applied. `time_ms` never decreases.
    fn applied(&mut self, _tree: &Tree, _entry: &TxnEntry, _time_ms: i64) {}

    /// A digest is not that of the ensemble. Whether the replay goes on nevertheless.
    fn goes_on_after(&mut self, _wrong_digest: &ReplayError) -> bool {
        false
    }

    /// The base was loaded.
    fn loaded(&mut self, _tree: &Tree, _base: &Base) {}
}

/// A replay that nothing observes.
#[derive(Debug)]
pub struct Unobserved;

impl ReplayObserver for Unobserved {}

/// Rebuilds the state of a plan.
pub fn rebuild(
    target: &impl Target,
    plan: &Plan,
    hash_seed: u64,
    observer: &mut dyn ReplayObserver,
) -> Result<RebuiltState, ReplayError> {
    let tree = load_base(target, &plan.base, hash_seed, observer)?;
    let mut state = RebuiltState { tree, time_ms: plan.base.time_ms, transactions: 0, digests: 1 };
    observer.loaded(&state.tree, &plan.base);
    for segment in &plan.segments {
        replay_segment(target, segment, plan.point, &mut state, observer)?;
    }
    Ok(state)
}

/// Counts and hashes what a reader of an object takes.
struct CheckedReader<'a, R> {
    inner: R,
    hash: Sha256,
    observer: &'a mut dyn ReplayObserver,
    failure: Option<io::Error>,
}

impl<R: Read> Read for CheckedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.observer.is_cancelled() {
            return Err(io::Error::other("the replay was stopped"));
        }
        let count = match self.inner.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failure = Some(error);
                return Err(kind.into());
            }
        };
        self.hash.update(&buffer[..count]);
        self.observer.read_bytes(count as u64);
        Ok(count)
    }
}

/// Loads a base and checks its checksum and digest.
pub fn load_base(
    target: &impl Target,
    base: &Base,
    hash_seed: u64,
    observer: &mut dyn ReplayObserver,
) -> Result<Tree, ReplayError> {
    let name = || base.name.clone();
    let snapshot = |source| ReplayError::Snapshot { name: base.name.clone(), source };
    let inner = target.open(&base.name)?;
    let mut reader = CheckedReader { inner, hash: Sha256::new(), observer, failure: None };
    let mut restore = Restore::new(tree_options(hash_seed));
    let is_sealed = Sealing::of_name(&base.name) == Sealing::Age;
    let decoded = if is_sealed {
        decode_base(target.unseal(&base.name, Box::new(&mut reader))?, &mut restore)
    } else {
        decode_base(Box::new(&mut reader), &mut restore)
    };
    if reader.observer.is_cancelled() {
        return Err(ReplayError::Cancelled);
    }
    // The rest behind the snapshot belongs to the checksum too. Damage under encryption has no other sign.
    if decoded.is_ok() || is_sealed {
        let rest = io::copy(&mut reader, &mut io::sink());
        rest.map_err(|error| TargetError::io(format!("cannot read {}", base.name), error))?;
    }
    if let Some(error) = reader.failure {
        return Err(TargetError::io(format!("cannot read {}", base.name), error).into());
    }
    let is_damaged = hexadecimal(&reader.hash.finalize()) != base.sha256;
    if is_sealed && is_damaged {
        return Err(ReplayError::Checksum { name: name() });
    }
    decoded.map_err(snapshot)?;
    if is_damaged {
        return Err(ReplayError::Checksum { name: name() });
    }
    restore.snapshot_loaded(base.zxid);
    let tree = restore.finish();
    if tree.digest() != base.digest {
        let (expected, found) = (base.digest, tree.digest());
        let wrong_digest = ReplayError::Digest { name: name(), zxid: base.zxid, expected, found };
        if !observer.goes_on_after(&wrong_digest) {
            return Err(wrong_digest);
        }
    }
    Ok(tree)
}

/// Decodes a snapshot, and reads to its end: the last bytes of an encrypted object prove that it is whole.
fn decode_base(mut plain: Box<dyn Read + '_>, restore: &mut Restore) -> Result<(), SnapshotFlaw> {
    let read = |error| SnapshotFlaw::Read { at: 0, error };
    let mut begin = [0; MAGIC_SIZE];
    plain.read_exact(&mut begin).map_err(read)?;
    let compression = compression_by_magic(&begin).ok_or(SnapshotFlaw::Magic)?;
    decode(begin.chain(&mut plain), compression, restore)?;
    io::copy(&mut plain, &mut io::sink()).map(drop).map_err(read)
}

/// The log of a segment, in plain.
fn read_segment(
    target: &impl Target,
    segment: &Segment,
    observer: &mut dyn ReplayObserver,
) -> Result<Vec<u8>, ReplayError> {
    let name = &segment.name;
    let bytes = target.get(name, segment.bytes)?;
    if super::sha256(&bytes) != segment.sha256 {
        return Err(ReplayError::Checksum { name: name.clone() });
    }
    observer.read_bytes(bytes.len() as u64);
    if Sealing::of_name(name) != Sealing::Age {
        return Ok(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let read = target.unseal(name, Box::new(bytes.as_slice()))?.read_to_end(&mut plain);
    let broken =
        |error| ReplayError::Log { name: name.clone(), what: format!("it cannot be decrypted: {error}") };
    read.map_err(broken)?;
    Ok(plain)
}

fn replay_segment(
    target: &impl Target,
    segment: &Segment,
    point: Point,
    state: &mut RebuiltState,
    observer: &mut dyn ReplayObserver,
) -> Result<(), ReplayError> {
    let name = &segment.name;
    let broken = |what: &str| ReplayError::Log { name: name.clone(), what: what.to_owned() };
    let bytes = read_segment(target, segment, observer)?;
    let (mut scanner, header) =
        LogScanner::open(bytes.as_slice()).map_err(|error| broken(&error.to_string()))?;
    if header != LogHeader::Valid {
        return Err(broken("its header is not that of a log"));
    }
    let mut last = segment.after;
    let mut time_ms = segment.first_ms;
    loop {
        if observer.is_cancelled() {
            return Err(ReplayError::Cancelled);
        }
        let item = scanner.next_entry().map_err(|error| broken(&error.to_string()))?;
        let entry = match item {
            ScanItem::Entry(entry) => entry,
            ScanItem::End(LogEnd::Clean { .. }) => break,
            ScanItem::End(LogEnd::Torn(damage) | LogEnd::Damaged(damage, _)) => {
                return Err(broken(&format!("at offset {}: {}", damage.at, damage.flaw)));
            }
        };
        let zxid = payload_zxid(entry.payload).ok_or_else(|| broken("an entry has no zxid"))?;
        if !follows(last, zxid) {
            return Err(ReplayError::Hole { name: name.clone(), last, found: zxid });
        }
        last = zxid;
        let undecodable = |source| ReplayError::Transaction { name: name.clone(), zxid, source };
        let decoded = TxnEntry::decode(entry.payload).map_err(undecodable)?;
        time_ms = time_ms.max(decoded.header.time_ms);
        if zxid <= state.tree.last_zxid() {
            continue;
        }
        let is_later = match point {
            Point::Latest => false,
            Point::Zxid(limit) => zxid > limit,
            Point::Time(limit_ms) => time_ms > limit_ms,
        };
        if is_later {
            return Ok(());
        }
        if !follows(state.tree.last_zxid(), zxid) {
            let last = state.tree.last_zxid();
            return Err(ReplayError::Hole { name: name.clone(), last, found: zxid });
        }
        if let Err(wrong_digest) = apply(&decoded, name, state)
            && !observer.goes_on_after(&wrong_digest)
        {
            return Err(wrong_digest);
        }
        state.time_ms = state.time_ms.max(time_ms);
        observer.applied(&state.tree, &decoded, state.time_ms);
    }
    // A log ends without a mark, so only the index tells whether its last entries are there.
    if last != segment.last {
        return Err(broken(&format!("it ends at {last} and not at {}", segment.last)));
    }
    Ok(())
}

fn apply(entry: &TxnEntry, name: &str, state: &mut RebuiltState) -> Result<(), ReplayError> {
    state.tree.apply(&entry.header, &entry.txn, &mut |_| ());
    state.transactions += 1;
    let Some(digest) = entry.digest.filter(|digest| digest.version == DIGEST_VERSION) else { return Ok(()) };
    state.digests += 1;
    let (expected, found) = (digest.tree_digest, state.tree.digest());
    if expected == found {
        return Ok(());
    }
    Err(ReplayError::Digest { name: name.to_owned(), zxid: entry.header.zxid, expected, found })
}
