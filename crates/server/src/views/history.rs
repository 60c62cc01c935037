//! The versions of one node in the transaction logs and the oldest snapshot file of this server.
//!
//! The newest log is read first. One call reads a bounded number of bytes, on the thread of its caller, and
//! says where the next call goes on. The files know no permissions: the caller must be an operator.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use zebu_proto::txn::{SetAclTxn, SetDataTxn, SubTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::disk::{Access, Disk};
use zebu_storage::format::names::parse_log;
use zebu_storage::format::scan::{LogEnd, LogHeader, LogScanner, ScanItem};
use zebu_storage::format::snapshot::SnapshotVisitor;
use zebu_storage::{FileDisk, snapshot_file};

use super::ServerViews;

/// Bytes of logs that one call reads, about.
const READ_BYTES_MAX: u64 = 32 << 20;
/// Versions that one call returns.
const VERSIONS_MAX: usize = 500;
/// Bytes of their data.
const DATA_BYTES_MAX: usize = 4 << 20;
/// Bytes of data in a snapshot before the search for the node ends.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// A place in the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// The first transaction of the log, which names the file.
    pub log: Zxid,
    /// The offset in it; zero is its begin.
    pub at: u64,
}

/// What happened to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeVersionKind {
    /// It was created.
    Created,
    /// Its data was set.
    DataSet,
    /// Its ACL was set.
    AclSet,
    /// It was deleted, by a client or with its session.
    Deleted,
    /// A snapshot has it from before the first log.
    InSnapshot,
}

/// A version of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVersion {
    /// What happened.
    pub change: NodeVersionKind,
    /// The transaction.
    pub zxid: Zxid,
    /// Its time, milliseconds since 1970.
    pub time_ms: i64,
    /// The session that did it; `None` if only a snapshot tells of it.
    pub session: Option<SessionId>,
    /// The version of the data; for [`NodeVersionKind::AclSet`] that of the ACL.
    pub version: Option<i32>,
    /// The new data, if the transaction has data.
    pub data: Option<Arc<[u8]>>,
    /// The new ACL, if the transaction has one.
    pub acl: Option<Vec<Acl>>,
}

/// What one call found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPart {
    /// In the order of the files, so not sorted over several calls.
    pub versions: Vec<NodeVersion>,
    /// Where the next call goes on; `None` when all files are read.
    pub next: Option<LogPlace>,
    /// Zxid and time of the first transaction in the log that was read last.
    pub reached: Option<(Zxid, i64)>,
    /// Logs that are not read yet.
    pub logs_left: usize,
    /// Bytes of logs that were read.
    pub bytes: u64,
    /// Transactions between these are missing: the server was synchronized by a snapshot there.
    pub gaps: Vec<(Zxid, Zxid)>,
    /// Files that could not be read to their end.
    pub damaged: Vec<String>,
}

/// A log file and the first transaction of the next newer one.
struct FoundLog {
    name: String,
    first: Zxid,
    newer: Option<Zxid>,
}

impl ServerViews {
    /// Reads a part of the history of a node. Blocks on the disk.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn node_history(&self, path: &str, from: Option<LogPlace>) -> io::Result<HistoryPart> {
        let directory = self.config().storage.log_dir();
        let mut logs = list_logs(&directory)?;
        let mut start = 0;
        if let Some(from) = from {
            // A purge may have removed the file meanwhile; older ones are gone then, too.
            logs.retain(|log| log.first <= from.log);
            start = from.at;
        }
        let mut part = HistoryPart::default();
        let applied = self.last_zxid();
        for (index, log) in logs.iter().enumerate() {
            let mut reading = Reading { path, applied, part: &mut part, last: None, data_bytes: 0 };
            let paused = match reading.read(&directory.join(&log.name), start) {
                Ok(paused) => {
                    if let (None, Some(last), Some(newer)) = (paused, reading.last, log.newer)
                        && !follows(last, newer)
                    {
                        reading.part.gaps.push((last, newer));
                    }
                    paused
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    part.damaged.push(format!("{}: {error}", log.name));
                    None
                }
            };
            part.logs_left = logs.len() - index - 1;
            if let Some(at) = paused {
                part.logs_left += 1;
                part.next = Some(LogPlace { log: log.first, at });
                return Ok(part);
            }
            start = 0;
            if let Some(older) = logs.get(index + 1)
                && part.bytes >= READ_BYTES_MAX
            {
                part.next = Some(LogPlace { log: older.first, at: 0 });
                return Ok(part);
            }
        }
        // A call that goes on inside the oldest log does not read its first transaction, which names it.
        let first = part.reached.map(|(first, _)| first).or_else(|| logs.last().map(|log| log.first));
        self.add_snapshot(path, first, &mut part);
        Ok(part)
    }

    /// Adds the node as the oldest snapshot has it, if no log tells how it came about. `first` is the first
    /// transaction of the oldest log.
    fn add_snapshot(&self, path: &str, first: Option<Zxid>, part: &mut HistoryPart) {
        let directory = self.config().storage.snapshot_dir();
        let Ok(files) = snapshot_file::list(&FileDisk, &directory) else { return };
        let Some(file) = files.last() else { return };
        let mut search = Search::new(path);
        // The search ends the reading when it is done, which counts as a flaw.
        let read = snapshot_file::load(&FileDisk, &file.path, &mut search);
        if let Some((stat, data)) = search.found {
            let mzxid = Zxid(stat.mzxid);
            if first.is_none_or(|first| mzxid < first) {
                part.versions.push(NodeVersion {
                    change: NodeVersionKind::InSnapshot,
                    zxid: mzxid,
                    time_ms: stat.mtime,
                    session: None,
                    version: Some(stat.version),
                    data,
                    acl: search.acl,
                });
            }
        } else if !matches!(read, Ok(Ok(_))) {
            let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
            part.damaged.push(format!("{}: the node was not found in it", name.unwrap_or_default()));
        }
    }
}

