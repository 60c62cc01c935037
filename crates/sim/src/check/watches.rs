//! Watches that clients hold, as the wire shows them: what each connection has registered, and which events
//! the history owes it. Every frame that shows a state settles the account up to that state.

use std::collections::{BTreeMap, BTreeSet};

use zebu_client::core::WatchIntent;
use zebu_proto::client::{EventType, SetWatches};
use zebu_proto::{ErrorCode, SessionId};

use super::{
    Frame, FrameKind, Judge, g11_one_shot, g12_event_before_data, g13_event_order, g14_watch_completeness,
    g16_watch_access,
};
use crate::history::Verdict;
use crate::members::CONFIG;
use crate::model::{Change, Model};
use crate::operation::Path;

/// An event: its transaction, what happened, where.
pub(super) type Told = (i64, EventType, Path);

/// A table of the server in which a watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Data,
    Child,
    Persistent,
    Recursive,
}

/// One connection of a client.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Watches with the state at which they were registered.
    armed: BTreeMap<(Table, Path), i64>,
    /// Events that came and are not settled.
    pub(super) came: Vec<Told>,
    /// Events without a transaction: the server makes up for what a client has missed.
    made_up: Vec<(EventType, Path)>,
    pending: BTreeMap<i32, SetWatches>,
    /// The session, and the watches that it had before, which the client has to register again.
    session: Option<SessionId>,
    again: BTreeSet<(Table, Path)>,
    /// Those of them that were sent, as long as no answer has come.
    sent_again: BTreeSet<(Table, Path)>,
    /// Watches that stand at the server, but were used up at the client: it asked for a node in two ways, and the
    /// server made up for one of them with its creation or deletion, which tells all who wait for the node.
    spent: BTreeSet<(Table, Path)>,
    /// Everything up to here is settled.
    settled: i64,
    /// The last transaction that an event named.
    pub(super) last_event: i64,
    /// An event that is owed and has not come.
    pub(super) overdue: Option<(Told, i64)>,
}

/// Watches of all clients.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    pub(super) accounts: BTreeMap<usize, Account>,
}

impl Watches {
    pub(super) fn connected(&mut self, client: usize, session: SessionId) {
        let before = self.accounts.remove(&client).unwrap_or_default();
        let again = if before.session == Some(session) { before.held() } else { BTreeSet::new() };
        self.accounts.insert(client, Account { session: Some(session), again, ..Account::default() });
    }

    pub(super) fn rewatching(&mut self, client: usize, xid: i32, set: SetWatches) {
        let account = self.accounts.entry(client).or_default();
        for (table, paths) in lists(&set) {
            for path in paths {
                account.again.remove(&(table, path.clone()));
                account.sent_again.insert((table, path));
            }
        }
        account.pending.insert(xid, set);
    }

    /// A watch that a client holds and has not registered again when it goes on.
    pub(super) fn forgotten(&self, client: usize) -> Option<&Path> {
        self.accounts.get(&client)?.again.first().map(|(_, path)| path)
    }
}

/// The watches that a request registers.
fn lists(set: &SetWatches) -> [(Table, Vec<Path>); 5] {
    let paths = |list: &Option<Vec<Option<Box<str>>>>| -> Vec<Path> {
        list.iter().flatten().flatten().map(|path| Path::from(&**path)).collect()
    };
    [
        (Table::Data, paths(&set.data)),
        (Table::Data, paths(&set.exist)),
        (Table::Child, paths(&set.child)),
        (Table::Persistent, paths(&set.persistent)),
        (Table::Recursive, paths(&set.persistent_recursive)),
    ]
}

fn kind_of(change: Change) -> EventType {
    match change {
        Change::Created => EventType::NodeCreated,
        Change::Deleted => EventType::NodeDeleted,
        Change::Data => EventType::NodeDataChanged,
        Change::Children => EventType::NodeChildrenChanged,
    }
}

