//! Reads: answered from the tree as it is, with the watch registered in the same step.

use zebu_proto::client::multi::{MULTI_END, encode_error_result, encode_result_header};
use zebu_proto::client::read::Watch;
use zebu_proto::client::watch::{AddWatchMode, EventType, SetWatches};
use zebu_proto::client::{ClientInfo, MultiReadOp, ReadRequest};
use zebu_proto::jute::{encode_buffer, encode_bytes, encode_count};
use zebu_proto::{ErrorCode, Jute, OpCode, Permissions, Text, Xid};
use zebu_tree::watch::WatchKind;
use zebu_tree::{Credentials, NodeRef, access};

use crate::lane::{Asked, Lane, LaneId};
use crate::limits::MULTI_READ_BYTES_MAX;
use crate::replica::{Replica, watcher};

impl Replica {
    /// Answers a read. The caller holds the replica at least shared.
    pub(crate) fn answer_read(
        &self,
        lane: &mut Lane,
        asked: Asked,
        request: &ReadRequest<'_>,
        credentials: &Credentials,
        now_ms: i64,
    ) {
        let caught_up = match request {
            ReadRequest::SetWatches(watches) => self.catch_up(lane, watches),
            _ => Ok(()),
        };
        let asked = match request {
            ReadRequest::Ping => Asked { xid: Xid::PING.0, ..asked },
            _ => asked,
        };
        let session = lane.session;
        let id = lane.id;
        let reader = Reader { replica: self, credentials, lane: id };
        lane.push_reply(asked, self.last_zxid().0, now_ms, |out| match request {
            ReadRequest::Exists(path, watch) => reader.exists(path, *watch, out),
            ReadRequest::GetData(path, watch) => reader.get_data(path, *watch, out),
            ReadRequest::GetChildren(path, watch) => reader.get_children(path, *watch, WithStat::No, out),
            ReadRequest::GetChildren2(path, watch) => reader.get_children(path, *watch, WithStat::Yes, out),
            ReadRequest::GetAcl(path) => reader.get_acl(path, out),
            ReadRequest::GetAllChildrenNumber(path) => reader.get_all_children_number(path, out),
            ReadRequest::GetEphemerals(prefix) => {
                reader.get_ephemerals(session.map(|session| session.id), prefix.as_deref(), out)
            }
            ReadRequest::Sync(path) => {
                encode_text(path.as_deref(), out);
                Ok(())
            }
            ReadRequest::Ping => Ok(()),
            ReadRequest::SetWatches(_) => caught_up,
            ReadRequest::WhoAmI => reader.who_am_i(out),
            ReadRequest::MultiRead(ops) => reader.multi_read(ops, out),
            ReadRequest::CheckWatches(path, kind) => {
                let held = self.watches().check(watched(path.as_deref()), watcher(id), *kind);
                if held { Ok(()) } else { Err(ErrorCode::NoWatcher) }
            }
            ReadRequest::RemoveWatches(path, kind) => {
                let removed = self.watches().remove(watched(path.as_deref()), watcher(id), *kind);
                if removed { Ok(()) } else { Err(ErrorCode::NoWatcher) }
            }
            ReadRequest::AddWatch(path, mode) => {
                let kind = match mode {
                    AddWatchMode::Persistent => WatchKind::Persistent,
                    AddWatchMode::PersistentRecursive => WatchKind::PersistentRecursive,
                };
                self.watches().add(watched(path.as_deref()), watcher(id), kind);
                0i32.encode(out);
                Ok(())
            }
        });
    }

    /// setWatches: reports what changed since the client last saw it, registers the rest. A null list or path
    /// ends it; what stands before is done.
    fn catch_up(&self, lane: &mut Lane, request: &SetWatches) -> Result<(), ErrorCode> {
        let seen = request.relative_zxid;
        let mut table = self.watches();
        let mut each =
            |paths: &Option<Vec<Text>>, kind: WatchKind, missed: Missed| -> Result<(), ErrorCode> {
                for path in paths.as_ref().ok_or(ErrorCode::MarshallingError)? {
                    let path = path.as_deref().ok_or(ErrorCode::MarshallingError)?;
                    match missed(self.tree.node(path), seen) {
                        // These events carry no zxid: they stand for any number of changes.
                        Some(event) => lane.push_event(-1, event, path),
                        None => table.add(path, watcher(lane.id), kind),
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
                table.add(watched(path.as_deref()), watcher(lane.id), kind);
            }
        }
        Ok(())
    }
}

/// The path under which a persistent watch is kept. ZooKeeper keeps one on null too; nothing ever happens
/// there, and no node can have the name that stands for it here.
fn watched(path: Option<&str>) -> &str {
    path.unwrap_or("\0")
}

/// The event that a client has missed, judging by the node and the zxid that it has seen.
type Missed = fn(Option<NodeRef<'_>>, i64) -> Option<EventType>;

/// Whether a list of children is followed by the stat.
#[derive(Clone, Copy)]
enum WithStat {
    Yes,
    No,
}

struct Reader<'a> {
    replica: &'a Replica,
    credentials: &'a Credentials,
    lane: LaneId,
}

impl<'a> Reader<'a> {
    fn node(&self, path: &str) -> Result<NodeRef<'a>, ErrorCode> {
        self.replica.tree.node(path).ok_or(ErrorCode::NoNode)
    }

