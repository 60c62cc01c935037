//! Steps that touch no disk: decode, look up, prepare, apply, fire.

use std::hint::black_box;

use anyhow::{Result, anyhow};
use zebu_proto::client::{CreateOp, CreateRequest, EventType, Request, SetDataRequest, WriteRequest};
use zebu_proto::txn::{SetDataTxn, Txn};
use zebu_proto::{Acl, Jute, OpCode, Reader};
use zebu_tree::watch::{WatchKind, WatchTable, WatcherId};
use zebu_tree::{Credentials, Overlay, Policy, PrepareContext, Reconfig};

use super::world::{Grown, World, create};
use super::{Run, Step};

/// Different paths that a step uses in turn.
const PATHS: usize = 10_000;

/// Sessions that watch one node.
const WATCHERS: u64 = 1_000;

pub(crate) fn all() -> Vec<Step> {
    let step = |name, what, ready| Step { name, what, ready };
    vec![
        step("decode-get", "getData from bytes", decode_get as fn(&World) -> Result<Run>),
        step("decode-set", "setData of 100 bytes from bytes", decode_set),
        step("decode-create", "create of 100 bytes from bytes", decode_create),
        step("lookup", "a node and its data by path", lookup),
        step("prepare-set", "request to transaction", prepare_set),
        step("prepare-create", "request to transaction", prepare_create),
        step("apply-set", "transaction to tree", apply_set),
        step("apply-create", "a create and its delete to the tree, half of both", apply_create),
        step("watch-one", "a watch registered and fired", watch_one),
        step("watch-many", "the share of one of 1,000 watchers of a node", watch_many),
    ]
}

/// Runs over the items again and again.
fn cycle<T: 'static>(items: Vec<T>, mut each: impl FnMut(&T) -> Result<()> + 'static) -> Run {
    let mut at = 0;
    Box::new(move |count| {
        for _ in 0..count {
            each(&items[at])?;
            at = (at + 1) % items.len();
        }
        Ok(())
    })
}

fn decode(op: OpCode, bodies: Vec<Vec<u8>>) -> Run {
    cycle(bodies, move |body| {
        let request = Request::decode(op.wire(), &mut Reader::new(body));
        black_box(request).map(drop).map_err(|error| anyhow!("{error:?}"))
    })
}

fn decode_get(world: &World) -> Result<Run> {
    let body = |path: String| {
        let mut out = Vec::new();
        zebu_proto::jute::encode_bytes(path.as_bytes(), &mut out);
        false.encode(&mut out);
        out
    };
    Ok(decode(OpCode::GetData, world.paths(PATHS).into_iter().map(body).collect()))
}

fn decode_set(world: &World) -> Result<Run> {
    let body = |path: String| {
        let mut out = Vec::new();
        SetDataRequest { path: Some(path.into()), data: Some(world.data.as_slice().into()), version: -1 }
            .encode(&mut out);
        out
    };
    Ok(decode(OpCode::SetData, world.paths(PATHS).into_iter().map(body).collect()))
}

fn decode_create(world: &World) -> Result<Run> {
    let body = |path: String| {
        let mut out = Vec::new();
        zebu_proto::jute::encode_bytes(path.as_bytes(), &mut out);
        zebu_proto::jute::encode_bytes(&world.data, &mut out);
        Acl::open().encode(&mut out);
        0_i32.encode(&mut out);
        out
    };
    Ok(decode(OpCode::Create, world.paths(PATHS).into_iter().map(body).collect()))
}

fn lookup(world: &World) -> Result<Run> {
    let grown = world.grow();
    Ok(cycle(world.paths(PATHS), move |path| {
        let node = grown.tree.node(path).ok_or_else(|| anyhow!("{path} is missing"))?;
        black_box(node.data().map(<[u8]>::len));
        Ok(())
    }))
}

/// Prepares requests against a tree that stays as it is.
fn prepare(mut grown: Grown, requests: Vec<WriteRequest>) -> Run {
    let mut overlay = Overlay::new(11);
    let (credentials, policy) = (Credentials::of_peer([127, 0, 0, 1].into()), Policy::default());
    let header = grown.next_header();
    cycle(requests, move |request| {
        let context = PrepareContext {
            header,
            credentials: &credentials,
            session: Ok(()),
            ephemeral_session: Ok(()),
            policy: &policy,
            reconfig: Reconfig::Disabled,
        };
        black_box(grown.tree.prepare(&mut overlay, request.clone(), &context));
        overlay.applied(header.zxid);
        Ok(())
    })
}

fn prepare_set(world: &World) -> Result<Run> {
    let request = |path: String| {
        let data = Some(world.data.as_slice().into());
        WriteRequest::SetData(SetDataRequest { path: Some(path.into()), data, version: -1 })
    };
    Ok(prepare(world.grow(), world.paths(PATHS).into_iter().map(request).collect()))
}

fn prepare_create(world: &World) -> Result<Run> {
    let request = |path: String| {
        WriteRequest::Create(CreateRequest {
            op: CreateOp::Create,
            path: Some(format!("{path}-new").into()),
            data: Some(world.data.as_slice().into()),
            acl: Some(Acl::open().into()),
            flags: 0,
            ttl_ms: -1,
        })
    };
    Ok(prepare(world.grow(), world.paths(PATHS).into_iter().map(request).collect()))
}

fn apply_set(world: &World) -> Result<Run> {
    let mut grown = world.grow();
    let txn = |path: String| {
        Txn::SetData(SetDataTxn { path: path.into(), data: Some(world.data.as_slice().into()), version: 1 })
    };
    let txns = world.paths(PATHS).into_iter().map(txn).collect();
    Ok(cycle(txns, move |txn| {
        grown.apply(txn);
        Ok(())
    }))
}

fn apply_create(world: &World) -> Result<Run> {
    let mut grown = world.grow();
    let pair = |path: String| {
        let path = format!("{path}-new");
        [create(path.clone(), &world.data), Txn::Delete(path.into())]
    };
    let txns = world.paths(PATHS).into_iter().flat_map(pair).collect();
    Ok(cycle(txns, move |txn| {
        grown.apply(txn);
        Ok(())
    }))
}

fn watch_one(world: &World) -> Result<Run> {
    let mut watches = WatchTable::new(11);
    Ok(cycle(world.paths(PATHS), move |path| {
        watches.add(path, WatcherId(7), WatchKind::Data);
        watches.fire(EventType::NodeDataChanged, path, &mut |watcher| {
            black_box(watcher);
        });
        Ok(())
    }))
}

fn watch_many(_: &World) -> Result<Run> {
    let mut watches = WatchTable::new(11);
    for watcher in 0..WATCHERS {
        watches.add("/watched", WatcherId(watcher), WatchKind::Persistent);
    }
    Ok(Box::new(move |count| {
        for _ in 0..count.div_ceil(WATCHERS as usize) {
            watches.fire(EventType::NodeDataChanged, "/watched", &mut |watcher| {
                black_box(watcher);
            });
        }
        Ok(())
    }))
}
