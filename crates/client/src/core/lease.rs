//! The lease: the time until which the leader cannot have expired the session, the replies that prove it, and
//! the time of the next renewal. It sends nothing and knows no bytes.
//!
//! Only the leader expires sessions, and it counts from the last touch that reached it. A learner touches a
//! session with every message of its client. It reports touches to the leader only in its reply to the
//! leader's next ping. A learner without a leader answers pings and reads for up to syncLimit ticks; these
//! replies prove nothing. Two replies do prove a touch:
//!
//! 1. The reply to the connect request by a read-write server. The leader has created the session or found it
//!    alive, and counts from then.
//! 2. The reply to a sync or to a committed write. The proof has five steps:
//! - The leader received the request. A learner talks to its leader on one ordered stream.
//! - A message that was answered at time `a` had touched the session at the learner by `a`.
//! - The leader pings every half tick, so the touch was on that stream half a tick after `a` at the latest.
//! - A session timeout is at least two ticks, so half a tick is at most a quarter of the timeout.
//! - Hence a request that left the client [`REPORT_DELAY`] after `a` or later, on the same connection,
//!   reached the leader after that touch.
//!
//! The lease counts from the sending of the message, because the touch cannot be earlier. The delay counts
//! from its reply, because a message can be in flight for any time. A leader that stalls does not ping:
//! Zebu's leader takes the sync itself as a touch. With ZooKeeper's leader, a lease may outlive a session by
//! the length of the stall.
//!
//! A late touch cannot pass for a timely one. The leader ended the session before it, so the learner learns
//! of the end before the reply to the sync, and closes the connection.
//!
//! A deposed leader may not know that it is deposed; the new leader gives every session a full timeout from
//! its own start. Zebu's leader answers a connect request or a sync only after a quorum has answered a ping
//! that it sent after the request. No other leader was established by then, and no clock takes part.
//!
//! ZooKeeper's leader answers until it notices, syncLimit ticks after its last contact with a quorum. The
//! followers start an election after a silence of the same length. The two can differ by two ticks.
//! [`REPORT_DELAY`] covers them where a session timeout is seven ticks or more; otherwise the election must
//! last as long. One case is not covered: followers that leave a ZooKeeper leader which does not notice, such
//! as a quorum that is restarted during a partition. Only fencing protects against it.
//!
//! Behind an observer master a touch needs two reports; a session timeout must be four ticks there.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zebu_proto::OpCode;

/// The time for a learner to report a touch, in sixteenths of the session timeout. A quarter is half a tick
/// of the shortest session; the rest is a margin for late timers.
const REPORT_DELAY: u32 = 5;

/// The remaining lease at which a renewal is sent, in sixteenths of the timeout.
///
/// On an idle session every renewal proves the one before it. Let R be the round trip to the leader. A
/// renewal is sent 5/16 + R after the one before, and its reply arrives when 16/16 - 2 * 5/16 - 3 R = 6/16 -
/// 3 R are left. Only pings precede the first renewal, a third of the timeout apart: 16/16 - 5/16 - 1/3 - 2
/// R, a bit more than a third, are left then.
const RENEW_AT: u32 = 6;

/// Replies within this fraction of the timeout after the last one are merged with it.
const GRAIN: u32 = 32;

/// A message of this connection with a reply.
#[derive(Clone, Copy, Debug)]
struct AnsweredMessage {
    sent_at: Instant,
    replied_at: Instant,
}

/// The state of the sync for lease renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    None,
    InFlight,
    /// A server refused it; the next attempt is due at this time.
    Refused(Instant),
}

/// The lease of one session; see the module.
#[derive(Debug)]
pub(super) struct SessionLease {
    /// The send time of the newest message that certainly reached the leader.
    confirmed: Option<Instant>,
    until: Option<Instant>,
    /// The messages that a later reply can confirm: those within [`REPORT_DELAY`], and one more.
    answered: VecDeque<AnsweredMessage>,
    users: usize,
    renewal: Renewal,
}

