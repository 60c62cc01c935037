//! When sessions expire. Time is cut into ticks; a session lives until the end of the tick in which its
//! timeout ends, so it expires between one timeout and one timeout plus a tick after its last request.
//!
//! Requests do not come here: a connection notes its own last touch, and the tracker asks for it when the
//! session's tick has come. A server full of busy sessions pays once per timeout, not once per request.

use std::collections::BTreeMap;

use zebu_proto::SessionId;
use zebu_zab::LinkId;

use crate::lane::LaneId;

/// Where a session's requests come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This connection.
    Lane(LaneId),
    /// A client of the learner behind this link.
    Link(LinkId),
}

/// Whether a session may still do anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Its requests are served.
    Open,
    /// Its close transaction is on the way; requests are refused.
    Closing,
}

/// Whether the client has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// To the last owner.
    Attached,
    Detached,
}

#[derive(Debug)]
struct Tracked {
    timeout_ms: i32,
    state: SessionState,
    hold: Hold,
    /// Where its requests come from, or came from last.
    last_owner: Option<Owner>,
    /// When it was heard of last, apart from what its own connection has noted.
    touched_ms: i64,
    expires_ms: i64,
}

impl Tracked {
    /// `None` when the client has no connection.
    fn owner(&self) -> Option<Owner> {
        match self.hold {
            Hold::Attached => self.last_owner,
            Hold::Detached => None,
        }
    }

    fn attach(&mut self, owner: Owner) {
        self.hold = Hold::Attached;
        self.last_owner = Some(owner);
    }
}

/// What the `dump` word shows: sessions by the time at which they are looked at next.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TrackerReport {
    /// Monotonic milliseconds and the sessions of that bucket.
    pub buckets: Vec<(i64, Vec<SessionId>)>,
}

impl TrackerReport {
    /// Number of sessions in it.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(|(_, sessions)| sessions.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }
}

/// All sessions of this server and their deadlines.
#[derive(Debug)]
pub struct SessionTracker {
    tick_ms: i64,
    sessions: BTreeMap<SessionId, Tracked>,
    /// Sessions by the end of their tick. An entry that is not the session's current one is stale.
    buckets: BTreeMap<i64, Vec<SessionId>>,
}

impl SessionTracker {
    /// A tracker without sessions.
    pub fn new(tick_ms: i64) -> SessionTracker {
        assert!(tick_ms > 0, "a tick is longer than nothing, got {tick_ms} ms");
        SessionTracker { tick_ms, sessions: BTreeMap::new(), buckets: BTreeMap::new() }
    }

    /// Starts to track a session, or tracks it anew with a full timeout.
    pub fn track(&mut self, session: SessionId, timeout_ms: i32, owner: Option<Owner>, now_ms: i64) {
        let expires_ms = self.bucket(now_ms, timeout_ms);
        let tracked = Tracked {
            timeout_ms,
            state: SessionState::Open,
            hold: if owner.is_some() { Hold::Attached } else { Hold::Detached },
            last_owner: owner,
            touched_ms: now_ms,
            expires_ms,
        };
        self.sessions.insert(session, tracked);
        self.buckets.entry(expires_ms).or_default().push(session);
    }

    /// Number of sessions, closing ones included.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The state of a session; `None` if it is not known.
    pub fn state(&self, session: SessionId) -> Option<SessionState> {
        self.sessions.get(&session).map(|tracked| tracked.state)
    }

    /// The timeout that a session was given last; `None` if it is not known.
    pub fn timeout_ms(&self, session: SessionId) -> Option<i32> {
        self.sessions.get(&session).map(|tracked| tracked.timeout_ms)
    }

    /// Where a session's requests come from now.
    pub fn owner(&self, session: SessionId) -> Option<Owner> {
        self.sessions.get(&session)?.owner()
    }

    /// Whether a session has gone on elsewhere than here.
    pub fn has_moved_from(&self, session: SessionId, owner: Owner) -> bool {
        let last_owner = self.sessions.get(&session).and_then(|tracked| tracked.last_owner);
        last_owner.is_some_and(|last_owner| last_owner != owner)
    }

    /// Attaches an open session to a connection, with a freshly negotiated timeout. Returns the one that it had
    /// before.
    pub fn attach(
        &mut self,
        session: SessionId,
        owner: Owner,
        timeout_ms: i32,
        now_ms: i64,
    ) -> Option<Owner> {
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

    /// A request came from here: a session that nobody has yet belongs to whoever speaks for it first.
    pub fn claim(&mut self, session: SessionId, owner: Owner, now_ms: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            if tracked.last_owner.is_none() {
                tracked.attach(owner);
            }
            if tracked.owner() == Some(owner) {
                tracked.touched_ms = now_ms;
            }
        }
    }