/// All logs, newest first.
fn list_logs(directory: &Path) -> io::Result<Vec<FoundLog>> {
    let mut logs: Vec<FoundLog> = FileDisk
        .list(directory)?
        .into_iter()
        .filter_map(|name| Some(FoundLog { first: parse_log(&name)?.zxid, name, newer: None }))
        .collect();
    logs.sort_by(|a, b| b.first.cmp(&a.first).then_with(|| a.name.cmp(&b.name)));
    let firsts: Vec<Zxid> = logs.iter().map(|log| log.first).collect();
    for (log, newer) in logs.iter_mut().skip(1).zip(firsts) {
        log.newer = Some(newer);
    }
    Ok(logs)
}

/// Whether a zxid can directly follow another one.
fn follows(last: Zxid, zxid: Zxid) -> bool {
    last.next() == Some(zxid) || (zxid.epoch() > last.epoch() && zxid.counter() <= 1)
}

/// The reading of one log.
struct Reading<'a> {
    path: &'a str,
    applied: Zxid,
    part: &'a mut HistoryPart,
    last: Option<Zxid>,
    data_bytes: usize,
}

impl Reading<'_> {
    /// Reads from an offset on. Returns the offset at which a limit was reached.
    fn read(&mut self, file: &Path, start: u64) -> io::Result<Option<u64>> {
        let name = || file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (mut scanner, header) = LogScanner::open(FileDisk.open(file, Access::Read)?)?;
        if header != LogHeader::Valid {
            if header == LogHeader::Foreign {
                self.part.damaged.push(format!("{}: it is no log", name()));
            }
            return Ok(None);
        }
        if start > 0 {
            scanner.continue_at(start);
        }
        let mut is_first = start == 0;
        loop {
            let end = match scanner.next_entry()? {
                ScanItem::Entry(entry) => {
                    self.part.bytes += entry.end - entry.at;
                    match TxnEntry::decode(entry.payload) {
                        Ok(entry) => {
                            if std::mem::take(&mut is_first) {
                                self.part.reached = Some((entry.header.zxid, entry.header.time_ms));
                            }
                            self.observe(&entry);
                        }
                        Err(error) => {
                            self.part.damaged.push(format!("{} at {}: {error}", name(), entry.at));
                        }
                    }
                    entry.end
                }
                ScanItem::End(LogEnd::Clean { .. } | LogEnd::Torn(_)) => return Ok(None),
                ScanItem::End(LogEnd::Damaged(damage, _)) => {
                    self.part.damaged.push(format!("{} at {}: {}", name(), damage.at, damage.flaw));
                    return Ok(None);
                }
            };
            let is_full = self.part.bytes >= READ_BYTES_MAX
                || self.part.versions.len() >= VERSIONS_MAX
                || self.data_bytes >= DATA_BYTES_MAX;
            if is_full {
                return Ok(Some(end));
            }
        }
    }

    fn observe(&mut self, entry: &TxnEntry) {
        let zxid = entry.header.zxid;
        if zxid > self.applied {
            return;
        }
        if let Some(last) = self.last.replace(zxid)
            && !follows(last, zxid)
        {
            self.part.gaps.push((last, zxid));
        }
        match &entry.txn {
            Txn::Multi(parts) => {
                if !parts.iter().any(|SubTxn(part)| matches!(part, Txn::Error(_))) {
                    parts.iter().for_each(|SubTxn(part)| self.observe_change(&entry.header, part));
                }
            }
            txn => self.observe_change(&entry.header, txn),
        }
    }

    fn observe_change(&mut self, header: &TxnHeader, txn: &Txn) {
        let created = |data: &Option<Arc<[u8]>>, acl: Option<&[Acl]>| {
            (NodeVersionKind::Created, Some(0), data.clone(), acl.map(<[Acl]>::to_vec))
        };
        let (change, version, data, acl) = match txn {
            Txn::Create(create) | Txn::Create2(create) if &*create.path == self.path => {
                created(&create.data, create.acl.as_deref())
            }
            Txn::CreateContainer(create) if &*create.path == self.path => {
                created(&create.data, create.acl.as_deref())
            }
            Txn::CreateTtl(create) if &*create.path == self.path => {
                created(&create.data, create.acl.as_deref())
            }
            Txn::SetData(SetDataTxn { path, data, version })
            | Txn::Reconfig(SetDataTxn { path, data, version })
                if &**path == self.path =>
            {
                (NodeVersionKind::DataSet, Some(*version), data.clone(), None)
            }
            Txn::SetAcl(SetAclTxn { path, acl, version }) if &**path == self.path => {
                (NodeVersionKind::AclSet, Some(*version), None, acl.as_deref().map(<[Acl]>::to_vec))
            }
            Txn::Delete(path) | Txn::DeleteContainer(path) if &**path == self.path => {
                (NodeVersionKind::Deleted, None, None, None)
            }
            Txn::CloseSession(Some(paths)) if paths.iter().any(|path| &**path == self.path) => {
                (NodeVersionKind::Deleted, None, None, None)
            }
            // Wildcard: the other transactions do not touch the node.
            _ => return,
        };
        self.data_bytes += data.as_ref().map_or(0, |data| data.len());
        self.part.versions.push(NodeVersion {
            change,
            zxid: header.zxid,
            time_ms: header.time_ms,
            session: Some(header.session),
            version,
            data,
            acl,
        });
    }
}

