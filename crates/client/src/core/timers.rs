//! What happens because time passes: attempts, pings, renewals of the lease, silence, calls that waited too long, sessions that
//! must be dead, and the search for a read-write server.

use std::time::{Duration, Instant};

use zebu_proto::OpCode;
use zebu_proto::jute::encode_bytes;

use super::action::Action;
use super::connect_string::ServerAddress;
use super::failure::{Cause, Delivery};
use super::frames;
use super::phase::{Phase, Use};
use super::queue::Purpose;
use super::session::{Origin, Session};

/// The longest pause of the search for a read-write server.
const SEARCH_PAUSE_MAX: Duration = Duration::from_secs(60);

impl<T> Session<T> {
    /// When [`Session::tick`] has to be called next.
    pub fn deadline(&self) -> Option<Instant> {
        let own = match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Opening { deadline, .. } | Phase::Handshake { deadline, .. } => Some(*deadline),
            Phase::Connected { search, use_, .. } => {
                let own = match use_ {
                    Use::Serving => search.as_ref().map(|search| search.next),
                    Use::Leaving { deadline } | Use::Closing { deadline } | Use::HandingOver { deadline } => {
                        Some(*deadline)
                    }
                };
                let times = [Some(self.ping_due()), self.renewal_due(), self.silence_due(), own];
                return times.into_iter().flatten().min();
            }
            Phase::Ended(_) => return None,
        };
        let waiting = self.queue.front().map(|waiting| waiting.deadline);
        [own, waiting, self.expiry_due()].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        match &self.phase {
            Phase::Waiting { .. } => self.begin_attempt(now),
            Phase::Opening { deadline, .. } | Phase::Handshake { deadline, .. } => {
                if now >= *deadline {
                    self.link_down(now, Cause::ConnectionLost, "no answer in time");
                }
            }
            Phase::Connected { .. } => return self.tick_connected(now),
            Phase::Ended(_) => return,
        }
        self.expire_if_due(now);
        self.fail_late_calls(now);
    }

    /// Whether a server that was asked takes writes; see [`Action::Probe`].
    pub fn probed(&mut self, now: Instant, server: ServerAddress, takes_writes: bool) {
        let searching = matches!(&self.phase, Phase::Connected { search: Some(_), .. });
        if searching && takes_writes {
            self.hosts.prefer(server);
            self.leave(now);
        }
    }

    pub(super) fn expire_if_due(&mut self, now: Instant) {
        if self.expiry_due().is_some_and(|due| now >= due) {
            self.expire(now);
        }
    }

    fn tick_connected(&mut self, now: Instant) {
        if let Phase::Connected {
            use_: Use::Leaving { deadline } | Use::Closing { deadline } | Use::HandingOver { deadline },
            ..
        } = &self.phase
            && now >= *deadline
        {
            return self.link_down(now, Cause::ConnectionLost, "no answer in time while leaving");
        }
        if self.silence_due().is_some_and(|due| now >= due) {
            return self.link_down(now, Cause::ConnectionLost, "the server is silent");
        }
        self.renew_if_due(now);
        if now >= self.ping_due() {
            frames::ping(&mut self.output);
            self.pings.push_back(now);
            self.last_sent = now;
        }
        self.search(now);
    }

    fn search(&mut self, now: Instant) {
        let Phase::Connected { search: Some(search), use_: Use::Serving, .. } = &mut self.phase else {
            return;
        };
        if now >= search.next {
            search.pause = (search.pause * 2).min(SEARCH_PAUSE_MAX);
            search.next = now + search.pause;
            let server = self.hosts.look();
            self.actions.push_back(Action::Probe { server });
        }
    }

    fn ping_due(&self) -> Instant {
        self.last_sent + self.timeout / 3
    }

    fn renewal_due(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Connected { search: None, use_: Use::Serving, .. } => self.lease.renewal_due(self.timeout),
            _ => None,
        }
    }

    pub(super) fn renew_if_due(&mut self, now: Instant) {
        if self.renewal_due().is_some_and(|due| now >= due) {
            // The path only names the call; one that a chroot hides is as good as any.
            let mut body = Vec::new();
            encode_bytes(b"/", &mut body);
            self.send_now(now, OpCode::Sync, &body, Purpose::Renew);
            self.lease.renewal_sent();
            self.last_sent = now;
        }
    }

    fn silence_due(&self) -> Option<Instant> {
        self.last_received.map(|received| received + self.timeout * 2 / 3)
    }

    /// Without a word from any server for a third longer than the timeout, the session must be dead. A
    /// server that knows better is asked until then: elections may outlast the timeout.
    fn expiry_due(&self) -> Option<Instant> {
        let _session = self.held.filter(|held| held.origin == Origin::ReadWrite)?;
        self.last_received.map(|received| received + self.timeout * 4 / 3)
    }

    fn fail_late_calls(&mut self, now: Instant) {
        while self.queue.front().is_some_and(|waiting| now >= waiting.deadline) {
            if let Some(waiting) = self.queue.pop_front() {
                self.fail(waiting.purpose, Cause::NotConnected, Delivery::NotSent);
            }
        }
    }
}
