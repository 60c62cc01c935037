//! The states of a connection task: its stage in the protocol and its next step.
//! `connection_task.rs` executes them.

use std::pin::Pin;

use crate::four_letter::FourLetterWord;

/// The stage of the protocol, which decides how received bytes are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionStage {
    /// Expects a four-letter word or a connect request.
    FirstFrame,
    /// Received a four-letter word; `stmk` waits for its argument.
    FourLetterWord(FourLetterWord),
    /// The core handles the connect request; nothing is read meanwhile.
    Connecting,
    /// Parses requests.
    Serving,
    /// A SASL mechanism processes a token; nothing is read meanwhile.
    Authenticating,
    /// Prepares the answer of a listing in slices; nothing is read meanwhile.
    Listing,
}

/// The next step of the task.
pub(super) enum ConnectionStep {
    /// Do all work that needs no waiting.
    Process,
    /// Wait for the socket, a wakeup or the deadline.
    Wait(InputMode),
    /// Finish a future first: submit to a full inbox, or reply to a four-letter word.
    RunSlowTask(SlowTask),
    /// End the task.
    Close,
}

/// A future that returns the next step. It is boxed, because it is rare and would enlarge every
/// task.
pub(super) type SlowTask = Pin<Box<dyn Future<Output = ConnectionStep> + Send>>;

/// Whether the task reads from the socket while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputMode {
    Read,
    Paused,
}

/// How the task goes on after it took the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputOutcome {
    /// Nothing to do before a wakeup.
    Wait,
    /// Room for requests, where there was none before.
    RoomFreed,
    /// The connection is closed or drained.
    Close,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// Bytes were received and parsed.
    Received,
    /// All output was sent.
    Sent,
    /// Another thread changed the connection.
    Signalled,
    /// The client asked for no session, or did not read its last reply, in time.
    Timeout,
    /// The socket is closed or failed.
    Disconnected,
}
