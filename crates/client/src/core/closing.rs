//! The end that the application wants: it closes the session, or hands it over to another client. Earlier
//! calls are answered first. Between two servers of a move the end waits for the next connection, because the
//! session lives and calls wait there.

use std::time::Instant;

use bytes::Bytes;
use zebu_proto::OpCode;

use super::failure::{Cause, Delivery, cause_of};
use super::phase::{ConnectionUse, SessionEnding, SessionPhase};
use super::queue::{QueuedRequest, RequestPurpose};
use super::session::SessionMachine;
use super::settings::SessionCredentials;

/// An end that waits for the next connection; at the deadline the machine ends without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingEnd {
    Close { deadline: Instant },
    HandOver { deadline: Instant },
}

impl PendingEnd {
    fn deadline(self) -> Instant {
        match self {
            PendingEnd::Close { deadline } | PendingEnd::HandOver { deadline } => deadline,
        }
    }
}

impl<T> SessionMachine<T> {
    /// Closes the session. Earlier calls are answered first.
    pub fn close(&mut self, now: Instant, token: T) {
        self.close_tokens.push(token);
        self.drop_spare();
        let deadline = now + self.timeout / 3;
        match &mut self.phase {
            SessionPhase::Connected { usage: ConnectionUse::Closing { .. }, .. } => {}
            // Another client takes over the session: only this machine ends.
            SessionPhase::Connected { usage: ConnectionUse::HandingOver { .. }, .. } => {}
            SessionPhase::Connected { usage, .. } => {
                *usage = ConnectionUse::Closing { deadline };
                self.queue_close(deadline);
            }
            SessionPhase::Waiting { .. }
            | SessionPhase::Opening { .. }
            | SessionPhase::Handshake { .. }
            | SessionPhase::Authenticating { .. } => {
                if self.pending_end.is_some() {
                    // The first end counts.
                } else if self.moves.is_between_servers() {
                    self.pending_end = Some(PendingEnd::Close { deadline });
                } else {
                    self.end(SessionEnding::Closed);
                }
            }
            SessionPhase::Ended(ending) => {
                let cause = cause_of(*ending);
                self.fail_closers(cause);
            }
        }
    }

    /// Ends the machine and leaves the session to another client. Earlier calls are answered first. Returns
    /// `None`, without any effect, if there is no session to hand over.
    pub fn hand_over(&mut self, now: Instant) -> Option<SessionCredentials> {
        let credentials = self.credentials()?;
        let deadline = now + self.timeout / 3;
        match &mut self.phase {
            SessionPhase::Connected {
                usage: usage @ (ConnectionUse::Serving | ConnectionUse::Leaving { .. }),
                ..
            } => {
                *usage = ConnectionUse::HandingOver { deadline };
                self.drop_spare();
                self.hand_over_if_idle();
            }
            SessionPhase::Connected { usage: ConnectionUse::HandingOver { .. }, .. } => {}
            SessionPhase::Waiting { .. }
            | SessionPhase::Opening { .. }
            | SessionPhase::Handshake { .. }
            | SessionPhase::Authenticating { .. } => match self.pending_end {
                Some(PendingEnd::HandOver { .. }) => {}
                // The session is closing.
                Some(PendingEnd::Close { .. }) => return None,
                None if self.moves.is_between_servers() => {
                    self.pending_end = Some(PendingEnd::HandOver { deadline });
                }
                None => self.end(SessionEnding::Closed),
            },
            // The session is closing or closed.
            SessionPhase::Connected { usage: ConnectionUse::Closing { .. }, .. } | SessionPhase::Ended(_) => {
                return None;
            }
        }
        Some(credentials)
    }

    /// The use of a connection that begins to serve. An end that waited for it begins.
    pub(super) fn first_use(&mut self, now: Instant) -> ConnectionUse {
        let deadline = now + self.timeout / 3;
        match self.pending_end.take() {
            None => ConnectionUse::Serving,
            Some(PendingEnd::Close { .. }) => {
                self.queue_close(deadline);
                ConnectionUse::Closing { deadline }
            }
            Some(PendingEnd::HandOver { .. }) => ConnectionUse::HandingOver { deadline },
        }
    }

    fn queue_close(&mut self, deadline: Instant) {
        let (op, body, purpose) = (OpCode::CloseSession, Bytes::new(), RequestPurpose::Close);
        self.queue.push_back(QueuedRequest { op, body, purpose, connection: None, deadline });
    }

    /// Ends the machine without closing the session once no request is outstanding.
    pub(super) fn hand_over_if_idle(&mut self) {
        let hands_over =
            matches!(&self.phase, SessionPhase::Connected { usage: ConnectionUse::HandingOver { .. }, .. });
        if hands_over && self.outstanding() == 0 {
            self.end(SessionEnding::Closed);
        }
    }

    /// Whether calls are refused, because the machine is about to end.
    pub(super) fn is_ending(&self) -> bool {
        let ends =
            |usage: &_| matches!(usage, ConnectionUse::Closing { .. } | ConnectionUse::HandingOver { .. });
        self.pending_end.is_some()
            || matches!(&self.phase, SessionPhase::Connected { usage, .. } if ends(usage))
    }

    /// When the machine ends without the connection for which its end waits.
    pub(super) fn pending_end_due(&self) -> Option<Instant> {
        self.pending_end.map(PendingEnd::deadline)
    }

    /// Completes all close calls. `Closed` means here that no server has confirmed the close.
    pub(super) fn fail_closers(&mut self, cause: Cause) {
        for token in std::mem::take(&mut self.close_tokens) {
            self.fail_call(token, cause.clone(), Delivery::NotSent);
        }
    }
}
