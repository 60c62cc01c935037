//! New session ids: the server id in the top byte, then the start time, then a counter.
//!
//! A client may return with the id of an ended session, so an id is used only once. The start time keeps
//! starts apart while the clock goes forward. If the clock went back, sessions of the earlier start may still
//! be known; then the next free millisecond is used. The counter begins at random, because ended sessions are
//! not known. Beginning after the known sessions would not help: ids of ended sessions follow them.

use std::collections::BTreeMap;

use zebu_proto::SessionId;

use crate::split_mix::SplitMix64;

/// The ephemeral owner that marks a container node; no session may have this id.
const CONTAINER_OWNER: i64 = i64::MIN;

const COUNTER_BITS: u32 = 16;
const SERVER_SHIFT: u32 = 56;
/// The bits of time and counter.
const BELOW_SERVER: u64 = (1 << SERVER_SHIFT) - 1;

/// Generates session ids by ZooKeeper's scheme.
#[derive(Debug)]
pub struct SessionIdGenerator {
    server_id: u8,
    /// Time and counter of the next id; they never overflow into the byte of the server id.
    next: u64,
}

impl SessionIdGenerator {
    /// Starts the sequence in a millisecond that no known session uses.
    pub fn new(
        server_id: u8,
        now_ms: i64,
        random: &mut SplitMix64,
        known: &BTreeMap<SessionId, i32>,
    ) -> SessionIdGenerator {
        let counter = random.below(1 << COUNTER_BITS);
        let mut time_ms = now_ms as u64;
        // Each known session excludes at most two milliseconds.
        while SessionIdGenerator::is_millisecond_taken(server_id, time_ms, known) {
            time_ms = time_ms.wrapping_add(1);
        }
        SessionIdGenerator { server_id, next: below_server(time_ms) | counter }
    }

    /// Whether a known session of this server uses this millisecond, or the next, into which the counter may
    /// overflow.
    fn is_millisecond_taken(server_id: u8, time_ms: u64, known: &BTreeMap<SessionId, i32>) -> bool {
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

    /// Whether this server generated an id, now or before a restart.
    pub fn is_made_by(server_id: u8, session: SessionId) -> bool {
        (session.0 >> SERVER_SHIFT) as u8 == server_id
    }

    /// Generates the next id.
    pub fn next_id(&mut self) -> SessionId {
        loop {
            let session = with_server(self.server_id, self.next);
            self.next = (self.next + 1) & BELOW_SERVER;
            if SessionIdGenerator::is_usable(session) {
                return session;
            }
        }
    }
}

/// The time in an id. Only the lower bits of a date fit.
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

    fn ids(server_id: u8, now_ms: i64) -> SessionIdGenerator {
        SessionIdGenerator::new(server_id, now_ms, &mut SplitMix64::new(5), &BTreeMap::new())
    }

    fn ids_beside(known: &[SessionId], server_id: u8, now_ms: i64) -> SessionIdGenerator {
        let known = known.iter().map(|&session| (session, 4000)).collect();
        SessionIdGenerator::new(server_id, now_ms, &mut SplitMix64::new(5), &known)
    }

    #[test]
    fn the_server_is_in_the_top_byte_and_the_time_below() {
        let mut of_first = ids(1, NOW_MS);
        let first = of_first.next_id();
        assert_eq!(first.0 >> 56, 1);
        assert_eq!(first.0 >> 16 & 0xff_ffff_ffff, NOW_MS & 0xff_ffff_ffff);
        assert_eq!(of_first.next_id().0, first.0 + 1);
        assert_eq!(ids(255, 5).next_id().0 as u64 >> 56, 255);
        assert!(SessionIdGenerator::is_made_by(1, first) && !SessionIdGenerator::is_made_by(2, first));
        assert!(SessionIdGenerator::is_made_by(255, ids(255, 5).next_id()), "the sign does not matter");
    }

    #[test]
    fn two_starts_in_the_same_millisecond_differ() {
        let start = |seed| SessionIdGenerator::new(1, NOW_MS, &mut SplitMix64::new(seed), &BTreeMap::new());
        let starts: std::collections::BTreeSet<i64> = (0..100).map(|seed| start(seed).next_id().0).collect();
        assert!(starts.len() > 90, "{} of a hundred", starts.len());
    }

    #[test]
    fn a_start_whose_sessions_are_known_is_not_repeated() {
        for server_id in [1, 127, 128, 255] {
            let mut former = ids(server_id, NOW_MS);
            let given: Vec<SessionId> = (0..100).map(|_| former.next_id()).collect();
            for known in [given[0], given[50], given[99]] {
                let mut again = ids_beside(&[known, SessionId(0x55)], server_id, NOW_MS);
                assert!((0..100).all(|_| !given.contains(&again.next_id())));
            }
            let of_another = ids(server_id ^ 1, NOW_MS).next_id();
            assert_eq!(ids_beside(&[of_another], server_id, NOW_MS).next_id(), given[0]);
        }
    }

    /// Some sessions of a start with a later clock are open; those with the next ids have ended.
    #[test]
    fn ids_do_not_run_into_those_of_a_later_date() {
        let mut former = ids(1, NOW_MS + 5000);
        let given: Vec<SessionId> = (0..100).map(|_| former.next_id()).collect();
        let mut now = ids_beside(&given[..50], 1, NOW_MS);
        assert!((0..100).all(|_| !given.contains(&now.next_id())));
    }

    #[test]
    fn the_end_of_the_range_is_not_another_server() {
        let mut last = SessionIdGenerator { server_id: 1, next: BELOW_SERVER };
        assert_eq!(last.next_id(), SessionId(0x01ff_ffff_ffff_ffff));
        assert_eq!(last.next_id(), SessionId(0x0100_0000_0000_0000));
        let mut beside = ids_beside(&[SessionId(0x01ff_ffff_ffff_ffff)], 1, 0xff_ffff_ffff);
        assert_eq!(beside.next_id().0 >> 16, 0x0100_0000_0000, "the time runs over, not the server");
    }

    #[test]
    fn what_is_no_session_is_skipped() {
        let at_zero = |server_id| SessionIdGenerator { server_id, next: 0 };
        assert_eq!(at_zero(128).next_id(), SessionId(CONTAINER_OWNER + 1));
        assert_eq!(at_zero(0).next_id(), SessionId(1));
    }
}