impl Account {
    /// What the client holds when its connection ends: one-shot watches are used up by an event that came.
    fn held(self) -> BTreeSet<(Table, Path)> {
        let mut held: BTreeSet<(Table, Path)> = self.armed.into_keys().collect();
        held.extend(self.again);
        held.extend(self.sent_again);
        held.retain(|watch| !self.spent.contains(watch));
        let came = self.came.into_iter().map(|(_, kind, path)| (kind, path)).chain(self.made_up);
        for (kind, path) in came {
            let tables: &[Table] = match kind {
                EventType::NodeCreated | EventType::NodeDataChanged => &[Table::Data],
                EventType::NodeChildrenChanged => &[Table::Child],
                EventType::NodeDeleted => &[Table::Data, Table::Child],
            };
            for &table in tables {
                held.remove(&(table, path.clone()));
            }
        }
        held
    }

    /// Whether a change concerns this connection; one-shot watches are used up by it.
    fn fire(&mut self, zxid: i64, path: &Path, change: Change) -> bool {
        let mut concerned = false;
        let tables: &[Table] = match change {
            Change::Created | Change::Data => &[Table::Data, Table::Persistent, Table::Recursive],
            Change::Children => &[Table::Child, Table::Persistent],
            Change::Deleted => &[Table::Data, Table::Child, Table::Persistent, Table::Recursive],
        };
        for &table in tables {
            let key = (table, path.clone());
            if self.armed.get(&key).is_some_and(|since| *since < zxid) {
                concerned = true;
                if matches!(table, Table::Data | Table::Child) {
                    self.armed.remove(&key);
                }
            }
        }
        if change != Change::Children {
            let is_above = |watched: &Path| {
                &**watched == "/" || path.strip_prefix(&**watched).is_some_and(|rest| rest.starts_with('/'))
            };
            concerned |= self.armed.iter().any(|((table, watched), since)| {
                *table == Table::Recursive && *since < zxid && is_above(watched)
            });
        }
        concerned
    }

    /// Settles everything up to a state that was shown.
    fn settle(&mut self, model: &Model, up_to: i64) -> Verdict {
        if up_to <= self.settled {
            return Ok(());
        }
        let mut told = BTreeSet::new();
        for (zxid, path, change) in model.changes(self.settled, up_to) {
            if !self.fire(*zxid, path, *change) {
                continue;
            }
            let event = (*zxid, kind_of(*change), path.clone());
            let may_know = g16_watch_access::may_know(model, *zxid, path, *change);
            if may_know == Some(false) {
                continue;
            }
            // Within one transaction the same event is sent again for each time it happens.
            if let Some(at) = self.came.iter().position(|it| *it == event) {
                self.came.remove(at);
                told.insert(event);
            } else if may_know.is_some() && !told.contains(&event) && self.overdue.is_none() {
                self.overdue = Some((event, up_to));
            }
        }
        self.settled = up_to;
        let surplus = self.came.iter().find(|(zxid, ..)| *zxid <= up_to);
        surplus.map_or(Ok(()), |event| g11_one_shot::check_surplus(model, event))
    }

    fn arm(&mut self, table: Table, path: &str, since: i64) {
        self.spent.remove(&(table, Path::from(path)));
        self.armed.entry((table, Path::from(path))).or_insert(since);
    }

    /// A read that leaves a watch was answered.
    fn registered(&mut self, intent: WatchIntent, path: &str, code: i32, zxid: i64) {
        let missing = code == ErrorCode::NoNode.wire();
        let table = match (intent, code) {
            (WatchIntent::Data | WatchIntent::Exists, 0) => Table::Data,
            (WatchIntent::Exists, _) if missing => Table::Data,
            (WatchIntent::Children, 0) => Table::Child,
            (WatchIntent::Persistent, 0) => Table::Persistent,
            (WatchIntent::Recursive, 0) => Table::Recursive,
            _ => return,
        };
        self.arm(table, path, zxid);
    }

