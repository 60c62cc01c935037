//! The connect request of a connection that has no session yet. If the leader ends before the answer, the
//! request waits here for the next one.

use zebu_proto::client::ConnectRequest;

use super::{ClientConnection, ConnectionPhase};

impl ClientConnection {
    /// Keeps the connect request until it is answered.
    pub(crate) fn hold_connect(&mut self, request: &ConnectRequest) {
        if self.phase == ConnectionPhase::Handshake {
            self.unanswered_connect = Some(Box::new(request.clone()));
        }
    }

    /// The connect request that waits for an answer.
    pub(crate) fn unanswered_connect(&self) -> Option<&ConnectRequest> {
        self.unanswered_connect.as_deref().filter(|_| self.phase == ConnectionPhase::Handshake)
    }

    /// Removes the connect request that waits for an answer.
    pub(crate) fn take_unanswered_connect(&mut self) -> Option<Box<ConnectRequest>> {
        self.unanswered_connect.take().filter(|_| self.phase == ConnectionPhase::Handshake)
    }
}