/// Looks for one node in a snapshot.
struct Search<'a> {
    path: &'a str,
    acls: BTreeMap<i64, Vec<Acl>>,
    bytes: u64,
    found: Option<(StatPersisted, Option<Arc<[u8]>>)>,
    acl: Option<Vec<Acl>>,
}

impl<'a> Search<'a> {
    fn new(path: &'a str) -> Search<'a> {
        // The root has the empty path in a snapshot.
        let path = if path == "/" { "" } else { path };
        Search { path, acls: BTreeMap::new(), bytes: 0, found: None, acl: None }
    }
}

impl SnapshotVisitor for Search<'_> {
    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.insert(id, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        if path == self.path {
            self.found = Some((*stat, data.map(Arc::from)));
            self.acl = self.acls.remove(&acl);
            return Err("the node is found".to_owned());
        }
        self.bytes += (path.len() + data.map_or(0, <[u8]>::len)) as u64;
        match self.bytes > SNAPSHOT_BYTES_MAX {
            true => Err("the node was not found in the first part of the snapshot".to_owned()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]
mod tests {
    use zebu_proto::txn::CreateTxn;
    use zebu_runtime::{SnapshotSections, SnapshotStore};
    use zebu_storage::format::log::{HEADER, append_entry};
    use zebu_storage::{Compression, Directories};
    use zebu_tree::{Tree, TreeOptions};

    use super::*;
    use crate::clock::Clock;
    use crate::config::ServerConfig;
    use crate::core::context::ServerContext;

    fn create(zxid: i64, path: &str) -> TxnEntry {
        let header = TxnHeader { session: SessionId(1), cxid: 0, zxid: Zxid(zxid), time_ms: 1 };
        let (path, acl) = (path.into(), Some(Acl::open().into()));
        let create = CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion: -1 };
        TxnEntry { header, txn: Txn::Create(create), digest: None }
    }

    /// A server whose snapshot and only log both have `/a`, which `/b` follows in the log.
    fn views(home: &Path, log: &[u8]) -> ServerViews {
        let mut tree = Tree::new(TreeOptions::default());
        for entry in [create(1, "/a"), create(2, "/b")] {
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
        }
        let mut config = ServerConfig::built_in();
        (config.storage.data_dir, config.storage.data_log_dir) = (home.to_owned(), home.to_owned());
        let directories = Directories::new(home, home);
        FileDisk.create_directory(&directories.snapshots()).unwrap();
        let sections = SnapshotSections::None;
        SnapshotStore::new(FileDisk, &directories, Compression::Plain, sections).write_first(&tree).unwrap();
        std::fs::write(directories.logs().join("log.1"), log).unwrap();
        let policy = crate::settings::policy(&config);
        let replica = zebu_node::Replica::new(tree, policy, zebu_node::AuthEnforcement::Off, 0);
        let shared = Arc::new(ServerContext::new(config, Clock::start(), replica, 0));
        ServerViews::new(shared, tokio::runtime::Handle::current())
    }

    #[tokio::test]
    async fn a_version_of_the_log_is_not_repeated_from_the_snapshot() {
        let home = tempfile::tempdir().unwrap();
        let mut log = HEADER.to_vec();
        append_entry(&create(1, "/a"), &mut log);
        let second = log.len() as u64;
        append_entry(&create(2, "/b"), &mut log);
        let views = views(home.path(), &log);
        let changes = |from| {
            let part = views.node_history("/a", from).unwrap();
            assert_eq!(part.next, None);
            part.versions.iter().map(|version| version.change).collect::<Vec<_>>()
        };
        assert_eq!(changes(None), [NodeVersionKind::Created]);
        // The call before ended behind the first transaction.
        assert_eq!(changes(Some(LogPlace { log: Zxid(1), at: second })), []);
    }
}
