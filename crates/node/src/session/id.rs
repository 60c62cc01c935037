//! New session ids: the server in the top byte, then the start time, then a counter.
//!
//! A client may come back with the id of a session that has ended, so an id is given out once. The time keeps starts
//! apart as long as the clock goes forward. Where it went back to an earlier start, sessions of that one may still be
//! known, and then another millisecond is taken; for those that nobody remembers the counter begins anywhere. It does
//! not help to begin behind what is known: that is where the ids are that have ended.

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
    /// Starts the sequence, away from the sessions that are known.
    pub fn new(
        server_id: u8,
        now_ms: i64,
        random: &mut Random,
        known: &BTreeMap<SessionId, i32>,
    ) -> SessionIds {
        let counter = random.below(1 << COUNTER_BITS);
        let mut time_ms = now_ms as u64;
        // Each session is in the way of two milliseconds at most.
        while SessionIds::is_near(server_id, time_ms, known) {
            time_ms = time_ms.wrapping_add(1);
        }
        SessionIds { server_id, next: below_server(time_ms) | counter }
    }

    /// Whether a session of this server is known that began its id in this millisecond, or in the next, where the
    /// counter may run over to.
    fn is_near(server_id: u8, time_ms: u64, known: &BTreeMap<SessionId, i32>) -> bool {
        [time_ms, time_ms.wrapping_add(1)].into_iter().any(|time_ms| {
            let first = below_server(time_ms);
            let last = first | ((1 << COUNTER_BITS) - 1);
            known.range(with_server(server_id, first)..=with_server(server_id, last)).next().is_some()
        })
    }

    /// Whether a session may have this id.
    pub fn is_usable(session: SessionId) -> bool {
        session != SessionId::NONE && session.0 != CONTAINER_OWNER
    }

    /// Whether an id was made by this server, in whatever life of it.
    pub fn are_made_by(server_id: u8, session: SessionId) -> bool {
        (session.0 >> SERVER_SHIFT) as u8 == server_id
    }

    /// The next id.
    pub fn take(&mut self) -> SessionId {
        loop {
            let session = with_server(self.server_id, self.next);
            self.next = (self.next + 1) & BELOW_SERVER;
            if SessionIds::is_usable(session) {
                return session;
            }
        }
    }
}

/// The time in an id. Of a date only the lower bits fit.
fn below_server(time_ms: u64) -> u64 {
    (time_ms << COUNTER_BITS) & BELOW_SERVER
}

fn with_server(server_id: u8, below_server: u64) -> SessionId {
    SessionId((u64::from(server_id) << SERVER_SHIFT | below_server) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_784_300_000_123;

    fn ids(server_id: u8, now_ms: i64) -> SessionIds {
        SessionIds::new(server_id, now_ms, &mut Random::new(5), &BTreeMap::new())
    }

    fn ids_beside(known: &[SessionId], server_id: u8, now_ms: i64) -> SessionIds {
        let known = known.iter().map(|&session| (session, 4000)).collect();
        SessionIds::new(server_id, now_ms, &mut Random::new(5), &known)
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
        let start = |seed| SessionIds::new(1, NOW_MS, &mut Random::new(seed), &BTreeMap::new());
        let starts: std::collections::BTreeSet<i64> = (0..100).map(|seed| start(seed).take().0).collect();
        assert!(starts.len() > 90, "{} of a hundred", starts.len());
    }

    #[test]
    fn a_start_whose_sessions_are_known_is_not_repeated() {
        for server_id in [1, 127, 128, 255] {
            let mut former = ids(server_id, NOW_MS);
            let given: Vec<SessionId> = (0..100).map(|_| former.take()).collect();
            for known in [given[0], given[50], given[99]] {
                let mut again = ids_beside(&[known, SessionId(0x55)], server_id, NOW_MS);
                assert!((0..100).all(|_| !given.contains(&again.take())));
            }
            let of_another = ids(server_id ^ 1, NOW_MS).take();
            assert_eq!(ids_beside(&[of_another], server_id, NOW_MS).take(), given[0]);
        }
    }

    /// Of a start that was later by the clock some sessions live, and those with the next ids have ended.
    #[test]
    fn ids_do_not_run_into_those_of_a_later_date() {
        let mut former = ids(1, NOW_MS + 5000);
        let given: Vec<SessionId> = (0..100).map(|_| former.take()).collect();
        let mut now = ids_beside(&given[..50], 1, NOW_MS);
        assert!((0..100).all(|_| !given.contains(&now.take())));
    }

    #[test]
    fn the_end_of_the_range_is_not_another_server() {
        let mut last = SessionIds { server_id: 1, next: BELOW_SERVER };
        assert_eq!(last.take(), SessionId(0x01ff_ffff_ffff_ffff));
        assert_eq!(last.take(), SessionId(0x0100_0000_0000_0000));
        let mut beside = ids_beside(&[SessionId(0x01ff_ffff_ffff_ffff)], 1, 0xff_ffff_ffff);
        assert_eq!(beside.take().0 >> 16, 0x0100_0000_0000, "the time runs over, not the server");
    }

    #[test]
    fn what_is_no_session_is_skipped() {
        let at_zero = |server_id| SessionIds { server_id, next: 0 };
        assert_eq!(at_zero(128).take(), SessionId(CONTAINER_OWNER + 1));
        assert_eq!(at_zero(0).take(), SessionId(1));
    }
}
