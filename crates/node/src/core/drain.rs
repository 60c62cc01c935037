//! A member of an ensemble that stops sends its clients to the other servers first. It goes from client to
//! client, so that the others get them one by one. A client that understands it is asked to move; the
//! connection of any other client is closed at a quiet moment.
//!
//! A leader still leads meanwhile, and hands over afterwards: its clients need not wait for an election at a
//! server that they leave anyway.

use std::collections::{BTreeMap, VecDeque};

use super::{Node, NodeRole};
use crate::connection::{ConnectionId, ConnectionPhase, Connections, Departure};
use crate::context::ServeContext;
use crate::metrics::NodeMetrics;

/// The longest time from one client to the next, in milliseconds: few clients need not fill the whole time.
const TURN_MS_MAX: i64 = 100;

/// The part of the time in which all clients have had their turn. The rest is for clients that were busy.
const TURNS_PART: (i64, i64) = (4, 5);

/// The drain of a server. Its size is bounded by the number of connections when it began.
#[derive(Debug)]
pub(crate) struct Drain {
    began_ms: i64,
    /// The end of the time.
    until_ms: i64,
    /// The time for the first turn of each client.
    turns_ms: i64,
    has_ended: bool,
    /// Clients at the begin.
    clients: i64,
    /// Turns so far.
    turns: i64,
    waiting: VecDeque<ConnectionId>,
    /// Open connections; `None` before their turn.
    open: BTreeMap<ConnectionId, Option<Departure>>,
}

impl Drain {
    fn new(open: &[ConnectionId], time_ms: i64, now_ms: i64) -> Drain {
        let clients = i64::try_from(open.len()).unwrap_or(i64::MAX / TURN_MS_MAX).max(1);
        Drain {
            began_ms: now_ms,
            until_ms: now_ms + time_ms,
            has_ended: false,
            turns_ms: (time_ms * TURNS_PART.0 / TURNS_PART.1).clamp(1, clients.saturating_mul(TURN_MS_MAX)),
            clients,
            turns: 0,
            waiting: open.iter().copied().collect(),
            open: open.iter().map(|connection| (*connection, None)).collect(),
        }
    }

    /// When the next turn is due; `None` if every client had one.
    fn next_turn_ms(&self) -> Option<i64> {
        self.waiting.front()?;
        Some(self.began_ms + self.turns * self.turns_ms / self.clients)
    }

    /// The next turn or the end of the time; nothing is due afterwards.
    pub(super) fn next_deadline(&self) -> i64 {
        if self.open.is_empty() || self.has_ended {
            return i64::MAX;
        }
        self.next_turn_ms().map_or(self.until_ms, |turn_ms| turn_ms.min(self.until_ms))
    }

    /// Whether no client is left, or the time is over.
    fn is_over(&self, now_ms: i64) -> bool {
        self.open.is_empty() || now_ms >= self.until_ms
    }

    /// A connection is closed.
    pub(super) fn left(&mut self, connection: ConnectionId, metrics: &NodeMetrics) {
        match self.open.remove(&connection) {
            Some(Some(Departure::Asked)) => metrics.clients_moved.increment(),
            Some(Some(Departure::Closed)) => metrics.connections_drained.increment(),
            Some(None) | None => {}
        }
    }

    /// Takes the turns that are due. `connects` tells whether the connect request of a connection is being
    /// handled.
    fn take_turns(
        &mut self,
        connects: impl Fn(ConnectionId) -> bool,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let now_ms = context.now.monotonic_ms;
        self.has_ended = now_ms >= self.until_ms;
        let zxid = context.replica.last_zxid();
        let left_ms = self.until_ms - now_ms;
        while !self.has_ended && self.next_turn_ms().is_some_and(|turn_ms| turn_ms <= now_ms) {
            let Some(id) = self.waiting.pop_front() else { return };
            self.turns += 1;
            let turn = context.connections.with(id, |connection| match connection.phase {
                ConnectionPhase::Serving => Some(connection.begin_to_leave(zxid, left_ms)),
                ConnectionPhase::Handshake | ConnectionPhase::Draining | ConnectionPhase::Closed(_) => None,
            });
            match turn {
                Some(Some(departure)) => {
                    self.open.insert(id, Some(departure));
                }
                // The session may begin in a moment.
                Some(None) if connects(id) => self.waiting.push_back(id),
                Some(None) | None => {
                    self.open.remove(&id);
                }
            }
        }
    }
}

impl Node {
    /// Begins to send away the clients of these connections, within this time. Without a leader, or alone, a
    /// server has no place to send them to, and the drain is over at once.
    pub fn begin_drain(
        &mut self,
        open: &[ConnectionId],
        time_ms: i64,
        context: &mut ServeContext<'_, impl Connections>,
    ) {
        let others = self.state.member().is_some()
            && match &self.role {
                NodeRole::Primary(_) | NodeRole::Learner(_) => true,
                NodeRole::ReadOnly(_) | NodeRole::Suspended(_) | NodeRole::NotServing => false,
            };
        if !others || time_ms <= 0 || self.state.drain.is_some() {
            return;
        }
        self.state.drain = Some(Box::new(Drain::new(open, time_ms, context.now.monotonic_ms)));
        self.tick_drain(context);
    }

    /// Whether this server sends its clients away: it accepts no others.
    pub fn is_draining(&self) -> bool {
        self.state.drain.is_some()
    }

    /// Whether the drain is over, or none was begun.
    pub fn has_drained(&self, now_ms: i64) -> bool {
        self.state.drain.as_ref().is_none_or(|drain| drain.is_over(now_ms))
    }

    /// The next deadline of a drain, in monotonic milliseconds.
    pub(super) fn drain_deadline(&self) -> i64 {
        self.state.drain.as_ref().map_or(i64::MAX, |drain| drain.next_deadline())
    }

    /// Takes the turns of a drain that are due.
    pub(super) fn tick_drain(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        let Some(mut drain) = self.state.drain.take() else { return };
        let member = self.state.member();
        let connects = |connection| member.is_some_and(|member| member.connections.contains(&connection));
        drain.take_turns(connects, context);
        self.state.drain = Some(drain);
    }
}
