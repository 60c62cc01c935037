//! How a client leaves a server that stops: it moves by itself, or its connection is closed at a moment at
//! which no request can be lost.

use zebu_proto::client::{FEATURE_MOVE, MovePush, PUSH_MOVE, ReplyHeader};
use zebu_proto::{Jute, Xid, Zxid};

use super::{ClientConnection, ConnectionPhase, DisconnectReason};

/// The part of a connection in a drain of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The connection stays. The client may have said that it moves when it is asked to.
    No { can_move: bool },
    /// The client was asked to move.
    Asked,
    /// The connection is closed at the first quiet moment.
    WhenQuiet,
}

/// The way in which a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The client was asked to move.
    Asked,
    /// The server closes the connection at a quiet moment.
    Closed,
}

impl ClientConnection {
    /// The client says what it understands, in one hello or in several. A client that was to be closed is
    /// asked to move instead.
    pub(crate) fn note_features(&mut self, features: i32, zxid: Zxid) {
        let can_move = features & FEATURE_MOVE != 0;
        match self.leaving {
            Leaving::No { can_move: could_move } => {
                self.leaving = Leaving::No { can_move: can_move || could_move };
            }
            Leaving::WhenQuiet if can_move => {
                self.leaving = Leaving::No { can_move };
                self.begin_to_leave(zxid, 0);
            }
            Leaving::WhenQuiet | Leaving::Asked => {}
        }
    }

    /// Makes the client leave: asks it to move if it understands that. Only a client that has said so gets a
    /// push.
    pub(crate) fn begin_to_leave(&mut self, zxid: Zxid, time_ms: i64) -> Departure {
        match self.leaving {
            Leaving::No { can_move: true } => {
                self.leaving = Leaving::Asked;
                let time_ms = i32::try_from(time_ms.max(0)).unwrap_or(i32::MAX);
                self.push_frame(|out| {
                    ReplyHeader { xid: Xid::PUSH.0, zxid: zxid.0, err: 0 }.encode(out);
                    MovePush { kind: PUSH_MOVE, time_ms }.encode(out);
                });
                Departure::Asked
            }
            Leaving::Asked => Departure::Asked,
            Leaving::No { can_move: false } | Leaving::WhenQuiet => {
                self.leaving = Leaving::WhenQuiet;
                Departure::Closed
            }
        }
    }

    /// Whether the connection is closed at the first quiet moment. Its edge looks for that moment.
    pub fn leaves_when_quiet(&self) -> bool {
        self.leaving == Leaving::WhenQuiet && self.phase == ConnectionPhase::Serving
    }

    /// Closes a connection that leaves, if no request waits for an answer and no answer waits to be sent. The
    /// edge calls it when it holds no bytes in either direction. Returns whether the connection is closed.
    pub fn leave_if_quiet(&mut self) -> bool {
        if !self.leaves_when_quiet() || !self.is_drained() || self.awaits_sasl_mechanism() {
            return false;
        }
        self.close(DisconnectReason::Drained);
        true
    }
}