    fn may(&self, node: &NodeRef<'_>, permissions: i32) -> bool {
        access::allowed(node.acl(), permissions, self.credentials, &self.replica.policy)
    }

    fn readable(&self, path: &str) -> Result<NodeRef<'a>, ErrorCode> {
        let node = self.node(path)?;
        if self.may(&node, Permissions::READ) { Ok(node) } else { Err(ErrorCode::NoAuth) }
    }

    fn watch(&self, path: &str, watch: Watch, kind: WatchKind) {
        if watch == Watch::Set {
            self.replica.watches().add(path, watcher(self.lane), kind);
        }
    }

    fn exists(&self, path: &str, watch: Watch, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        match self.readable(path) {
            Ok(node) => {
                self.watch(path, watch, WatchKind::Data);
                node.stat().encode(out);
                Ok(())
            }
            Err(ErrorCode::NoNode) => {
                self.watch(path, watch, WatchKind::Data);
                Err(ErrorCode::NoNode)
            }
            Err(error) => Err(error),
        }
    }

    fn get_data(&self, path: &str, watch: Watch, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let node = self.readable(path)?;
        self.watch(path, watch, WatchKind::Data);
        encode_buffer(node.data(), out);
        node.stat().encode(out);
        Ok(())
    }

    fn get_children(
        &self,
        path: &str,
        watch: Watch,
        with_stat: WithStat,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorCode> {
        let node = self.readable(path)?;
        self.watch(path, watch, WatchKind::Child);
        encode_children(&node, out);
        match with_stat {
            WithStat::Yes => node.stat().encode(out),
            WithStat::No => {}
        }
        Ok(())
    }

    fn get_acl(&self, path: &str, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let node = self.node(path)?;
        if !self.may(&node, Permissions::READ | Permissions::ADMIN) {
            return Err(ErrorCode::NoAuth);
        }
        if self.may(&node, Permissions::ADMIN) {
            encode_count(node.acl().len(), out);
            node.acl().iter().for_each(|entry| entry.encode(out));
        } else {
            access::masked(node.acl()).encode(out);
        }
        node.stat().encode(out);
        Ok(())
    }

    fn get_all_children_number(&self, path: &str, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        self.readable(path)?;
        let number = self.replica.tree.all_children_number(path).unwrap_or(0);
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
        let paths: Vec<_> = paths.into_iter().filter(|path| path.starts_with(prefix)).collect();
        encode_count(paths.len(), out);
        paths.iter().for_each(|path| encode_bytes(path.as_bytes(), out));
        Ok(())
    }

    fn who_am_i(&self, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        // The newest first; the address, which every connection has, comes last.
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

    /// Every operation stands for itself; a failed one does not fail the others. The request as a whole fails if the
    /// results are too long together; a single one may have any length.
    fn multi_read(&self, ops: &[MultiReadOp], out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let start = out.len();
        for (index, op) in ops.iter().enumerate() {
            match op {
                MultiReadOp::GetData(path) => match self.readable(path) {
                    Ok(node) => {
                        encode_result_header(OpCode::GetData, out);
                        encode_buffer(node.data(), out);
                        node.stat().encode(out);
                    }
                    Err(error) => encode_error_result(Some(error), out),
                },
                MultiReadOp::GetChildren(path) => match self.readable(path) {
                    Ok(node) => {
                        encode_result_header(OpCode::GetChildren, out);
                        encode_children(&node, out);
                    }
                    Err(error) => encode_error_result(Some(error), out),
                },
            }
            if index > 0 && out.len() - start > MULTI_READ_BYTES_MAX {
                return Err(ErrorCode::MarshallingError);
            }
        }
        MULTI_END.encode(out);
        Ok(())
    }
}

fn encode_children(node: &NodeRef<'_>, out: &mut Vec<u8>) {
    encode_count(node.num_children(), out);
    node.children().for_each(|name| encode_bytes(name.as_bytes(), out));
}

fn encode_text(text: Option<&str>, out: &mut Vec<u8>) {
    encode_buffer(text.map(str::as_bytes), out);
}
