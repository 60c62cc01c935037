//! Reads: answered from the current tree. The watch is registered under the same lock.

use zebu_proto::client::read::Watch;
use zebu_proto::client::watch::{AddWatchMode, EventType, SetWatches, WatcherType};
use zebu_proto::client::{ClientInfo, ReadRequest};
use zebu_proto::jute::{encode_buffer, encode_bytes, encode_count};
use zebu_proto::{ErrorCode, Jute, Text, Xid};
use zebu_tree::watch::WatchKind;
use zebu_tree::{Credentials, NodeRef, access};

use crate::connection::{ClientConnection, ConnectionId, RequestMeta};
use crate::keeper::is_clickhouse_discovery;
use crate::read_work::ReadWork;
use crate::replica::{Replica, watcher_id};
use crate::traffic::SentReply;

/// Bytes of an encoded stat.
pub(crate) const STAT_BYTES: usize = 68;

/// A read that is answered now.
pub(crate) struct ReadCall<'a> {
    pub(crate) meta: RequestMeta,
    pub(crate) request: &'a ReadRequest<'a>,
    /// The credentials of the client when the request was received.
    pub(crate) credentials: &'a Credentials,
}

impl Replica {
    /// Answers a read. The caller holds the replica at least shared.
    pub(crate) fn reply_to_read(&self, connection: &mut ClientConnection, read: ReadCall<'_>, now_ms: i64) {
        let ReadCall { meta, request, credentials } = read;
        if let Some(node) = self.virtual_node(request, connection, credentials) {
            connection.is_clickhouse |= is_clickhouse_discovery(request);
            connection.push_reply(meta, self.last_zxid().0, now_ms, |out| node.encode_reply(request, out));
            return;
        }
        let caught_up = if let ReadRequest::SetWatches(watches) = request {
            self.set_watches(connection, watches)
        } else {
            Ok(())
        };
        let is_ping = matches!(request, ReadRequest::Ping);
        let meta = if is_ping { RequestMeta { xid: Xid::PING.0, ..meta } } else { meta };
        let session = connection.session;
        let mut data_length = 0;
        let mut sent = SentReply { meta, now_ms, outbox_before: connection.outbox_len(), refused_bytes: 0 };
        let (id, is_clickhouse) = (connection.id, connection.is_clickhouse);
        let work = ReadWork::default();
        let context = ReadContext { replica: self, credentials, connection: id, is_clickhouse, work };
        let (mut refused_bytes, mut produced_bytes) = (0, 0);
        connection.push_reply(meta, self.last_zxid().0, now_ms, |out| {
            let start = out.len();
            let answered = match request {
                ReadRequest::Exists(path, watch) => context.exists(path, *watch, out),
                ReadRequest::GetData(path, watch) => {
                    context.get_data(path, *watch, out).map(|length| data_length = length)
                }
                ReadRequest::GetChildren(path, watch) => {
                    context.get_children(path, *watch, 0, out).map(|_| ())
                }
                ReadRequest::GetChildren2(path, watch) => context.get_children2(path, *watch, out),
                ReadRequest::GetAcl(path) => context.get_acl(path, out),
                ReadRequest::GetAllChildrenNumber(path) => context.get_all_children_number(path, out),
                ReadRequest::GetEphemerals(prefix) => {
                    context.get_ephemerals(session.map(|session| session.id), prefix.as_deref(), out)
                }
                ReadRequest::Sync(path) => {
                    encode_text(path.as_deref(), out);
                    Ok(())
                }
                ReadRequest::Ping => Ok(()),
                ReadRequest::SetWatches(_) => caught_up,
                ReadRequest::WhoAmI => context.who_am_i(out),
                ReadRequest::MultiRead(ops) => context.multi_read(ops, out),
                ReadRequest::CheckWatches(path, kind) => context.check_watches(path.as_deref(), *kind),
                ReadRequest::RemoveWatches(path, kind) => context.remove_watches(path.as_deref(), *kind),
                ReadRequest::AddWatch(path, mode) => context.add_watch(path.as_deref(), *mode, out),
                ReadRequest::Keeper(request) => context.keeper_read(request, out),
                // `listing/` answers them.
                ReadRequest::GetChildrenPaginated(_) | ReadRequest::Page(_) | ReadRequest::Scan(_) => {
                    Err(ErrorCode::RuntimeInconsistency)
                }
            };
            let length = out.len() - start;
            produced_bytes = length;
            if length > self.listing_settings.reply_bytes_max {
                refused_bytes = length;
                return Err(ErrorCode::MarshallingError);
            }
            answered
        });
        connection.add_read_work(context.work.total(produced_bytes));
        sent.refused_bytes = refused_bytes;
        if let ReadRequest::GetData(path, _)
        | ReadRequest::Exists(path, _)
        | ReadRequest::GetChildren(path, _)
        | ReadRequest::GetChildren2(path, _) = request
        {
            // ZooKeeper counts no other reads by namespace.
            connection.count_read(&self.metrics.namespaces, path, data_length);
        }
        self.observe_read(connection, request, sent);
    }

