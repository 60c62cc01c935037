//! Moves of sessions between servers, recorded in the log. A leader that records moves proposes an error
//! transaction for each one, before it confirms the session to the new server. A server that kept a
//! connection of the session over a leader change sees the record before it serves again.
//!
//! ZooKeeper servers apply an error transaction as nothing.

use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{ErrorCode, SessionId};

/// The cxid of a recorded move. No client numbers its requests like this.
pub(crate) const MOVE_CXID: i32 = i32::MIN + 0x5A42;

/// The id that a learner validates to learn whether its leader records moves. No server generates it: the
/// top byte of a session id is the number of a server. A ZooKeeper leader does not know the session.
const QUESTION: i64 = 0x005A_4542_5500_0000;

/// Whether a leader records the moves of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveRecords {
    /// The leader records no moves, or was not asked.
    Unknown,
    /// The leader was asked.
    Asked,
    /// Each move of this epoch is in the log.
    Kept,
}

/// The session whose validation asks a leader whether it records moves.
pub(crate) fn question_of(server_id: u8) -> SessionId {
    SessionId(QUESTION | i64::from(server_id))
}

/// Whether a learner asks with this session whether moves are recorded.
pub(crate) fn is_question(session: SessionId) -> bool {
    session.0 & !0xFF == QUESTION
}

/// Whether a transaction records that its session has moved to another server.
pub(crate) fn is_move(entry: &TxnEntry) -> bool {
    entry.header.cxid == MOVE_CXID && entry.txn == Txn::error(ErrorCode::SessionMoved)
}
