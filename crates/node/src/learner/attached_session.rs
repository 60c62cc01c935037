//! A session whose connection is at this learner, and its touches for the leader.

use std::collections::BTreeMap;

use zebu_proto::SessionId;
use zebu_proto::quorum::Touch;

use super::LearnerRole;
use crate::connection::{ConnectionId, Connections};
use crate::context::ServeContext;

/// Scans of all clients for touches per tick. Regular pings are half a tick apart.
const TOUCH_SCANS_PER_TICK: i64 = 128;

#[derive(Debug)]
pub(super) struct AttachedSession {
    pub(super) connection: ConnectionId,
    pub(super) timeout_ms: i32,
    /// The last touch that was reported to the leader, in monotonic milliseconds.
    reported_ms: Option<i64>,
}

impl AttachedSession {
    pub(super) fn new(connection: ConnectionId, timeout_ms: i32) -> AttachedSession {
        AttachedSession { connection, timeout_ms, reported_ms: None }
    }
}

impl LearnerRole {
    /// Detaches a closed connection. Its last touch is sent with the next ping reply.
    pub(crate) fn detach(&mut self, session: SessionId, connection: ConnectionId, touched_ms: i64) {
        self.local_sessions.detach(session, connection, touched_ms);
        if let Some(attached) = self.sessions.get(&session)
            && attached.connection == connection
        {
            if attached.reported_ms.is_none_or(|reported_ms| reported_ms < touched_ms) {
                self.touched.push(Touch { session, timeout_ms: attached.timeout_ms });
            }
            self.sessions.remove(&session);
        }
    }

    /// Returns the sessions touched since the last call, each once. All clients are scanned, unless a scan
    /// was just made: a leader with many syncs sends far more pings.
    pub(super) fn take_touched(
        &mut self,
        tick_ms: i64,
        context: &mut ServeContext<'_, impl Connections>,
    ) -> Vec<Touch> {
        let mut touched: BTreeMap<SessionId, i32> =
            self.touched.drain(..).map(|touch| (touch.session, touch.timeout_ms)).collect();
        let pause_ms = tick_ms / TOUCH_SCANS_PER_TICK;
        if self.touches_scanned_ms.is_some_and(|scanned_ms| context.now.monotonic_ms - scanned_ms < pause_ms)
        {
            return touched.into_iter().map(|(session, timeout_ms)| Touch { session, timeout_ms }).collect();
        }
        self.touches_scanned_ms = Some(context.now.monotonic_ms);
        for (&session, attached) in &mut self.sessions {
            // The last touch of a closed connection arrives with its disconnect event.
            let Some((touched_ms, waiting)) = context.connections.with(attached.connection, |connection| {
                (connection.touched_ms, connection.queued_requests())
            }) else {
                continue;
            };
            // A client that waits for a reply is not silent.
            if waiting > 0 || attached.reported_ms != Some(touched_ms) {
                touched.insert(session, attached.timeout_ms);
                attached.reported_ms = Some(touched_ms);
            }
        }
        touched.into_iter().map(|(session, timeout_ms)| Touch { session, timeout_ms }).collect()
    }
}
