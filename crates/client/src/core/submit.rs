//! Accepts the calls of the application, or refuses them before anything is sent.

use std::time::Instant;

use super::failure::{Cause, Delivery, cause_of};
use super::feeds::FeedId;
use super::phase::SessionPhase;
use super::queue::{QueuedRequest, RequestPurpose};
use super::request::SessionRequest;
use super::session::SessionMachine;

impl<T> SessionMachine<T> {
    /// Accepts a call. Its outcome comes as [`Complete`](super::SessionAction::Complete), exactly once.
    pub fn submit(&mut self, now: Instant, request: SessionRequest, token: T) {
        if let Some(token) = self.refuse(&request, token) {
            if let Some(watch) = &request.watch {
                self.watches.begin_registration(watch.watcher, watch.intent, &watch.path);
            }
            let watch = request.watch.clone();
            self.enqueue(now, request, RequestPurpose::Call { token, watch });
        }
    }

    /// Accepts a call that opens a feed. Pushes come as [`Feed`](super::SessionAction::Feed), all of them
    /// behind the outcome of the call.
    pub fn open_feed(&mut self, now: Instant, request: SessionRequest, feed: FeedId, token: T) {
        if let Some(token) = self.refuse(&request, token) {
            self.enqueue(now, request, RequestPurpose::OpenFeed { token, feed });
        }
    }

    /// Fails a call that cannot be accepted. Returns the token of one that can.
    fn refuse(&mut self, request: &SessionRequest, token: T) -> Option<T> {
        let refused = match &self.phase {
            SessionPhase::Ended(ending) => Some(cause_of(*ending)),
            _ if self.is_ending() => Some(Cause::Closed),
            _ if self.queue.len() >= self.settings.queue_limit => Some(Cause::QueueFull),
            _ if request.disconnects_seen < self.disconnects => Some(Cause::ConnectionLost),
            _ if !self.has_connection_of(request) => Some(Cause::ConnectionLost),
            _ => None,
        };
        match refused {
            Some(cause) => {
                self.fail_call(token, cause, Delivery::NotSent);
                None
            }
            None => Some(token),
        }
    }

    /// Whether the connection to which a request is bound is there.
    fn has_connection_of(&self, request: &SessionRequest) -> bool {
        let is_connected = matches!(self.phase, SessionPhase::Connected { .. });
        request.connection.is_none_or(|number| is_connected && number == self.connections)
    }

    fn enqueue(&mut self, now: Instant, request: SessionRequest, purpose: RequestPurpose<T>) {
        let deadline = now + self.settings.connection_timeout;
        let SessionRequest { op, body, connection, .. } = request;
        self.queue.push_back(QueuedRequest { op, body, purpose, connection, deadline });
    }
}
