//! Timers: connection attempts, pings, lease renewals, read timeouts, late calls, session expiry, and the
//! search for a read-write server.

use std::time::{Duration, Instant};

use zebu_proto::OpCode;
use zebu_proto::jute::encode_bytes;

use super::action::SessionAction;
use super::connect_string::ServerAddress;
use super::failure::{Cause, Delivery};
use super::frames;
use super::phase::{ConnectionUse, SessionEnding, SessionPhase};
use super::queue::RequestPurpose;
use super::session::{SessionMachine, SessionOrigin};

/// The longest pause of the search for a read-write server.
const SEARCH_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The part of the timeout that a slow move leaves of the lease for the handshake with the next server.
const LEASE_RESERVE: u32 = 6;

impl<T> SessionMachine<T> {
    /// When [`SessionMachine::tick`] is due next.
    pub fn deadline(&self) -> Option<Instant> {
        let own = match &self.phase {
            SessionPhase::Waiting { until, .. } => Some(*until),
            SessionPhase::Opening { deadline, .. }
            | SessionPhase::Handshake { deadline, .. }
            | SessionPhase::Authenticating { deadline, .. } => Some(*deadline),
            SessionPhase::Connected { search, usage, .. } => {
                let search_due = search.as_ref().map(|search| search.next);
                let own = self.end_of_use(*usage).or(search_due);
                let moving = [self.discovery_due(), self.spare_deadline()];
                let times = [Some(self.ping_due()), self.renewal_due(), self.read_timeout_due(), own];
                return times.into_iter().chain(moving).flatten().min();
            }
            SessionPhase::Ended(_) => return None,
        };
        let waiting = self.queue.front().map(|waiting| waiting.deadline);
        let ending = [self.pending_end_due(), self.suspension_due(), self.expiry_due()];
        [own, waiting].into_iter().chain(ending).flatten().min()
    }

    /// Runs all timers that are due.
    pub fn tick(&mut self, now: Instant) {
        match &self.phase {
            SessionPhase::Waiting { .. } => self.connect_if_due(now),
            SessionPhase::Opening { deadline, .. }
            | SessionPhase::Handshake { deadline, .. }
            | SessionPhase::Authenticating { deadline, .. } => {
                if now >= *deadline {
                    self.connection_lost(now, Cause::ConnectionLost, "no reply in time");
                }
            }
            SessionPhase::Connected { .. } => return self.tick_connected(now),
            SessionPhase::Ended(_) => return,
        }
        if self.pending_end_due().is_some_and(|due| now >= due) {
            return self.end(SessionEnding::Closed);
        }
        if self.suspension_due().is_some_and(|due| now >= due) {
            self.suspend_if_due(now);
        }
        self.expire_if_due(now);
        self.fail_late_calls(now);
    }

    /// Reports whether a probed server accepts writes; see [`SessionAction::Probe`].
    pub fn probed(&mut self, now: Instant, server: ServerAddress, takes_writes: bool) {
        let searching = matches!(&self.phase, SessionPhase::Connected { search: Some(_), .. });
        if searching && takes_writes {
            self.host_provider.prefer(server);
            self.move_to_other_server(now);
        }
    }

    pub(super) fn expire_if_due(&mut self, now: Instant) {
        if self.expiry_due().is_some_and(|due| now >= due) {
            self.expire(now);
        }
    }

    /// When a connection in this use ends without the replies that are awaited.
    fn end_of_use(&self, usage: ConnectionUse) -> Option<Instant> {
        match usage {
            ConnectionUse::Serving => None,
            ConnectionUse::Closing { deadline } | ConnectionUse::HandingOver { deadline } => Some(deadline),
            ConnectionUse::Leaving { deadline } => Some(self.end_of_leaving(deadline)),
        }
    }

    /// A lease that is kept must outlive a slow move. A renewal would wait behind the same replies, so the
    /// connection ends early, and the handshake with the next server renews the lease.
    fn end_of_leaving(&self, deadline: Instant) -> Instant {
        let begun = deadline - self.timeout / 3;
        let lease = self.lease.until().filter(|_| self.lease.has_users());
        let early = lease.map(|until| until - self.timeout / LEASE_RESERVE);
        // If the lease was short before, the calls are more likely to be saved than the lease.
        early.filter(|early| *early > begun).map_or(deadline, |early| early.min(deadline))
    }

    fn tick_connected(&mut self, now: Instant) {
        if let SessionPhase::Connected { usage, .. } = &self.phase
            && self.end_of_use(*usage).is_some_and(|due| now >= due)
        {
            return self.connection_lost(
                now,
                Cause::ConnectionLost,
                "no reply in time before the connection was left",
            );
        }
        if self.read_timeout_due().is_some_and(|due| now >= due) {
            return self.connection_lost(now, Cause::ConnectionLost, "read timeout");
        }
        self.renew_if_due(now);
        self.tick_spare(now);
        // It takes the place of the first ping.
        self.discover_if_due(now);
        if now >= self.ping_due() {
            frames::ping(&mut self.output);
            self.pings.push_back(now);
            self.last_sent = now;
        }
        self.search(now);
    }

    fn search(&mut self, now: Instant) {
        let SessionPhase::Connected { search: Some(search), usage: ConnectionUse::Serving, .. } =
            &mut self.phase
        else {
            return;
        };
        if now >= search.next {
            search.pause = (search.pause * 2).min(SEARCH_PAUSE_MAX);
            search.next = now + search.pause;
            let server = self.host_provider.next_to_probe();
            self.actions.push_back(SessionAction::Probe { server });
        }
    }

    fn ping_due(&self) -> Instant {
        self.last_sent + self.timeout / 3
    }

    fn renewal_due(&self) -> Option<Instant> {
        match &self.phase {
            SessionPhase::Connected { search: None, usage: ConnectionUse::Serving, .. } => {
                self.lease.renewal_due(self.timeout)
            }
            _ => None,
        }
    }

    /// Renews the lease from now on, by a sync three to five times per timeout.
    pub fn keep_lease(&mut self, now: Instant) {
        self.lease.add_user();
        // At once, so that the caller's next request follows the renewal.
        self.renew_if_due(now);
    }

    /// Whether the lease is being renewed.
    pub fn keeps_lease(&self) -> bool {
        self.lease.has_users()
    }

    /// Ends one request for lease renewal.
    pub fn release_lease(&mut self) {
        self.lease.remove_user();
    }

    pub(super) fn renew_if_due(&mut self, now: Instant) {
        if self.renewal_due().is_some_and(|due| now >= due) {
            // The path has no effect; "/" is valid under every chroot.
            let mut body = Vec::new();
            encode_bytes(b"/", &mut body);
            self.send_now(now, OpCode::Sync, &body, RequestPurpose::Renew);
            self.lease.renewal_sent();
            self.last_sent = now;
        }
    }

    fn read_timeout_due(&self) -> Option<Instant> {
        self.last_received.map(|received| received + self.timeout * 2 / 3)
    }

    /// Without a reply from any server for 4/3 of the timeout, the session counts as expired. The client
    /// keeps asking until then, because elections may outlast the timeout.
    fn expiry_due(&self) -> Option<Instant> {
        let _session = self.current.filter(|current| current.origin == SessionOrigin::ReadWrite)?;
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
