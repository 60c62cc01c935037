//! Watches that clients hold, as their frames show them: the registered watches of each connection, and the
//! events that the history requires for it. Every frame that shows a state is matched against the events up
//! to that state.

use std::collections::{BTreeMap, BTreeSet};

use zebu_client::core::WatchIntent;
use zebu_proto::client::{EventType, SetWatches};
use zebu_proto::{ErrorCode, SessionId};

use super::{
    Checker, Frame, FrameKind, config_reads, g11_one_shot, g12_event_before_data, g13_event_order,
    g14_watch_completeness, g16_watch_access,
};
use crate::history::CheckResult;
use crate::members::CONFIG;
use crate::model::{Model, ModelChange};
use crate::operation::NodePath;

/// An event: its zxid, type and path.
pub(super) type SeenEvent = (i64, EventType, NodePath);

/// A table of the server that contains a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WatchClass {
    Data,
    Child,
    Persistent,
    Recursive,
}

/// One connection of a client.
#[derive(Debug, Default)]
pub(super) struct ConnectionWatches {
    /// Watches with the zxid at which they were registered.
    armed: BTreeMap<(WatchClass, NodePath), i64>,
    /// Events that came and are not matched.
    pub(super) came: Vec<SeenEvent>,
    /// Events without a zxid: the server sends them for changes that a client has missed.
    made_up: Vec<(EventType, NodePath)>,
    pending: BTreeMap<i32, SetWatches>,
    /// The session, and the watches that it had before, which the client has to register again.
    session: Option<SessionId>,
    again: BTreeSet<(WatchClass, NodePath)>,
    /// Watches that were sent again and have no reply yet.
    sent_again: BTreeSet<(WatchClass, NodePath)>,
    /// Watches that exist at the server but were used up at the client. The client had set two watches on a
    /// node, and the server sent a missed creation or deletion for one of them. That event fires every watch
    /// of the client on the node.
    spent: BTreeSet<(WatchClass, NodePath)>,
    /// The zxid up to which events are matched.
    settled: i64,
    /// The last transaction that an event named.
    pub(super) last_event: i64,
    /// Whether the connection shows a state that is not committed, so that no event can be expected.
    unchecked: bool,
    /// A required event that has not come.
    pub(super) overdue: Option<(SeenEvent, i64)>,
}

/// Watches of all clients.
#[derive(Debug, Default)]
pub(crate) struct ClientWatches {
    pub(super) accounts: BTreeMap<usize, ConnectionWatches>,
}

impl ClientWatches {
    pub(super) fn connected(&mut self, client: usize, session: SessionId) {
        let before = self.accounts.remove(&client).unwrap_or_default();
        let again = if before.session == Some(session) { before.held() } else { BTreeSet::new() };
        self.accounts.insert(
            client,
            ConnectionWatches { session: Some(session), again, ..ConnectionWatches::default() },
        );
    }