    /// Somebody has heard of the session. Only where it is attached its timeout is known for sure.
    pub fn touch(&mut self, session: SessionId, from: Owner, timeout_ms: i32, now_ms: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.touched_ms = now_ms;
            if tracked.owner() == Some(from) {
                tracked.timeout_ms = timeout_ms;
            }
        }
    }

    /// The connection is gone; the session lives on until its timeout.
    pub fn detach(&mut self, session: SessionId, lane: LaneId, touched_ms: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session)
            && tracked.owner() == Some(Owner::Lane(lane))
        {
            tracked.hold = Hold::Detached;
            tracked.touched_ms = tracked.touched_ms.max(touched_ms);
        }
    }

    /// A learner is gone; the sessions of its clients live on until their timeouts.
    pub fn detach_link(&mut self, link: LinkId) {
        for tracked in self.sessions.values_mut() {
            if tracked.owner() == Some(Owner::Link(link)) {
                tracked.hold = Hold::Detached;
            }
        }
    }

    /// Marks a session as closing. From now on its requests fail.
    pub fn close(&mut self, session: SessionId) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.state = SessionState::Closing;
        }
    }

    /// Forgets a session; returns what it was attached to.
    pub fn remove(&mut self, session: SessionId) -> Option<Owner> {
        self.sessions.remove(&session)?.owner()
    }

    /// When [`SessionTracker::expire`] has something to look at.
    pub fn next_deadline(&self) -> Option<i64> {
        self.buckets.keys().next().copied()
    }

    /// Looks at every session whose tick has ended: those that were touched since move on, the others are
    /// marked closing and handed to `expired`. `touched` answers a connection's last touch; `None` if the
    /// connection is gone, and then [`SessionTracker::detach`] is about to be called.
    pub fn expire(
        &mut self,
        now_ms: i64,
        mut touched: impl FnMut(LaneId) -> Option<i64>,
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
                if tracked.expires_ms != bucket_ms || tracked.state == SessionState::Closing {
                    continue;
                }
                let touched_ms = match tracked.owner() {
                    Some(Owner::Lane(lane)) => touched(lane).map(|noted_ms| noted_ms.max(tracked.touched_ms)),
                    Some(Owner::Link(_)) | None => Some(tracked.touched_ms),
                };
                let renewed_ms = match touched_ms {
                    Some(touched_ms) => tick_end(touched_ms, tracked.timeout_ms, tick_ms),
                    // Its last touch comes with its farewell; nothing is decided without it.
                    None => tick_end(now_ms, 0, tick_ms),
                };
                if renewed_ms > bucket_ms {
                    tracked.expires_ms = renewed_ms;
                    self.buckets.entry(renewed_ms).or_default().push(session);
                } else {
                    tracked.state = SessionState::Closing;
                    expired(session);
                }
            }
        }
    }

    /// The buckets as the `dump` word shows them.
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
    const LANE: LaneId = LaneId(7);

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
        assert_eq!(tracker.state(A), Some(SessionState::Closing));
        assert_eq!(expired(&mut tracker, 60_000, None), [], "only once");
    }

    #[test]
    fn a_touch_noted_by_the_connection_keeps_the_session() {
        let mut tracker = SessionTracker::new(2000);
        tracker.track(A, 5000, Some(Owner::Lane(LANE)), 0);
        assert_eq!(expired(&mut tracker, 6000, Some(4000)), []);
        assert_eq!(tracker.next_deadline(), Some(10_000));
        assert_eq!(expired(&mut tracker, 10_000, Some(4000)), [A]);
    }

    #[test]
    fn attaching_renews_and_names_the_older_connection() {
        let mut tracker = SessionTracker::new(1000);
        tracker.track(A, 5000, Some(Owner::Lane(LANE)), 0);
        assert_eq!(tracker.attach(A, Owner::Lane(LaneId(8)), 9000, 3000), Some(Owner::Lane(LANE)));
        assert_eq!(tracker.owner(A), Some(Owner::Lane(LaneId(8))));
        tracker.detach(A, LANE, 0);
        assert_eq!(tracker.owner(A), Some(Owner::Lane(LaneId(8))), "the older connection cannot detach it");
        assert_eq!(expired(&mut tracker, 6000, None), [], "the old bucket is stale");
        assert_eq!(expired(&mut tracker, 13_000, Some(3000)), [A]);
    }

    #[test]
    fn a_connection_that_is_gone_has_not_told_its_last_touch_yet() {
        let mut tracker = SessionTracker::new(1000);
        tracker.track(A, 5000, Some(Owner::Lane(LANE)), 0);
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
        let (first, second) = (Owner::Link(LinkId(2)), Owner::Link(LinkId(4)));
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
            Some(SessionState::Closing),
            "a closing session is not saved by a touch"
        );
    }

    #[test]
    fn a_session_belongs_to_whoever_took_it_last() {
        let (lane, link) = (Owner::Lane(LANE), Owner::Link(LinkId(2)));
        let mut tracker = SessionTracker::new(1000);
        tracker.track(A, 5000, None, 0);
        assert!(!tracker.has_moved_from(A, lane));
        tracker.claim(A, link, 10);
        assert!(tracker.has_moved_from(A, lane));
        tracker.claim(A, lane, 20);
        assert_eq!(tracker.owner(A), Some(link), "only what nobody has can be claimed");
        assert_eq!(tracker.attach(A, lane, 5000, 30), Some(link));
        tracker.detach(A, LANE, 40);
        assert!(tracker.has_moved_from(A, link), "also when it is detached");
        assert!(!tracker.has_moved_from(B, link), "nobody knows a session that is not tracked");
    }
}
