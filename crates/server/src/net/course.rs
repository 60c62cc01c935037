//! The course of a connection: how far it has come, and what its task does next. How that is done is in
//! `connection.rs`.

use std::pin::Pin;

use crate::four_letter::Word;

/// How far the conversation has come, as far as the bytes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A four-letter word or a connect request must come first.
    First,
    /// A four-letter word came; `stmk` waits for its argument.
    Word(Word),
    /// The core decides about the connect request; nothing is read meanwhile.
    Connecting,
    /// Requests.
    Serving,
}

/// What the task does next.
pub(super) enum Step {
    /// It looks at what there is to do.
    Look,
    /// Nothing can be done before something happens.
    Wait(Input),
    /// Something that takes longer, and has to be finished first.
    Errand(Errand),
    /// The connection is at its end.
    End,
}

/// Rare, and larger than everything else here: the many others need not carry it. Says what follows.
pub(super) type Errand = Pin<Box<dyn Future<Output = Step> + Send>>;

/// Whether bytes of the client are read while the task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Read,
    Left,
}

/// What follows when the lane's output has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collected {
    /// Nothing can be done before something happens.
    Wait,
    /// There is room for more requests, and there was none before.
    Room,
    /// The connection is at its end.
    End,
}

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// Bytes came and were looked at.
    Received,
    /// Everything that was to be sent has been sent.
    Sent,
    /// The core did something to the lane.
    Bell,
    /// The client took too long to say who it is.
    Timeout,
    /// The socket is closed or broken.
    Gone,
}

/// Whether there may be more whole frames in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    Yes,
    No,
}