/// Whether a successful reply to the operation comes from the leader. Errors prove nothing, because a learner
/// can return them itself.
fn requires_leader(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::Sync
            | OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::DeleteContainer
            | OpCode::SetData
            | OpCode::SetAcl
            | OpCode::Check
            | OpCode::Multi
            | OpCode::Reconfig
    )
}

impl SessionLease {
    pub(super) fn new() -> SessionLease {
        SessionLease {
            confirmed: None,
            until: None,
            answered: VecDeque::new(),
            users: 0,
            renewal: Renewal::None,
        }
    }

    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// A read-write server has accepted the session. The timeout may have changed.
    pub(super) fn begin(&mut self, now: Instant, sent_at: Instant, timeout: Duration) {
        self.disconnect();
        self.confirmed = Some(sent_at);
        self.until = Some(sent_at + timeout);
        self.answered.push_back(AnsweredMessage { sent_at, replied_at: now });
    }

    /// Forgets the messages of the connection: they prove nothing on the next one.
    pub(super) fn disconnect(&mut self) {
        self.answered.clear();
        self.renewal = Renewal::None;
    }

    /// Ends the lease with the session.
    pub(super) fn end(&mut self) {
        self.disconnect();
        self.confirmed = None;
        self.until = None;
    }

    /// Records a reply: the server has touched the session.
    pub(super) fn record_reply(&mut self, now: Instant, sent_at: Instant, timeout: Duration) {
        let last = self.answered.back();
        if last.is_some_and(|last| now < last.replied_at + timeout / GRAIN) {
            return;
        }
        // Replies to pings may overtake others.
        let sent_at = last.map_or(sent_at, |last| last.sent_at.max(sent_at));
        self.answered.push_back(AnsweredMessage { sent_at, replied_at: now });
        while self.answered.get(1).is_some_and(|next| next.replied_at + report_delay(timeout) <= now) {
            self.answered.pop_front();
        }
    }

    /// The send time that a successful reply to a request sent now will confirm.
    pub(super) fn provable_send_time(&self, op: OpCode, now: Instant, timeout: Duration) -> Option<Instant> {
        if !requires_leader(op) {
            return None;
        }
        let known =
            self.answered.iter().rev().find(|message| message.replied_at + report_delay(timeout) <= now);
        known.map(|message| message.sent_at)
    }

    /// The leader knows of a message with this send time.
    pub(super) fn confirm(&mut self, sent_at: Instant, timeout: Duration) {
        self.confirmed = self.confirmed.max(Some(sent_at));
        self.until = self.until.max(Some(sent_at + timeout));
    }

    /// Adds a user of lease renewal.
    pub(super) fn add_user(&mut self) {
        self.users += 1;
    }

    pub(super) fn has_users(&self) -> bool {
        self.users > 0
    }

    /// Removes a user of lease renewal.
    pub(super) fn remove_user(&mut self) {
        self.users = self.users.saturating_sub(1);
    }

    /// When a renewal is due: when the lease gets short, but not before a reply can extend it.
    pub(super) fn renewal_due(&self, timeout: Duration) -> Option<Instant> {
        let not_before = match self.renewal {
            Renewal::InFlight => return None,
            Renewal::Refused(until) => Some(until),
            Renewal::None => None,
        };
        if self.users == 0 {
            return None;
        }
        let news = self.answered.iter().find(|message| Some(message.sent_at) > self.confirmed)?;
        let short = self.until.map(|until| until - timeout * RENEW_AT / 16);
        Some((news.replied_at + report_delay(timeout)).max(short?)).max(not_before)
    }

    pub(super) fn renewal_sent(&mut self) {
        self.renewal = Renewal::InFlight;
    }

    pub(super) fn renewal_answered(&mut self, now: Instant, code: i32, timeout: Duration) {
        self.renewal = match code {
            0 => Renewal::None,
            _ => Renewal::Refused(now + report_delay(timeout)),
        };
    }
}

fn report_delay(timeout: Duration) -> Duration {
    timeout * REPORT_DELAY / 16
}