    /// setWatches: sends events for changes that the client has missed, and registers the other watches. A
    /// null list or path ends the request with an error; earlier paths stay processed.
    fn set_watches(&self, connection: &mut ClientConnection, request: &SetWatches) -> Result<(), ErrorCode> {
        self.check_set_watches_limit(connection.id, request)?;
        let seen = request.relative_zxid;
        let mut table = self.watches();
        let mut each =
            |paths: &Option<Vec<Text>>, kind: WatchKind, missed: MissedEvent| -> Result<(), ErrorCode> {
                for path in paths.as_ref().ok_or(ErrorCode::MarshallingError)? {
                    let path = path.as_deref().ok_or(ErrorCode::MarshallingError)?;
                    match missed(self.tree.node(path), seen) {
                        // These events carry no zxid: one event may stand for several changes.
                        Some(event) => connection.push_event(-1, event, path),
                        None => table.add(path, watcher_id(connection.id), kind),
                    }
                }
                Ok(())
            };
        each(&request.data, WatchKind::Data, |node, seen| match node {
            None => Some(EventType::NodeDeleted),
            Some(node) if node.persisted().mzxid > seen => Some(EventType::NodeDataChanged),
            Some(_) => None,
        })?;
        each(&request.exist, WatchKind::Data, |node, _| node.map(|_| EventType::NodeCreated))?;
        each(&request.child, WatchKind::Child, |node, seen| match node {
            None => Some(EventType::NodeDeleted),
            Some(node) if node.persisted().pzxid > seen => Some(EventType::NodeChildrenChanged),
            Some(_) => None,
        })?;
        for (paths, kind) in [
            (&request.persistent, WatchKind::Persistent),
            (&request.persistent_recursive, WatchKind::PersistentRecursive),
        ] {
            for path in paths.as_ref().ok_or(ErrorCode::MarshallingError)? {
                table.add(persistent_watch_path(path.as_deref()), watcher_id(connection.id), kind);
            }
        }
        Ok(())
    }
}

/// The path under which a persistent watch is registered. ZooKeeper accepts a null path too. Such a watch
/// never fires: no node can have the substitute name.
fn persistent_watch_path(path: Option<&str>) -> &str {
    path.unwrap_or("\0")
}

/// Returns the event that a client has missed, given the node and the last zxid that the client has seen.
type MissedEvent = fn(Option<NodeRef<'_>>, i64) -> Option<EventType>;

pub(crate) struct ReadContext<'a> {
    pub(crate) replica: &'a Replica,
    pub(crate) credentials: &'a Credentials,
    pub(crate) connection: ConnectionId,
    pub(crate) is_clickhouse: bool,
    pub(crate) work: ReadWork,
}