    pub(super) fn stop_checking(&mut self, client: usize) {
        let session = self.accounts.get(&client).and_then(|account| account.session);
        let unchecked = ConnectionWatches { session, unchecked: true, ..ConnectionWatches::default() };
        self.accounts.insert(client, unchecked);
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

    /// The zxid that the client had seen when it sent its watches again; zero for another request.
    fn relative_zxid(&self, client: usize, xid: i32) -> i64 {
        let set = self.accounts.get(&client).and_then(|account| account.pending.get(&xid));
        set.map_or(0, |set| set.relative_zxid)
    }

    /// A watch that a client holds and has not registered again when it continues.
    pub(super) fn forgotten(&self, client: usize) -> Option<&NodePath> {
        self.accounts.get(&client)?.again.first().map(|(_, path)| path)
    }
}

/// The watches that a request registers.
fn lists(set: &SetWatches) -> [(WatchClass, Vec<NodePath>); 5] {
    let paths = |list: &Option<Vec<Option<Box<str>>>>| -> Vec<NodePath> {
        list.iter().flatten().flatten().map(|path| NodePath::from(&**path)).collect()
    };
    [
        (WatchClass::Data, paths(&set.data)),
        (WatchClass::Data, paths(&set.exist)),
        (WatchClass::Child, paths(&set.child)),
        (WatchClass::Persistent, paths(&set.persistent)),
        (WatchClass::Recursive, paths(&set.persistent_recursive)),
    ]
}

fn kind_of(change: ModelChange) -> EventType {
    match change {
        ModelChange::Created => EventType::NodeCreated,
        ModelChange::Deleted => EventType::NodeDeleted,
        ModelChange::Data => EventType::NodeDataChanged,
        ModelChange::Children => EventType::NodeChildrenChanged,
    }
}

impl ConnectionWatches {
    /// The watches that the client holds when its connection ends: one-shot watches are used up by an event
    /// that came.
    fn held(self) -> BTreeSet<(WatchClass, NodePath)> {
        let mut held: BTreeSet<(WatchClass, NodePath)> = self.armed.into_keys().collect();
        held.extend(self.again);
        held.extend(self.sent_again);
        held.retain(|watch| !self.spent.contains(watch));
        let came = self.came.into_iter().map(|(_, kind, path)| (kind, path)).chain(self.made_up);
        for (kind, path) in came {
            let tables: &[WatchClass] = match kind {
                EventType::NodeCreated | EventType::NodeDataChanged => &[WatchClass::Data],
                EventType::NodeChildrenChanged => &[WatchClass::Child],
                EventType::NodeDeleted => &[WatchClass::Data, WatchClass::Child],
            };
            for &table in tables {
                held.remove(&(table, path.clone()));
            }
        }
        held
    }

    /// Whether a change concerns this connection; one-shot watches are used up by it.
    fn fire(&mut self, zxid: i64, path: &NodePath, change: ModelChange) -> bool {
        let mut concerned = false;
        let tables: &[WatchClass] = match change {
            ModelChange::Created | ModelChange::Data => {
                &[WatchClass::Data, WatchClass::Persistent, WatchClass::Recursive]
            }
            ModelChange::Children => &[WatchClass::Child, WatchClass::Persistent],
            ModelChange::Deleted => {
                &[WatchClass::Data, WatchClass::Child, WatchClass::Persistent, WatchClass::Recursive]
            }
        };
        for &table in tables {
            let key = (table, path.clone());
            if self.armed.get(&key).is_some_and(|since| *since < zxid) {
                concerned = true;
                if matches!(table, WatchClass::Data | WatchClass::Child) {
                    self.armed.remove(&key);
                }
            }
        }
        if change != ModelChange::Children {
            let is_above = |watched: &NodePath| {
                &**watched == "/" || path.strip_prefix(&**watched).is_some_and(|rest| rest.starts_with('/'))
            };
            concerned |= self.armed.iter().any(|((table, watched), since)| {
                *table == WatchClass::Recursive && *since < zxid && is_above(watched)
            });
        }
        concerned
    }

