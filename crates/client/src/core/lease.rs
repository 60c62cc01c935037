//! The lease: until when the leader cannot have expired the session, what proves it, and when the next proof is
//! due. It sends nothing and knows no bytes.
//!
//! The leader alone expires sessions, and it counts from the last touch that it has heard of. A learner touches a
//! session with every message of its client, but it tells the leader only with its answer to the leader's next
//! ping. Cut off from its leader, it answers pings and reads for up to syncLimit ticks, and none of these answers
//! is worth anything. What does prove a touch:
//!
//! - The answer to the connect request of a server that takes writes: the leader itself has created the session
//!   or found it alive, and counts from then.
//! - The answer to a sync, or to a write that was carried out: the leader had the request. Learners speak to their
//!   leader on one stream, in order. A message that was answered at `a` had touched the session at the learner
//!   by `a`; the leader pings every half tick, so the touch was on that stream half a tick after `a` at the latest.
//!   A session lasts two ticks or more, so half a tick is at most a quarter of the timeout. Hence whatever reached
//!   the leader on the same connection and left the client at [`REPORT`] after `a` or later came behind that touch.
//!   The sending of the message counts, because the touch was not before; the answer of the message counts for the
//!   wait, because a message can be on its way for any time. A leader that stands still for a while does not ping:
//!   Zebu's takes the sync itself for a touch; with ZooKeeper's, a lease may outlive a session by as long.
//!
//! A touch that comes too late is not taken for one in time: the end of the session was decided before it, so it is
//! told to the learner before the answer to the sync, and the learner closes the connection.
//!
//! A leader may be deposed and not know it; the new one gives every session a full timeout from its own beginning.
//! Zebu's answers a connect request or a sync only when a quorum has answered a ping that it sent after the request had
//! come: nobody else had begun then. No clock of the leader's machine takes part in that.
//! ZooKeeper's answers until it notices, syncLimit ticks after its last word from a quorum. The others look for a new
//! leader after as long a silence. The two may miss each other by two ticks, of a ping and of ticks that are counted
//! whole: [`REPORT`] takes them off where a session lasts seven ticks or more, otherwise the election must last as long.
//! Not covered are followers that leave a leader of ZooKeeper which does not notice and still has clients: a quorum that
//! is restarted behind a cut. Only a write that a quorum agrees to could tell, and that is what fencing is for.
//!
//! Behind an observer master a touch takes two reports; there a session must last four ticks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zebu_proto::OpCode;

/// Time for a learner to report a touch, in sixteenths of the session timeout: a quarter is half a tick of the
/// shortest session, the rest is for timers that are late.
const REPORT: u32 = 5;

/// What is left of the lease when the next proof is asked for, in sixteenths.
///
/// On an idle session every renewal proves the one before it. With R for the time to the leader and back, it is sent
/// 5/16 + R after that one, and its answer comes when 16/16 - 2 * 5/16 - 3 R = 6/16 - 3 R are left. In front of the
/// first renewal there are only pings, a third of the timeout apart: 16/16 - 5/16 - 1/3 - 2 R, a bit more than a
/// third, are left then.
const LEFT: u32 = 6;

/// Answers that came within this part of the timeout of the last one are not kept apart.
const GRAIN: u32 = 32;

/// A message of this connection whose answer has come.
#[derive(Clone, Copy, Debug)]
struct Heard {
    sent_at: Instant,
    answered_at: Instant,
}

/// The sync that is sent for the lease alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    None,
    OnItsWay,
    /// A server has refused it; another one is not worth while before this moment.
    Refused(Instant),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lease {
    /// When the message was sent that the leader knows of.
    proven: Option<Instant>,
    until: Option<Instant>,
    /// What a later proof can be for: as much as fits into [`REPORT`], and one more.
    heard: VecDeque<Heard>,
    relying: usize,
    renewal: Renewal,
}

/// Whether an answer without an error comes from the leader. Errors prove nothing: a learner has some of its own.
pub(super) fn is_decided_by_leader(op: OpCode) -> bool {
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

impl Lease {
    pub(super) fn new() -> Lease {
        Lease { proven: None, until: None, heard: VecDeque::new(), relying: 0, renewal: Renewal::None }
    }

    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// A server that takes writes has accepted the session. The timeout may be another one than before.
    pub(super) fn begin(&mut self, now: Instant, sent_at: Instant, timeout: Duration) {
        self.disconnect();
        self.proven = Some(sent_at);
        self.until = Some(sent_at + timeout);
        self.heard.push_back(Heard { sent_at, answered_at: now });
    }

    /// What another learner was told proves nothing on the next connection.
    pub(super) fn disconnect(&mut self) {
        self.heard.clear();
        self.renewal = Renewal::None;
    }

    /// The session is over.
    pub(super) fn end(&mut self) {
        self.disconnect();
        self.proven = None;
        self.until = None;
    }

    /// A message was answered: whoever answered knows that the session lives.
    pub(super) fn heard(&mut self, now: Instant, sent_at: Instant, timeout: Duration) {
        let last = self.heard.back();
        if last.is_some_and(|last| now < last.answered_at + timeout / GRAIN) {
            return;
        }
        // Answers to pings may overtake others.
        let sent_at = last.map_or(sent_at, |last| last.sent_at.max(sent_at));
        self.heard.push_back(Heard { sent_at, answered_at: now });
        while self.heard.get(1).is_some_and(|next| next.answered_at + report(timeout) <= now) {
            self.heard.pop_front();
        }
    }

    /// What the leader's answer to a request will prove that leaves now: that it knows of a message that was sent
    /// then.
    pub(super) fn proof(&self, now: Instant, timeout: Duration) -> Option<Instant> {
        let known = self.heard.iter().rev().find(|heard| heard.answered_at + report(timeout) <= now);
        known.map(|heard| heard.sent_at)
    }

    /// The leader knows of a message that was sent then.
    pub(super) fn prove(&mut self, sent_at: Instant, timeout: Duration) {
        self.proven = self.proven.max(Some(sent_at));
        self.until = self.until.max(Some(sent_at + timeout));
    }

    /// Somebody relies on the lease from now on.
    pub(super) fn rely(&mut self) {
        self.relying += 1;
    }

    pub(super) fn is_relied_on(&self) -> bool {
        self.relying > 0
    }

    /// Somebody does not any more.
    pub(super) fn unrely(&mut self) {
        self.relying = self.relying.saturating_sub(1);
    }

    /// When a sync is worth while: when the lease gets short, but not before it proves something new.
    pub(super) fn renewal_due(&self, timeout: Duration) -> Option<Instant> {
        let not_before = match self.renewal {
            Renewal::OnItsWay => return None,
            Renewal::Refused(until) => Some(until),
            Renewal::None => None,
        };
        if self.relying == 0 {
            return None;
        }
        let news = self.heard.iter().find(|heard| Some(heard.sent_at) > self.proven)?;
        let short = self.until.map(|until| until - timeout * LEFT / 16);
        Some((news.answered_at + report(timeout)).max(short?)).max(not_before)
    }

    pub(super) fn renewal_sent(&mut self) {
        self.renewal = Renewal::OnItsWay;
    }

    pub(super) fn renewal_answered(&mut self, now: Instant, code: i32, timeout: Duration) {
        self.renewal = match code {
            0 => Renewal::None,
            _ => Renewal::Refused(now + report(timeout)),
        };
    }
}

fn report(timeout: Duration) -> Duration {
    timeout * REPORT / 16
}
