//! Session expiry. Time is divided into ticks. A session expires at the end of the tick in which its timeout
//! ends. That is at most one tick later than one timeout after its last request.
//!
//! Requests do not reach the tracker: a connection records its last touch, and the tracker reads it at the
//! session's deadline. The cost is one check per timeout, not per request.

use std::collections::BTreeMap;

use zebu_proto::SessionId;
use zebu_zab::LinkId;

use crate::connection::{ConnectionId, ConnectionSession};

/// The source of a session's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOwner {
    /// A connection to this server.
    Connection(ConnectionId),
    /// A client of the learner on this link.
    Learner(LinkId),
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackedState {
    /// Requests of the session are served.
    Open,
    /// The closeSession transaction is in flight; requests are refused.
    Closing,
}

#[derive(Debug)]
struct TrackedSession {
    timeout_ms: i32,
    state: TrackedState,
    /// Whether the client is connected to the last owner.
    is_attached: bool,
    /// The current or last source of requests.
    last_owner: Option<SessionOwner>,
    /// The last touch that the session's own connection has not recorded, in monotonic milliseconds.
    touched_ms: i64,
    expires_ms: i64,
}

impl TrackedSession {
    /// `None` when the client has no connection.
    fn owner(&self) -> Option<SessionOwner> {
        self.last_owner.filter(|_| self.is_attached)
    }

    fn attach(&mut self, owner: SessionOwner) {
        self.is_attached = true;
        self.last_owner = Some(owner);
    }
}

/// The report of the `dump` command: sessions by their next check.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TrackerReport {
    /// Monotonic milliseconds and the sessions of that bucket.
    pub buckets: Vec<(i64, Vec<SessionId>)>,
}

impl TrackerReport {
    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(|(_, sessions)| sessions.len()).sum()
    }

    /// Whether the report has no sessions.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }
}

/// All sessions of this server and their deadlines.
#[derive(Debug)]
pub struct SessionTracker {
    tick_ms: i64,
    sessions: BTreeMap<SessionId, TrackedSession>,
    /// Sessions by the end of their tick. An entry that differs from the session's `expires_ms` is stale.
    buckets: BTreeMap<i64, Vec<SessionId>>,
}

impl SessionTracker {
    /// Creates a tracker without sessions.
    pub fn new(tick_ms: i64) -> SessionTracker {
        assert!(tick_ms > 0, "a tick is longer than nothing, got {tick_ms} ms");
        SessionTracker { tick_ms, sessions: BTreeMap::new(), buckets: BTreeMap::new() }
    }

    /// Tracks a session with a full timeout. A known session is replaced.
    pub fn track(&mut self, session: SessionId, timeout_ms: i32, owner: Option<SessionOwner>, now_ms: i64) {
        let expires_ms = self.bucket(now_ms, timeout_ms);
        let tracked = TrackedSession {
            timeout_ms,
            state: TrackedState::Open,
            is_attached: owner.is_some(),
            last_owner: owner,
            touched_ms: now_ms,
            expires_ms,
        };
        self.sessions.insert(session, tracked);
        self.buckets.entry(expires_ms).or_default().push(session);
    }

    /// The number of sessions, including closing ones.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The state of a session; `None` if it is not known.
    pub fn state(&self, session: SessionId) -> Option<TrackedState> {
        self.sessions.get(&session).map(|tracked| tracked.state)
    }

    /// The last negotiated timeout of a session; `None` if it is not known.
    pub fn timeout_ms(&self, session: SessionId) -> Option<i32> {
        self.sessions.get(&session).map(|tracked| tracked.timeout_ms)
    }

    /// The current source of a session's requests.
    pub fn owner(&self, session: SessionId) -> Option<SessionOwner> {
        self.sessions.get(&session)?.owner()
    }

