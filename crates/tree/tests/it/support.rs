//! A small server: prepares requests, applies them when told to, and compares every digest on the way.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::client::{
    CheckRequest, CreateOp, CreateRequest, DeleteRequest, EventType, KeeperPart, MultiOp, SetAclRequest,
    SetDataRequest, WriteRequest,
};
use zebu_proto::txn::{SubTxn, Txn, TxnDigest, TxnHeader};
use zebu_proto::{Acl, Buffer, ErrorCode, Id, SessionId, Stat, StatPersisted, Zxid};
use zebu_tree::{
    Credentials, DigestMode, Overlay, Policy, PrepareContext, Prepared, Reconfig, Tree, TreeOptions,
    TtlNodes, TxnOutcome, WalkProgress,
};

pub(crate) const SESSION: SessionId = SessionId(0x1000);
pub(crate) const START_MS: i64 = 1_700_000_000_000;

pub(crate) fn options() -> TreeOptions {
    TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed: 7 }
}

pub(crate) struct World {
    pub(crate) tree: Tree,
    pub(crate) overlay: Overlay,
    pub(crate) zxid: i64,
    pub(crate) time_ms: i64,
    pub(crate) session: SessionId,
    pub(crate) credentials: Credentials,
    pub(crate) policy: Policy,
    pub(crate) session_check: Result<(), ErrorCode>,
    pub(crate) ephemeral_check: Result<(), ErrorCode>,
    pub(crate) reconfig: Reconfig,
    pub(crate) pending: VecDeque<(TxnHeader, Prepared)>,
    pub(crate) log: Vec<(TxnHeader, Txn)>,
    pub(crate) events: Vec<(EventType, String)>,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(options())
    }

    pub(crate) fn with(options: TreeOptions) -> World {
        World {
            tree: Tree::new(options),
            overlay: Overlay::new(options.hash_seed),
            zxid: 0,
            time_ms: START_MS,
            session: SESSION,
            credentials: Credentials::of_peer("127.0.0.1".parse().unwrap()),
            policy: Policy::default(),
            session_check: Ok(()),
            ephemeral_check: Ok(()),
            reconfig: Reconfig::Disabled,
            pending: VecDeque::new(),
            log: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Decides a request and leaves it pending.
    pub(crate) fn prepare(&mut self, request: WriteRequest) -> Txn {
        self.zxid += 1;
        let header =
            TxnHeader { session: self.session, cxid: 1, zxid: Zxid(self.zxid), time_ms: self.time_ms };
        let context = PrepareContext {
            header,
            credentials: &self.credentials,
            session: self.session_check,
            ephemeral_session: self.ephemeral_check,
            policy: &self.policy,
            reconfig: self.reconfig.clone(),
        };
        let prepared = self.tree.prepare(&mut self.overlay, request, &context);
        let txn = prepared.txn.clone();
        let has_none = matches!(txn, Txn::Error(_) | Txn::CloseSession(None));
        assert_eq!(prepared.digest.is_none(), has_none, "errors and unlisted ends have no digest: {txn:?}");
        self.pending.push_back((header, prepared));
        txn
    }

    /// Applies the oldest pending transaction.
    pub(crate) fn apply_next(&mut self) -> Option<TxnOutcome> {
        let (header, prepared) = self.pending.pop_front()?;
        let events = &mut self.events;
        let mut sink = |event: zebu_tree::TreeEvent<'_>| {
            assert_eq!(event.zxid, header.zxid);
            events.push((event.kind, event.path.to_owned()));
        };
        let outcome = self.tree.apply(&header, &prepared.txn, &mut sink);
        self.overlay.applied(header.zxid);
        assert_eq!(self.tree.last_zxid(), header.zxid);
        if let Some(TxnDigest { tree_digest, .. }) = prepared.digest {
            assert_eq!(self.tree.digest(), tree_digest, "digest of {:?}", prepared.txn);
        }
        self.log.push((header, prepared.txn));
        Some(outcome)
    }

    /// Applies everything pending and returns the last outcome.
    pub(crate) fn apply_pending(&mut self) -> Option<TxnOutcome> {
        let mut last = None;
        while let Some(outcome) = self.apply_next() {
            last = Some(outcome);
        }
        assert!(self.overlay.is_empty());
        last
    }

    /// Prepares and applies.
    pub(crate) fn run(&mut self, request: WriteRequest) -> TxnOutcome {
        self.prepare(request);
        self.apply_pending().unwrap()
    }

    /// Prepares and applies what must succeed.
    pub(crate) fn ok(&mut self, request: WriteRequest) -> TxnOutcome {
        let outcome = self.run(request.clone());
        assert!(!matches!(outcome, TxnOutcome::Error(_)), "{request:?} gave {outcome:?}");
        outcome
    }

    /// The error that a request becomes; it is applied like any other transaction.
    pub(crate) fn error(&mut self, request: WriteRequest) -> ErrorCode {
        let before = self.tree.digest();
        match self.run(request.clone()) {
            TxnOutcome::Error(code) => {
                assert_eq!(self.tree.digest(), before);
                ErrorCode::from_wire(code).unwrap()
            }
            other => panic!("{request:?} gave {other:?}"),
        }
    }

    pub(crate) fn create(&mut self, path: &str) {
        self.ok(create(path));
    }

    pub(crate) fn stat(&self, path: &str) -> Stat {
        self.tree.node(path).unwrap_or_else(|| panic!("{path} is missing")).stat()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.tree.node(path).is_some()
    }

    pub(crate) fn data(&self, path: &str) -> Option<&[u8]> {
        self.tree.node(path).unwrap().data()
    }

    pub(crate) fn authenticate(&mut self, user: &str) {
        self.credentials.add(Id::new("digest", user));
    }
}

