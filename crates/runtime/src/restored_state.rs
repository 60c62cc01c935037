//! A state that an operator brings in as a snapshot, for a server without an ensemble.
//!
//! The snapshot is checked as a whole before the server uses any of it. No session survives: a client could
//! resume one, and would miss the changes between the old state and this one.

use std::io::{self, Read};

use zebu_node::Restore;
use zebu_proto::txn::{DIGEST_VERSION, Txn, TxnHeader};
use zebu_proto::{Acl, ErrorCode, SessionId, StatPersisted, Zxid};
use zebu_storage::RecoveryTarget;
use zebu_storage::format::snapshot::{SnapshotFlaw, SnapshotVisitor};
use zebu_storage::snapshot_file::{MAGIC_SIZE, compression_by_magic, decode_bounded};
use zebu_tree::{DigestMode, Tree, TreeOptions};

/// Sessions that lose their owner end at once, so that the timeout has no meaning.
const ORPHAN_TIMEOUT_MS: i32 = 1;

/// A state behind this zxid leaves no room for new transactions.
const LAST_ZXID_MAX: Zxid = Zxid(0x7fff_0000_0000_0000);

/// Why a snapshot is no state that a server can begin with.
#[derive(Debug, thiserror::Error)]
pub enum RestoreFlaw {
    /// The bytes are no complete and undamaged snapshot.
    #[error("this is no snapshot of ZooKeeper or Zebu, or it is damaged: {0}")]
    Snapshot(#[from] SnapshotFlaw),
    /// The content is too long. A compressed snapshot may be short.
    #[error("the snapshot is longer than {limit} bytes when it is unpacked")]
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// The digest in the file does not belong to its nodes.
    #[error(
        "the nodes of the snapshot do not have the digest that it names, so it was written while transactions \
         changed the state; only its log completes it"
    )]
    Digest {
        /// The digest in the file.
        expected: i64,
        /// The digest of the nodes.
        found: i64,
    },
    /// Its zxids leave no room for later ones.
    #[error("the snapshot has zxid 0x{:x}, which no later transaction can follow", .0.0)]
    Zxid(Zxid),
}

/// A checked state with the sessions of its snapshot.
#[derive(Debug)]
pub struct RestoredState {
    tree: Tree,
    /// Bytes of the snapshot, unpacked.
    size: u64,
}

/// A state that can take the place of another one.
#[derive(Debug)]
pub struct InstallableState {
    /// The tree, without sessions and ephemeral nodes.
    pub tree: Tree,
    /// Its last transaction, which is above every transaction of both states.
    pub zxid: Zxid,
    /// The sessions that were ended.
    pub ended_sessions: usize,
}

impl RestoredState {
    /// Reads a snapshot to its end, plain or compressed. `limit` bounds its unpacked bytes.
    ///
    /// # Errors
    /// The bytes are no usable snapshot.
    pub fn read(source: impl Read, options: TreeOptions, limit: u64) -> Result<RestoredState, RestoreFlaw> {
        let mut source = source;
        let mut begin = [0; MAGIC_SIZE];
        let count =
            read_up_to(&mut source, &mut begin).map_err(|error| SnapshotFlaw::Read { at: 0, error })?;
        let compression = compression_by_magic(&begin[..count]).ok_or(SnapshotFlaw::Magic)?;
        let mut visitor = RestoreVisitor { restore: Restore::new(options), highest: Zxid::ZERO };
        let decoded = decode_bounded(begin[..count].chain(source), compression, limit, &mut visitor);
        let summary = decoded.map_err(|flaw| match flaw {
            SnapshotFlaw::Read { error, .. } if error.kind() == io::ErrorKind::FileTooLarge => {
                RestoreFlaw::TooLong { limit }
            }
            flaw => RestoreFlaw::Snapshot(flaw),
        })?;
        let last = summary.mixed_until().unwrap_or(Zxid::ZERO).max(visitor.highest);
        if last > LAST_ZXID_MAX || last < Zxid::ZERO {
            return Err(RestoreFlaw::Zxid(last));
        }
        let mut restore = visitor.restore;
        restore.snapshot_loaded(last);
        let tree = restore.finish();
        if let (Some(named), DigestMode::On) = (&summary.digest, options.digest)
            && named.version == DIGEST_VERSION
            && named.zxid != Zxid::ZERO
            && named.digest != tree.digest()
        {
            return Err(RestoreFlaw::Digest { expected: named.digest, found: tree.digest() });
        }
        Ok(RestoredState { tree, size: summary.size })
    }

    /// Takes a tree that was rebuilt from elsewhere.
    pub fn of_tree(tree: Tree) -> RestoredState {
        RestoredState { tree, size: 0 }
    }

    /// Keeps all sessions, and moves the state behind `current`. Clients of these sessions can resume them.
    pub fn keep_sessions(self, current: Zxid, time_ms: i64) -> InstallableState {
        let mut tree = self.tree;
        let zxid = Zxid(tree.last_zxid().max(current).0.saturating_add(1));
        let header = TxnHeader { session: SessionId::NONE, cxid: 0, zxid, time_ms };
        tree.apply(&header, &Txn::Error(ErrorCode::RuntimeInconsistency.wire()), &mut |_| ());
        InstallableState { zxid: tree.last_zxid(), tree, ended_sessions: 0 }
    }

    /// Bytes of the snapshot, unpacked.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The nodes, with those of sessions.
    pub fn node_count(&self) -> usize {
        self.tree.node_count()
    }

    /// The last transaction of the snapshot.
    pub fn last_zxid(&self) -> Zxid {
        self.tree.last_zxid()
    }

    /// Ends all sessions, as transactions behind both states. `current` is the last transaction of the state
    /// that is replaced.
    pub fn end_sessions(self, current: Zxid, time_ms: i64) -> InstallableState {
        let mut tree = self.tree;
        tree.adopt_orphaned_ephemerals(ORPHAN_TIMEOUT_MS);
        let sessions: Vec<SessionId> = tree.sessions().keys().copied().collect();
        let mut zxid = tree.last_zxid().max(current);
        let mut apply = |session: SessionId, txn: Txn| {
            zxid = Zxid(zxid.0.saturating_add(1));
            tree.apply(&TxnHeader { session, cxid: 0, zxid, time_ms }, &txn, &mut |_| ());
        };
        for &session in &sessions {
            apply(session, Txn::CloseSession(None));
        }
        // Two states never have the same zxid, so the last one is new even without a session.
        apply(SessionId::NONE, Txn::Error(ErrorCode::RuntimeInconsistency.wire()));
        InstallableState { zxid: tree.last_zxid(), tree, ended_sessions: sessions.len() }
    }
}

/// Reads until the buffer is full or the source ends.
fn read_up_to(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Loads the tree and finds the highest zxid of its nodes.
struct RestoreVisitor {
    restore: Restore,
    highest: Zxid,
}

impl SnapshotVisitor for RestoreVisitor {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.restore.session(id, timeout_ms);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.restore.acl(id, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        for zxid in [stat.czxid, stat.mzxid, stat.pzxid] {
            if zxid < 0 {
                return Err(format!("it has the zxid {zxid}"));
            }
            self.highest = self.highest.max(Zxid(zxid));
        }
        self.restore.node(path, data, acl, stat)
    }
}