    /// The sessions of connections to this server. Some of them may be closing.
    pub fn connected(&self) -> impl Iterator<Item = (ConnectionSession, ConnectionId)> + '_ {
        self.sessions.iter().filter_map(|(&id, tracked)| match tracked.owner() {
            Some(SessionOwner::Connection(connection)) => {
                Some((ConnectionSession { id, timeout_ms: tracked.timeout_ms }, connection))
            }
            Some(SessionOwner::Learner(_)) | None => None,
        })
    }

    /// Whether a session has moved from this owner to another.
    pub fn has_moved_from(&self, session: SessionId, owner: SessionOwner) -> bool {
        let last_owner = self.sessions.get(&session).and_then(|tracked| tracked.last_owner);
        last_owner.is_some_and(|last_owner| last_owner != owner)
    }

    /// Whether the last requests of a session came from another server than those of this owner, or none have
    /// come yet.
    pub fn is_at_other_server(&self, session: SessionId, owner: SessionOwner) -> bool {
        let last_owner = self.sessions.get(&session).and_then(|tracked| tracked.last_owner);
        match (last_owner, owner) {
            (Some(SessionOwner::Connection(_)), SessionOwner::Connection(_)) => false,
            (last_owner, owner) => last_owner != Some(owner),
        }
    }

    /// Attaches an open session to an owner, with a newly negotiated timeout. Returns the former owner.
    pub fn attach(
        &mut self,
        session: SessionId,
        owner: SessionOwner,
        timeout_ms: i32,
        now_ms: i64,
    ) -> Option<SessionOwner> {
        let expires_ms = self.bucket(now_ms, timeout_ms);
        let tracked = self.sessions.get_mut(&session)?;
        let before = tracked.owner().filter(|before| *before != owner);
        tracked.attach(owner);
        tracked.timeout_ms = timeout_ms;
        tracked.touched_ms = now_ms;
        if expires_ms != tracked.expires_ms {
            tracked.expires_ms = expires_ms;
            self.buckets.entry(expires_ms).or_default().push(session);
        }
        before
    }

    /// Records a request of this owner. A session without an owner is attached to the first one that claims
    /// it.
    pub fn claim(&mut self, session: SessionId, owner: SessionOwner, now_ms: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            if tracked.last_owner.is_none() {
                tracked.attach(owner);
            }
            if tracked.owner() == Some(owner) {
                tracked.touched_ms = now_ms;
            }
        }
    }

    /// Records a touch. The timeout is updated if the touch comes from the session's owner, or if the session
    /// never had an owner here. A new leader knows only the timeout of the session's creation, and an idle
    /// client of a learner shows its negotiated one with nothing but touches. They do not claim the session.
    pub fn touch(&mut self, session: SessionId, from: SessionOwner, timeout_ms: i32, now_ms: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.touched_ms = now_ms;
            if tracked.owner() == Some(from) || tracked.last_owner.is_none() {
                tracked.timeout_ms = timeout_ms;
            }
        }
    }

    /// Detaches a closed connection; the session stays open until its timeout.
    pub fn detach(&mut self, session: SessionId, connection: ConnectionId, touched_ms: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session)
            && tracked.owner() == Some(SessionOwner::Connection(connection))
        {
            tracked.is_attached = false;
            tracked.touched_ms = tracked.touched_ms.max(touched_ms);
        }
    }

    /// Detaches a disconnected learner; the sessions of its clients stay open until their timeouts.
    pub fn detach_link(&mut self, link: LinkId) {
        for tracked in self.sessions.values_mut() {
            if tracked.owner() == Some(SessionOwner::Learner(link)) {
                tracked.is_attached = false;
            }
        }
    }

    /// Marks a session as closing. Its later requests fail.
    pub fn close(&mut self, session: SessionId) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.state = TrackedState::Closing;
        }
    }

    /// Removes a session. Returns its owner.
    pub fn remove(&mut self, session: SessionId) -> Option<SessionOwner> {
        self.sessions.remove(&session)?.owner()
    }

    /// The next deadline of [`SessionTracker::expire`], in monotonic milliseconds.
    pub fn next_deadline(&self) -> Option<i64> {
        self.buckets.keys().next().copied()
    }

    /// Checks each session whose tick has ended. A touched session gets a new deadline; a silent one is
    /// marked closing and passed to `expired`. `touched` returns the last touch of a connection, or `None` if
    /// it is closed; [`SessionTracker::detach`] follows then.
    pub fn expire(
        &mut self,
        now_ms: i64,
        mut touched: impl FnMut(ConnectionId) -> Option<i64>,
        mut expired: impl FnMut(SessionId),
    ) {
        while let Some(entry) = self.buckets.first_entry() {
            if *entry.key() > now_ms {
                return;
            }
            let (bucket_ms, sessions) = entry.remove_entry();
            for session in sessions {
                let tick_ms = self.tick_ms;
                let Some(tracked) = self.sessions.get_mut(&session) else { continue };
                if tracked.expires_ms != bucket_ms || tracked.state == TrackedState::Closing {
                    continue;
                }
                let touched_ms = match tracked.owner() {
                    Some(SessionOwner::Connection(connection)) => {
                        touched(connection).map(|noted_ms| noted_ms.max(tracked.touched_ms))
                    }
                    Some(SessionOwner::Learner(_)) | None => Some(tracked.touched_ms),
                };
                let renewed_ms = match touched_ms {
                    Some(touched_ms) => tick_end(touched_ms, tracked.timeout_ms, tick_ms),
                    // The last touch arrives with the disconnect event; the session does not expire before
                    // it.
                    None => tick_end(now_ms, 0, tick_ms),
                };
                if renewed_ms > bucket_ms {
                    tracked.expires_ms = renewed_ms;
                    self.buckets.entry(renewed_ms).or_default().push(session);
                } else {
                    tracked.state = TrackedState::Closing;
                    expired(session);
                }
            }
        }
    }

    /// The buckets for the `dump` command.
    pub fn report(&self) -> TrackerReport {
        let mut buckets: BTreeMap<i64, Vec<SessionId>> = BTreeMap::new();
        for (&session, tracked) in &self.sessions {
            buckets.entry(tracked.expires_ms).or_default().push(session);
        }
        TrackerReport { buckets: buckets.into_iter().collect() }
    }

    fn bucket(&self, now_ms: i64, timeout_ms: i32) -> i64 {
        tick_end(now_ms, timeout_ms, self.tick_ms)
    }
}