impl<'a> ReadContext<'a> {
    pub(crate) fn readable_node(&self, path: &str) -> Result<NodeRef<'a>, ErrorCode> {
        self.replica.readable_node(path, self.credentials)
    }

    /// # Errors
    /// The connection watches as many paths as it may.
    pub(crate) fn watch(&self, path: &str, watch: Watch, kind: WatchKind) -> Result<(), ErrorCode> {
        if watch == Watch::Set {
            self.replica.check_watch_limit(self.connection, path)?;
            self.replica.watches().add(path, watcher_id(self.connection), kind);
        }
        Ok(())
    }

    fn check_watches(&self, path: Option<&str>, kind: WatcherType) -> Result<(), ErrorCode> {
        let (path, watcher) = (persistent_watch_path(path), watcher_id(self.connection));
        let is_held = self.replica.watches().check(path, watcher, kind);
        if is_held { Ok(()) } else { Err(ErrorCode::NoWatcher) }
    }

    fn remove_watches(&self, path: Option<&str>, kind: WatcherType) -> Result<(), ErrorCode> {
        let (path, watcher) = (persistent_watch_path(path), watcher_id(self.connection));
        let is_removed = self.replica.watches().remove(path, watcher, kind);
        if is_removed { Ok(()) } else { Err(ErrorCode::NoWatcher) }
    }

    fn add_watch(&self, path: Option<&str>, mode: AddWatchMode, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let kind = match mode {
            AddWatchMode::Persistent => WatchKind::Persistent,
            AddWatchMode::PersistentRecursive => WatchKind::PersistentRecursive,
        };
        self.watch(persistent_watch_path(path), Watch::Set, kind)?;
        0i32.encode(out);
        Ok(())
    }

    /// A reply that is too long registers no watch.
    fn check_length(&self, length: usize) -> Result<(), ErrorCode> {
        match length <= self.replica.listing_settings.reply_bytes_max {
            true => Ok(()),
            false => Err(ErrorCode::MarshallingError),
        }
    }

    pub(crate) fn exists(&self, path: &str, watch: Watch, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        match self.readable_node(path) {
            Ok(node) => {
                self.watch(path, watch, WatchKind::Data)?;
                node.stat().encode(out);
                Ok(())
            }
            Err(ErrorCode::NoNode) => {
                self.watch(path, watch, WatchKind::Data)?;
                Err(ErrorCode::NoNode)
            }
            Err(error) => Err(error),
        }
    }

    /// Encodes data and stat. Returns the length of the data.
    pub(crate) fn get_data(&self, path: &str, watch: Watch, out: &mut Vec<u8>) -> Result<usize, ErrorCode> {
        let node = self.readable_node(path)?;
        let start = out.len();
        encode_buffer(node.data(), out);
        node.stat().encode(out);
        self.check_length(out.len() - start)?;
        self.watch(path, watch, WatchKind::Data)?;
        Ok(node.data().map_or(0, <[u8]>::len))
    }

    /// Encodes the names of the children. Returns their parent. The caller appends `rest` bytes.
    pub(crate) fn get_children(
        &self,
        path: &str,
        watch: Watch,
        rest: usize,
        out: &mut Vec<u8>,
    ) -> Result<NodeRef<'a>, ErrorCode> {
        let node = self.readable_node(path)?;
        let start = out.len();
        self.replica.listings.encode(path, &node, out, encode_children);
        self.check_length(out.len() - start + rest)?;
        self.watch(path, watch, WatchKind::Child)?;
        Ok(node)
    }

    pub(crate) fn get_children2(&self, path: &str, watch: Watch, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let node = self.get_children(path, watch, STAT_BYTES, out)?;
        node.stat().encode(out);
        Ok(())
    }

    fn get_acl(&self, path: &str, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let (node, acl) = self.replica.readable_acl(path, self.credentials)?;
        encode_count(acl.len(), out);
        acl.iter().for_each(|entry| entry.encode(out));
        node.stat().encode(out);
        Ok(())
    }

    fn get_all_children_number(&self, path: &str, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        self.readable_node(path)?;
        let number = self.replica.tree.all_children_number(path).unwrap_or(0);
        // The number of all nodes is known.
        self.work.add_visits(if path == "/" { 0 } else { number });
        i32::try_from(number).unwrap_or(i32::MAX).encode(out);
        Ok(())
    }

    fn get_ephemerals(
        &self,
        session: Option<zebu_proto::SessionId>,
        prefix: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorCode> {
        let prefix = prefix.filter(|prefix| !prefix.trim().is_empty() && *prefix != "/").unwrap_or("");
        let paths = session.map(|session| self.replica.tree.ephemerals_of(session)).unwrap_or_default();
        self.work.add_visits(paths.len());
        let paths: Vec<_> = paths.into_iter().filter(|path| path.starts_with(prefix)).collect();
        encode_count(paths.len(), out);
        paths.iter().for_each(|path| encode_bytes(path.as_bytes(), out));
        Ok(())
    }

    fn who_am_i(&self, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        // The newest identity comes first. The address, which every connection has, comes last.
        let infos: Vec<ClientInfo> = self
            .credentials
            .iter()
            .rev()
            .map(|id| ClientInfo {
                scheme: id.scheme.clone(),
                user: Some(access::user_name(id, &self.replica.policy).into()),
            })
            .collect();
        infos.encode(out);
        Ok(())
    }
}

pub(crate) fn encode_children(node: &NodeRef<'_>, out: &mut Vec<u8>) {
    encode_count(node.num_children(), out);
    node.children().bytes().for_each(|name| encode_bytes(name, out));
}

fn encode_text(text: Option<&str>, out: &mut Vec<u8>) {
    encode_buffer(text.map(str::as_bytes), out);
}
