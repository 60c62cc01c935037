//! The one history: every transaction that any member has applied, in order, each carried out again on a
//! tree of its own and on the model. Whatever a member or a client shows is compared with it.

use std::sync::Arc;

use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{ErrorCode, Permissions, Zxid};
use zebu_tree::{Tree, TreeOptions};

use crate::check::transaction_lengths;
use crate::history::{Call, Verdict, Violation};
use crate::members::{Chronicle, proposed_list};
use crate::model::{Effect, Model, Place, Request, Standing};
use crate::operation::{Operation, Path};

/// A transaction of the history.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) zxid: i64,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) entry: TxnEntry,
    /// What the tree hashes to afterwards.
    pub(crate) digest: i64,
    /// The call that it carries out.
    pub(crate) call: Option<usize>,
    /// What the model says that it does; empty for what no client asked for.
    pub(crate) effects: Vec<Effect>,
}

/// Whether a transaction is a refusal of the whole session: it has gone on elsewhere, or it is over.
pub(crate) fn is_refused_with_session(txn: &Txn) -> bool {
    let expired = Txn::error(ErrorCode::SessionExpired);
    is_refused_as_moved(txn)
        || *txn == expired
        || matches!(txn, Txn::Multi(parts) if parts.first().is_some_and(|part| part.0 == expired))
}

/// Whether a request came over the old connection of a session that has moved: it is refused without a look at
/// the tree.
pub(crate) fn is_refused_as_moved(txn: &Txn) -> bool {
    let moved = |txn: &Txn| *txn == Txn::error(ErrorCode::SessionMoved);
    match txn {
        Txn::Multi(parts) => parts.iter().any(|part| moved(&part.0)),
        txn => moved(txn),
    }
}

/// The history.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: Vec<Committed>,
    tree: Tree,
    initial_digest: i64,
    pub(crate) model: Model,
    /// The lists of members that it has made.
    pub(crate) chronicle: Chronicle,
    /// Who may change them.
    rights: Rights,
    /// The longest transaction that every member reads.
    transaction_bytes_max: usize,
}

/// What is allowed with the members.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rights {
    /// The client that may do everything.
    pub(crate) operator: Option<usize>,
    /// How many voters must be left; `None` if they may not change.
    pub(crate) voters_min: Option<usize>,
}

const INTEGRITY: &str = "zab_integrity";
const G01: &str = "g01_linearizable_writes";
const G18: &str = "g18_session_expiry";
const ORDER: &str = "zab_primary_order";

impl Ledger {
    pub(crate) fn new(
        options: TreeOptions,
        chronicle: Chronicle,
        rights: Rights,
        transaction_bytes_max: usize,
    ) -> Ledger {
        let tree = Tree::new(options);
        let model = Model::new(|path| {
            let node = tree.node(path)?;
            let permissions = node.acl().iter().fold(0, |sum, acl| sum | acl.perms);
            let permissions = if node.acl().is_empty() { Permissions::ALL } else { permissions };
            Some((node.stat(), permissions, node.children().map(Box::from).collect()))
        });
        let (entries, initial_digest) = (Vec::new(), tree.digest());
        Ledger { entries, initial_digest, tree, model, chronicle, rights, transaction_bytes_max }
    }