    /// Watches are registered again at a state: what was missed is made up for, the rest stands.
    fn registered_again(&mut self, set: &SetWatches, model: &Model, zxid: i64) -> Verdict {
        let mut owed: Vec<(EventType, Path)> = Vec::new();
        let relative = set.relative_zxid;
        let paths = |list: &Option<Vec<Option<Box<str>>>>| -> Vec<Path> {
            list.iter().flatten().flatten().map(|path| Path::from(&**path)).collect()
        };
        for path in paths(&set.data) {
            match model.at(&path, zxid) {
                None => owed.push((EventType::NodeDeleted, path)),
                // The first list of members is in no history: it may have got a version meanwhile.
                Some(node) if &*path == CONFIG && node.modified.0 == 0 => {
                    match self.made_up.iter().position(|(_, told)| *told == path) {
                        Some(at) => drop(self.made_up.remove(at)),
                        None => self.arm(Table::Data, &path, zxid),
                    }
                }
                Some(node) if node.modified.0 > relative => owed.push((EventType::NodeDataChanged, path)),
                Some(_) => self.arm(Table::Data, &path, zxid),
            }
        }
        for path in paths(&set.exist) {
            match model.at(&path, zxid) {
                Some(_) => owed.push((EventType::NodeCreated, path)),
                None => self.arm(Table::Data, &path, zxid),
            }
        }
        for path in paths(&set.child) {
            match model.at(&path, zxid) {
                None => owed.push((EventType::NodeDeleted, path)),
                Some(node) if node.children_changed > relative => {
                    owed.push((EventType::NodeChildrenChanged, path));
                }
                Some(_) => self.arm(Table::Child, &path, zxid),
            }
        }
        self.sent_again.clear();
        let tells_all = |kind: EventType| matches!(kind, EventType::NodeDeleted | EventType::NodeCreated);
        let told = owed.iter().filter(|(kind, _)| tells_all(*kind));
        self.spent.extend(told.map(|(_, path)| (Table::Data, path.clone())));
        paths(&set.persistent).iter().for_each(|path| self.arm(Table::Persistent, path, zxid));
        paths(&set.persistent_recursive).iter().for_each(|path| self.arm(Table::Recursive, path, zxid));
        let mut came = std::mem::take(&mut self.made_up);
        owed.sort();
        came.sort();
        g14_watch_completeness::check_made_up(&owed, &came, zxid)
    }
}

pub(super) fn check_frame(judge: &mut Judge, client: usize, session: SessionId, frame: &Frame) -> Verdict {
    let model = &judge.ledger.model;
    let account = judge.watches.accounts.entry(client).or_default();
    match &frame.kind {
        FrameKind::Event { kind, path } if frame.zxid <= 0 => {
            account.made_up.push((*kind, Path::from(&**path)));
            Ok(())
        }
        FrameKind::Event { kind, path } => {
            let event = (frame.zxid, *kind, Path::from(&**path));
            g13_event_order::check_event(account, &event)?;
            g12_event_before_data::check_event(account, &event)?;
            account.last_event = frame.zxid;
            account.came.push(event);
            account.settle(model, frame.zxid - 1)
        }
        FrameKind::Ping => account.settle(model, frame.zxid),
        FrameKind::Reply { xid, code } => {
            account.settle(model, frame.zxid)?;
            if let Some(set) = account.pending.remove(xid) {
                return if *code == 0 { account.registered_again(&set, model, frame.zxid) } else { Ok(()) };
            }
            let call = judge.requests.get(&(session, *xid)).map(|call| &judge.calls[*call]);
            if let Some((intent, path)) = call.and_then(|call| call.operation.watch()) {
                account.registered(intent, path, *code, frame.zxid);
            }
            g14_watch_completeness::check_overdue(account, frame.zxid)
        }
    }
}
