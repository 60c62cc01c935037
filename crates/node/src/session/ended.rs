//! Global sessions that ended recently. A learner may still forward requests of such a session before it
//! learns of the end. Only this table distinguishes them from requests of a local session.

use std::collections::{BTreeSet, VecDeque};

use zebu_proto::SessionId;

use crate::limits::ENDED_SESSIONS_MAX;

/// The last ended sessions, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions {
    ids: BTreeSet<SessionId>,
    /// Oldest first.
    order: VecDeque<SessionId>,
}

impl EndedSessions {
    pub(crate) fn insert(&mut self, session: SessionId) {
        if !self.ids.insert(session) {
            return;
        }
        self.order.push_back(session);
        if self.order.len() > ENDED_SESSIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, session: SessionId) -> bool {
        self.ids.contains(&session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut ended = EndedSessions::default();
        let last = ENDED_SESSIONS_MAX as i64;
        for id in 0..=last {
            ended.insert(SessionId(id));
            ended.insert(SessionId(id));
        }
        assert!(!ended.contains(SessionId(0)) && ended.contains(SessionId(1)));
        assert!(ended.contains(SessionId(last)));
        assert_eq!((ended.ids.len(), ended.order.len()), (ENDED_SESSIONS_MAX, ENDED_SESSIONS_MAX));
    }
}