    /// The last transaction; zero before the first.
    pub(crate) fn last(&self) -> i64 {
        self.entries.last().map_or(0, |entry| entry.zxid)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> &[Committed] {
        &self.entries
    }

    /// The transaction with this number.
    pub(crate) fn get(&self, zxid: i64) -> Option<&Committed> {
        let index = self.entries.binary_search_by_key(&zxid, |entry| entry.zxid).ok()?;
        self.entries.get(index)
    }

    /// What the tree hashes to after a transaction; `None` if there is none with this number.
    pub(crate) fn digest_at(&self, zxid: i64) -> Option<i64> {
        if zxid == 0 { Some(self.initial_digest) } else { self.get(zxid).map(|entry| entry.digest) }
    }

    /// The last transaction before a place; zero if there is none.
    pub(crate) fn before(&self, zxid: i64) -> i64 {
        let count = self.entries.partition_point(|entry| entry.zxid < zxid);
        self.entries[..count].last().map_or(0, |entry| entry.zxid)
    }

    /// The transaction that follows another one.
    pub(crate) fn after(&self, zxid: i64) -> Option<&Committed> {
        let index = self.entries.partition_point(|entry| entry.zxid <= zxid);
        self.entries.get(index)
    }

    /// Adds what was committed next.
    pub(crate) fn extend(
        &mut self,
        zxid: i64,
        bytes: &Arc<[u8]>,
        calls: &mut [Call],
        find: impl Fn(&TxnEntry) -> Option<usize>,
    ) -> Verdict {
        let entry = TxnEntry::decode(bytes).map_err(|error| {
            Violation::new(INTEGRITY, format!("transaction {zxid:#x} was committed and is none: {error}"))
        })?;
        self.check_order(zxid, &entry)?;
        transaction_lengths::check_commit(zxid, bytes.len(), self.transaction_bytes_max)?;
        let mut committed =
            Committed { zxid, bytes: bytes.clone(), entry, digest: 0, call: None, effects: Vec::new() };
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

    /// Transactions of an epoch follow each other without a hole, and epochs grow.
    fn check_order(&self, zxid: i64, entry: &TxnEntry) -> Verdict {
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

    fn replay(&mut self, committed: &mut Committed, call: Option<&Call>) -> Verdict {
        let header = committed.entry.header;
        let standing = match call {
            Some(call) if Some(call.client) == self.rights.operator => Standing::Super,
            Some(_) | None => Standing::Common,
        };
        let (time_ms, session) = (header.time_ms, header.session);
        let place = Place { zxid: header.zxid.0, time_ms, session, standing };
        let zxid = header.zxid;
        match (&committed.entry.txn, call.map(|call| &*call.operation)) {
            (Txn::CreateSession { .. }, _) => {
                if self.model.session(header.session).is_some() {
                    let text = format!("{zxid} opens session {:#x} a second time", header.session.0);
                    return Err(Violation::new(G18, text));
                }
                self.model.open_session(header.session);
            }
            (Txn::CloseSession(named), _) => {
                let is_listed = named.is_some();
                let mut named: Vec<Path> = named.iter().flatten().map(|path| Path::from(&**path)).collect();
                named.sort();
                let gone = self.model.close_session(place);
                // Names that do not fit into a transaction are left out.
                if is_listed && gone != named {
                    let text =
                        format!("{zxid} ends session {:#x}: {named:?} go, {gone:?} should", place.session.0);
                    return Err(Violation::new(G18, text));
                }
            }
            (Txn::DeleteContainer(path), None) => {
                if !self.model.remove_container(place, &Path::from(&**path)) {
                    let text = format!("{zxid} removes {path}, which is no empty container");
                    return Err(Violation::new(INTEGRITY, text));
                }
            }
            (txn, Some(_)) if is_refused_as_moved(txn) => {
                committed.effects = vec![Effect::Error(ErrorCode::SessionMoved)];
            }
            (txn, Some(operation))
                if transaction_lengths::is_refused_as_too_long(
                    txn,
                    operation,
                    self.transaction_bytes_max,
                ) =>
            {
                committed.effects = vec![Effect::Error(ErrorCode::MarshallingError)];
            }
            (_, Some(Operation::Write(write))) => {
                committed.effects = self.model.execute(place, std::slice::from_ref(write));
                self.compare_outcome(committed, &[])?;
            }
            (_, Some(Operation::Multi(writes))) => {
                committed.effects = self.model.execute(place, writes);
                self.compare_outcome(committed, writes)?;
            }
            (txn, Some(Operation::Reconfig { wish, version })) => {
                let acked_before = call.map_or(0, |call| call.acked_before);
                let voters_min = self.rights.voters_min;
                let request = Request { wish, version: *version, acked_before, voters_min };
                committed.effects = self.model.reconfigure(place, request, &self.chronicle, txn);
                self.compare_outcome(committed, &[])?;
                if let Some(list) = proposed_list(&committed.bytes) {
                    self.chronicle.decide(list);
                }
            }
            // What the server tries by itself may fail.
            (Txn::Error(_), None) => {}
            (txn, None | Some(_)) => {
                let text = format!("nobody asked for {zxid} of session {:#x}: {txn:?}", header.session.0);
                return Err(Violation::new(INTEGRITY, text));
            }
        }
        Ok(())
    }

    /// Whether the transaction failed exactly when the request had to.
    fn compare_outcome(&self, committed: &Committed, writes: &[crate::operation::Write]) -> Verdict {
        let failed = committed.effects.iter().find_map(|effect| match effect {
            Effect::Error(code) => Some(*code),
            _ => None,
        });
        let found = match &committed.entry.txn {
            Txn::Error(code) => Some(*code),
            // Codes of errors are negative. In a log of Apache's, parts before the one that failed can be errors with
            // a length of something else in place of a code.
            Txn::Multi(parts) => parts.iter().find_map(|part| match part.0 {
                Txn::Error(code) if code < 0 => Some(code),
                _ => None,
            }),
            _ => None,
        };
        let same = failed.map(ErrorCode::wire) == found;
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

    /// Tree and model agree about everything that the transaction has touched.
    fn compare_states(&self, committed: &Committed) -> Verdict {
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

    /// The whole tree against the whole model, at the end of a run.
    pub(crate) fn compare_all(&self) -> Verdict {
        let here = self.model.paths().filter(|path| self.model.now(path).is_some()).count();
        if here != self.tree.node_count() {
            let text = format!("the tree has {} nodes, {here} should be there", self.tree.node_count());
            return Err(Violation::new(G01, text));
        }
        Ok(())
    }
}
