//! The bodies of replies: results of the tree in the form of the request.

use zebu_proto::client::multi::{MULTI_END, encode_error_result, encode_result_header};
use zebu_proto::client::read::Watch;
use zebu_proto::client::watch::{AddWatchMode, SetWatches};
use zebu_proto::client::{EventType, ReadRequest, WriteRequest};
use zebu_proto::jute::{encode_buffer, encode_bytes, encode_count};
use zebu_proto::txn::{SubTxn, Txn};
use zebu_proto::{ErrorCode, Jute, OpCode};
use zebu_tree::watch::{WatchKind, WatchTable, WatcherId};
use zebu_tree::{NodeRef, Tree, TxnOutcome};

/// The name of nodes that no client may read.
pub(crate) const SECRET: &str = "secret";

/// The parts of the reply to a write.
pub(crate) enum ReplyShape {
    Empty,
    Path,
    PathAndStat,
    Stat,
    Multi(Vec<OpCode>),
}

impl ReplyShape {
    pub(crate) fn of(request: &WriteRequest, op: i32) -> ReplyShape {
        match request {
            WriteRequest::Create(_) if OpCode::from_wire(op) == Some(OpCode::Create) => ReplyShape::Path,
            WriteRequest::Create(_) => ReplyShape::PathAndStat,
            WriteRequest::SetData(_) | WriteRequest::SetAcl(_) => ReplyShape::Stat,
            WriteRequest::Multi(ops) => {
                ReplyShape::Multi(ops.iter().map(zebu_proto::client::MultiOp::result_op).collect())
            }
            _ => ReplyShape::Empty,
        }
    }
}

pub(crate) fn encode(
    shape: &ReplyShape,
    outcome: &TxnOutcome,
    txn: &Txn,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    if let TxnOutcome::Error(code) = outcome {
        return Err(ErrorCode::from_wire(*code).expect("a known code"));
    }
    match (shape, outcome, txn) {
        (ReplyShape::Multi(ops), TxnOutcome::Multi(outcomes), Txn::Multi(parts)) => {
            for ((op, outcome), SubTxn(part)) in ops.iter().zip(outcomes).zip(parts) {
                if let TxnOutcome::Error(code) = outcome {
                    encode_error_result(ErrorCode::from_wire(*code), out);
                    continue;
                }
                encode_result_header(*op, out);
                let shape = match op {
                    OpCode::Create => ReplyShape::Path,
                    OpCode::Create2 => ReplyShape::PathAndStat,
                    OpCode::SetData => ReplyShape::Stat,
                    _ => ReplyShape::Empty,
                };
                encode(&shape, outcome, part, out)?;
            }
            MULTI_END.encode(out);
        }
        _ => {
            if matches!(shape, ReplyShape::Path | ReplyShape::PathAndStat) {
                encode_bytes(created_path(txn).as_bytes(), out);
            }
            if matches!(shape, ReplyShape::Stat | ReplyShape::PathAndStat)
                && let TxnOutcome::Created { stat }
                | TxnOutcome::DataSet { stat }
                | TxnOutcome::AclSet { stat } = outcome
            {
                stat.encode(out);
            }
        }
    }
    Ok(())
}

fn created_path(txn: &Txn) -> &str {
    match txn {
        Txn::Create(create) | Txn::Create2(create) => &create.path,
        Txn::CreateContainer(create) => &create.path,
        Txn::CreateTtl(create) => &create.path,
        other => panic!("a node was created, found {other:?}"),
    }
}

/// Answers a read and sets its watch. Missed events go before the reply.
pub(crate) fn read(
    tree: &Tree,
    watches: &mut WatchTable,
    watcher: WatcherId,
    request: &ReadRequest<'_>,
    events: &mut Vec<(EventType, String)>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let node = |path: &str| tree.node(path).ok_or(ErrorCode::NoNode);
    let readable = |path: &str| {
        let found = node(path)?;
        if path.rsplit('/').next() == Some(SECRET) { Err(ErrorCode::NoAuth) } else { Ok(found) }
    };
    let mut watch = |path: &str, watch: Watch, kind: WatchKind| {
        if watch == Watch::Set {
            watches.add(path, watcher, kind);
        }
    };
    match request {
        ReadRequest::Exists(path, wanted) => {
            watch(path, *wanted, WatchKind::Data);
            node(path)?.stat().encode(out);
        }
        ReadRequest::GetData(path, wanted) => {
            let node = readable(path)?;
            watch(path, *wanted, WatchKind::Data);
            encode_buffer(node.data(), out);
            node.stat().encode(out);
        }
        ReadRequest::GetChildren2(path, wanted) => {
            let node = readable(path)?;
            watch(path, *wanted, WatchKind::Child);
            encode_count(node.num_children(), out);
            node.children().for_each(|name| encode_bytes(name.as_bytes(), out));
            node.stat().encode(out);
        }
        ReadRequest::Sync(path) => encode_buffer(path.as_deref().map(str::as_bytes), out),
        ReadRequest::Ping => {}
        ReadRequest::RemoveWatches(path, kind) | ReadRequest::CheckWatches(path, kind) => {
            let removed = watches.remove(path.as_deref().unwrap_or_default(), watcher, *kind);
            return if removed { Ok(()) } else { Err(ErrorCode::NoWatcher) };
        }
        ReadRequest::AddWatch(path, mode) => {
            let kind = match mode {
                AddWatchMode::Persistent => WatchKind::Persistent,
                AddWatchMode::PersistentRecursive => WatchKind::PersistentRecursive,
            };
            watches.add(path.as_deref().unwrap_or_default(), watcher, kind);
            0_i32.encode(out);
        }
        ReadRequest::SetWatches(set) => set_watches(tree, watches, watcher, set, events),
        other => panic!("recipes do not ask for {other:?}"),
    }
    Ok(())
}

/// Registers the watches of a client that has reconnected. A watch whose change was missed fires instead.
fn set_watches(
    tree: &Tree,
    watches: &mut WatchTable,
    watcher: WatcherId,
    set: &SetWatches,
    events: &mut Vec<(EventType, String)>,
) {
    let seen = set.relative_zxid;
    let data = |node: Option<NodeRef<'_>>| match node {
        None => Some(EventType::NodeDeleted),
        Some(node) => (node.persisted().mzxid > seen).then_some(EventType::NodeDataChanged),
    };
    let child = |node: Option<NodeRef<'_>>| match node {
        None => Some(EventType::NodeDeleted),
        Some(node) => (node.persisted().pzxid > seen).then_some(EventType::NodeChildrenChanged),
    };
    let exist = |node: Option<NodeRef<'_>>| node.map(|_| EventType::NodeCreated);
    let none = |_: Option<NodeRef<'_>>| None;
    type Missed<'a> = &'a dyn Fn(Option<NodeRef<'_>>) -> Option<EventType>;
    let lists: [(_, _, Missed<'_>); 5] = [
        (&set.data, WatchKind::Data, &data),
        (&set.exist, WatchKind::Data, &exist),
        (&set.child, WatchKind::Child, &child),
        (&set.persistent, WatchKind::Persistent, &none),
        (&set.persistent_recursive, WatchKind::PersistentRecursive, &none),
    ];
    for (paths, kind, missed) in lists {
        for path in paths.iter().flatten().flatten() {
            match missed(tree.node(path)) {
                Some(event) => events.push((event, path.to_string())),
                None => watches.add(path, watcher, kind),
            }
        }
    }
}
