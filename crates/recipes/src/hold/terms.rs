//! The words of ownership: tokens, reasons of loss, and what the holder wants to happen without a connection.

use std::fmt;
use std::time::Duration;

/// A number that rises with every holder of the same thing: the transaction that created the holder's node.
///
/// Give it to whatever the holder writes to outside of the ensemble, and let that refuse numbers that are
/// smaller than the greatest it has seen. Unlike the number in a node's name it survives the removal of the
/// directory and the overflow of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub i64);

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Why something is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The session expired; another holder may exist already.
    SessionExpired,
    /// The ensemble's leader gave no sign of life for so long that the session may have expired: nobody can know.
    LeaseEnded,
    /// The connection was lost, and the terms say that this is enough.
    Suspended,
    /// Somebody deleted the node.
    NodeDeleted,
    /// The client was closed.
    Closed,
    /// The holder gave it back.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::SessionExpired => "the session expired",
            LossReason::LeaseEnded => "the leader gave no sign of life for the length of the lease",
            LossReason::Suspended => "the connection was lost",
            LossReason::NodeDeleted => "its node was deleted",
            LossReason::Closed => "the client was closed",
            LossReason::Released => "it was released",
        })
    }
}

/// What a lost connection means for a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenSuspended {
    /// Nothing, until the lease ends: no server can have expired the session before.
    #[default]
    HoldUntilLeaseEnds,
    /// The loss of what is held.
    Lose,
}

/// The terms of holding something.
///
/// ```
/// use std::time::Duration;
/// use zebu_recipes::{Terms, WhenSuspended};
///
/// let terms = Terms::default().margin(Duration::from_millis(500)).when_suspended(WhenSuspended::Lose);
/// # let _ = terms;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[must_use = "terms do nothing by themselves"]
pub struct Terms {
    margin: Option<Duration>,
    pub(crate) when_suspended: WhenSuspended,
}

impl Terms {
    /// How long before the end of the session's lease the loss is told, so that work in progress can be
    /// stopped in time. A tenth of the session timeout unless told otherwise, and never more than a quarter of it:
    /// about a third is left when the lease is renewed.
    pub fn margin(mut self, margin: Duration) -> Terms {
        self.margin = Some(margin);
        self
    }

    /// What a lost connection means.
    pub fn when_suspended(mut self, when: WhenSuspended) -> Terms {
        self.when_suspended = when;
        self
    }

    pub(crate) fn margin_of(&self, timeout: Duration) -> Duration {
        self.margin.unwrap_or(timeout / 10).min(timeout / 4)
    }
}
