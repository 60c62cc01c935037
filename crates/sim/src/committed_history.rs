//! The committed history: every transaction that any server has applied, in order. Each is applied again to a
//! separate tree and to the model. Everything that a server or a client shows is compared with it.

use std::sync::Arc;

use zebu_node::LocalSessionSupport;
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{ErrorCode, Permissions, Zxid};
use zebu_tree::{Tree, TreeOptions};
use zebu_zab::{ObserverMasters, is_refused_as_moved as is_refused_as_moved_by_master};

use crate::check::{CheckerLimits, g27_room_on_disk, lowered_writes, transaction_lengths};
use crate::history::{CheckResult, ClientCall, Violation};
use crate::members::{ConfigHistory, proposed_config};
use crate::model::{Model, ModelEffect, ModelReconfig, Privilege, SessionScope, TxnContext};
use crate::operation::{NodePath, Operation, WriteOperation};

/// A transaction of the history.
#[derive(Debug)]
pub(crate) struct CommittedTxn {
    pub(crate) zxid: i64,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) entry: TxnEntry,
    /// The digest of the tree after it.
    pub(crate) digest: i64,
    /// The call that it carries out.
    pub(crate) call: Option<usize>,
    /// The result according to the model; empty for transactions that no client requested.
    pub(crate) effects: Vec<ModelEffect>,
}

/// Whether a transaction is a refusal because of its session: the session has moved or is closed.
pub(crate) fn is_refused_with_session(committed: &CommittedTxn) -> bool {
    committed.effects == [ModelEffect::Error(ErrorCode::SessionMoved)]
        || is_refused_as_expired(&committed.entry.txn)
}

fn is_refused_as_expired(txn: &Txn) -> bool {
    let expired = Txn::error(ErrorCode::SessionExpired);
    *txn == expired || matches!(txn, Txn::Multi(parts) if parts.first().is_some_and(|part| part.0 == expired))
}

/// Whether a request came over the old connection of a session that has moved: it is refused without a look
/// at the tree.
fn is_refused_as_moved(txn: &Txn) -> bool {
    let moved = |txn: &Txn| *txn == Txn::error(ErrorCode::SessionMoved);
    match txn {
        Txn::Multi(parts) => parts.iter().any(|part| moved(&part.0)),
        txn => moved(txn),
    }
}

/// Whether an observer master refused a request that came over the old connection of a session. The leader
/// commits an error that this operation cannot get for itself.
fn is_refused_by_master(txn: &Txn, operation: &Operation) -> bool {
    let is_create = matches!(operation, Operation::Write(WriteOperation::Create { .. }));
    let Txn::Error(code) = *txn else { return false };
    ErrorCode::from_wire(code).is_some_and(|code| is_refused_as_moved_by_master(is_create, code))
}

/// The history.
#[derive(Debug)]
pub(crate) struct CommittedHistory {
    entries: Vec<CommittedTxn>,
    tree: Tree,
    initial_digest: i64,
    pub(crate) model: Model,
    /// The configs that it has committed.
    pub(crate) configs: ConfigHistory,
    /// The rights to reconfigure.
    rights: ReconfigRights,
    /// The longest transaction that every server can read, in bytes.
    transaction_bytes_max: usize,
    local_sessions: LocalSessionSupport,
    masters: ObserverMasters,
}

/// The rights to reconfigure the ensemble.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReconfigRights {
    /// The client with all rights.
    pub(crate) operator: Option<usize>,
    /// How many voters must remain; `None` if reconfig is disabled.
    pub(crate) voters_min: Option<usize>,
}

const INTEGRITY: &str = "zab_integrity";
const G01: &str = "g01_linearizable_writes";
const G18: &str = "g18_session_expiry";
const ORDER: &str = "zab_primary_order";