/// The end of the tick in which a timeout that starts at `from_ms` ends.
fn tick_end(from_ms: i64, timeout_ms: i32, tick_ms: i64) -> i64 {
    ((from_ms + i64::from(timeout_ms)).div_euclid(tick_ms) + 1) * tick_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const LANE: ConnectionId = ConnectionId(7);

    fn expired(tracker: &mut SessionTracker, now_ms: i64, touched_ms: Option<i64>) -> Vec<SessionId> {
        let mut gone = Vec::new();
        tracker.expire(now_ms, |_| touched_ms, |session| gone.push(session));
        gone
    }

    #[test]
    fn a_silent_session_expires_at_the_end_of_its_tick() {
        let mut tracker = SessionTracker::new(2000);
        tracker.track(A, 5000, None, 100);
        assert_eq!(tracker.next_deadline(), Some(6000));
        assert_eq!(expired(&mut tracker, 5999, None), []);
        assert_eq!(expired(&mut tracker, 6000, None), [A]);
        assert_eq!(tracker.state(A), Some(TrackedState::Closing));
        assert_eq!(expired(&mut tracker, 60_000, None), [], "only once");
    }

    #[test]
    fn a_touch_noted_by_the_connection_keeps_the_session() {
        let mut tracker = SessionTracker::new(2000);
        tracker.track(A, 5000, Some(SessionOwner::Connection(LANE)), 0);
        assert_eq!(expired(&mut tracker, 6000, Some(4000)), []);
        assert_eq!(tracker.next_deadline(), Some(10_000));
        assert_eq!(expired(&mut tracker, 10_000, Some(4000)), [A]);
    }

    #[test]
    fn attaching_renews_and_names_the_older_connection() {
        let mut tracker = SessionTracker::new(1000);
        tracker.track(A, 5000, Some(SessionOwner::Connection(LANE)), 0);
        assert_eq!(
            tracker.attach(A, SessionOwner::Connection(ConnectionId(8)), 9000, 3000),
            Some(SessionOwner::Connection(LANE))
        );
        assert_eq!(tracker.owner(A), Some(SessionOwner::Connection(ConnectionId(8))));
        tracker.detach(A, LANE, 0);
        assert_eq!(
            tracker.owner(A),
            Some(SessionOwner::Connection(ConnectionId(8))),
            "the older connection cannot detach it"
        );
        assert_eq!(expired(&mut tracker, 6000, None), [], "the old bucket is stale");
        assert_eq!(expired(&mut tracker, 13_000, Some(3000)), [A]);
    }

    #[test]
    fn a_connection_that_is_gone_has_not_told_its_last_touch_yet() {
        let mut tracker = SessionTracker::new(1000);
        tracker.track(A, 5000, Some(SessionOwner::Connection(LANE)), 0);
        assert_eq!(expired(&mut tracker, 6500, None), []);
        assert_eq!(tracker.next_deadline(), Some(7000));
        tracker.detach(A, LANE, 3000);
        assert_eq!(expired(&mut tracker, 8999, None), []);
        assert_eq!(expired(&mut tracker, 9000, None), [A]);
    }

    #[test]
    fn closing_sessions_do_not_expire_again() {
        let mut tracker = SessionTracker::new(1000);
        tracker.track(A, 1000, None, 0);
        tracker.track(B, 1000, None, 0);
        tracker.close(A);
        assert_eq!(expired(&mut tracker, 5000, None), [B]);
        assert_eq!(tracker.remove(A), None);
        assert_eq!(tracker.len(), 1);
    }

    #[test]
    fn a_learner_tells_what_it_has_heard_of() {
        let (first, second) = (SessionOwner::Learner(LinkId(2)), SessionOwner::Learner(LinkId(4)));
        let mut tracker = SessionTracker::new(1000);
        tracker.track(A, 5000, Some(first), 0);
        tracker.touch(A, first, 5000, 3000);
        assert_eq!(expired(&mut tracker, 6000, None), []);
        tracker.touch(A, second, 1, 7000);
        assert_eq!(
            expired(&mut tracker, 9000, None),
            [],
            "another learner's touch counts, its timeout does not"
        );
        tracker.detach_link(LinkId(2));
        assert_eq!(tracker.owner(A), None);
        assert_eq!(expired(&mut tracker, 12_999, None), []);
        assert_eq!(expired(&mut tracker, 13_000, None), [A]);
        tracker.touch(A, first, 5000, 13_001);
        assert_eq!(
            tracker.state(A),
            Some(TrackedState::Closing),
            "a closing session is not saved by a touch"
        );
    }

    #[test]
    fn a_session_belongs_to_whoever_took_it_last() {
        let (connection, link) = (SessionOwner::Connection(LANE), SessionOwner::Learner(LinkId(2)));
        let mut tracker = SessionTracker::new(1000);
        tracker.track(A, 5000, None, 0);
        assert!(!tracker.has_moved_from(A, connection));
        tracker.claim(A, link, 10);
        assert!(tracker.has_moved_from(A, connection));
        tracker.claim(A, connection, 20);
        assert_eq!(tracker.owner(A), Some(link), "only what nobody has can be claimed");
        assert_eq!(tracker.attach(A, connection, 5000, 30), Some(link));
        tracker.detach(A, LANE, 40);
        assert!(tracker.has_moved_from(A, link), "also when it is detached");
        assert!(!tracker.has_moved_from(B, link), "nobody knows a session that is not tracked");
    }
}