    /// Matches all events up to a state that was shown.
    fn match_events(&mut self, model: &Model, up_to: i64) -> CheckResult {
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

    fn arm(&mut self, table: WatchClass, path: &str, since: i64) {
        self.spent.remove(&(table, NodePath::from(path)));
        self.armed.entry((table, NodePath::from(path))).or_insert(since);
    }

    /// A read that sets a watch was answered.
    fn registered(&mut self, intent: WatchIntent, path: &str, code: i32, zxid: i64) {
        let missing = code == ErrorCode::NoNode.wire();
        let table = match (intent, code) {
            (WatchIntent::Data | WatchIntent::Exists, 0) => WatchClass::Data,
            (WatchIntent::Exists, _) if missing => WatchClass::Data,
            (WatchIntent::Children, 0) => WatchClass::Child,
            (WatchIntent::Persistent, 0) => WatchClass::Persistent,
            (WatchIntent::Recursive, 0) => WatchClass::Recursive,
            _ => return,
        };
        self.arm(table, path, zxid);
    }

    /// Watches are registered again at a state: missed changes lead to events, the other watches are set.
    /// `later_config` says that the server may show a config that is later than the state.
    fn registered_again(
        &mut self,
        set: &SetWatches,
        model: &Model,
        zxid: i64,
        later_config: bool,
    ) -> CheckResult {
        let mut owed: Vec<(EventType, NodePath)> = Vec::new();
        let relative = set.relative_zxid;
        let paths = |list: &Option<Vec<Option<Box<str>>>>| -> Vec<NodePath> {
            list.iter().flatten().flatten().map(|path| NodePath::from(&**path)).collect()
        };
        for path in paths(&set.data) {
            match model.at(&path, zxid) {
                None => owed.push((EventType::NodeDeleted, path)),
                // The first config is in no history: it may have got a version meanwhile.
                Some(node)
                    if &*path == CONFIG
                        && (node.modified.0 == 0 || later_config && node.modified.0 <= relative) =>
                {
                    match self.made_up.iter().position(|(_, told)| *told == path) {
                        Some(at) => drop(self.made_up.remove(at)),
                        None => self.arm(WatchClass::Data, &path, zxid),
                    }
                }
                Some(node) if node.modified.0 > relative => owed.push((EventType::NodeDataChanged, path)),
                Some(_) => self.arm(WatchClass::Data, &path, zxid),
            }
        }
        for path in paths(&set.exist) {
            match model.at(&path, zxid) {
                Some(_) => owed.push((EventType::NodeCreated, path)),
                None => self.arm(WatchClass::Data, &path, zxid),
            }
        }
        for path in paths(&set.child) {
            match model.at(&path, zxid) {
                None => owed.push((EventType::NodeDeleted, path)),
                Some(node) if node.children_changed > relative => {
                    owed.push((EventType::NodeChildrenChanged, path));
                }
                Some(_) => self.arm(WatchClass::Child, &path, zxid),
            }
        }
        self.sent_again.clear();
        let tells_all = |kind: EventType| matches!(kind, EventType::NodeDeleted | EventType::NodeCreated);
        let told = owed.iter().filter(|(kind, _)| tells_all(*kind));
        self.spent.extend(told.map(|(_, path)| (WatchClass::Data, path.clone())));
        paths(&set.persistent).iter().for_each(|path| self.arm(WatchClass::Persistent, path, zxid));
        paths(&set.persistent_recursive).iter().for_each(|path| self.arm(WatchClass::Recursive, path, zxid));
        let mut came = std::mem::take(&mut self.made_up);
        owed.sort();
        came.sort();
        g14_watch_completeness::check_made_up(&owed, &came, zxid)
    }
}

pub(super) fn check_frame(
    checker: &mut Checker,
    client: usize,
    session: SessionId,
    frame: &Frame,
) -> CheckResult {
    let mode = checker.mode_of(session);
    let relative = match &frame.kind {
        FrameKind::Reply { xid, .. } => checker.watches.relative_zxid(client, *xid),
        FrameKind::Event { .. } | FrameKind::Ping => 0,
    };
    let later_config = config_reads::may_be_later(checker, mode, frame.zxid.max(relative));
    let model = &checker.committed.model;
    let account = checker.watches.accounts.entry(client).or_default();
    if account.unchecked {
        return Ok(());
    }
    match &frame.kind {
        FrameKind::Event { kind, path } if frame.zxid <= 0 => {
            account.made_up.push((*kind, NodePath::from(&**path)));
            Ok(())
        }
        FrameKind::Event { kind, path } => {
            let event = (frame.zxid, *kind, NodePath::from(&**path));
            g13_event_order::check_event(account, &event)?;
            g12_event_before_data::check_event(account, &event)?;
            account.last_event = frame.zxid;
            account.came.push(event);
            account.match_events(model, frame.zxid - 1)
        }
        FrameKind::Ping => account.match_events(model, frame.zxid),
        FrameKind::Reply { xid, code } => {
            account.match_events(model, frame.zxid)?;
            if let Some(set) = account.pending.remove(xid) {
                if *code != 0 {
                    return Ok(());
                }
                return account.registered_again(&set, model, frame.zxid, later_config);
            }
            let call = checker.requests.get(&(session, *xid)).map(|call| &checker.calls[*call]);
            if let Some((intent, path)) = call.and_then(|call| call.operation.watch()) {
                account.registered(intent, path, *code, frame.zxid);
            }
            g14_watch_completeness::check_overdue(account, frame.zxid)
        }
    }
}