pub(crate) fn text(text: &str) -> Buffer {
    Some(text.as_bytes().into())
}

pub(crate) fn request(op: CreateOp, path: &str, flags: i32) -> CreateRequest {
    let ttl_ms = if op == CreateOp::Ttl { 1000 } else { -1 };
    CreateRequest {
        op,
        path: Some(path.into()),
        data: text("data"),
        acl: Some(Acl::open().into()),
        flags,
        ttl_ms,
    }
}

pub(crate) fn create_with(op: CreateOp, path: &str, flags: i32) -> WriteRequest {
    WriteRequest::Create(request(op, path, flags))
}

pub(crate) fn create(path: &str) -> WriteRequest {
    create_with(CreateOp::Create, path, 0)
}

pub(crate) fn create_data(path: &str, data: &str) -> WriteRequest {
    WriteRequest::Create(CreateRequest { data: text(data), ..request(CreateOp::Create, path, 0) })
}

pub(crate) fn create_acl(path: &str, acl: Vec<Acl>) -> WriteRequest {
    WriteRequest::Create(CreateRequest { acl: Some(acl.into()), ..request(CreateOp::Create, path, 0) })
}

pub(crate) fn ephemeral(path: &str) -> WriteRequest {
    create_with(CreateOp::Create, path, 1)
}

pub(crate) fn sequential(path: &str) -> WriteRequest {
    create_with(CreateOp::Create, path, 2)
}

pub(crate) fn delete(path: &str) -> WriteRequest {
    delete_version(path, -1)
}

pub(crate) fn delete_version(path: &str, version: i32) -> WriteRequest {
    WriteRequest::Delete(DeleteRequest { path: Some(path.into()), version })
}

pub(crate) fn set(path: &str, data: &str) -> WriteRequest {
    set_version(path, data, -1)
}

pub(crate) fn set_version(path: &str, data: &str, version: i32) -> WriteRequest {
    WriteRequest::SetData(SetDataRequest { path: Some(path.into()), data: text(data), version })
}

pub(crate) fn set_acl(path: &str, acl: Vec<Acl>, version: i32) -> WriteRequest {
    WriteRequest::SetAcl(SetAclRequest { path: Some(path.into()), acl: Some(acl.into()), version })
}

pub(crate) fn op(request: WriteRequest) -> MultiOp {
    match request {
        WriteRequest::Create(request) => MultiOp::Create(request),
        WriteRequest::Delete(request) => MultiOp::Delete(request),
        WriteRequest::SetData(request) => MultiOp::SetData(request),
        WriteRequest::Keeper(request) => MultiOp::Keeper(Box::new(KeeperPart::Write(*request))),
        other => panic!("{other:?} is no part of a multi"),
    }
}

pub(crate) fn check(path: &str, version: i32) -> MultiOp {
    MultiOp::Check(CheckRequest { path: Some(path.into()), version })
}

pub(crate) fn multi(ops: impl IntoIterator<Item = MultiOp>) -> WriteRequest {
    WriteRequest::Multi(ops.into_iter().collect())
}

pub(crate) fn header(zxid: i64) -> TxnHeader {
    TxnHeader { session: SESSION, cxid: 0, zxid: Zxid(zxid), time_ms: START_MS + zxid }
}

pub(crate) fn apply(tree: &mut Tree, zxid: i64, txn: &Txn) -> TxnOutcome {
    tree.apply(&header(zxid), txn, &mut |_| {})
}

pub(crate) fn part(txn: Txn) -> SubTxn {
    SubTxn(txn)
}

pub(crate) fn no_permissions() -> Vec<Acl> {
    vec![Acl::new(0, "world", "anyone")]
}

pub(crate) type Dump = BTreeMap<String, (Option<Vec<u8>>, Vec<Acl>, StatPersisted, usize)>;

/// Everything that a tree holds, by path.
pub(crate) fn dump(tree: &Tree) -> Dump {
    let mut nodes = Dump::new();
    let mut walker = tree.walker();
    let sink = &mut |path: &str, data: Option<&[u8]>, _: i64, stat: &StatPersisted| {
        let node = tree.node(path).unwrap();
        assert_eq!((node.data(), node.persisted()), (data, *stat));
        let value = (data.map(<[u8]>::to_vec), node.acl().to_vec(), *stat, node.num_children());
        assert_eq!(nodes.insert(path.to_owned(), value), None, "{path} is visited twice");
    };
    assert_eq!(walker.next_slice(tree, usize::MAX, sink), WalkProgress::Done);
    assert_eq!(nodes.len(), tree.node_count());
    nodes
}

/// Compares two trees, whatever ids they gave to their lists.
pub(crate) fn assert_same(left: &Tree, right: &Tree) {
    let (left_nodes, right_nodes) = (dump(left), dump(right));
    for (path, node) in &left_nodes {
        assert_eq!(Some(node), right_nodes.get(path), "node {path:?}");
    }
    assert_eq!(left_nodes.len(), right_nodes.len());
    assert_eq!(left.sessions(), right.sessions());
    assert_eq!(left.last_zxid(), right.last_zxid());
    assert_eq!(left.digest(), right.digest());
    assert_eq!(left.ephemerals_count(), right.ephemerals_count());
    assert_eq!(left.approximate_data_size(), right.approximate_data_size());
    for session in left.sessions_with_ephemerals() {
        assert_eq!(left.ephemerals_of(session), right.ephemerals_of(session));
    }
    assert_eq!(left.removable(i64::MAX, 1), right.removable(i64::MAX, 1));
}
