//! New session ids: the server in the top byte, then the start time, then a counter.
//!
//! A client may come back with the id of a session that has ended, so an id is given out once. The time keeps starts
//! apart as long as the clock goes forward. Where it went back, ids go on behind every one that this server hears of
//! from its former lives, and for those that nobody remembers the counter begins anywhere.

use std::collections::BTreeMap;

use zebu_proto::SessionId;

use crate::random::Random;

/// The owner value that marks a container node; no session may have it.
const CONTAINER_OWNER: i64 = i64::MIN;

const COUNTER_BITS: u32 = 16;
const SERVER_SHIFT: u32 = 56;
/// Time and counter.
const BELOW_SERVER: u64 = (1 << SERVER_SHIFT) - 1;

/// Hands out session ids, by ZooKeeper's scheme.
#[derive(Debug)]
pub struct SessionIds {
    server_id: u8,
    /// Time and counter of the next one; the server's byte is never reached.
    next: u64,
}

impl SessionIds {
    /// Starts the sequence.
    pub fn new(server_id: u8, now_ms: i64, random: &mut Random) -> SessionIds {
        let time = ((now_ms as u64) << COUNTER_BITS) & BELOW_SERVER;
        SessionIds { server_id, next: time | random.below(1 << COUNTER_BITS) }
    }

    /// Whether a session may have this id.
    pub fn is_usable(session: SessionId) -> bool {
        session != SessionId::NONE && session.0 != CONTAINER_OWNER
    }

    /// Whether an id was made by this server, in whatever life of it.
    pub fn are_made_by(server_id: u8, session: SessionId) -> bool {
        (session.0 >> SERVER_SHIFT) as u8 == server_id
    }

    /// There was this session before this server gave out ids: if it made that one itself, it goes on behind it.
    pub fn go_beyond(&mut self, session: SessionId) {
        let below_server = session.0 as u64 & BELOW_SERVER;
        if SessionIds::are_made_by(self.server_id, session) && below_server >= self.next {
            self.next = (below_server + 1) & BELOW_SERVER;
        }
    }

    /// The same for all of them.
    pub fn go_beyond_all(&mut self, sessions: &BTreeMap<SessionId, i32>) {
        let (first, last) = (self.with_server(0), self.with_server(BELOW_SERVER));
        if let Some((&latest, _)) = sessions.range(first..=last).next_back() {
            self.go_beyond(latest);
        }
    }

    /// The next id.
    pub fn take(&mut self) -> SessionId {
        loop {
            let session = self.with_server(self.next);
            self.next = (self.next + 1) & BELOW_SERVER;
            if SessionIds::is_usable(session) {
                return session;
            }
        }
    }

    fn with_server(&self, below_server: u64) -> SessionId {
        SessionId((u64::from(self.server_id) << SERVER_SHIFT | below_server) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_784_300_000_123;

    fn ids(server_id: u8, now_ms: i64) -> SessionIds {
        SessionIds::new(server_id, now_ms, &mut Random::new(5))
    }

    #[test]
    fn the_server_is_in_the_top_byte_and_the_time_below() {
        let mut of_first = ids(1, NOW_MS);
        let first = of_first.take();
        assert_eq!(first.0 >> 56, 1);
        assert_eq!(first.0 >> 16 & 0xff_ffff_ffff, NOW_MS & 0xff_ffff_ffff);
        assert_eq!(of_first.take().0, first.0 + 1);
        assert_eq!(ids(255, 5).take().0 as u64 >> 56, 255);
        assert!(SessionIds::are_made_by(1, first) && !SessionIds::are_made_by(2, first));
        assert!(SessionIds::are_made_by(255, ids(255, 5).take()), "the sign does not matter");
    }

    #[test]
    fn two_starts_in_the_same_millisecond_differ() {
        let starts: std::collections::BTreeSet<i64> =
            (0..100).map(|seed| SessionIds::new(1, NOW_MS, &mut Random::new(seed)).take().0).collect();
        assert!(starts.len() > 90, "{} of a hundred", starts.len());
    }

    #[test]
    fn ids_go_on_behind_those_of_former_lives() {
        for server_id in [1, 127, 128, 255] {
            let later = ids(server_id, NOW_MS + 5000).take();
            let mut now = ids(server_id, NOW_MS);
            let first = now.take();
            now.go_beyond(SessionId(first.0 - 1));
            now.go_beyond(ids(server_id ^ 1, NOW_MS + 9000).take());
            assert_eq!(now.take().0, first.0 + 1, "neither an older one nor one of another server");
            let known = [ids(server_id ^ 1, NOW_MS + 9000).take(), first, later, SessionId(0x55)];
            now.go_beyond_all(&known.into_iter().map(|session| (session, 4000)).collect());
            assert_eq!(now.take().0, later.0 + 1);
        }
    }

    #[test]
    fn the_end_of_the_range_is_not_another_server() {
        let mut of_first = ids(1, NOW_MS);
        of_first.go_beyond(SessionId(0x01ff_ffff_ffff_ffff));
        assert_eq!(of_first.take(), SessionId(0x0100_0000_0000_0000));
    }

    #[test]
    fn what_is_no_session_is_skipped() {
        let at_zero = |server_id| SessionIds { server_id, next: 0 };
        assert_eq!(at_zero(128).take(), SessionId(CONTAINER_OWNER + 1));
        assert_eq!(at_zero(0).take(), SessionId(1));
    }
}
