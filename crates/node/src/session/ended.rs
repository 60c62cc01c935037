//! Global sessions that ended lately. A learner may still send on what a client asked in the name of one, before it
//! has heard of the end; nothing else tells such a request from one of a local session.

use std::collections::{BTreeSet, VecDeque};

use zebu_proto::SessionId;

use crate::limits::ENDED_SESSIONS_MAX;

/// The last sessions that ended, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions {
    known: BTreeSet<SessionId>,
    /// Oldest first.
    order: VecDeque<SessionId>,
}

impl EndedSessions {
    pub(crate) fn note(&mut self, session: SessionId) {
        if !self.known.insert(session) {
            return;
        }
        self.order.push_back(session);
        if self.order.len() > ENDED_SESSIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, session: SessionId) -> bool {
        self.known.contains(&session)
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
            ended.note(SessionId(id));
            ended.note(SessionId(id));
        }
        assert!(!ended.contains(SessionId(0)) && ended.contains(SessionId(1)));
        assert!(ended.contains(SessionId(last)));
        assert_eq!((ended.known.len(), ended.order.len()), (ENDED_SESSIONS_MAX, ENDED_SESSIONS_MAX));
    }
}
