//! New session ids: the server in the top byte, then the start time, then a counter.

use zebu_proto::SessionId;

/// The owner value that marks a container node; no session may have it.
const CONTAINER_OWNER: i64 = i64::MIN;

/// Hands out session ids, by ZooKeeper's scheme.
#[derive(Debug)]
pub struct SessionIds {
    next: i64,
}

impl SessionIds {
    /// Starts the sequence. The time keeps ids of different starts apart.
    pub fn new(server_id: u8, now_ms: i64) -> SessionIds {
        let time = ((now_ms << 24) as u64 >> 8) as i64;
        SessionIds { next: time | (i64::from(server_id) << 56) }
    }

    /// Whether a session may have this id.
    pub fn is_usable(session: SessionId) -> bool {
        session != SessionId::NONE && session.0 != CONTAINER_OWNER
    }

    /// Whether an id was made by this server, in whatever life of it.
    pub fn are_made_by(server_id: u8, session: SessionId) -> bool {
        (session.0 >> 56) as u8 == server_id
    }

    /// The next id.
    pub fn take(&mut self) -> SessionId {
        if !SessionIds::is_usable(SessionId(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let id = SessionId(self.next);
        self.next = self.next.wrapping_add(1);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_in_the_top_byte() {
        let mut ids = SessionIds::new(1, 1_784_300_000_123);
        let first = ids.take();
        assert_eq!(first.0 >> 56, 1);
        assert_eq!(first.0 & 0xffff, 0, "the counter starts at zero");
        assert_eq!(ids.take().0, first.0 + 1);
        assert_eq!(SessionIds::new(255, 5).take().0 as u64 >> 56, 255);
        assert!(SessionIds::are_made_by(1, first) && !SessionIds::are_made_by(2, first));
        assert!(SessionIds::are_made_by(255, SessionIds::new(255, 5).take()), "the sign does not matter");
    }

    #[test]
    fn the_container_mark_is_skipped() {
        let mut ids = SessionIds { next: CONTAINER_OWNER };
        assert_eq!(ids.take(), SessionId(CONTAINER_OWNER + 1));
    }
}
