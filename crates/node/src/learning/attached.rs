//! A session whose connection is at this learner, and what the leader hears of it.

use std::collections::BTreeMap;

use zebu_proto::SessionId;
use zebu_proto::quorum::Touch;

use super::Learner;
use crate::clock::Moment;
use crate::lane::{LaneId, Lanes};

/// How often in a tick all clients are looked at. Pings that come by themselves are half a tick apart.
const LOOKS_PER_TICK: i64 = 128;

#[derive(Debug)]
pub(super) struct Attached {
    pub(super) lane: LaneId,
    timeout_ms: i32,
    /// The last touch that the leader knows of, monotonic milliseconds.
    reported_ms: Option<i64>,
}

impl Attached {
    pub(super) fn new(lane: LaneId, timeout_ms: i32) -> Attached {
        Attached { lane, timeout_ms, reported_ms: None }
    }
}

impl Learner {
    /// The connection is gone. Its last touch goes with the next ping.
    pub(crate) fn detach(&mut self, session: SessionId, lane: LaneId, touched_ms: i64) {
        self.local_sessions.detach(session, lane, touched_ms);
        if let Some(attached) = self.attached.get(&session)
            && attached.lane == lane
        {
            if attached.reported_ms.is_none_or(|reported_ms| reported_ms < touched_ms) {
                self.touched.push(Touch { session, timeout_ms: attached.timeout_ms });
            }
            self.attached.remove(&session);
        }
    }

    /// The sessions that were heard of since the last call, each once. All clients are looked at, unless that was done a
    /// moment ago: a leader whose clients send many syncs asks for much more than touches.
    pub(super) fn take_touched(&mut self, tick_ms: i64, lanes: &mut impl Lanes, now: Moment) -> Vec<Touch> {
        let mut touched: BTreeMap<SessionId, i32> =
            self.touched.drain(..).map(|touch| (touch.session, touch.timeout_ms)).collect();
        let pause_ms = tick_ms / LOOKS_PER_TICK;
        if self.looked_ms.is_some_and(|looked_ms| now.monotonic_ms - looked_ms < pause_ms) {
            return touched.into_iter().map(|(session, timeout_ms)| Touch { session, timeout_ms }).collect();
        }
        self.looked_ms = Some(now.monotonic_ms);
        for (&session, attached) in &mut self.attached {
            // The touch of a connection that is gone comes with its farewell.
            let Some((touched_ms, waiting)) =
                lanes.with(attached.lane, |lane| (lane.touched_ms, lane.waiting()))
            else {
                continue;
            };
            // Who waits for the ensemble is not silent.
            if waiting > 0 || attached.reported_ms != Some(touched_ms) {
                touched.insert(session, attached.timeout_ms);
                attached.reported_ms = Some(touched_ms);
            }
        }
        touched.into_iter().map(|(session, timeout_ms)| Touch { session, timeout_ms }).collect()
    }
}