impl CommittedHistory {
    pub(crate) fn new(
        options: TreeOptions,
        configs: ConfigHistory,
        rights: ReconfigRights,
        limits: &CheckerLimits,
    ) -> CommittedHistory {
        let tree = Tree::new(options);
        let model = Model::new(|path| {
            let node = tree.node(path)?;
            let permissions = node.acl().iter().fold(0, |sum, acl| sum | acl.perms);
            let permissions = if node.acl().is_empty() { Permissions::ALL } else { permissions };
            Some((node.stat(), permissions, node.children().map(Box::from).collect()))
        });
        let (entries, initial_digest) = (Vec::new(), tree.digest());
        CommittedHistory {
            entries,
            initial_digest,
            tree,
            model,
            configs,
            rights,
            transaction_bytes_max: limits.transaction_bytes_max,
            local_sessions: limits.kinds.local_sessions,
            masters: limits.kinds.masters,
        }
    }

    /// The last transaction; zero before the first.
    pub(crate) fn last(&self) -> i64 {
        self.entries.last().map_or(0, |entry| entry.zxid)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> &[CommittedTxn] {
        &self.entries
    }

    /// The transaction with this zxid.
    pub(crate) fn get(&self, zxid: i64) -> Option<&CommittedTxn> {
        let index = self.entries.binary_search_by_key(&zxid, |entry| entry.zxid).ok()?;
        self.entries.get(index)
    }

    /// The digest of the tree after a transaction; `None` if there is none with this zxid.
    pub(crate) fn digest_at(&self, zxid: i64) -> Option<i64> {
        if zxid == 0 { Some(self.initial_digest) } else { self.get(zxid).map(|entry| entry.digest) }
    }

    /// The last transaction before a zxid; zero if there is none.
    pub(crate) fn before(&self, zxid: i64) -> i64 {
        let count = self.entries.partition_point(|entry| entry.zxid < zxid);
        self.entries[..count].last().map_or(0, |entry| entry.zxid)
    }

    /// The transaction that follows another one.
    pub(crate) fn after(&self, zxid: i64) -> Option<&CommittedTxn> {
        let index = self.entries.partition_point(|entry| entry.zxid <= zxid);
        self.entries.get(index)
    }

    /// Appends the next committed transaction.
    pub(crate) fn extend(
        &mut self,
        zxid: i64,
        bytes: &Arc<[u8]>,
        calls: &mut [ClientCall],
        find: impl Fn(&TxnEntry) -> Option<usize>,
    ) -> CheckResult {
        let entry = TxnEntry::decode(bytes).map_err(|error| {
            Violation::new(
                INTEGRITY,
                format!("transaction {zxid:#x} was committed and cannot be decoded: {error}"),
            )
        })?;
        self.check_order(zxid, &entry)?;
        transaction_lengths::check_commit(zxid, bytes.len(), self.transaction_bytes_max)?;
        let mut committed =
            CommittedTxn { zxid, bytes: bytes.clone(), entry, digest: 0, call: None, effects: Vec::new() };
        self.tree.apply(&committed.entry.header, &committed.entry.txn, &mut |_| ());
        committed.digest = self.tree.digest();
        let call = find(&committed.entry);
        if let Some(index) = call {
            let call = &mut calls[index];
            if let Some(earlier) = call.place {
                let text = format!(
                    "call {index} of client {} was carried out twice, as {earlier:#x} and {zxid:#x}: {:?}",
                    call.client, call.operation
                );
                return Err(Violation::new(INTEGRITY, text));
            }
            call.place = Some(zxid);
            committed.call = Some(index);
        }
        self.replay(&mut committed, call.map(|index| &calls[index]))?;
        self.compare_states(&committed)?;
        self.entries.push(committed);
        Ok(())
    }

    /// Checks that the transactions of an epoch have no gap, and that epochs grow.
    fn check_order(&self, zxid: i64, entry: &TxnEntry) -> CheckResult {
        let (last, next) = (Zxid(self.last()), Zxid(zxid));
        let follows = if next.epoch() == last.epoch() {
            i64::from(next.counter()) == i64::from(last.counter()) + 1
        } else {
            next.epoch() > last.epoch() && next.counter() == 1
        };
        if !follows || entry.header.zxid != next {
            let text =
                format!("{next} was committed behind {last}, and says that it is {}", entry.header.zxid);
            return Err(Violation::new(ORDER, text));
        }
        Ok(())
    }

    fn replay(&mut self, committed: &mut CommittedTxn, call: Option<&ClientCall>) -> CheckResult {
        let header = committed.entry.header;
        let standing = match call {
            Some(call) if Some(call.client) == self.rights.operator => Privilege::Super,
            Some(_) | None => Privilege::Common,
        };
        let (time_ms, session) = (header.time_ms, header.session);
        let is_local =
            self.local_sessions != LocalSessionSupport::Off && self.model.session(session).is_none();
        let scope = if is_local { SessionScope::OneServer } else { SessionScope::Ensemble };
        let deletes_bytes_max = transaction_lengths::deletes_bytes_max(self.transaction_bytes_max);
        let place = TxnContext {
            zxid: header.zxid.0,
            time_ms,
            session,
            privilege: standing,
            scope,
            deletes_bytes_max,
        };
        let zxid = header.zxid;
        lowered_writes::check_commit(header.zxid.0, &committed.entry.txn, call.map(|call| &*call.operation))?;
        match (&committed.entry.txn, call.map(|call| &*call.operation)) {
            (Txn::CreateSession { .. }, _) => {
                if self.model.session(header.session).is_some() {
                    let text = format!("{zxid} opens session {:#x} a second time", header.session.0);
                    return Err(Violation::new(G18, text));
                }
                self.model.open_session(header.session);
            }
            (Txn::CloseSession(named), _) => self.close_session(named.as_deref(), place)?,
            (Txn::DeleteContainer(path), None) => {
                if !self.model.remove_container(place, &NodePath::from(&**path)) {
                    let text = format!("{zxid} removes {path}, which is no empty container");
                    return Err(Violation::new(INTEGRITY, text));
                }
            }
            (txn, Some(_)) if is_refused_as_moved(txn) => {
                committed.effects = vec![ModelEffect::Error(ErrorCode::SessionMoved)];
            }
            (txn, Some(operation))
                if self.masters == ObserverMasters::Followers && is_refused_by_master(txn, operation) =>
            {
                committed.effects = vec![ModelEffect::Error(ErrorCode::SessionMoved)];
            }
            (txn, Some(operation))
                if transaction_lengths::is_refused_as_too_long(
                    txn,
                    operation,
                    &self.model,
                    self.transaction_bytes_max,
                ) =>
            {
                committed.effects = vec![ModelEffect::Error(ErrorCode::MarshallingError)];
            }
            (txn, Some(operation)) if *txn == Txn::error(ErrorCode::SystemError) => {
                g27_room_on_disk::check_refusal(operation)?;
                committed.effects = vec![ModelEffect::Error(ErrorCode::SystemError)];
            }
            // Only its server knows whether a local session has ended.
            (txn, Some(operation))
                if is_local && is_refused_as_expired(txn) && !operation.creates_ephemeral() =>
            {
                committed.effects = vec![ModelEffect::Error(ErrorCode::SessionExpired)];
            }
            (_, Some(Operation::Write(write))) => {
                committed.effects = self.model.execute(place, std::slice::from_ref(write));
                self.compare_outcome(committed, &[])?;
            }
            (_, Some(Operation::Multi(writes))) => {
                committed.effects = self.model.execute(place, writes);
                self.compare_outcome(committed, writes)?;
            }
            (txn, Some(Operation::DeleteTree(request))) => {
                let effects = self.model.delete_tree(place, request, txn);
                committed.effects = effects.map_err(|text| {
                    Violation::new(G01, format!("{zxid} of {request:?} is {txn:?}: {text}"))
                })?;
                self.compare_outcome(committed, &[])?;
            }
            (txn, Some(Operation::Reconfig { change, version })) => {
                let acked_before = call.map_or(0, |call| call.acked_before);
                let voters_min = self.rights.voters_min;
                let request = ModelReconfig { change, version: *version, acked_before, voters_min };
                committed.effects = self.model.reconfigure(place, request, &self.configs, txn);
                self.compare_outcome(committed, &[])?;
                if let Some(list) = proposed_config(&committed.bytes) {
                    self.configs.decide(list);
                }
            }
            // A transaction that the server starts by itself may fail.
            (Txn::Error(_), None) => {}
            (txn, None | Some(_)) => {
                let text = format!("no request caused {zxid} of session {:#x}: {txn:?}", header.session.0);
                return Err(Violation::new(INTEGRITY, text));
            }
        }
        Ok(())
    }

    /// Ends a session in the model, and compares the ephemeral nodes that the transaction names.
    fn close_session(&mut self, named: Option<&[Box<str>]>, place: TxnContext) -> CheckResult {
        let gone = self.model.close_session(place);
        // Names that do not fit into a transaction are omitted.
        let Some(named) = named else { return Ok(()) };
        let mut named: Vec<NodePath> = named.iter().map(|path| NodePath::from(&**path)).collect();
        named.sort();
        if gone == named {
            return Ok(());
        }
        let (zxid, session) = (place.zxid, place.session.0);
        let text = format!("{zxid:#x} ends session {session:#x}: {named:?} go, {gone:?} should");
        Err(Violation::new(G18, text))
    }

    /// Whether the transaction failed exactly when the request had to.
    fn compare_outcome(&self, committed: &CommittedTxn, writes: &[WriteOperation]) -> CheckResult {
        let failed = committed.effects.iter().find_map(|effect| match effect {
            ModelEffect::Error(code) => Some(*code),
            _ => None,
        });
        let found = match &committed.entry.txn {
            Txn::Error(code) => Some(*code),
            // Error codes are negative. In a log of ZooKeeper, the parts before the failed one can be errors
            // whose code is the length of another field.
            Txn::Multi(parts) => parts.iter().find_map(|part| match part.0 {
                Txn::Error(code) if code < 0 => Some(code),
                _ => None,
            }),
            _ => None,
        };
        // A leader does not know the local sessions of learners, and calls them expired.
        let is_ephemeral_refused = failed == Some(ErrorCode::EphemeralOnLocalSession)
            && found == Some(ErrorCode::SessionExpired.wire());
        let same = failed.map(ErrorCode::wire) == found || is_ephemeral_refused;
        let whole = matches!(committed.entry.txn, Txn::Multi(_) | Txn::Error(_)) || writes.is_empty();
        if same && whole {
            return Ok(());
        }
        let text = format!(
            "transaction {:#x} is {:?}, but the request must come to {:?}",
            committed.zxid, committed.entry.txn, committed.effects
        );
        Err(Violation::new(G01, text))
    }

    /// Checks that tree and model agree about every node that the transaction has changed.
    fn compare_states(&self, committed: &CommittedTxn) -> CheckResult {
        for path in self.model.changed_at(committed.zxid) {
            let (node, expected) = (self.tree.node(path), self.model.now(path));
            let same = match (&node, expected) {
                (None, None) => true,
                (Some(node), Some(expected)) => {
                    node.stat() == expected.stat()
                        && node.data() == expected.data.as_deref()
                        && node.acl().iter().fold(0, |sum, acl| sum | acl.perms) == expected.permissions
                }
                (None, Some(_)) | (Some(_), None) => false,
            };
            if !same {
                let text = format!(
                    "after {:#x} ({:?}) {path} is {:?}, but should be {:?}",
                    committed.zxid,
                    committed.entry.txn,
                    node.map(|node| node.stat()),
                    expected.map(|node| node.stat())
                );
                return Err(Violation::new(G01, text));
            }
        }
        Ok(())
    }

    /// Compares the complete tree with the complete model, at the end of a run.
    pub(crate) fn compare_all(&self) -> CheckResult {
        let here = self.model.paths().filter(|path| self.model.now(path).is_some()).count();
        if here != self.tree.node_count() {
            let text = format!("the tree has {} nodes, {here} should be there", self.tree.node_count());
            return Err(Violation::new(G01, text));
        }
        Ok(())
    }
}
