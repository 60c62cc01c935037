//! Fencing tokens, reasons of loss, and the policy for a lost connection.

use std::fmt;
use std::time::Duration;

/// A number that rises with every owner: the zxid that created the owner's node.
///
/// Pass it to every system outside of the ensemble that the owner writes to. That system must reject numbers
/// smaller than the greatest it has seen. Unlike a sequence number, it survives the removal of the directory
/// and an overflow of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub i64);

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The reason why ownership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The session expired; another owner may exist.
    SessionExpired,
    /// The leader did not answer for the length of the lease, so that the session may have expired.
    LeaseEnded,
    /// The connection was lost, and the policy ends ownership then.
    Suspended,
    /// Another client deleted the node.
    NodeDeleted,
    /// The client was closed.
    Closed,
    /// The owner released it.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::SessionExpired => "the session expired",
            LossReason::LeaseEnded => "the leader did not answer for the length of the lease",
            LossReason::Suspended => "the connection was lost",
            LossReason::NodeDeleted => "its node was deleted",
            LossReason::Closed => "the client was closed",
            LossReason::Released => "it was released",
        })
    }
}

/// The effect of a lost connection on ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenSuspended {
    /// Ownership lasts until the lease ends: no server can have expired the session before.
    #[default]
    KeepUntilLeaseEnds,
    /// Ownership ends.
    Lose,
}

/// When ownership ends without a connection to the leader.
///
/// ```
/// use std::time::Duration;
/// use zebu_recipes::{LeasePolicy, WhenSuspended};
///
/// let lease_policy =
///     LeasePolicy::default().margin(Duration::from_millis(500)).when_suspended(WhenSuspended::Lose);
/// # let _ = lease_policy;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[must_use = "a policy has no effect before it is set"]
pub struct LeasePolicy {
    margin: Option<Duration>,
    pub(crate) when_suspended: WhenSuspended,
}

impl LeasePolicy {
    /// The time between the end of ownership and the end of the session's lease, so that work can stop in
    /// time. The default is a tenth of the session timeout, the maximum a quarter: about a third is left when
    /// the lease is renewed.
    pub fn margin(mut self, margin: Duration) -> LeasePolicy {
        self.margin = Some(margin);
        self
    }

    /// The effect of a lost connection.
    pub fn when_suspended(mut self, when: WhenSuspended) -> LeasePolicy {
        self.when_suspended = when;
        self
    }

    pub(crate) fn margin_of(&self, timeout: Duration) -> Duration {
        self.margin.unwrap_or(timeout / 10).min(timeout / 4)
    }
}
